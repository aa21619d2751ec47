"""Tables of urls and captions that others published (LAION, CC12M, CC3M, CommonPool, …) → the metadata of a pool."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.download.sources import files, staging
from pipeline.download.sources.columns import Columns, likely
from pipeline.download.sources.rows import Source, Span, tables_of
from pools import store, uids
from pools.errors import InputError
from pools.manifest import Outcome, Run
from pools.part import column_names
from pools.schema import METADATA

STAGE = "pool import"
VERSION = 1
# What published tables call the sizes of an image, the likelier first.
SIZES = {"original_width": ("WIDTH", "image_width", "width"), "original_height": ("HEIGHT", "image_height", "height")}
_FIRST = ("uid", "url", "text")


def import_tables(
    source: str,
    output: str,
    *,
    columns: Columns | None = None,
    rename: Mapping[str, str] | None = None,
    options: engine.Options,
) -> Outcome:
    """Writes POOL/metadata/<stem>.parquet: uid, url, text, sizes under METADATA's names, then all other columns.

    `columns` says which is which (default: by their names), `rename` gives further columns other names. A row without a
    uid gets the MD5 of caption + url. Counts: in, kept, failed:no_url, failed:unreadable. Raises InputError for tables
    without addresses, and for uids that are not 32 hex digits.
    """
    named = files.find(source)
    columns = columns or choose_columns(source)
    told = {"columns": columns.identity(), "rename": dict(rename or {})}
    run = Run(output, STAGE, VERSION, told, tuple(file.digest for file in named))
    if (before := engine.recall(run, options)) is not None:
        return before
    there = list(dict.fromkeys(n for file in named for n in columns.names(_columns_of(file), where=file.path).values()))
    _names(there, rename or {}, source)  # before the folder is claimed for a mistake
    run.claim(overwrite=options.overwrite)
    options = replace(options, overwrite=False)
    scratch = store.join(output, ".winnow")
    opened = Source.open(source, columns, scratch=scratch, options=options)
    names = _names(opened.schema.names, rename or {}, source)
    stems = _stems(named, opened, scratch)
    units = [
        engine.Unit(stem, f"0-{count}", (Span(path, 0, count, opened.columns), path))
        for stem, (path, count) in zip(stems, opened.files, strict=True)
    ]
    work = functools.partial(_write, output=output, schema=opened.schema, names=names)

    def finish(total: Outcome) -> Outcome:
        store.remove_tree(store.join(scratch, "source"))
        return total + Outcome({}, (*opened.found.problems, *opened.unreadable))

    return engine.run(run, units, work, options, finish)


def choose_columns(
    source: str, *, url: str | None = None, text: str | None = None, no_text: bool = False, uid: str | None = None
) -> Columns:
    """What the user says, and where nothing is said the columns by the names that tables in circulation give them."""
    file = files.find(source)[0]
    there = _columns_of(file)
    url = url or likely("url", there) or "url"
    text = text or likely("text", [name for name in there if name != url]) or "text"
    return Columns(url=url, text=None if no_text or file.form == "txt" else text, uid=uid)


def _columns_of(file: files.Named) -> list[str]:
    return column_names(file.path) if file.form == "parquet" else staging.names_of(file)


def _stems(named: list[files.Named], opened: Source, scratch: str) -> list[str]:
    """Names of the metadata files: below the source for parquet; of a text its own, with a number for each of its pieces."""
    if all(file.form == "parquet" for file in named):
        return _distinct([file.stem for file in named], named)
    folder = store.join(scratch, "source")
    return [path[path.index(folder) + len(folder) :].split("/rows/", 1)[1].removesuffix(".parquet") for path, _ in opened.files]


def _distinct(stems: list[str], named: list[files.Named]) -> list[str]:
    if twice := [stem for stem, n in Counter(stems).items() if n > 1]:
        raise InputError(f"two files of the name {twice[0]!r}", where=named[stems.index(twice[0])].path)
    return stems


def _names(there: Sequence[str], rename: Mapping[str, str], where: str) -> dict[str, str]:
    """{column of the source: column of the metadata}, in the metadata's order."""
    for old, new in rename.items():
        if old not in there or old in _FIRST:
            expected = ", ".join(name for name in there if name not in _FIRST)
            raise InputError(f"no column {old!r} to rename", where=where, expected=f"one of {expected}")
        if new in there and new not in rename:
            raise InputError(f"there is a column {new!r} already", where=where, expected="a new name")
    names = {name: rename.get(name, name) for name in there}
    for ours, theirs in SIZES.items():
        if ours not in names.values():
            found = next((name for name in theirs if names.get(name) == name), None)
            if found is not None:
                names[found] = ours
    order = METADATA.schema.names
    inner = sorted(names, key=lambda name: order.index(names[name]) if names[name] in order else len(order))
    return {name: names[name] for name in inner if name != staging.ERROR}


