"""The rows to download: candidates or published metadata, cut into shards, and the columns of what becomes of them."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.part import BATCH_ROWS
from pools.schema import METADATA, STATUS

Row = dict[str, Any]
# A key becomes a file name in a USTAR archive: no dot (it would start the extension), no folder, at most 100 bytes.
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")
_SAME = ("uid", "url", "text")  # columns that mean the same in the input and in the output
_OURS = frozenset({c.name for t in (STATUS, METADATA) for c in t.columns} - set(_SAME))


@dataclass(frozen=True)
class Span:
    """Rows `start` to `stop` of one file."""

    path: str
    start: int
    stop: int


@dataclass(frozen=True)
class Source:
    """The input of a download: its files in order with their rows, and the columns of all of them."""

    files: tuple[tuple[str, int], ...]
    schema: pa.Schema

    @classmethod
    def open(cls, candidates: str) -> Source:
        """Reads the footers. Raises InputError for an absent or unreadable file, or one without `url` and `text`."""
        if store.is_dir(candidates):
            pool = Pool.open(candidates)
            paths = [part.parquet for part in pool.parts]
        elif store.exists(candidates):
            paths = [candidates]
        else:
            raise InputError("no such file or folder", where=candidates, expected="candidates: parquet, or a folder of it")
        footers = [_footer(path) for path in paths]
        try:
            schema = pa.unify_schemas(
                [f.schema.to_arrow_schema().remove_metadata() for f in footers], promote_options="permissive"
            )
        except (pa.ArrowTypeError, pa.ArrowInvalid) as e:
            raise InputError(f"the files' columns differ in type: {e}", where=candidates, expected="one type a column") from e
        return cls(tuple((p, f.num_rows) for p, f in zip(paths, footers, strict=True)), schema)

    def shards(self, rows: int) -> list[tuple[Span, ...]]:
        """All rows in order, cut into shards of `rows`; a shard may span files."""
        total = sum(n for _, n in self.files)
        shards: list[list[Span]] = [[] for _ in range(math.ceil(total / rows))]
        first = 0  # number of the file's first row among all
        for path, count in self.files:
            at = 0
            while at < count:
                index, used = divmod(first + at, rows)
                stop = min(count, at + rows - used)
                shards[index].append(Span(path, at, stop))
                at = stop
            first += count
        return [tuple(s) for s in shards]


def _footer(path: str) -> pq.FileMetaData:
    try:
        with store.open_input(path) as f:
            footer = pq.ParquetFile(f).metadata
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e
    columns = footer.schema.to_arrow_schema()
    for name in ("url", "text", "uid"):
        if name not in columns.names:
            if name == "uid":
                continue
            raise InputError(
                f"no column {name!r}",
                where=path,
                expected=f"url and text; it has {', '.join(columns.names)}",
                fix="rename the columns with the image's address and its caption to `url` and `text`",
            )
        if not (pa.types.is_string(columns.field(name).type) or pa.types.is_large_string(columns.field(name).type)):
            raise InputError(f"column {name!r} is {columns.field(name).type}", where=path, expected="strings")
    return footer


def read(parts: tuple[Span, ...], schema: pa.Schema) -> pa.Table:
    """One shard's rows under the columns of the whole input."""
    tables = [schema.empty_table(), *(t for part in parts for t in _read_part(part))]
    return pa.concat_tables(tables, promote_options="permissive").select(schema.names).cast(schema)


def _read_part(part: Span) -> Iterator[pa.Table]:
    with store.open_input(part.path) as f:
        file = pq.ParquetFile(f)
        counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        starts = list(itertools.accumulate(counts, initial=0))
        groups = [g for g, n in enumerate(counts) if starts[g] < part.stop and part.start < starts[g] + n]
        first = starts[groups[0]] if groups else part.stop
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups):
            start, stop = max(part.start - first, 0), min(part.stop - first, len(batch))
            if start < stop:
                yield pa.Table.from_batches([batch.slice(start, stop - start)]).replace_schema_metadata(None)
            first += len(batch)
            if first >= part.stop:
                return


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
