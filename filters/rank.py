"""The key at a given place of a pool's order, at any size: exact, in passes that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.registry import Scan

Keys = Callable[[pa.RecordBatch], NDArray[Any]]  # the rows that have a key → their keys, uint64
_SAMPLE = 1 << 12  # keys by which a batch is judged
DISTINCT = 1 << 16  # keys that are counted one by one; of more, those with the same 16 bits are counted together


def nth_greatest(scan: Scan, columns: Sequence[str], keys: Keys, index: int | Callable[[int], int]) -> int | None:
    """The key at `index` (from 0) of the descending order; None if the scan has no more than `index` keys.

    `keys` is picklable; `index` may be a function of the number of rows, with and without a key. Exact, in one pass if there
    are few distinct keys, as scores of half precision have; else keys are counted by their highest 16 bits, then, within
    the bucket that holds the index, by the next 16, unless few are distinct there, and so on. A megabyte of counts at most.
    """
    prefix = done = 0
    while True:
        counts = scan.reduce(columns, _Counting(keys, done, prefix), Counts.merged, Counts.none(done))
        if callable(index):
            index = index(counts.rows)
        above = np.cumsum(counts.counts[::-1])  # keys in the highest 1, 2, … buckets
        if not len(above) or index >= above[-1]:
            return None
        position = int(np.searchsorted(above, index, side="right"))
        found = int(counts.values[len(above) - 1 - position])
        if counts.exact or done == 48:
            return found if counts.exact else (prefix << 16) | found
        index -= int(above[position - 1]) if position else 0
        prefix, done = (prefix << 16) | found, done + 16


@dataclass(frozen=True)
class Counts:
    """How often each of `values` (k,) is seen, ascending: whole keys, or 16 bits of them after the first `done`."""

    rows: int
    values: NDArray[np.uint64]
    counts: NDArray[np.int64]
    exact: bool  # whether values are whole keys
    done: int

    @classmethod
    def none(cls, done: int) -> Counts:
        return cls(0, np.empty(0, np.uint64), np.empty(0, np.int64), True, done)

    def coarse(self) -> Counts:
        """The same by 16 bits."""
        if not self.exact:
            return self
        return _summed(self.rows, _sixteen(self.values, self.done), self.counts, False, self.done)

    def merged(self, other: Counts) -> Counts:
        """Both together; by 16 bits if either is, or if too many keys are distinct."""
        a, b = (self, other) if self.exact and other.exact else (self.coarse(), other.coarse())
        both = _summed(
            a.rows + b.rows, np.concatenate([a.values, b.values]), np.concatenate([a.counts, b.counts]), a.exact, a.done
        )
        return both.coarse() if both.exact and len(both.values) > DISTINCT else both


@dataclass(frozen=True)
class _Counting:
    """Summary of a batch: counts of the keys whose first `done` bits equal `prefix`."""

    keys: Keys
    done: int
    prefix: int

    def __call__(self, batch: pa.RecordBatch) -> Counts:
        keys = self.keys(batch)
        if self.done:
            keys = keys[(keys >> np.uint64(64 - self.done)) == np.uint64(self.prefix)]
        if len(np.unique(keys[:_SAMPLE])) > _SAMPLE // 2:
            # Hardly any two are alike: sorting all of them would show no more than that.
            found = np.bincount(_sixteen(keys, self.done).astype(np.int64), minlength=1 << 16)
            seen = np.flatnonzero(found)
            return Counts(len(batch), seen.astype(np.uint64), found[seen], False, self.done)
        values, counts = np.unique(keys, return_counts=True)
        return Counts(len(batch), values, counts, True, self.done)


def _sixteen(keys: NDArray[np.uint64], done: int) -> NDArray[np.uint64]:
    """The 16 bits after the first `done`."""
    return (keys >> np.uint64(48 - done)) & np.uint64(0xFFFF)


def _summed(rows: int, values: NDArray[np.uint64], counts: NDArray[np.int64], exact: bool, done: int) -> Counts:
    """Counts of equal values added up."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]])[: len(values)])
    return Counts(rows, values[starts], np.add.reduceat(counts, starts) if len(starts) else counts, exact, done)
