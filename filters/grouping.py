"""What is learnt of rows that share a key: how often it is seen, and which of the rows comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.registry import Grouping, Key
from pools.tables import Records

COUNT = np.dtype([("group", "<u8"), ("count", "<u8")])
PAIR = np.dtype([("group", "<u8"), ("member", "<u8")])
FIRST = np.dtype([("group", "<u8"), ("high", "<u8"), ("low", "<u8"), ("several", "?")])


@dataclass(frozen=True)
class Counted:
    """How often each key is seen, of those seen more often than `more_than`: (group, count)."""

    key: Key
    more_than: int = 0
    result: ClassVar[np.dtype[Any]] = COUNT

    @property
    def needs(self) -> tuple[str, ...]:
        return self.key.needs

    def records(self, batch: pa.RecordBatch) -> Records:
        groups, counts = np.unique(self.key(batch), return_counts=True)
        return _counts(groups, counts)

    def combine(self, records: Records) -> Records:
        order = np.argsort(records["group"])
        groups = records["group"][order]
        starts = np.flatnonzero(_starts(groups))
        counts = np.add.reduceat(records["count"][order], starts) if len(starts) else records["count"]
        return _counts(groups[starts], counts)

    def finish(self, records: Records) -> Records:
        frequent: Records = records[records["count"] > self.more_than]
        return frequent


@dataclass(frozen=True)
class Distinct:
    """How many different members each group has, of groups with more than `more_than`: (group, count), which stops there.

    No more than `more_than` + 1 members of a group are kept on the way, those with the smallest hashes: if all of them are
    different ones, the group has more, however few of its members are seen.
    """

    key: Key
    more_than: int
    result: ClassVar[np.dtype[Any]] = COUNT

    @property
    def needs(self) -> tuple[str, ...]:
        return self.key.needs

    def records(self, batch: pa.RecordBatch) -> Records:
        pairs = self.key(batch)
        records = np.empty(len(pairs), PAIR)
        records["group"], records["member"] = pairs[:, 0], pairs[:, 1]
        return records

    def combine(self, records: Records) -> Records:
        records = records[np.lexsort((records["member"], records["group"]))]
        new = _starts(records["group"])
        new[1:] |= records["member"][1:] != records["member"][:-1]
        records = records[new]
        starts = np.flatnonzero(_starts(records["group"]))
        within = np.arange(len(records)) - np.repeat(starts, np.diff([*starts, len(records)]))
        capped: Records = records[within <= self.more_than]
        return capped

    def finish(self, records: Records) -> Records:
        groups, counts = np.unique(records["group"], return_counts=True)
        return _counts(groups[counts > self.more_than], counts[counts > self.more_than])


@dataclass(frozen=True)
class First:
    """The record of the row with the smallest uid in each group, with all else that `rows` gives of it.

    `several` says that rows with another uid are in the group; `repeated` leaves out the groups without. Rows with one uid
    are one.
    """

    needs: tuple[str, ...]
    rows: Callable[[pa.RecordBatch], Records]
    result: np.dtype[Any] = FIRST  # these fields, and any more that `rows` gives
    repeated: bool = True

    def records(self, batch: pa.RecordBatch) -> Records:
        return self.rows(batch)

    def combine(self, records: Records) -> Records:
        if len(records) == 0:
            return records
        records = records[np.lexsort((records["low"], records["high"], records["group"]))]
        first = _starts(records["group"])
        starts = np.flatnonzero(first)
        other = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
        several = records["several"].copy()
        several[1:] |= other & ~first[1:]
        combined: Records = records[starts].copy()
        combined["several"] = np.logical_or.reduceat(several, starts)
        return combined

    def finish(self, records: Records) -> Records:
        repeated: Records = records[records["several"]] if self.repeated else records
        return repeated


def counting(key: Key, more_than: int) -> Grouping:
    """The grouping that counts a key, its sightings or what it is paired with."""
    return Distinct(key, more_than) if key.paired else Counted(key, more_than)


def _counts(groups: NDArray[np.uint64], counts: NDArray[np.generic]) -> Records:
    records = np.empty(len(groups), COUNT)
    records["group"], records["count"] = groups, counts
    return records


def _starts(sorted_groups: NDArray[np.uint64]) -> NDArray[np.bool_]:
    starts = np.ones(len(sorted_groups), bool)
    starts[1:] = sorted_groups[1:] != sorted_groups[:-1]
    return starts
