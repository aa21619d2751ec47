"""Scores of one's own → a column family of a pool: joined by uid, null where there are none."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.annotate.plan import check_name, open_pool
from pipeline.annotate.sorted_scores import SortedScores
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run, digest_of, winnow_version
from pools.part import Part

STAGE = "annotate --from"
VERSION = 1
NO_SCORE, NULL_SCORE = "no_score", "null_score"
_BATCH = 1 << 16
_ROWS_A_MEGABYTE = 20_000  # of a csv, to tell how many there may be
_EXPECTED = "a table with a column uid: .parquet, .csv, or .npz of arrays of equal length"


def join(pool: str, source: str, name: str, *, options: engine.Options) -> Outcome:
    """Writes `annotations/<name>/<stem>.parquet` with the source's columns for each metadata file.

    A row whose uid is not in the source has nulls and the reason no_score; one that has nothing but nulls there, null_score.
    Count besides: unknown_uids, those of the source that the pool has not. Raises InputError for a uid that stands twice with
    different values, and for columns that exist already. Memory is bounded, also for sources that are larger.
    """
    check_name(name)
    if options.engine != "local":
        raise InputError("scores are joined on this machine", where=f"--engine {options.engine}", expected="local")
    options = replace(options, workers=options.workers or 0)
    opened, schema = open_pool(pool).without(name), _schema(source)
    _check_columns(opened, schema, name, source)
    header = {"source": store.name(source), "source_sha256": store.sha256(source), "columns": _types(schema)}
    run = Run(store.join(opened.root, "annotations", name), STAGE, VERSION, {"name": name, **header})
    units = [engine.Unit(part.stem, part.digest([]), (part,)) for part in opened.parts]
    if (before := engine.recall(run, options, digest_of([[u.name, u.inputs] for u in units]))) is not None:
        return before
    with TemporaryDirectory(prefix="winnow-scores-") as folder:
        scores = SortedScores.build(_batches(source, schema), schema, _rows(source), folder, source)
        work = functools.partial(_annotate, scores=scores, output=run.output, name=name, header=header)
        finish = functools.partial(_finished, opened, scores)
        return engine.run(run, units, work, options, finish)


def _annotate(unit: engine.Unit, *, scores: SortedScores, output: str, name: str, header: Mapping[str, Any]) -> Outcome:
    part: Part
    (part,) = unit.args
    table = part.read(["uid"])
    values, found = scores.take(uids.pack(table["uid"], where=part.parquet))
    null = np.ones(len(table), bool)
    for column in values.columns:
        null &= column.is_null().to_numpy()
    reasons = np.where(found, np.where(null, NULL_SCORE, None), NO_SCORE)  # type: ignore[call-overload]
    columns = {"uid": table["uid"].cast(pa.string())} | {n: values[n] for n in values.column_names}
    columns[f"{name}_reason"] = pa.array(reasons.tolist(), pa.string())
    said = {"winnow": json.dumps({**header, "winnow": winnow_version()}, sort_keys=True, ensure_ascii=False)}
    with store.atomic(store.join(output, unit.name + ".parquet")) as f:
        pq.write_table(pa.table(columns).replace_schema_metadata(said), f)
    failed = {f"failed:{why}": int((reasons == why).sum()) for why in (NO_SCORE, NULL_SCORE)}
    return Outcome({"in": len(table), "kept": int((found & ~null).sum()), **{k: v for k, v in failed.items() if v}})


def _finished(pool: Pool, scores: SortedScores, total: Outcome) -> Outcome:
    """The counts, with that of uids which the pool has not; none that it has is a problem."""
    flags = scores.seen()
    for part in pool.parts:
        for batch in part.batches(["uid"], _BATCH):
            scores.see(uids.pack(batch["uid"], where=part.parquet), flags)
    unknown = scores.count - sum(int(seen.sum()) for seen in flags)
    problems = total.problems
    if total.counts.get("in") and not total.counts["kept"]:
        problems += (f"none of {total.counts['in']:,} rows has a score: are these the pool's uids?",)
    return Outcome({**total.counts, "unknown_uids": unknown}, problems)


def _check_columns(pool: Pool, schema: pa.Schema, name: str, source: str) -> None:
    new = [n for n in schema.names if n != "uid"]
    if "uid" not in schema.names or not new:
        raise InputError(f"columns {', '.join(schema.names)}", where=source, expected="uid and at least one more")
    reason = f"{name}_reason"
    for part in pool.parts:
        there = part.columns()
        if both := [c for c in (*new, reason) if c in there]:
            raise InputError(
                f"column {both[0]!r} exists already",
                where=there[both[0]],
                expected="new columns",
                fix=f"give it another name in {store.name(source)}",
            )
    if reason in new:
        raise InputError(f"column {reason!r} says why there is no score", where=source, expected="another name for it")


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema if field.name != "uid"}


def _form(source: str) -> str:
    form = source.lower().rpartition(".")[2]
    if not store.exists(source) or store.is_dir(source):
        raise InputError("no such file", where=source, expected=_EXPECTED)
    if form not in ("parquet", "csv", "npz"):
        raise InputError(f"unknown kind of file .{form}", where=source, expected=_EXPECTED)
    return form


def _schema(source: str) -> pa.Schema:
    form = _form(source)
    try:
        with store.open_input(source) as f:
            if form == "parquet":
                found = pq.ParquetFile(f).schema_arrow
            elif form == "csv":
                found = _csv(f).schema
            else:
                found = _npz(source).schema
    except (pa.ArrowInvalid, ValueError) as e:
        raise InputError(f"unreadable: {e}", where=source, expected=_EXPECTED) from e
    fields = [pa.field("uid", pa.string()) if field.name == "uid" else field for field in found.remove_metadata()]
    return pa.schema(fields)


def _batches(source: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    form = _form(source)
    if form == "npz":
        yield from _npz(source).cast(schema).to_batches(_BATCH)
        return
    with store.open_input(source) as f:
        found = pq.ParquetFile(f).iter_batches(_BATCH) if form == "parquet" else _csv(f)
        try:
            yield from (batch.cast(schema) for batch in found)
        except pa.ArrowInvalid as e:
            raise InputError(f"unreadable: {e}", where=source, expected=_EXPECTED) from e


def _rows(source: str) -> int:
    if _form(source) == "parquet":
        with store.open_input(source) as f:
            return int(pq.ParquetFile(f).metadata.num_rows)
    return store.size(source) * _ROWS_A_MEGABYTE >> 20


def _csv(f: IO[bytes]) -> pyarrow.csv.CSVStreamingReader:
    # Digits alone would make a number of a uid.
    return pyarrow.csv.open_csv(f, convert_options=pyarrow.csv.ConvertOptions(column_types={"uid": pa.string()}))


def _npz(source: str) -> pa.Table:
    """Arrays (n,) as columns and (n, d) as lists of d; uid as text or as records of two words."""
    with store.open_input(source) as f, np.load(f, allow_pickle=False) as arrays:
        loaded = {name: arrays[name] for name in arrays}
    columns = {}
    for name, array in loaded.items():
        if name == "uid" and array.dtype == uids.UID:
            columns[name] = uids.unpack(array)
        elif array.ndim == 2:
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])
        else:
            columns[name] = pa.array(array)
    return pa.table(columns)
