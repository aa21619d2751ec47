"""Balanced mixes and weights: groups and their entries, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.balance import BalancedClusters, BalancedSynsets, Weights, even_shares
from filters.mixture import MIXES, Mix
from filters.recipe import Recipe
from pools import uids
from pools.errors import InputError
from tests.filters.scans import batch


@pytest.mark.parametrize(
    ("rows", "entries", "most", "expected"),
    [
        ({"a": 1, "b": 5, "c": 9}, 15, None, {"a": 5, "b": 5, "c": 5}),
        ({"a": 1, "b": 5, "c": 9}, 17, None, {"a": 6, "b": 6, "c": 5}),
        ({"a": 1, "b": 5, "c": 9}, 2, None, {"a": 1, "b": 1, "c": 0}),
        # a has room for 2 of its even 5; the 13 that are left are 7 and 6.
        ({"a": 1, "b": 5, "c": 9}, 15, 2, {"a": 2, "b": 7, "c": 6}),
        # a and b are full with 1 and 5, c takes the other 9.
        ({"a": 1, "b": 5, "c": 9}, 15, 1, {"a": 1, "b": 5, "c": 9}),
        ({"c": 9, "b": 5, "a": 1}, 14, 1, {"c": 8, "b": 5, "a": 1}),
        ({}, 0, None, {}),
    ],
)
def test_groups_share_evenly_what_their_rows_allow(
    rows: Mapping[str, int], entries: int, most: int | None, expected: Mapping[str, int]
) -> None:
    assert even_shares(rows, entries, most) == expected


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 200), st.integers(1, 4))
def test_no_group_has_less_than_another_but_for_want_of_rows(sizes: list[int], entries: int, most: int) -> None:
    rows = {str(i): n for i, n in enumerate(sizes)}
    if entries > most * sum(sizes):
        with pytest.raises(ValueError, match="the rows allow"):
            even_shares(rows, entries, most)
        return
    shares = even_shares(rows, entries, most)
    assert sum(shares.values()) == entries
    highest = max(shares.values())
    assert all(n <= most * rows[g] and (n >= highest - 1 or n == most * rows[g]) for g, n in shares.items())


def plan(mix: Mix, rows: Mapping[str, int]) -> dict[str, int]:
    return {"+".join(g.labels): g.entries for g in mix.plan(rows)}


@pytest.fixture
def centroids(tmp_path: Path) -> str:
    np.save(tmp_path / "centroids.npy", np.eye(3, dtype=np.float32))
    return str(tmp_path / "centroids.npy")


IMG = pa.array([[0, 1, 0], [0, 2, 1], None, [0, 0, 1], [0, 0, float("nan")]], pa.list_(pa.float32(), 3))


def test_clusters_are_groups_and_rows_without_one_are_not_listed(centroids: str, tmp_path: Path) -> None:
    mix = BalancedClusters(features="img", centroids=centroids)
    assert mix.labels == ("0", "1", "2", "none")
    assert mix.label(batch(img=IMG)).tolist() == [1, 1, 3, 2, 3]
    # Three rows count; the two clusters that have some get 2 and 1 of 3 entries.
    assert plan(mix, {"0": 0, "1": 2, "2": 1, "none": 2}) == {"1": 2, "2": 1, "0+none": 0}
    np.save(tmp_path / "targets.npy", np.array([2, 0]))
    chosen = BalancedClusters(features="img", centroids=centroids, targets=str(tmp_path / "targets.npy"), entries=7)
    assert chosen.labels == ("0", "2", "none")
    assert chosen.label(batch(img=IMG)).tolist() == [2, 2, 2, 1, 2]
    assert plan(chosen, {"0": 0, "2": 1, "none": 4}) == {"2": 7, "0+none": 0}


def test_rows_of_no_group_alone_make_no_list_of_a_length(centroids: str) -> None:
    rows = {"0": 0, "1": 0, "2": 0, "none": 5}
    assert plan(BalancedClusters(features="img", centroids=centroids), rows) == {"0+1+2+none": 0}
    with pytest.raises(ValueError, match="none of the 5 kept rows belongs to a group"):
        BalancedClusters(features="img", centroids=centroids, entries=3).plan(rows)
    with pytest.raises(ValueError, match="8 entries, of 2 or fewer for each row; the rows allow 6"):
        BalancedClusters(features="img", centroids=centroids, entries=8, max_copies=2).plan({"0": 1, "1": 2, "2": 0, "none": 0})


def test_synsets_are_those_of_the_first_word_that_has_one(tmp_path: Path) -> None:
    # Of WordNet 3.0: dog n02084071, cat n02121620, horse n02374451.
    (tmp_path / "synsets.txt").write_text("n02121620\nn02084071\n")
    mix = BalancedSynsets(synsets=str(tmp_path / "synsets.txt"))
    assert mix.labels == ("n02084071", "n02121620", "none")
    texts = ["a dog and a cat", "a cat, two dogs", "cats", "horse", "", None, "dog"]
    assert mix.label(batch(text=texts)).tolist() == [0, 0, 1, 2, 2, 2, 0]
    assert mix.label(batch(text=texts).slice(2, 2)).tolist() == [1, 2]
    assert plan(mix, {"n02084071": 3, "n02121620": 1, "none": 3}) == {"n02084071": 2, "n02121620": 2, "none": 0}


def test_a_weight_is_a_number_of_entries_its_fraction_a_chance() -> None:
    rows = batch(weight=[0.0, 1.0, 2.5, 0.25, None, math.nan, 3.0, 0.5])
    hashes = uids.hash64(uids.pack(rows["uid"]), 7).tolist()
    fractions = [0, 0, 0.5, 0.25, 0, 0, 0, 0.5]
    expected = [n + (h < int(f * 2**64)) for n, h, f in zip([0, 1, 2, 0, 0, 0, 3, 0], hashes, fractions, strict=True)]
    assert {2, 3} >= {expected[2]}
    assert Weights(column="weight", seed=7).label(rows).tolist() == expected
    whole = Weights(column="weight", scale=4.0).label(rows)
    assert whole.tolist() == [0, 4, 10, 1, 0, 0, 12, 2]
    assert Weights(column="weight").label(batch(weight=pa.array([2, 0, None], pa.int8()))).tolist() == [2, 0, 0]
    assert Weights(column="weight").label(rows.slice(0, 0)).tolist() == []


def test_fractions_are_met_on_average() -> None:
    rows = batch(weight=[1.3] * 4000)
    assert abs(int(Weights(column="weight").label(rows).sum()) - 5200) < 4 * math.sqrt(4000 * 0.3 * 0.7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -0.5], "weight -0.5 of uid 00000000000000000000000000000001 in column 'weight'; expected 0 or more"),
        ([math.inf], "weight inf of uid"),
        (["2"], "column 'weight' holds string; expected weights, as numbers"),
    ],
)
def test_weights_that_are_none_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Weights(column="weight").label(batch(weight=values))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("balanced_clusters", {"features": "img"}, "balanced_clusters: option 'centroids' is missing"),
        ("balanced_clusters", {"features": "i", "centroids": "c.npy", "entries": 0}, "entries 0 is below 1"),
        ("balanced_synsets", {"max_copies": 0}, "max_copies 0 is below 1"),
        ("weights", {"column": "w", "scale": 0}, "scale 0 is not above 0"),
        ("weights", {"column": "w", "scale": math.inf}, "scale inf is not above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MIXES.build(name, options)


def test_files_of_a_mix_enter_the_digest_by_what_they_hold(centroids: str, tmp_path: Path) -> None:
    text = f"name: a\nkeep: []\nmix:\n  - balanced_clusters: {{features: img, centroids: {centroids}}}\n"
    before = Recipe.parse(text).digest
    np.save(tmp_path / "again.npy", np.eye(3, dtype=np.float32))
    assert Recipe.parse(text.replace("centroids.npy", "again.npy")).digest == before
    np.save(tmp_path / "again.npy", np.eye(4, dtype=np.float32))
    assert Recipe.parse(text.replace("centroids.npy", "again.npy")).digest != before
