"""One unit of a pool: a metadata file and all that has the same stem, read as batches of aligned rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pools import npz, store
from pools.errors import InputError
from pools.schema import Status

BATCH_ROWS = 8192


@dataclass(frozen=True)
class Part:
    """The rows of one metadata file. Picklable: it holds paths, and is what a worker is given."""

    root: str  # of the pool
    stem: str
    parquet: str  # the metadata file
    others: tuple[str, ...] = ()  # files with further columns of the same rows
    of_img2dataset: bool = False  # whether the metadata file has a row for failures too

    @property
    def rows(self) -> int:
        if not self.of_img2dataset:
            return int(_metadata(self.parquet).num_rows)
        with store.open_input(self.parquet) as f:
            return pc.sum(_succeeded(pq.ParquetFile(f).read(columns=["status"]))).as_py() or 0

    def columns(self) -> dict[str, str]:
        """Where each column comes from: {column: path of the file}. `uid` comes from the metadata.

        Raises InputError if two families have one column.
        """
        where: dict[str, str] = {}
        for path in (self.parquet, *self.others):
            for name in self._names(path):
                if name in where and name == "uid":
                    continue
                if name in where:
                    raise InputError(
                        f"column {name!r} stands in two families",
                        where=path,
                        expected=f"it once; it is in {where[name]} already",
                        fix="remove one of the two annotation folders, or annotate under another --name",
                    )
                where[name] = path
        return where

    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        """What the files say of columns that they have, as batches will have them; no row is read."""
        where = self.columns()
        return {name: self._type(where[name], name) for name in columns}

    def _type(self, path: str, name: str) -> pa.DataType:
        if path.endswith(".npz"):
            return _npz_type(npz.header(path, name))
        schema = _metadata(path).schema.to_arrow_schema()
        return schema.field("caption" if name == "text" and name not in schema.names else name).type

    def digest(self, columns: Sequence[str]) -> str:
        """Identity of what these columns hold: the digests of the files they are in."""
        where = self.columns()
        files = dict.fromkeys([self.parquet, *(where[c] for c in columns)])
        return " ".join(store.digest(f, self.root) for f in files)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The named columns in batches of `rows`; arrays (n, d) come as fixed-size lists of d.

        Raises InputError if a family's rows are not those of the metadata.
        """
        where = self.columns()
        wanted: dict[str, list[str]] = {self.parquet: []}
        for name in columns:
            if name != "uid":
                wanted.setdefault(where[name], []).append(name)
        if "uid" in columns or len(wanted) > 1 or not wanted[self.parquet]:
            wanted[self.parquet].insert(0, "uid")  # also to see that files have the same rows
        sources = [
            _Source(p, names, rows, p == self.parquet, self.of_img2dataset and p == self.parquet) for p, names in wanted.items()
        ]
        total = self.rows if len(sources) > 1 else 0
        for source in sources[1:]:  # the first is the metadata
            if source.rows != total:
                raise InputError(
                    f"{source.rows} rows, the metadata has {total}", where=source.path, expected="the rows of the metadata"
                )
        start = 0
        for found in zip(*(s.batches() for s in sources), strict=True):
            yield _join(found, sources, columns, start)
            start += len(found[0])

    def read(self, columns: Sequence[str]) -> pa.Table:
        """The named columns, all rows."""
        batches = list(self.batches(columns))
        return pa.Table.from_batches(batches) if batches else pa.table({c: pa.nulls(0) for c in columns})

    def _names(self, path: str) -> list[str]:
        names = column_names(path)
        if self.of_img2dataset and path == self.parquet and "text" not in names:
            return ["text" if n == "caption" else n for n in names]
        return names


def _join(parts: Sequence[pa.RecordBatch], sources: Sequence[_Source], columns: Sequence[str], start: int) -> pa.RecordBatch:
    if len(parts) == 1 and parts[0].schema.names == list(columns):
        return parts[0]
    uids = parts[0]["uid"] if "uid" in parts[0].schema.names else None
    found = {}
    for part, source in zip(parts, sources, strict=True):
        for name in part.schema.names:
            if name != "uid":
                found[name] = part[name]
            elif part is not parts[0] and not part["uid"].equals(uids):
                raise InputError(
                    f"rows {start} to {start + len(part)}: other uids than the metadata's",
                    where=source.path,
                    expected="the rows of the metadata, in its order",
                )
    if uids is not None:
        found["uid"] = uids
    return pa.RecordBatch.from_arrays([found[c] for c in columns], names=list(columns))


