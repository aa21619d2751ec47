"""What a pool holds: rows, columns and where they come from, annotators, sizes, languages, score quantiles, pictures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import engine, exchange
from pipeline.pool.files import list_tars
from pools import shards, store
from pools.layout import Pool
from pools.part import Part

QUANTILES = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
ROWS = 1 << 20  # of which values are looked at
_LANGUAGES = 20


@dataclass(frozen=True)
class Column:
    """A column, how many files have it, and where it stands: `metadata`, `metadata (npz)`, `annotations/<name>`, …"""

    type: str
    place: str
    files: int


@dataclass
class Info:
    """A pool in numbers; of quantiles and languages `looked_at` rows were read, whole files spread evenly over the pool."""

    pool: str
    files: int = 0
    rows: int = 0
    columns: dict[str, Column] = field(default_factory=dict)
    annotators: dict[str, list[Any]] = field(default_factory=dict)  # what the files' headers say of their models: one thing
    bytes: dict[str, int] = field(default_factory=dict)  # of each folder
    shards: int = 0
    pictures: int | None = None  # None: no shard says how many it holds, and none was read
    looked_at: int = 0
    languages: dict[str, dict[str, int]] = field(default_factory=dict)  # of each such column the most frequent values
    quantiles: dict[str, list[float]] = field(default_factory=dict)
    scored: dict[str, int] = field(default_factory=dict)  # rows with a value, of those that were looked at

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def info(pool: Pool, *, rows: int = ROWS, options: engine.Options) -> Info:
    """Reads the ends of all files, and the values of `rows` rows (0 = all)."""
    workers = engine.make_engine(options.engine, options.workers)
    found = Info(pool.root, len(pool.parts))
    for columns, headers, sizes, number in exchange.every(workers, _footers, pool.parts):
        found.rows += number
        for name, (kind, place) in columns.items():
            before = found.columns.get(name)
            found.columns[name] = Column(before.type if before else kind, place, (before.files if before else 0) + 1)
        for family, header in headers.items():
            said = found.annotators.setdefault(family, [])
            if header not in said:
                said.append(header)
        for place, size in sizes.items():
            found.bytes[place] = found.bytes.get(place, 0) + size
    _shards(pool, found, workers)
    chosen = _spread(pool.parts, found.rows, rows)
    _values(chosen, found, workers)
    return found


def _place(part: Part, path: str) -> str:
    folder = store.join(part.root, "annotations") + "/"
    place = "annotations/" + path[len(folder) :].split("/")[0] if path.startswith(folder) else "metadata"
    return f"{place} (npz)" if path.endswith(".npz") else place


Footers = tuple[dict[str, tuple[str, str]], dict[str, Any], dict[str, int], int]


def _footers(part: Part) -> Footers:
    where = part.columns()
    types = part.types(list(where))
    columns = {name: (str(types[name]), _place(part, path)) for name, path in where.items()}
    headers, sizes = {}, Counter({_place(part, part.parquet): store.size(part.parquet)})
    for path in part.others:
        sizes[_place(part, path)] += store.size(path)
        if path.endswith(".parquet"):
            with store.open_input(path) as f:
                said = (pq.read_schema(f).metadata or {}).get(b"winnow")
            headers[_place(part, path).removeprefix("annotations/")] = json.loads(said) if said else {}
    return columns, headers, dict(sizes), part.rows


def _shards(pool: Pool, found: Info, workers: engine.Engine) -> None:
    stems = list_tars(pool)
    found.shards = len(stems)
    if not stems:
        return
    counted = exchange.every(workers, _count, [store.join(pool.shards, stem) for stem in stems])
    found.bytes["shards"] = sum(size for size, _ in counted)
    found.pictures = sum(n for _, n in counted)


def _count(path: str) -> tuple[int, int]:
    """Bytes and samples of a shard: as its statistics say, else its status, else counted."""
    size = store.size(path + ".tar")
    if store.exists(path + "_stats.json"):
        said = store.read_json(path + "_stats.json").get("successes")
        if isinstance(said, int):
            return size, said
    if store.exists(path + ".parquet"):
        with store.open_input(path + ".parquet") as f:
            file = pq.ParquetFile(f)
            if "status" in file.schema_arrow.names:
                return size, int(pc.sum(pc.equal(file.read(columns=["status"])["status"], "success")).as_py() or 0)
    return size, sum(sample.image_extension is not None for sample in shards.samples(path + ".tar"))


def _spread(parts: Sequence[Part], there: int, rows: int) -> list[Part]:
    """Files spread evenly over the pool, with about so many rows."""
    number = len(parts) if rows == 0 or there <= rows else max(1, len(parts) * rows // there)
    return [parts[i * len(parts) // number] for i in range(number)]


def _values(parts: Sequence[Part], found: Info, workers: engine.Engine) -> None:
    numbers: dict[str, list[Any]] = {}
    languages: dict[str, Counter[str]] = {}
    for rows, columns, counts in exchange.every(workers, _read, parts):
        found.looked_at += rows
        for name, values in columns.items():
            numbers.setdefault(name, []).append(values)
        for name, more in counts.items():
            languages.setdefault(name, Counter()).update(more)
    for name in sorted(numbers):
        whole = np.concatenate(numbers[name])
        found.scored[name] = len(whole)
        if len(whole):
            found.quantiles[name] = [float(q) for q in np.quantile(whole, QUANTILES)]
    for name in sorted(languages):
        ranked = sorted(languages[name].items(), key=lambda item: (-item[1], item[0]))
        found.languages[name] = dict(ranked[:_LANGUAGES])


def _read(part: Part) -> tuple[int, dict[str, Any], dict[str, Counter[str]]]:
    """Of one file: rows, the values of columns of numbers, how often each language stands in columns of languages."""
    where = part.columns()
    tables = {name: kind for name, kind in part.types(list(where)).items() if not where[name].endswith(".npz")}
    numeric = [n for n, kind in tables.items() if pa.types.is_floating(kind) or n in ("original_width", "original_height")]
    spoken = [n for n, kind in tables.items() if "language" in n and n not in numeric and _is_text(kind)]
    table = part.read(["uid", *numeric, *spoken])
    values = {}
    for name in numeric:
        column = table[name].drop_null().to_numpy()
        values[name] = column[np.isfinite(column)]
    counts = {}
    for name in spoken:
        found = pc.value_counts(table[name].cast(pa.string()))
        counts[name] = Counter(
            {"none" if v is None else v: n for v, n in zip(*(found.field(i).to_pylist() for i in (0, 1)), strict=True)}
        )
    return len(table), values, counts


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary))


def lines(found: Info) -> list[str]:
    """The same for people."""
    width = max((len(n) for n in (*found.columns, *found.quantiles)), default=0) + 2
    out = [found.pool, f"  {found.rows:,} rows in {found.files:,} files"]
    if found.shards:
        out.append(f"  {found.pictures:,} samples in {found.shards:,} shards")
    out += ["  bytes: " + ", ".join(f"{place} {size:,}" for place, size in found.bytes.items()), "columns"]
    for name, column in found.columns.items():
        some = "" if column.files == found.files else f", in {column.files:,} of {found.files:,} files"
        out.append(f"  {name:{width}}{column.type}, {column.place}{some}")
    if found.annotators:
        out.append("annotations")
        out += [f"  {name}: {json.dumps(h, ensure_ascii=False)}" for name, said in found.annotators.items() for h in said]
    part = "" if found.looked_at == found.rows else f" ({found.looked_at:,} rows looked at)"
    if found.quantiles:
        out += [f"quantiles{part}", f"  {'':{width}}{''.join(f'{q:>11g}' for q in QUANTILES)}"]
        out += [f"  {name:{width}}{''.join(f'{v:>11.5g}' for v in values)}" for name, values in found.quantiles.items()]
    for name, counts in found.languages.items():
        shown = ", ".join(f"{language} {n:,}" for language, n in counts.items())
        out += [f"{name}{part}", f"  {shown}"]
    return out
