"""Reading a pool: its files, which family of columns lies where, and batches of aligned rows.

A pool is a folder with `metadata/` (and, as they come, `annotations/` and `shards/`), or a bare folder of parquet files:
candidates, published metadata, or what img2dataset made, tars and parquet side by side. Of img2dataset's parquet, which has
a row for every url it tried, the successes are the pool's rows, and its `caption` is the pool's `text`.
The stem of a file is its path below the metadata folder without `.parquet`. Columns come from three kinds of file with
the same stem and the same rows: the metadata itself, arrays in a `.npz` beside it (as CommonPool has them), and
`annotations/<name>/<stem>.parquet` with an optional `.npz`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pools import store
from pools.errors import InputError
from pools.schema import Status

BATCH_ROWS = 8192


@dataclass(frozen=True)
class Pool:
    """A pool on disk, opened with `Pool.open`."""

    root: str
    metadata: str  # the folder with the metadata files
    stems: tuple[str, ...]
    annotations: tuple[str, ...] = field(default=())  # names of the annotation families
    of_img2dataset: bool = False  # whether the metadata files have a row for failures too

    @classmethod
    def open(cls, root: str) -> Pool:
        """Lists a pool. Raises InputError if there is none, or if it has no metadata file."""
        root = root.rstrip("/") or root
        if not store.is_dir(root):
            raise InputError("no such folder", where=root, expected="a pool: a folder with metadata/, or of parquet files")
        metadata = store.join(root, "metadata")
        bare = not store.is_dir(metadata)
        metadata = root if bare else metadata
        found = [p.removesuffix(".parquet") for p in store.list_files(metadata, ".parquet")]
        stems = [s for s in found if not (bare and s.split("/")[0] in ("annotations", "shards"))]
        if not stems:
            raise InputError(
                "the pool is empty: no .parquet file", where=metadata, expected="one metadata file (.parquet) or more"
            )
        folder = store.join(root, "annotations")
        names = sorted({p.split("/")[0] for p in store.list_files(folder)}) if store.is_dir(folder) else []
        tars = bare and any("/" not in t for t in store.list_files(root, ".tar"))
        return cls(
            root,
            metadata,
            tuple(stems),
            tuple(names),
            tars and "status" in _column_names(store.join(root, stems[0] + ".parquet")),
        )

    @property
    def shards(self) -> str:
        """The folder with the images: `<stem>.tar`."""
        return self.root if self.of_img2dataset else store.join(self.root, "shards")

    def parquet(self, stem: str) -> str:
        return store.join(self.metadata, stem + ".parquet")

    def digest(self, stem: str) -> str:
        """Identity of one unit: digests of each file that holds columns of it."""
        return " ".join(store.digest(f, self.root) for f in self._files(stem))

    def rows(self, stem: str) -> int:
        path = self.parquet(stem)
        if not self.of_img2dataset:
            return int(_metadata(path).num_rows)
        with store.open_input(path) as f:
            return pc.sum(_succeeded(pq.ParquetFile(f).read(columns=["status"]))).as_py() or 0

    def columns(self, stem: str) -> dict[str, str]:
        """Where each column of one unit comes from: {column: path of the file}. `uid` comes from the metadata.

        Raises InputError if two families have one column.
        """
        where: dict[str, str] = {}
        for path in self._files(stem):
            for name in self._names(path, stem):
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

    def require(self, columns: Sequence[str]) -> None:
        """Raises InputError unless every unit has every column, naming the first file that lacks one."""
        for stem in self.stems:
            have = self.columns(stem)
            if missing := [c for c in columns if c not in have]:
                raise InputError(
                    f"no column {missing[0]!r}",
                    where=self.parquet(stem),
                    expected=f"one of {', '.join(sorted(have))}",
                    fix=f"`winnow annotate {self.root} …` adds scores and features; check the recipe's spelling",
                )

    def batches(self, stem: str, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The named columns of one unit in batches of `rows`; arrays (n, d) come as fixed-size lists of d.

        Raises InputError if a family's rows are not those of the metadata.
        """
        where = self.columns(stem)
        wanted: dict[str, list[str]] = {self.parquet(stem): ["uid"]}
        for name in columns:
            if name != "uid":
                wanted.setdefault(where[name], []).append(name)
        metadata = self.parquet(stem)
        sources = [_Source(p, names, rows, self.of_img2dataset and p == metadata) for p, names in wanted.items()]
        total = self.rows(stem)
        for source in sources[1:]:  # the first is the metadata
            if source.rows != total:
                raise InputError(
                    f"{source.rows} rows, the metadata has {total}", where=source.path, expected="the rows of the metadata"
                )
        start = 0
        for parts in zip(*(s.batches() for s in sources), strict=True):
            yield self._join(parts, sources, columns, start)
            start += len(parts[0])

    def read(self, stem: str, columns: Sequence[str]) -> pa.Table:
        """The named columns of one unit, all rows."""
        batches = list(self.batches(stem, columns))
        return pa.Table.from_batches(batches) if batches else pa.table({c: pa.nulls(0) for c in columns})

    def _join(
        self, parts: Sequence[pa.RecordBatch], sources: Sequence[_Source], columns: Sequence[str], start: int
    ) -> pa.RecordBatch:
        uids = parts[0]["uid"]
        found = {}
        for part, source in zip(parts, sources, strict=True):
            for name in part.schema.names:
                if name != "uid":
                    found[name] = part[name]
                elif part is not parts[0] and not part["uid"].equals(uids):
                    raise InputError(
                        f"rows {start} to {start + len(uids)}: other uids than the metadata's",
                        where=source.path,
                        expected="the rows of the metadata, in its order",
                    )
        found["uid"] = uids
        return pa.RecordBatch.from_arrays([found[c] for c in columns], names=list(columns))

    def _names(self, path: str, stem: str) -> list[str]:
        names = _column_names(path)
        if self.of_img2dataset and path == self.parquet(stem) and "text" not in names:
            return ["text" if n == "caption" else n for n in names]
        return names

    def _files(self, stem: str) -> list[str]:
        known = self._known_files
        candidates = [store.join(self.metadata, stem)]
        candidates += [store.join(self.root, "annotations", a, stem) for a in self.annotations]
        return [c + ext for c in candidates for ext in (".parquet", ".npz") if c + ext in known]

    @cached_property
    def _known_files(self) -> frozenset[str]:
        folders = {self.metadata} | ({store.join(self.root, "annotations")} if self.annotations else set())
        return frozenset(store.join(d, f) for d in folders for f in store.list_files(d))