class _Source:
    """One file that gives columns, read in batches of a fixed number of rows."""

    def __init__(self, path: str, names: list[str], batch_rows: int, metadata: bool, successes: bool) -> None:
        self.path, self.names, self.batch_rows, self.metadata, self.successes = path, names, batch_rows, metadata, successes
        if path.endswith(".npz"):
            rows = {name: npz.header(path, name).rows for name in names}
            self.rows = rows[names[0]]
            if other := [name for name in names if rows[name] != self.rows]:
                raise InputError(
                    f"{self.rows} rows of {names[0]}, {rows[other[0]]} of {other[0]}", where=path, expected="as many of each"
                )
        else:
            self.rows = int(_metadata(path).num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.path.endswith(".npz"):
            yield from self._slices()
            return
        there = column_names(self.path)
        names = self.names if self.metadata else list(dict.fromkeys([*(["uid"] if "uid" in there else []), *self.names]))
        with store.open_input(self.path) as f:
            file = pq.ParquetFile(f, metadata=_metadata(self.path))
            found = (
                _successes(file, names, self.batch_rows)
                if self.successes
                else file.iter_batches(self.batch_rows, columns=names, use_threads=False)
            )
            yield from _rechunk(found, self.batch_rows)

    def _slices(self) -> Iterator[pa.RecordBatch]:
        for parts in zip(*(npz.blocks(self.path, name, self.batch_rows) for name in self.names), strict=True):
            yield pa.RecordBatch.from_arrays([_as_arrow(a) for a in parts], names=self.names)


def _successes(file: pq.ParquetFile, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of img2dataset's parquet that have an image, its caption as text."""
    there = file.schema_arrow.names
    source = {n: "caption" if n == "text" and n not in there else n for n in names}
    for batch in file.iter_batches(rows, columns=list(dict.fromkeys([*source.values(), "status"]))):
        good = batch.filter(_succeeded(batch))
        yield pa.RecordBatch.from_arrays([good[c] for c in source.values()], names=names)


def _succeeded(table: pa.Table | pa.RecordBatch) -> pa.Array:
    return pc.fill_null(pc.equal(table["status"], Status.SUCCESS.value), False)


def _as_arrow(array: np.ndarray[Any, np.dtype[Any]]) -> pa.Array:
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1)
    # Of numbers without `pa.array`, which imports pandas.
    numeric = flat.dtype.kind in "iuf"
    values = (
        pa.Array.from_buffers(pa.from_numpy_dtype(flat.dtype), len(flat), [None, pa.py_buffer(flat)])
        if numeric
        else pa.array(flat)
    )
    return values if array.ndim == 1 else pa.FixedSizeListArray.from_arrays(values, array.shape[1])


def _npz_type(header: npz.Header) -> pa.DataType:
    kind = pa.array(np.empty(0, header.dtype.newbyteorder("="))).type
    return kind if len(header.shape) == 1 else pa.list_(kind, header.shape[1])


def _rechunk(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows` (the last may be shorter): row groups cut them anywhere."""
    waiting: list[pa.RecordBatch] = []
    have = 0
    for batch in batches:
        while len(batch):
            take = batch.slice(0, rows - have)
            waiting.append(take)
            have += len(take)
            batch = batch.slice(len(take))
            if have == rows:
                yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)  # which copies
                waiting, have = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def column_names(path: str) -> list[str]:
    """Names of the columns of a parquet file, or of the arrays of an `.npz`."""
    return npz.names(path) if path.endswith(".npz") else list(_metadata(path).schema.to_arrow_schema().names)


def _metadata(path: str) -> pq.FileMetaData:
    """What the end of a parquet file says; read once of a file on this machine, as long as it does not change."""
    if not store.is_local(path):
        return _read_metadata(path)
    stat = Path(store.local_path(path)).stat()
    return _remembered(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


@functools.lru_cache(maxsize=256)
def _remembered(path: str, size: int, changed: int, inode: int) -> pq.FileMetaData:
    return _read_metadata(path)


def _read_metadata(path: str) -> pq.FileMetaData:
    try:
        with store.open_input(path) as f:
            return pq.ParquetFile(f).metadata
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e
