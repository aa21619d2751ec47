"""Which samples of a shard a list names, and where they lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools import shard_index
from pools.shard_index import Header
from pools.uids import UID
from pools.wanted import Wanted

# A run of bytes of a sample that is wanted; `position` is the first of its `copies` in the list.
FOUND = np.dtype([("uid", UID), ("position", "<i8"), ("copies", "<i8"), ("start", "<i8"), ("length", "<i8"), ("part", "<u4")])
Found = NDArray[np.void]


@dataclass(frozen=True)
class Located:
    """What a shard has to give. Of equal uids in it, the first sample alone."""

    header: Header
    found: Found
    twins: int  # samples whose uid stood before in this shard, and is wanted


@dataclass(frozen=True)
class Locate:
    """Work on a shard: its index, made if there is none, and what the list wants of it."""

    list: str
    root: str
    index: str | None
    regroup: bool

    def __call__(self, shard: str) -> Located:
        index = shard_index.open_index(shard, self.root, self.index, regroup=self.regroup)
        positions, copies = Wanted.open(self.list).find(index.uids)
        there = np.flatnonzero(copies)
        samples = index.samples[there]
        found = np.empty(len(there), FOUND)
        for name in ("uid", "start", "length", "part"):
            found[name] = samples[name]
        found["position"], found["copies"] = positions[there], copies[there]
        first = first_of_each(found)
        return Located(index.header, found[first], int(((found["part"] == 0) & ~first).sum()))


def first_of_each(found: Found) -> NDArray[np.bool_]:
    """(n,) whether a run is of the first sample that has its uid."""
    sample = np.cumsum(found["part"] == 0)
    firsts: NDArray[Any] = np.unique(found["position"], return_index=True)[1]
    return np.isin(sample, sample[firsts])
