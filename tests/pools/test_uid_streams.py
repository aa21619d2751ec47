"""Uid lists of any length: a block at a time they are what they would be at once."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools import uids
from pools.uids import runs, sets, streams
from pools.uids.words import records_of

# Few uids, so that many are in both lists, and repeats are common; in order of size, as in the words.
FEW = st.lists(st.integers(0, 30), max_size=60)
OPERATIONS: dict[sets.Operation, str] = {"union": "|", "intersect": "&", "minus": "-"}


def listed(numbers: list[int]) -> uids.Uids:
    """Uids of which every other pair shares the high word."""
    return uids.pack([f"{n // 4:016x}{n % 4:016x}" for n in numbers])


def numbers(values: uids.Uids) -> list[int]:
    return [int(high) * 4 + int(low) for high, low in values.tolist()]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LEAST", 2)


def readers(*lists: list[int]) -> list[streams.Reader]:
    return [streams.Held(listed(sorted(given))) for given in lists]


@given(FEW, FEW, FEW)
def test_slices_side_by_side_hold_all_entries_in_order_and_no_uid_twice(a: list[int], b: list[int], c: list[int]) -> None:
    found = [[numbers(block) for block in step] for step in streams.aligned(readers(a, b, c), 9)]
    for i, given_ in enumerate((a, b, c)):
        assert [n for step in found for n in step[i]] == sorted(given_)
    seen = [{n for block in step for n in block} for step in found]
    assert all(max(x) < min(y) for x, y in itertools.pairwise(seen))


def test_blocks_are_small() -> None:
    steps = list(streams.aligned(readers(list(range(500)), list(range(0, 1000, 2))), 16))
    assert max(sum(map(len, step)) for step in steps) <= 32


@pytest.mark.parametrize("operation", list(OPERATIONS))
@given(a=FEW, b=FEW, c=FEW)
def test_counted_algebra_is_that_of_multisets(operation: sets.Operation, a: list[int], b: list[int], c: list[int]) -> None:
    x, y, z = Counter(a), Counter(b), Counter(c)
    expected = {"union": x | y | z, "intersect": x & y & z, "minus": x - y - z}[operation]
    pieces = list(streams.combined(operation, readers(a, b, c), counted=True))
    assert [n for piece in pieces for n in numbers(piece)] == sorted(expected.elements())
    once = [n for piece in streams.combined(operation, readers(a, b, c)) for n in numbers(piece)]
    sets_ = {"union": {*a, *b, *c}, "intersect": {*a} & {*b} & {*c}, "minus": {*a} - {*b} - {*c}}[operation]
    assert once == sorted(sets_)


@given(FEW, FEW)
def test_added_lists_hold_every_entry(a: list[int], b: list[int]) -> None:
    assert [n for piece in streams.added(readers(a, b, b)) for n in numbers(piece)] == sorted(a + b + b)


@given(FEW)
def test_a_tally_counts_entries_and_repeats(a: list[int]) -> None:
    times = Counter(a)
    expected = streams.Tally(len(a), len(times), sum(n > 1 for n in times.values()), max(times.values(), default=0))
    assert streams.tally(readers(a)[0]) == expected


@settings(max_examples=25, deadline=None)
@given(FEW, st.integers(0, 60), st.integers(0, 3))
def test_a_sample_in_blocks_is_the_sample(a: list[int], number: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/list.npy"
        uids.write_list(path, listed(a))
        found = [n for piece in streams.sampled(uids.stored(path), number, seed) for n in numbers(piece)]
    assert found == numbers(sets.sample(listed(sorted(a)), number, seed))


@pytest.mark.parametrize("run", [9, 64, 10_000])
def test_sorting_in_runs_is_sorting(tmp_path: Path, run: int) -> None:
    rng = np.random.default_rng(run)
    given_ = rng.integers(0, 300, 1000).tolist()
    blocks = [listed(given_[i : i + 90]) for i in range(0, 1000, 90)]
    pieces = list(runs.sorted_pieces(iter(blocks), str(tmp_path / "scratch"), run))
    assert [n for piece in pieces for n in numbers(piece)] == sorted(given_)


@pytest.mark.parametrize("shape", ["spread", "counted up", "one high word", "repeats", "two clumps"])
def test_many_uids_are_sorted_in_buckets(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "_CACHED", 50)
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, (2000, 2), np.uint64)
    if shape == "counted up":
        words = np.stack([np.zeros(2000, np.uint64), rng.permutation(2000).astype(np.uint64)], 1)
    elif shape == "one high word":
        words[:, 0] = 7
    elif shape == "repeats":
        words = words[rng.integers(0, 100, 2000)]
    elif shape == "two clumps":
        words[:, 0] = np.where(words[:, 0] % 2, words[:, 0] % 5, np.uint64(2**64 - 1))
    found = sets.sort(records_of(np.ascontiguousarray(words)))
    assert found.tolist() == sorted(map(tuple, words.tolist()))


def test_counting_reads_no_more_of_a_long_list_than_it_looks_at() -> None:
    values = listed(sorted([n for n in range(4000) for _ in range(n % 3)]))
    asked = [0, 1, 2, 5, 3999, 5000]
    assert uids.count(values, listed(asked)).tolist() == [0, 1, 2, 2, 0, 0]
    mapped = values.view(Counting)
    uids.count(mapped, listed(asked))
    assert 0 < Counting.looked_at < len(values)


class Counting(np.ndarray[Any, Any]):
    """An array that counts what is taken from its columns."""

    looked_at = 0

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, np.ndarray):
            Counting.looked_at += len(index)
        return super().__getitem__(index)


@given(FEW, st.integers(1, 20))
def test_the_first_unsorted_row_of_blocks_is_that_of_the_whole(a: list[int], size: int) -> None:
    blocks = [listed(a[i : i + size]) for i in range(0, len(a), size)]
    assert streams.first_unsorted(blocks) == uids.first_unsorted(listed(a))
