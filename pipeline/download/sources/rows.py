"""The rows to download, cut into shards, and the columns of what becomes of them."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.download.sources import files, staging, wanted
from pipeline.download.sources.columns import Columns
from pools import store, uids
from pools.errors import InputError
from pools.manifest import Outcome
from pools.part import BATCH_ROWS
from pools.schema import METADATA, STATUS

if TYPE_CHECKING:
    from pipeline.engine import Options

Row = dict[str, Any]
# A key becomes a file name in a USTAR archive: no dot (it would start the extension), no folder, at most 100 bytes.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")
_SAME = ("uid", "url", "text")  # columns that mean the same in the input and in the output
_OURS = frozenset({c.name for t in (STATUS, METADATA) for c in t.columns} - set(_SAME))


@dataclass(frozen=True)
class Span:
    """Rows `start` to `stop` of one parquet file; with `picks` of those rows whose numbers that file lists (`.npy`)."""

    path: str
    start: int
    stop: int
    columns: Columns = field(default_factory=Columns)
    picks: str | None = None


@dataclass(frozen=True)
class Source:
    """The input of a download: its parquet files in order with the rows to take, and the columns of all of them.

    `schema` has the names that rows come out under. `inputs` identifies what the user named: digests of the files, the
    columns, the uid list. `found` counts what was met on the way (asked for and missing uids, unreadable rows), its
    problems name damaged files; `unreadable` names the first of the rows that are none.
    """

    files: tuple[tuple[str, int], ...]
    schema: pa.Schema
    columns: Columns = field(default_factory=Columns)
    picks: tuple[str, ...] = ()  # of each file, where only some rows are wanted
    inputs: tuple[str, ...] = ()
    found: Outcome = field(default_factory=Outcome)
    unreadable: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        candidates: str,
        columns: Columns | None = None,
        *,
        uids: str | None = None,
        scratch: str | None = None,
        options: Options | None = None,
    ) -> Source:
        """Opens what `files.find` knows: of parquet the footers are read, other forms are brought into parquet first.

        That, and finding the rows of a uid list, is work done once, by the engine that `options` describe, into a folder
        of its own below `scratch`: POOL/.winnow. Raises InputError for an absent or unreadable file, one without the
        columns, and a uid list that is none.
        """
        columns = columns or Columns()
        named = files.find(candidates)
        inputs = [file.digest for file in named]
        if columns != Columns():
            inputs += columns.identity()
        unreadable: tuple[str, ...] = ()
        found, paths = Outcome(), [file.path for file in named]
        if any(file.form != "parquet" for file in named):
            staged = staging.stage(named, columns, _scratch(scratch), options)
            paths, found, unreadable = staged.paths, staged.found, staged.unreadable
            columns = Columns(text=columns.text and "text")
        footers = [_footer(path, columns) for path in paths]
        source = cls(
            tuple((p, f.num_rows) for p, f in zip(paths, footers, strict=True)),
            _schema(footers, paths, columns, candidates),
            columns,
            inputs=tuple(inputs),
            found=found,
            unreadable=unreadable,
        )
        return source if uids is None else source._only(uids, _scratch(scratch), options)

    def _only(self, uid_list: str, scratch: str, options: Options | None) -> Source:
        chosen = wanted.choose(self.files, self.columns, uid_list, self.inputs, scratch, options)
        return replace(
            self,
            files=tuple((path, n) for (path, _), n in zip(self.files, chosen.rows, strict=True)),
            picks=chosen.picks,
            inputs=(*self.inputs, f"uids:{chosen.digest}"),
            found=self.found + chosen.found,
        )

    @property
    def rows(self) -> int:
        return sum(n for _, n in self.files)

    def shards(self, rows: int) -> list[tuple[Span, ...]]:
        """All rows in order, cut into shards of `rows`; a shard may span files."""
        shards: list[list[Span]] = [[] for _ in range(math.ceil(self.rows / rows))]
        first = 0  # number of the file's first row among all
        for (path, count), picks in itertools.zip_longest(self.files, self.picks):
            at = 0
            while at < count:
                index, used = divmod(first + at, rows)
                stop = min(count, at + rows - used)
                shards[index].append(Span(path, at, stop, self.columns, picks))
                at = stop
            first += count
        return [tuple(s) for s in shards]


def _scratch(folder: str | None) -> str:
    if folder is None:
        raise InputError("there is no folder to prepare this source in", expected="candidates in parquet, and no uid list")
    return folder


def _schema(footers: list[pq.FileMetaData], paths: list[str], columns: Columns, where: str) -> pa.Schema:
    schemas = [
        _renamed(f.schema.to_arrow_schema().remove_metadata(), columns, path) for f, path in zip(footers, paths, strict=True)
    ]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as e:
        raise InputError(f"the files' columns differ in type: {e}", where=where, expected="one type a column") from e


def _renamed(schema: pa.Schema, columns: Columns, path: str) -> pa.Schema:
    names = columns.names(schema.names, where=path)
    fields = [f.with_name(names[f.name]) for f in schema]
    if "text" not in names.values():
        fields.append(pa.field("text", pa.string()))
    return pa.schema([f.with_type(pa.string()) if f.type == pa.null() and f.name in (*_SAME, "sha256") else f for f in fields])


def _footer(path: str, columns: Columns) -> pq.FileMetaData:
    try:
        with store.open_input(path) as f:
            footer = pq.ParquetFile(f).metadata
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e
    columns.check(footer.schema.to_arrow_schema(), where=path)
    return footer


def read(parts: tuple[Span, ...], schema: pa.Schema) -> pa.Table:
    """One shard's rows under the columns of the whole input."""
    tables = [schema.empty_table(), *(t for part in parts for t in tables_of(part))]
    return pa.concat_tables(tables, promote_options="permissive").select(schema.names).cast(schema)


