"""Duplicates within the pool: equal values, near perceptual hashes, near embeddings; and which of them stay."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import duplicates, hamming
from filters.combine import fit_rule
from filters.registry import FILTERS
from filters.visiting import VisitRule, kept_of_group, kept_of_pairs
from pools.errors import InputError
from tests.filters.scans import Rows, batch

RULES: tuple[VisitRule, ...] = ("compare-with-kept", "component", "any-earlier")


def keep(name: str, rows: pa.RecordBatch, **options: Any) -> list[bool | None]:
    scan = Rows((rows.slice(0, 1), rows.slice(1)))
    return list(fit_rule(FILTERS.build(name, options), scan, scan).keep(rows).to_pylist())


def kept_uids(name: str, rows: pa.RecordBatch, **options: Any) -> set[str]:
    kept = keep(name, rows, **options)
    return {uid for uid, good in zip(rows["uid"].to_pylist(), kept, strict=True) if good}


def by_definition(number: int, similar: np.ndarray[Any, Any], rule: VisitRule) -> list[bool]:
    """The three rules as their sentences say them, one row after the other."""
    kept: list[bool] = []
    if rule == "component":
        reach = np.linalg.matrix_power((similar | np.eye(number, dtype=bool)).astype(object), number) > 0
        return [not reach[i, :i].any() for i in range(number)]
    for i in range(number):
        others = [j for j in range(i) if similar[i, j] and (rule == "any-earlier" or kept[j])]
        kept.append(not others)
    return kept


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_both_ways_of_deciding_are_the_definition(rule: VisitRule, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 12))
    places = st.tuples(st.integers(0, number - 1), st.integers(0, number - 1))
    similar = np.zeros((number, number), bool)
    for i, j in data.draw(st.lists(places, max_size=20)):
        similar[i, j] = similar[j, i] = i != j
    expected = by_definition(number, similar, rule)
    pairs = np.argwhere(np.triu(similar))
    assert kept_of_pairs(number, pairs, rule).tolist() == expected
    assert kept_of_group(number, lambda a, b: similar[np.ix_(a, b)], rule).tolist() == expected


@pytest.mark.parametrize("rule", RULES)
def test_groups_larger_than_a_block_are_decided_alike(rule: VisitRule) -> None:
    similar = np.random.default_rng(0).random((1300, 1300)) < 0.001
    similar = np.triu(similar, 1) | np.triu(similar, 1).T
    expected = kept_of_pairs(1300, np.argwhere(np.triu(similar)), rule)
    assert 200 < expected.sum() < 1100 or rule == "component"
    assert kept_of_group(1300, lambda a, b: similar[np.ix_(a, b)], rule).tolist() == expected.tolist()


def test_of_equal_values_the_smallest_uid_stays() -> None:
    rows = batch(sha256=["q", "q", None, "w", "q"])
    assert keep("exact_duplicates", rows) == [True, False, None, True, False]
    shuffled = rows.take(pa.array([4, 3, 2, 1, 0]))
    assert keep("exact_duplicates", shuffled) == [False, True, None, False, True]
    for values in (
        pa.array([7, -7, 7]),
        pa.array([b"\x00", b"\x00\x00", b"\x00"]),
        pa.array([b"ab", b"cd", b"ab"], pa.binary(2)),
    ):
        assert keep("exact_duplicates", batch(v=values), column="v") == [True, True, False]


def test_rows_with_one_uid_are_one_row() -> None:
    rows = pa.record_batch({"uid": ["0" * 32, "0" * 32, "1" * 32], "sha256": ["a", "a", "b"]})
    assert keep("exact_duplicates", rows) == [True, True, True]
    rows = pa.record_batch({"uid": ["1" * 32, "1" * 32, "0" * 32], "sha256": ["a", "a", "a"]})
    assert keep("exact_duplicates", rows) == [False, False, True]


# T87
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("limit", "duplicate"), [(0, False), (2, False), (3, True), (4, True)])
def test_hashes_three_bits_apart_are_duplicates_from_three_on(limit: int, duplicate: bool, rule: VisitRule) -> None:
    rows = batch(phash=pa.array([0b1011 << 60, 0], pa.uint64()), text=["one", "another"])
    assert keep("phash_duplicates", rows, max_distance=limit, rule=rule) == [True, not duplicate]
    assert keep("phash_duplicates", rows, max_distance=limit, rule=rule, same_text=True) == [True, True]
    same = batch(phash=pa.array([0b1011 << 60, 0], pa.uint64()), text=["one", "one"])
    assert keep("phash_duplicates", same, max_distance=limit, rule=rule, same_text=True) == [True, not duplicate]


def test_the_rules_on_a_chain_of_hashes() -> None:
    """0, 1 and 3: neighbours differ in one bit, the ends in two; the last is null."""
    rows = batch(phash=["0" * 16, "0" * 15 + "1", "0" * 15 + "3", None])
    kept = {rule: keep("phash_duplicates", rows, max_distance=1, rule=rule) for rule in RULES}
    assert kept["compare-with-kept"] == [True, False, True, None]
    assert kept["component"] == kept["any-earlier"] == [True, False, False, None]


def test_equal_hashes_leave_one_row_whatever_the_order() -> None:
    rows = batch(phash=pa.array([5, 5, -1, 5, -1], pa.int64()))
    for order in ([0, 1, 2, 3, 4], [3, 4, 1, 0, 2]):
        kept = kept_uids("phash_duplicates", rows.take(pa.array(order)), max_distance=2, rule="component")
        assert kept == {rows["uid"][0].as_py(), rows["uid"][2].as_py()}


@pytest.mark.parametrize(
    ("values", "message"),
    [(["0" * 15], "perceptual hash '0{15}'"), (["g" * 16], "expected 16 hex digits"), ([0.5], "column 'phash' holds double")],
)
def test_what_is_no_perceptual_hash_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        keep("phash_duplicates", batch(phash=values), max_distance=1, rule="component")


@pytest.mark.parametrize("distance", [0, 1, 3, 5])
@pytest.mark.parametrize("labelled", [False, True])
def test_near_pairs_are_those_of_comparing_each_with_each(distance: int, labelled: bool) -> None:
    rng = np.random.default_rng(distance)
    found = rng.integers(0, 2**64, 300, dtype=np.uint64)
    for i in range(1, 300, 2):  # a neighbour within eight bits of every second one
        for bit in rng.integers(0, 64, rng.integers(0, 9)):
            found[i] = (found[i - 1] if bit % 2 else found[i]) ^ np.uint64(1 << int(bit))
    found[1::4] = found[0::4] ^ (np.uint64(1) << rng.integers(0, 64, 75).astype(np.uint64))
    found[3::4] = found[2::4] ^ np.uint64(0b111) << rng.integers(0, 61, 75).astype(np.uint64)
    labels = rng.integers(0, 2, 300).astype(np.uint64) if labelled else None
    bits = np.bitwise_count(found[:, None] ^ found)
    near = np.triu(bits <= distance, 1) & (labels[:, None] == labels if labels is not None else True)
    assert hamming.near_pairs(found, distance, labels).tolist() == np.argwhere(near).tolist()
    assert near.any() == (distance > 0)


def crowded(rng: np.random.Generator, kind: str) -> np.ndarray[Any, Any]:
    """Different hashes of which many share many bits, as those of drawings and nearly blank pictures do."""
    if kind == "a half of the bits":
        found = rng.integers(0, 2**32, 3000, dtype=np.uint64) << np.uint64(32)
        found[::3] ^= np.uint64(1) << rng.integers(0, 64, 1000).astype(np.uint64)
    elif kind == "every combination of few bits":
        found = np.arange(2600, dtype=np.uint64) << np.uint64(20)
    else:
        found = np.full(5000, 1 << 63, np.uint64)
        for _ in range(9):
            found ^= np.uint64(1) << rng.integers(0, 64, 5000).astype(np.uint64)
    return np.asarray(rng.permutation(np.unique(found)))


@pytest.mark.parametrize("distance", [1, 3, 16])
@pytest.mark.parametrize("kind", ["a half of the bits", "every combination of few bits", "nearly blank"])
@pytest.mark.parametrize("labelled", [False, True])
def test_near_pairs_of_a_crowd_are_those_of_comparing_each_with_each(
    monkeypatch: pytest.MonkeyPatch, distance: int, kind: str, labelled: bool
) -> None:
    monkeypatch.setattr(hamming, "_SHORT", 5)
    monkeypatch.setattr(hamming, "_CROWD", 40)
    rng = np.random.default_rng(distance)
    found = crowded(rng, kind)[:250]
    labels = rng.integers(0, 2, len(found)).astype(np.uint64) if labelled else None
    near = np.triu(np.bitwise_count(found[:, None] ^ found) <= distance, 1)
    near &= labels[:, None] == labels if labels is not None else True
    assert hamming.near_pairs(found, distance, labels).tolist() == np.argwhere(near).tolist()


def test_hashes_that_share_a_half_of_their_bits_are_soon_compared() -> None:
    rng = np.random.default_rng(0)
    found = np.unique(rng.integers(0, 2**32, 150_000, dtype=np.uint64) << np.uint64(32))
    found[1] = found[0] ^ np.uint64(0b111)
    start = time.process_time()
    pairs = hamming.near_pairs(found, 3)
    assert time.process_time() - start < 20  # each with each in every table, they took minutes
    assert [0, 1] in pairs.tolist()
    near = np.bitwise_count(found[pairs[:, 0]] ^ found[pairs[:, 1]]) <= 3
    # Of n² / 2 pairs of 32 random bits, the share that differs in three or fewer is (1 + 32 + 496 + 4960) / 2³².
    assert near.all()
    assert len(pairs) == pytest.approx(len(found) ** 2 / 2 * 5489 / 2**32, rel=0.05)


@pytest.mark.parametrize("rule", RULES)
def test_crowds_and_condensed_pairs_decide_the_same(monkeypatch: pytest.MonkeyPatch, rule: VisitRule) -> None:
    found = crowded(np.random.default_rng(2), "nearly blank")[:400]
    rows = pa.record_batch({"uid": [f"{i:032x}" for i in range(400)], "phash": found})
    similar = np.triu(np.bitwise_count(found[:, None] ^ found) <= 14, 1)
    expected = kept_of_pairs(400, np.argwhere(similar), rule).tolist()
    monkeypatch.setattr(duplicates, "_PAIRS", 50)
    monkeypatch.setattr(hamming, "_CROWD", 40)
    assert keep("phash_duplicates", rows, max_distance=14, rule=rule) == expected
    assert len(set(expected)) == 2


def test_more_hashes_make_more_tables_with_longer_keys() -> None:
    for number, tables, bits in ((1000, 4, 16), (10**9, 20, 32)):
        chosen = hamming.masks(3, number)
        assert len(chosen) == tables
        assert min(int(mask).bit_count() for mask in chosen) >= bits - 2
        for changed in ((0, 1, 2), (5, 30, 63), (20, 21, 50)):
            assert any(all(not int(mask) >> bit & 1 for bit in changed) for mask in chosen)


def plane(angles: list[float], **more: Any) -> pa.RecordBatch:
    """Unit vectors in the plane, a row each."""
    flat = [f(math.radians(a)) for a in angles for f in (math.cos, math.sin)]
    return batch(e=pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), 2), **more)


def centres(folder: Path, *angles: float) -> str:
    np.save(folder / "c.npy", np.array([[math.cos(math.radians(a)), math.sin(math.radians(a))] for a in angles], np.float32))
    return str(folder / "c.npy")


# T74
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]])
def test_the_rules_on_three_vectors_whatever_the_order_of_the_input(tmp_path: Path, order: list[int]) -> None:
    rows = plane([0, 16.26, 32.52])
    first, middle, last = rows["uid"].to_pylist()
    rows = rows.take(pa.array(order))
    options: dict[str, Any] = {"features": "e", "min_similarity": 0.95}
    # The ends are farthest from a centre in the middle; from one at 48.78° on, the rows are visited by their angle.
    between, beside = centres(tmp_path, 16.26), tmp_path / "beside"
    beside.mkdir()
    options["centroids"] = between
    assert kept_uids("feature_duplicates", rows, rule="compare-with-kept", **options) == {first, last}
    assert len(kept_uids("feature_duplicates", rows, rule="component", **options)) == 1
    options["centroids"] = centres(beside, 48.78)
    assert kept_uids("feature_duplicates", rows, rule="compare-with-kept", **options) == {first, last}
    assert kept_uids("feature_duplicates", rows, rule="any-earlier", **options) == {first}
    assert kept_uids("feature_duplicates", rows, rule="component", **options) == {first}
    options["centroids"] = centres(beside, -16.26)
    assert kept_uids("feature_duplicates", rows, rule="any-earlier", **options) == {last}
    assert middle not in kept_uids("feature_duplicates", rows, rule="compare-with-kept", **options)


def test_rows_as_far_from_the_centre_are_visited_by_uid(tmp_path: Path) -> None:
    rows = plane([10, 10, -10])
    options = {"features": "e", "centroids": centres(tmp_path, 0), "min_similarity": 1.0}
    for order in ([0, 1, 2], [2, 1, 0]):
        kept = kept_uids("feature_duplicates", rows.take(pa.array(order)), rule="component", **options)
        assert kept == {rows["uid"][0].as_py(), rows["uid"][2].as_py()}


# T75
def test_a_cluster_with_one_member_and_one_with_none(tmp_path: Path) -> None:
    options = {"features": "e", "centroids": centres(tmp_path, 0, 90, 180), "min_similarity": 0.9}
    for rule in RULES:
        assert keep("feature_duplicates", plane([0, 90]), rule=rule, **options) == [True, True]
        assert keep("feature_duplicates", plane([0, 1, 90]), rule=rule, **options).count(True) == 2


def test_similar_rows_of_two_clusters_are_not_compared(tmp_path: Path) -> None:
    options = {"features": "e", "centroids": centres(tmp_path, 0, 90), "min_similarity": 0.9}
    assert keep("feature_duplicates", plane([44, 46]), rule="component", **options) == [True, True]


def test_rows_without_a_direction_are_not_judged(tmp_path: Path) -> None:
    values = pa.array([[1, 0], None, [0, 0], [math.nan, 0], [1, 0]], pa.list_(pa.float32(), 2))
    options = {"features": "e", "centroids": centres(tmp_path, 0), "min_similarity": 0.9}
    assert keep("feature_duplicates", batch(e=values), rule="component", **options) == [True, None, None, None, False]


def test_with_text_considered_other_captions_are_other_samples(tmp_path: Path) -> None:
    rows = plane([0, 0, 0], text=["x", "y", "x"])
    options = {"features": "e", "centroids": centres(tmp_path, 0), "min_similarity": 0.9, "rule": "component"}
    assert keep("feature_duplicates", rows, **options) == [True, False, False]
    assert keep("feature_duplicates", rows, same_text=True, **options) == [True, True, False]


def test_centroids_of_another_length_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "three.npy", np.eye(3, dtype=np.float32))
    options = {"features": "e", "centroids": str(tmp_path / "three.npy"), "min_similarity": 0.9, "rule": "component"}
    with pytest.raises(InputError, match=r"e has vectors of 2 numbers, the centroids in .*three\.npy are of 3"):
        keep("feature_duplicates", plane([0]), **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("phash_duplicates", {"max_distance": 17, "rule": "component"}, "max_distance 17 is not in"),
        ("phash_duplicates", {"max_distance": 3}, "option 'rule' is missing"),
        ("phash_duplicates", {"max_distance": 3, "rule": "first"}, "expected compare-with-kept or component or any-earlier"),
        (
            "feature_duplicates",
            {"features": "e", "centroids": "c", "rule": "component", "min_similarity": 0},
            r"min_similarity 0 is not in \(0, 1\]",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FILTERS.build(name, options)