def _write(unit: engine.Unit, *, output: str, schema: pa.Schema, names: dict[str, str]) -> Outcome:
    span, path = unit.args
    counts: Counter[str] = Counter({"in": 0, "kept": 0})
    out = _schema(schema, names)
    with (
        store.atomic(store.join(output, "metadata", unit.name + ".parquet")) as f,
        pq.ParquetWriter(f, out, compression="zstd") as writer,
    ):
        for table in _batches(span, schema):
            counts["in"] += len(table)
            good = _good(table, counts)
            counts["kept"] += len(good)
            writer.write_table(_metadata(good, names, out, path))
    return Outcome(dict(counts))


def _batches(span: Span, schema: pa.Schema) -> Iterator[pa.Table]:
    for table in tables_of(span):
        missing = [f for f in schema if f.name not in table.schema.names]
        for field in missing:
            table = table.append_column(field.name, pa.nulls(len(table), field.type))
        yield table.select(schema.names).cast(schema)


def _good(table: pa.Table, counts: Counter[str]) -> pa.Table:
    """The rows with an address; the others are counted by why they have none."""
    has = pc.fill_null(pc.greater(pc.binary_length(table["url"]), 0), False)
    broken = pc.is_valid(table[staging.ERROR]) if staging.ERROR in table.schema.names else pa.repeat(False, len(table))
    for why, rows in (("unreadable", broken), ("no_url", pc.and_not(pc.invert(has), broken))):
        if n := pc.sum(rows).as_py():
            counts[f"failed:{why}"] += n
    return table.filter(pc.and_not(has, broken))


def _schema(schema: pa.Schema, names: dict[str, str]) -> pa.Schema:
    fixed = {field.name: field.type for field in METADATA.schema}
    fields = [pa.field(new, fixed.get(new, schema.field(old).type)) for old, new in names.items()]
    return pa.schema(fields if "uid" in names.values() else [pa.field("uid", pa.string()), *fields])


def _metadata(table: pa.Table, names: dict[str, str], out: pa.Schema, path: str) -> pa.Table:
    columns: dict[str, Any] = {new: _as(table[old], out.field(new).type) for old, new in names.items()}
    columns["uid"] = _uids(table, path)
    return pa.table([columns[name] for name in out.names], schema=out)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_integer(kind) and pa.types.is_floating(column.type):
        # Sizes are fractions in tables that pandas wrote, NaN where there is none.
        column = pc.if_else(pc.is_finite(column), pc.round(column), None)
    return column.cast(kind)


def _uids(table: pa.Table, path: str) -> pa.Array:
    given = table["uid"].to_pylist() if "uid" in table.schema.names else [None] * len(table)
    pairs = zip(given, table["url"].to_pylist(), table["text"].to_pylist(), strict=True)
    found = pa.array([uid or uids.new(url, text or "") for uid, url, text in pairs], pa.string())
    uids.pack(found, where=path)
    return found
