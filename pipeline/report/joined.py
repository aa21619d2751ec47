"""The rows of a pool's unit with what selections said of them, in batches, read side by side."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from filters import arrays
from pools import store, uids
from pools.errors import InputError
from pools.outputs import Selection
from pools.part import Part

ROWS = 1 << 14
KEPT = -1


@dataclass(frozen=True)
class Said:
    """What a selection said of n rows: the stage that dropped each (`KEPT`: none), and how often each stands in its list."""

    dropped_by: NDArray[np.int16]
    entries: NDArray[np.int64]


@dataclass(frozen=True)
class Chosen:
    """A selection, as workers are given it. Without verdicts, what is in the list is kept, and no stages are known."""

    selection: Selection
    weighted: bool
    verdicts: bool

    @classmethod
    def of(cls, selection: Selection, *, weighted: bool) -> Chosen:
        return cls(selection, weighted, store.is_dir(store.join(selection.root, "verdicts")))


def batches(part: Part, columns: Sequence[str], chosen: Sequence[Chosen]) -> Iterator[tuple[pa.RecordBatch, list[Said]]]:
    """Batches of a unit with `uid` among their columns. Raises InputError if a selection is not of this pool."""
    with contextlib.ExitStack() as files:
        readers = [_Reader(c, part, files) for c in chosen]
        for batch in part.batches(list(dict.fromkeys(["uid", *columns])), ROWS):
            yield batch, [reader.next(batch["uid"]) for reader in readers]
        for reader in readers:
            reader.end()


class _Reader:
    """A selection's verdicts on a unit, in steps of any number of rows."""

    def __init__(self, chosen: Chosen, part: Part, files: contextlib.ExitStack) -> None:
        self._chosen, self._where = chosen, chosen.selection.verdicts(part.stem)
        self._list = uids.load(chosen.selection.uids) if chosen.weighted or not chosen.verdicts else None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._rest: list[pa.RecordBatch] = []
        if chosen.verdicts:
            if not store.exists(self._where):
                raise InputError(
                    "no verdicts on this file of the pool", where=self._where, expected="a selection of this pool", fix=_FIX
                )
            opened: Any = files.enter_context(store.open_input(self._where))
            self._batches = pq.ParquetFile(opened).iter_batches(ROWS, columns=["uid", "dropped_by"], use_threads=False)

    def next(self, rows: pa.Array) -> Said:
        dropped = np.zeros(len(rows), np.int16)
        if self._chosen.verdicts:
            verdicts = self._take(len(rows))
            if len(verdicts) != len(rows) or not verdicts["uid"].equals(rows):
                raise InputError("verdicts on other rows", where=self._where, expected="a selection of this pool", fix=_FIX)
            by = verdicts["dropped_by"]
            dropped = np.where(arrays.numpy(by.is_null()), KEPT, arrays.numpy(by)).astype(np.int16)
        if self._list is None:
            return Said(dropped, (dropped == KEPT).astype(np.int64))
        entries = uids.count(self._list, uids.pack(rows)).astype(np.int64)
        if self._chosen.verdicts:
            return Said(dropped, np.where(dropped == KEPT, entries, 0))
        # A list that is no mix holds a uid as often as the pool has it.
        return Said(
            np.where(entries > 0, KEPT, 0).astype(np.int16), entries if self._chosen.weighted else np.minimum(entries, 1)
        )

    def end(self) -> None:
        if self._chosen.verdicts and len(self._take(1)):
            raise InputError("verdicts on more rows", where=self._where, expected="a selection of this pool", fix=_FIX)

    def _take(self, rows: int) -> pa.RecordBatch:
        while sum(map(len, self._rest)) < rows and (more := next(self._batches, None)) is not None:
            self._rest.append(more)
        if not self._rest:
            return _NOTHING
        found = self._rest[0] if len(self._rest) == 1 else pa.concat_batches(self._rest)
        self._rest = [found.slice(rows)] if len(found) > rows else []
        return found.slice(0, rows)


_NOTHING = pa.RecordBatch.from_arrays([pa.nulls(0, pa.string()), pa.nulls(0, pa.int16())], names=["uid", "dropped_by"])
_FIX = "give the pool that `winnow filter` was run on, as it was then"
