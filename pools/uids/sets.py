"""Sorted lists in memory: sorting, set algebra, counting, samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pools.uids.words import Uids, Words, hash64, records_of, smallest, words_of

ROWS_IN_MEMORY = 1 << 24
_RANGE = 1 << 23  # rows that are sorted at once where there are more than fit
_CACHED = 1 << 17  # rows whose words fit a core's cache, where sorting is three times faster
_STEP = 1 << 20
Operation = Literal["union", "intersect", "minus"]


def order(uids: Uids) -> NDArray[np.intp]:
    """(n,) indices that sort the uids; equal ones keep their order."""
    return _order(words_of(uids), stable=True)


def _order(words: Words, *, stable: bool) -> NDArray[np.intp]:
    """(n,) indices that sort (n, 2) words; equal ones in any order unless `stable`, which NumPy is several times faster at.

    Comparing whole records is ten times slower than sorting one word, and few different uids share their high word.
    """
    high = np.ascontiguousarray(words[:, 0])
    indices = np.argsort(high, kind="stable" if stable else None)
    high = high[indices]
    if len(ties := np.flatnonzero(high[1:] == high[:-1])):
        low = words[:, 1]
        if (low[indices[ties + 1]] < low[indices[ties]]).any():
            indices = np.lexsort((low, words[:, 0]))
    return indices


def sort(uids: Uids) -> Uids:
    """The same uids in order, repeats kept. Many are sorted a range of uids at a time, so that little is held besides them."""
    words = words_of(uids)
    if len(words) <= ROWS_IN_MEMORY:
        return records_of(_sorted(words))
    ordered, start = np.empty_like(words), 0
    bits = (len(words) // _RANGE).bit_length()
    for i in range(1 << bits):
        part = words[_within(words[:, 0], i, bits)]
        ordered[start : start + len(part)] = _sorted(part)
        start += len(part)
    return records_of(ordered)


def _sorted(words: Words) -> Words:
    """The rows in order: first put into 256 buckets by their next eight bits, then each bucket sorted in the cache."""
    if len(words) <= _CACHED:
        return _taken(words, _order(words, stable=False))
    high = words[:, 0]
    least, most = int(high.min()), int(high.max())
    shift = np.uint64(max(0, (most - least).bit_length() - 8))
    bucket = ((high - np.uint64(least)) >> shift).astype(np.uint8)
    ordered = _taken(words, np.argsort(bucket, kind="stable"))
    ends = np.cumsum(np.bincount(bucket, minlength=256))
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        part = ordered[start:end]
        part[:] = _taken(part, _order(part, stable=False))
    return ordered


def _taken(words: Words, indices: NDArray[np.intp]) -> Words:
    """words[indices]; NumPy moves a record at once faster than two words."""
    records = words.view(np.complex128).reshape(-1)  # NumPy's only number of 16 bytes; of records it moves words
    taken: Words = np.take(records, indices, mode="clip").view(np.uint64).reshape(-1, 2)
    return taken


def _within(high: Words, i: int, bits: int) -> NDArray[np.bool_]:
    """(n,) whether the first bits of a word are those of `i`."""
    inside = np.empty(len(high), bool)
    for start in range(0, len(high), _RANGE):
        inside[start : start + _RANGE] = (high[start : start + _RANGE] >> np.uint64(64 - bits)) == i
    return inside


def joined(lists: Sequence[Uids]) -> Words:
    """(n, 2) words of lists, one behind the other; NumPy is slow at doing that with records."""
    return np.concatenate([np.empty((0, 2), np.uint64), *map(words_of, lists)])


def merged(lists: Sequence[Uids]) -> Uids:
    """All entries of sorted lists, sorted."""
    words = joined(lists)
    # A stable sort finds the stretches that are sorted already, and merges them.
    return records_of(_taken(words, _order(words, stable=True)))


def first_unsorted(uids: Uids) -> int | None:
    """Index of the first uid that is smaller than the one before it, None if the list is sorted."""
    for start in range(0, max(len(uids) - 1, 0), _STEP):
        if (found := descents(uids[start : start + _STEP + 1])) is not None:
            return start + found[0]
    return None


def descents(uids: Uids) -> tuple[int, int] | None:
    """Where a uid is first smaller than the one before it, and how often that is so; None if the uids are sorted."""
    words = words_of(uids)
    high, low = words[:, 0], words[:, 1]
    down = (high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))
    return (int(down.argmax()) + 1, int(down.sum())) if down.any() else None


def starts(uids: Uids) -> NDArray[np.bool_]:
    """(n,) whether an entry of a sorted list is the first of its uid."""
    words = words_of(uids)
    new = np.ones(len(words), bool)
    new[1:] = (words[1:, 0] != words[:-1, 0]) | (words[1:, 1] != words[:-1, 1])
    return new


def unique(uids: Uids) -> Uids:
    """A sorted list without its repeats."""
    return records_of(_taken(words_of(uids), np.flatnonzero(starts(uids))))


def first_occurrences(uids: Uids) -> NDArray[np.bool_]:
    """(n,) whether a uid, in any order, stands in no earlier place."""
    indices = order(uids)
    first = np.zeros(len(uids), bool)
    first[indices[starts(np.ascontiguousarray(uids)[indices])]] = True
    return first


def combine(operation: Operation, a: Uids, b: Uids, *, counted: bool = False) -> Uids:
    """Two sorted lists → one, each uid once.

    If `counted`, a uid stands as often as in the list that has it most (union) or least (intersect), or as often as in `a`
    less as often as in `b` (minus).
    """
    words = joined([a, b])
    indices = _order(words, stable=True)
    words = _taken(words, indices)
    second = indices >= len(a)  # of one uid, those of `a` come first
    first = np.flatnonzero(starts(records_of(words)))
    last = np.append(first[1:], len(words))[: len(first)] - 1
    if not counted:
        if operation != "union":
            first = first[~second[last] if operation == "minus" else ~second[first] & second[last]]
        return records_of(_taken(words, first))
    in_b = np.diff(np.cumsum(second)[last], prepend=0)
    in_a = last + 1 - first - in_b
    copies = {"union": np.maximum(in_a, in_b), "intersect": np.minimum(in_a, in_b), "minus": np.maximum(in_a - in_b, 0)}
    return records_of(_taken(words, np.repeat(first, copies[operation])))


def count(sorted_list: Uids, uids: Uids) -> NDArray[np.int64]:
    """How often each of `uids` (in any order) stands in the sorted list: (n,) → (n,).

    Of a list much longer than `uids` no more than what is looked at is read, so it may be a mapped file.
    """
    low, wanted = sorted_list["f1"], words_of(uids)
    if len(sorted_list) <= 8 * len(wanted):
        high = np.ascontiguousarray(sorted_list["f0"])
        left = np.searchsorted(high, wanted[:, 0], "left")
        right = np.searchsorted(high, wanted[:, 0], "right")
    else:
        zero, end = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(sorted_list), np.int64)
        left = bisect(sorted_list["f0"], wanted[:, 0], zero, end, upper=False)
        right = bisect(sorted_list["f0"], wanted[:, 0], left, end, upper=True)
    return bisect(low, wanted[:, 1], left, right, upper=True) - bisect(low, wanted[:, 1], left, right, upper=False)


def places(sorted_list: Uids, borders: Uids) -> NDArray[np.int64]:
    """Of each border how many entries of the sorted list are smaller; no more of the list is read than is looked at."""
    words = words_of(borders)
    zero, end = np.zeros(len(words), np.int64), np.full(len(words), len(sorted_list), np.int64)
    left = bisect(sorted_list["f0"], words[:, 0], zero, end, upper=False)
    right = bisect(sorted_list["f0"], words[:, 0], left, end, upper=True)
    return bisect(sorted_list["f1"], words[:, 1], left, right, upper=False)


def bisect(word: Words, value: Words, lo: NDArray[np.int64], hi: NDArray[np.int64], *, upper: bool) -> NDArray[np.int64]:
    """searchsorted of value[i] within word[lo[i]:hi[i]], all rows at once."""
    lo, hi = lo.astype(np.int64), hi.astype(np.int64)
    while (active := lo < hi).any():
        middle = (lo + hi) // 2
        probe = word[np.where(active, middle, 0)]
        right = (probe <= value) if upper else (probe < value)
        lo = np.where(active & right, middle + 1, lo)
        hi = np.where(active & ~right, middle, hi)
    return lo


def sample(sorted_list: Uids, number: int, seed: int) -> Uids:
    """`number` entries of a list, still sorted: those with the smallest hashes, so that smaller samples are part of larger.

    Entries of one uid have one hash and are taken one after the other.
    """
    chosen: Uids = sorted_list[smallest(hash64(sorted_list, seed), number)]
    return chosen
