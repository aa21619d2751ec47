"""Text files brought into parquet, once and for all, so that any shard's rows can be read without what precedes them.

Two passes over blocks of the files: the first finds the kinds of all columns, the second writes the rows. What is no row
becomes one without url and text, whose uid is the MD5 of its bytes and whose `source_error` says why: the download gives
it the reason bad_url, so the number of rows is the number of lines that somebody wrote.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.download.sources import texts, value_types
from pipeline.download.sources.columns import Columns
from pipeline.download.sources.files import Named
from pipeline.download.sources.value_types import Kinds
from pipeline.lease import Held, Lease
from pipeline.progress import Progress
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST, Outcome, Run, digest_of

if TYPE_CHECKING:
    from pipeline.engine import Options, Unit

VERSION = 1
ERROR = "source_error"  # why a row of the source could not be read
BATCH_ROWS = 8192
MAX_COLUMNS = 1000
_NAMED = 20  # bad rows that are named; all of them are rows with a `source_error`
_PEEK = 1000
_POLL = 1.0  # seconds between looks at what another part prepares
_PARSED = ("csv", "tsv")
Row = dict[str, Any]


@dataclass(frozen=True)
class Staged:
    """Parquet files with the rows of the texts, in order; the first of the bad rows by name; counts, damaged files."""

    paths: list[str]
    unreadable: tuple[str, ...]
    found: Outcome


def stage(named: list[Named], columns: Columns, scratch: str, options: Options | None) -> Staged:
    """Brings the files into parquet below `scratch`. Nothing is done twice.

    Raises InputError if a file lacks the columns, or for parquet among texts.
    """
    from pipeline import engine

    if mixed := [file.path for file in named if file.form == "parquet"]:
        raise InputError("parquet among text files", where=mixed[0], expected="one or the other")
    for file in named:
        # Before whole files are read for nothing.
        if file.form != "txt" and (there := names_of(file)):
            columns.names(there, where=file.path)
    given = options or engine.Options()
    identity = [[f.path, f.digest] for f in named], columns.identity(), texts.BLOCK
    root = store.join(scratch, "source", digest_of([VERSION, *identity])[:16])
    units = [
        engine.Unit(_name(f, i), f"{block.start}-{block.stop}", (block, f.form in _PARSED))
        for f in named
        for i, block in enumerate(texts.blocks(f))
    ]
    inputs = tuple(file.digest for file in named)
    scan = Run(store.join(root, "kinds"), "read source", VERSION, {"columns": columns.identity()}, inputs)
    with alone(root, given, scan.stage) as options:
        done = engine.run(scan, units, functools.partial(_scan, columns=columns, output=scan.output), options)
        found: Kinds = {}
        unreadable: list[str] = []
        for unit in units:
            seen = store.read_json(store.join(scan.output, unit.name + ".json"))
            value_types.merge(found, seen["kinds"])
            unreadable += seen["unreadable"][: _NAMED - len(unreadable)]
        write = Run(store.join(root, "rows"), "prepare source", VERSION, {"kinds": list(found.items())}, inputs)
        work = functools.partial(_write, columns=columns, found=found, output=write.output)
        engine.run(write, units, work, options)
    bad = done.counts.get("unreadable_rows", 0)
    paths = [store.join(write.output, unit.name + ".parquet") for unit in units]
    return Staged(paths, tuple(unreadable), Outcome({"unreadable_rows": bad} if bad else {}, done.problems))


@contextlib.contextmanager
def alone(folder: str, given: Options, stage: str) -> Iterator[Options]:
    """A block in which this process alone prepares a folder, unless that is done already; gives the options to do so.

    The work is done whole and never anew, since the folder's name tells what is in it. Of the parts of a job the first to
    come does it, and the others wait. Raises InputError if another job does it.
    """
    options = replace(given, overwrite=False, part=(0, 1))
    lease = Lease(folder)
    waiting = False
    while not store.exists(store.join(folder, "rows", MANIFEST)):
        try:
            lease.take()
        except Held:
            if given.part[1] == 1:
                raise
            if not waiting:
                Progress.note(f"download: another part does `{stage}`, this one waits for it", quiet=given.quiet)
            waiting = True
            time.sleep(_POLL)
            continue
        try:
            Progress.note(f"download: {stage}, once", quiet=given.quiet)
            yield options
        finally:
            lease.release()
        return
    yield replace(options, quiet=True)


def _name(file: Named, block: int) -> str:
    return f"{file.stem}.{file.form}-{block:06d}"


def names_of(file: Named) -> list[str]:
    """The columns of a text file; of JSON those of its first rows."""
    if file.form == "txt":
        return ["url"]
    if file.form in _PARSED:
        return list(texts.head(file)[0])
    there: dict[str, None] = {}
    rows = 0
    first = replace(texts.blocks(file)[0], stop=None)
    for row in texts.read(first):
        if not isinstance(row, texts.Bad):
            there |= dict.fromkeys(row)
            rows += 1
        if rows == _PEEK:
            break
    return list(there)


def _rows(block: texts.Block, columns: Columns) -> Iterator[tuple[Row, str | None, bool]]:
    """Each row under the names that rows come out under, what is wrong with it, whether the file ends there."""
    if block.form == "txt":
        columns = Columns()
    names: dict[str, str] = {}
    same = False
    for row in texts.read(block):
        if isinstance(row, texts.Bad):
            yield _bad(row.raw, row.why), row.why, row.ends
            continue
        if not row.keys() <= names.keys():
            names = _names({**dict.fromkeys(names), **dict.fromkeys(row)}, columns)
            same = all(name == out for name, out in names.items())
        out = row if same else {names[name]: value for name, value in row.items()}
        wrong = _wrong(out)
        if wrong is not None:
            out = {**_bad(repr(row).encode("utf-8", "replace"), wrong), **{k: v for k, v in out.items() if k not in _OWN}}
        yield out, wrong, False


_OWN = ("uid", "url", "text", value_types.BOXES)


def _bad(raw: bytes, why: str) -> Row:
    return {"uid": hashlib.md5(raw, usedforsecurity=False).hexdigest(), "url": None, "text": None, ERROR: why}


def _names(there: dict[str, None], columns: Columns) -> dict[str, str]:
    """As `Columns.names`, for rows that may lack any column."""
    if len(there) > MAX_COLUMNS:
        raise InputError(f"more than {MAX_COLUMNS} columns", where=next(iter(there)), expected="the same keys in each row")
    asked = [c for c in (columns.url, columns.text, columns.uid, columns.sha256, columns.boxes) if c and c not in there]
    names = columns.names([*there, *asked], where="a row")
    return {name: names[name] for name in there}


def _wrong(row: Row) -> str | None:
    url = row.get("url")
    if not isinstance(url, str) and url is not None:
        return f"the url is a {type(url).__name__}"
    if value_types.BOXES in row:
        try:
            value_types.boxes(row[value_types.BOXES] or None)
        except ValueError as e:
            return str(e)
    return None


def _scan(unit: Unit, *, columns: Columns, output: str) -> Outcome:
    """First pass: the kinds of the block's columns. Counts rows and those that are none."""
    block, parse = unit.args
    found: Kinds = {"url": "text", "text": "text"}
    rows = bad = 0
    unreadable: list[str] = []
    damaged: list[str] = []
    for row, wrong, ends in _rows(block, columns):
        rows += 1
        for name, value in row.items():
            if found.get(name) not in ("text", "boxes"):  # which no value makes wider
                value_types.merge(found, {name: value_types.kind_of(name, value, parse=parse)})
        if wrong is not None:
            bad += 1
            (damaged if ends else unreadable).append(f"{block.path}: {wrong}")
            del unreadable[_NAMED:]
    store.write_json(store.join(output, unit.name + ".json"), {"kinds": found, "unreadable": unreadable})
    return Outcome({"rows": rows, **({"unreadable_rows": bad} if bad else {})}, tuple(damaged))


def _write(unit: Unit, *, columns: Columns, found: Kinds, output: str) -> Outcome:
    """Second pass: the block's rows as parquet."""
    block, parse = unit.args
    schema = value_types.schema(found)
    batch: list[Row] = []
    rows = 0
    with store.atomic(store.join(output, unit.name + ".parquet")) as f, pq.ParquetWriter(f, schema, compression="zstd") as out:
        for row, _, _ in _rows(block, columns):
            batch.append(row)
            rows += 1
            if len(batch) == BATCH_ROWS:
                out.write_table(_table(batch, found, schema, parse))
                batch = []
        if batch or not rows:
            out.write_table(_table(batch, found, schema, parse))
    return Outcome({"rows": rows})


def _table(batch: list[Row], found: Kinds, schema: pa.Schema, parse: bool) -> pa.Table:
    arrays = [value_types.column(name, kind, [row.get(name) for row in batch], parse=parse) for name, kind in found.items()]
    return pa.Table.from_arrays(arrays, schema=schema)
