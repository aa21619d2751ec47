"""The key at a given place of a pool's order, at any size: exact, in passes that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.registry import Scan

Keys = Callable[[pa.RecordBatch], NDArray[Any]]  # the rows that have a key → their keys, unsigned whole numbers


def nth_greatest(scan: Scan, columns: Sequence[str], keys: Keys, width: int, index: int) -> int | None:
    """The key at `index` (from 0) of the descending order; None if the scan has no more than `index` keys.

    `keys` is picklable and gives numbers of `width` bits (16, 32, 64). Exact in passes of 16 bits each, with half a megabyte
    of counts: keys are counted by their highest 16 bits, then by the next 16 within the bucket that holds the index, and
    so on.
    """
    prefix = 0
    for done in range(0, width, 16):
        counts = scan.reduce(columns, _Buckets(keys, width, done, prefix), np.add, np.zeros(1 << 16, np.int64))
        above = np.cumsum(counts[::-1])  # keys in the highest 1, 2, … buckets
        if index >= above[-1]:
            return None
        position = int(np.searchsorted(above, index, side="right"))
        index -= int(above[position - 1]) if position else 0
        prefix = (prefix << 16) | (0xFFFF - position)
    return prefix


@dataclass(frozen=True)
class _Buckets:
    """Summary of a batch: counts (65536,) by 16 bits of the keys, after the `done` bits that equal `prefix`."""

    keys: Keys
    width: int
    done: int
    prefix: int

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        keys = self.keys(batch)
        if self.done:
            keys = keys[(keys >> (self.width - self.done)) == self.prefix]
        part = (keys >> (self.width - self.done - 16)) & 0xFFFF
        return np.bincount(part.astype(np.int64), minlength=1 << 16)