class _Source:
    """One file that gives columns, read in batches of a fixed number of rows."""

    def __init__(self, path: str, names: list[str], batch_rows: int, successes: bool = False) -> None:
        self.path, self.names, self.batch_rows, self.successes = path, names, batch_rows, successes
        if path.endswith(".npz"):
            self.arrays = _load_npz(path, names)
            self.rows = min((len(a) for a in self.arrays.values()), default=0)
        else:
            self.rows = int(_metadata(path).num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.path.endswith(".npz"):
            yield from self._slices()
            return
        there = _column_names(self.path)
        names = list(dict.fromkeys([*(["uid"] if "uid" in there else []), *self.names]))
        with store.open_input(self.path) as f:
            file = pq.ParquetFile(f)
            found = (
                _successes(file, names, self.batch_rows)
                if self.successes
                else file.iter_batches(self.batch_rows, columns=names)
            )
            yield from _rechunk(found, self.batch_rows)

    def _slices(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, self.rows, self.batch_rows):
            parts = {n: a[start : start + self.batch_rows] for n, a in self.arrays.items()}
            yield pa.RecordBatch.from_arrays([_as_arrow(a) for a in parts.values()], names=list(parts))


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
    if array.ndim == 1:
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])


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
                yield pa.concat_batches(waiting)
                waiting, have = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _column_names(path: str) -> list[str]:
    if not path.endswith(".npz"):
        return list(_metadata(path).schema.to_arrow_schema().names)
    try:
        with store.open_input(path) as f, zipfile.ZipFile(f) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist()]
    except zipfile.BadZipFile as e:
        raise InputError(f"unreadable: {e}", where=path, expected="arrays saved with numpy.savez") from e


def _load_npz(path: str, names: list[str]) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    with store.open_input(path) as f, np.load(f, allow_pickle=False) as arrays:
        return {n: arrays[n] for n in names}


def _metadata(path: str) -> pq.FileMetaData:
    try:
        with store.open_input(path) as f:
            return pq.ParquetFile(f).metadata
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e
