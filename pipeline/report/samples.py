"""Some rows of a pool with all that a card shows of them; and which rows those are, where no selection says it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from filters import arrays
from pipeline.report import hostile, verdicts
from pipeline.report.verdicts import Place
from pools import store
from pools.layout import Pool
from pools.outputs import Selection
from pools.part import Part

LANGUAGES = ("language", "content_language")  # columns, the surer first
SIZES = ("original_width", "original_height")
MAX_SCORES = 8  # of a card
_TAG = re.compile(r"[A-Za-z]{2,3}(?![A-Za-z])(-[A-Za-z0-9]{2,8})*")


@dataclass(frozen=True)
class Row:
    """A row of a pool, as far as the pool has these columns."""

    place: Place
    uid: str
    text: str | None = None
    url: str | None = None
    language: str | None = None
    scores: tuple[tuple[str, float], ...] = ()
    columns: Mapping[str, Any] | None = None  # others that were asked for
    value: str | None = None  # of its verdict
    reason: str | None = None


def read_rows(
    pool: Pool | None, selection: Selection | None, places: Sequence[Place], others: Sequence[str] = ()
) -> dict[Place, Row]:
    """The rows at some places: of a pool, a selection (then without what only the pool knows), or both."""
    parts = {part.stem: part for part in pool.parts} if pool else {}
    by_stem: dict[str, list[int]] = defaultdict(list)
    for place in dict.fromkeys(places):
        by_stem[place.stem].append(place.row)
    found: dict[Place, Row] = {}
    for stem, numbers in by_stem.items():
        numbers.sort()
        read: dict[int, dict[str, Any]] = {number: {} for number in numbers}
        if stem in parts:
            _read(_of_part(parts[stem], others), numbers, read)
        if selection is not None:
            _read(_of_verdicts(selection, stem), numbers, read)
        for number, fields in read.items():
            place = Place(stem, number)
            found[place] = _row(place, fields, others)
    return found


def _read(batches: Iterator[pa.RecordBatch], numbers: Sequence[int], into: dict[int, dict[str, Any]]) -> None:
    """Adds the columns of the rows with these numbers, in order."""
    start = 0
    left = np.array(numbers)
    for batch in batches:
        here = left[(left >= start) & (left < start + len(batch))]
        if len(here):
            taken = batch.take(arrays.numbers(here - start))
            for name in taken.schema.names:
                values = hostile.texts(taken[name]) if _is_text(taken[name].type) else taken[name].to_pylist()
                for number, value in zip(here.tolist(), values, strict=True):
                    into[number][name] = value
        start += len(batch)
        if start > left[-1]:
            return


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _of_part(part: Part, others: Sequence[str]) -> Iterator[pa.RecordBatch]:
    have = part.columns()
    types = part.types(list(have))
    scores = [name for name, kind in types.items() if pa.types.is_floating(kind)]
    wanted = [c for c in ("text", "url", *LANGUAGES, *SIZES, *others) if c in have]
    return part.batches(list(dict.fromkeys(["uid", *wanted, *scores])))


def _of_verdicts(selection: Selection, stem: str) -> Iterator[pa.RecordBatch]:
    with store.open_input(selection.verdicts(stem)) as f:
        yield from pq.ParquetFile(f).iter_batches(columns=["uid", "reason", "value"], use_threads=False)


def _row(place: Place, fields: Mapping[str, Any], others: Sequence[str]) -> Row:
    scores = {
        name: float(value)
        for name, value in fields.items()
        if isinstance(value, float) or (name in SIZES and isinstance(value, int))
    }
    return Row(
        place,
        str(fields.get("uid", "")),
        fields.get("text"),
        fields.get("url"),
        _language(fields),
        tuple(scores.items())[:MAX_SCORES],
        {name: fields.get(name) for name in others if name in fields},
        fields.get("value"),
        fields.get("reason"),
    )


def _language(fields: Mapping[str, Any]) -> str | None:
    """The tag that a column has, or that the rule `language` found for the rows it dropped."""
    judged = fields.get("value") if fields.get("reason") == "language" else None
    for said in (fields.get(LANGUAGES[0]), judged, fields.get(LANGUAGES[1])):
        if isinstance(said, str) and (match := _TAG.match(said.strip())):
            return match[0]
    return None


def sampled(pool: Pool, number: int, seed: int) -> list[Place]:
    """The places of a random sample, which uids and seed decide."""
    keys, places = np.empty(0, np.uint64), list[Place]()
    for part in pool.parts if number else ():
        start = 0
        for batch in part.batches(["uid"], verdicts.BATCH):
            found = verdicts.sample_keys(batch["uid"], seed)
            near = np.argpartition(found, number - 1)[:number] if number < len(found) else np.arange(len(found))
            keys = np.concatenate([keys, found[near]])
            places += [Place(part.stem, start + int(i)) for i in near]
            order = np.argsort(keys, kind="stable")[:number]
            keys, places = keys[order], [places[i] for i in order]
            start += len(batch)
    return places


def find(pool: Pool, wanted: Sequence[str]) -> dict[str, Place]:
    """{uid: the first row that has it}."""
    values = pa.array([uid.lower() for uid in wanted], pa.string())
    found: dict[str, Place] = {}
    for part in pool.parts:
        start = 0
        for batch in part.batches(["uid"], verdicts.BATCH):
            lower = pc.utf8_lower(batch["uid"])
            for i in pc.indices_nonzero(pc.is_in(lower, values)).to_pylist():
                found.setdefault(lower[i].as_py(), Place(part.stem, start + i))
            start += len(batch)
        if len(found) == len(set(values.to_pylist())):
            break
    return found