def tables_of(part: Span) -> Iterator[pa.Table]:
    """The part's rows, batch by batch; of the file only those row groups are read that hold some."""
    numbers = np.arange(part.start, part.stop) if part.picks is None else wanted.picked(part.picks, part.start, part.stop)
    with store.open_input(part.path) as f:
        file = pq.ParquetFile(f)
        names = part.columns.names(file.schema_arrow.names, where=part.path)
        first = 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(numbers, [first, first + count])
            if low < high:
                for batch, row in _batches(file, group, first):
                    mine = numbers[low:high]
                    inside = mine[(mine >= row) & (mine < row + len(batch))] - row
                    if len(inside):
                        yield _table(batch, inside, part, names)
            first += count


def _batches(file: pq.ParquetFile, group: int, first: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The batches of a row group, each with the number of its first row."""
    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group]):
        yield batch, first
        first += len(batch)


def _table(batch: pa.RecordBatch, rows: np.ndarray[Any, np.dtype[np.int64]], part: Span, names: dict[str, str]) -> pa.Table:
    whole = rows[-1] - rows[0] + 1 == len(rows)
    taken = batch.slice(int(rows[0]), len(rows)) if whole else batch.take(pa.array(rows))
    table = pa.Table.from_batches([taken]).replace_schema_metadata(None).rename_columns(list(names.values()))
    return table if "text" in table.schema.names else table.append_column("text", pa.nulls(len(table), pa.string()))


def with_uids(rows: list[Row]) -> list[Row]:
    """The same rows, each with a uid: its own as it is, else the MD5 of its text and url."""
    return [{**r, "uid": r.get("uid") or uids.new(r["url"] or "", r["text"] or "")} for r in rows]


def keys(shard_uids: list[str]) -> list[str]:
    """Names of the samples in the tar, all different: the uid, `<uid>-<n>` for its n-th repeat.

    A uid that cannot be a file name gives its MD5.
    """
    taken: set[str] = set()
    found = []
    for uid in shard_uids:
        base = uid if _PLAIN_KEY.fullmatch(uid) else hashlib.md5(uid.encode(), usedforsecurity=False).hexdigest()
        key, n = base, 0
        while key in taken:
            n += 1
            key = f"{base}-{n}"
        taken.add(key)
        found.append(key)
    return found


def carried(schema: pa.Schema) -> dict[str, str]:
    """Input columns that stand in the output besides its own: {name here: name there}.

    One whose name the output uses for what it finds (`sha256`, `original_width`, …) is kept as `input_<name>`.
    """
    names: dict[str, str] = {}
    used = {*_OURS, *schema.names}
    for name in schema.names:
        if name in _SAME:
            continue
        there = name
        while there in _OURS or (there != name and there in used):
            there = f"input_{there}"
        names[name] = there
        used.add(there)
    return names
