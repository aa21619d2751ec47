"""What comes to a sample from beside its shard, by uid: other captions, boxes of faces."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.reshard.faces import BOXES
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.part import Part
from pools.wanted import Indices, Taken, Wanted

CAPTION = "caption"


class Side:
    """A value, in bytes, for places of a list; kept in temporary files, however long the list is."""

    def __init__(self, length: int) -> None:
        self._blob = tempfile.TemporaryFile()
        # Of each place where its value begins and how long it is; where nothing is written it takes no room on the disk.
        self._table = tempfile.TemporaryFile(buffering=0)
        self._end = 0
        self._there, self._void = Taken(length), Taken(length)

    def put(self, positions: Indices, values: Sequence[bytes]) -> None:
        """A value for each place; one that has a value already gets both, one behind the other."""
        fresh = self._there.take(positions).tolist()
        for position, value, first in zip(positions.tolist(), values, fresh, strict=True):
            if not first:
                value = self._read(position) + value
            self._blob.write(value)
            os.pwrite(self._table.fileno(), _PLACE.pack(self._end, len(value)), _PLACE.size * position)
            self._end += len(value)

    def refuse(self, positions: Indices) -> None:
        """These places have no value, whatever others say."""
        self._void.take(positions)

    def has(self, positions: Indices) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = self._there.has(positions) & ~self._void.has(positions)
        return there

    def get(self, positions: Indices) -> list[bytes | None]:
        there = self.has(positions)
        return [self._read(p) if t else None for p, t in zip(positions.tolist(), there, strict=True)]

    def _read(self, position: int) -> bytes:
        start, size = _PLACE.unpack(os.pread(self._table.fileno(), _PLACE.size, _PLACE.size * position))
        self._blob.seek(start)
        value = self._blob.read(size)
        self._blob.seek(self._end)
        return value


_PLACE = struct.Struct("<qq")


def captions(path: str, wanted: Wanted) -> Side:
    """Captions by uid, of `FILE` or `FILE:column`; of several for one uid the first. Nulls change nothing."""
    file, column = split_column(path)
    side = Side(len(wanted))
    for positions, values in _rows(parts_with(file, column), column, wanted):
        valid = ~side.has(positions) & values.is_valid().to_numpy(zero_copy_only=False)
        valid &= _first(positions)
        chosen = values.filter(pa.array(valid)).to_pylist()
        if chosen and not isinstance(chosen[0], str):
            raise InputError(f"column {column!r} holds {values.type}", where=file, expected="captions, as text")
        side.put(positions[valid], [caption.encode() for caption in chosen])
    return side


def boxes(path: str, wanted: Wanted) -> Side:
    """Boxes of faces by uid, as float64, four a box; of several rows for one uid all boxes, none if one is null: no answer."""
    side = Side(len(wanted))
    for positions, values in _rows(parts_with(path, BOXES), BOXES, wanted):
        answered = values.is_valid().to_numpy(zero_copy_only=False)
        side.refuse(positions[~answered])
        if not _are_lists(values.type) and answered.any():
            raise InputError(f"column {BOXES!r} holds {values.type}", where=path, expected="lists of boxes [x0, y0, x1, y1]")
        side.put(positions[answered], [packed_boxes(one) for one in values.filter(pa.array(answered)).to_pylist()])
    return side


def _are_lists(kind: pa.DataType) -> bool:
    """Whether values are lists of lists of numbers, or of nothing."""
    for _ in range(2):
        if pa.types.is_null(kind):
            return True
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
            return False
        kind = kind.value_type
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind))


def packed_boxes(found: Sequence[Sequence[float | None] | None]) -> bytes:
    """Boxes to bytes; what is no box of four numbers becomes NaN, which nobody takes for a face that was blurred."""
    rows = [box if box is not None and len(box) == 4 else (None,) * 4 for box in found]
    return np.array(rows, np.float64).reshape(-1, 4).tobytes()


def split_column(path: str) -> tuple[str, str]:
    """`FILE:column` → (FILE, column)."""
    file, colon, column = path.rpartition(":")
    if colon and column and "/" not in column and not store.exists(path):
        return file, column
    return path, CAPTION


def digest(path: str, column: str) -> str:
    """The identity of the files that values are read from."""
    return " ".join(part.digest([column]) for part in parts_with(path, column))


def parts_with(path: str, column: str) -> tuple[Part, ...]:
    """The files of a pool, of a folder, or the one that there is. Raises InputError where one lacks the column."""
    if store.is_dir(path):
        parts = Pool.open(path).parts
    elif store.exists(path):
        parts = (Part(path.rpartition("/")[0], store.name(path), path),)
    else:
        raise InputError("no such file", where=path, expected="a pool, a folder of parquet, or a parquet file")
    for part in parts:
        if column not in (have := part.columns()):
            raise InputError(f"no column {column!r}", where=part.parquet, expected=f"one of {', '.join(sorted(have))}")
    return parts


def _rows(parts: Sequence[Part], column: str, wanted: Wanted) -> Iterator[tuple[Indices, pa.Array]]:
    """(places in the list, values) of the rows that the list names, a batch after the other."""
    for part in parts:
        for batch in part.batches(["uid", column]):
            positions, copies = wanted.find(uids.pack(batch["uid"], where=part.parquet))
            there = copies > 0
            if there.any():
                yield positions[there], batch[column].filter(pa.array(there))


def _first(positions: Indices) -> NDArray[np.bool_]:
    first = np.zeros(len(positions), bool)
    first[np.unique(positions, return_index=True)[1]] = True
    return first
