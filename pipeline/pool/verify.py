"""Is a pool whole? Its tables can be read and agree with each other, with the shards, and with what the shards' json says."""

from __future__ import annotations

import functools
import hashlib
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.exchange import every
from pipeline.pool.files import list_tars, uid_of
from pools import shards, store, uids
from pools.errors import InputError, WinnowError, WorkFailed
from pools.layout import Pool
from pools.manifest import Outcome, unfinished
from pools.part import Part
from pools.schema import Status
from pools.shards import Sample

_NAMED = 3  # uids or keys that a problem names
_BEGINNINGS = {b"\xff\xd8\xff": ("jpg", "jpeg"), b"\x89PNG": ("png",), b"RIFF": ("webp",)}
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


@dataclass(frozen=True)
class Unit:
    """One stem: its rows, and the shard (without `.tar`) of that name, either of which may be missing."""

    stem: str
    part: Part | None
    shard: str | None
    pictures: bool  # whether the pool has shards at all
    deep: bool  # read the tars too
    families: tuple[str, ...]  # that some stem has


def verify(pool: Pool, *, quick: bool = False, options: engine.Options) -> Outcome:
    """Checks each stem; `quick` reads tables alone, of tars no more than that they are there.

    Problems are named by file. Counts: files, rows, samples, `served_bytes` (stored pictures whose SHA-256 is that of the
    bytes as served; the others were resized or encoded anew, so that their bytes cannot be checked by it), problems.
    """
    tars = list_tars(pool)
    parts = {part.stem: part for part in pool.parts}
    families = tuple(sorted({name for part in pool.parts for name in _families(part)}))
    units = [
        Unit(
            stem, parts.get(stem), store.join(pool.shards, stem) if stem in set(tars) else None, bool(tars), not quick, families
        )
        for stem in sorted({*parts, *tars})
    ]
    # A pool of published metadata whose pictures were put into shards anew: nothing is said of which row is where.
    if tars and not set(tars) & set(parts):
        units = [replace(unit, pictures=False) for unit in units]
    workers = engine.make_engine(options.engine, options.workers)
    found = sum(every(workers, check, units), Outcome())
    folders = [pool.root, pool.shards, *(store.join(pool.root, "annotations", name) for name in families)]
    problems = [f"{folder}: a run began here and has not ended" for folder in dict.fromkeys(folders) if unfinished(folder)]
    problems += _orphans(pool, set(parts))
    return found + Outcome({}, tuple(problems))


def _families(part: Part) -> list[str]:
    folder = store.join(part.root, "annotations") + "/"
    return [path[len(folder) :].split("/")[0] for path in part.others if path.startswith(folder)]


def _orphans(pool: Pool, stems: set[str]) -> Iterator[str]:
    """Annotations of no metadata file."""
    folder = store.join(pool.root, "annotations")
    for file in store.list_files(folder) if store.is_dir(folder) else []:
        stem, _, extension = file.partition("/")[2].rpartition(".")
        if extension in ("parquet", "npz") and stem not in stems:
            yield f"{store.join(folder, file)}: no metadata file of this name"


def check(unit: Unit) -> Outcome:
    """All that can be said of one stem."""
    problems: list[str] = []
    counts: Counter[str] = Counter()
    rows: pa.Table | None = None
    if unit.part is not None:
        counts["files"] += 1 + len(unit.part.others)
        rows = _tables(unit.part, unit.families, problems)
        counts["rows"] += 0 if rows is None else len(rows)
    if unit.shard is not None:
        counts["shards"] += 1
        told = _status(unit.shard, problems)
        if unit.deep:
            counts["served_bytes"] += 0  # that there are none is told too
            _tar(unit.shard, rows, told, unit.part is not None or not unit.pictures, counts, problems)
        elif rows is not None and told is not None and told != len(rows):
            problems.append(f"{unit.shard}.parquet: {told} successes, the metadata has {len(rows)} rows")
    elif unit.pictures and rows is not None and len(rows):
        problems.append(f"{unit.part.parquet if unit.part else unit.stem}: {len(rows)} rows, and no shard {unit.stem}.tar")
    if unit.shard is not None and unit.part is None and unit.pictures:
        problems.append(f"{unit.shard}.tar: no metadata file of this name")
    counts["problems"] += len(problems)
    return Outcome(dict(counts), tuple(problems))


def _tables(part: Part, families: Sequence[str], problems: list[str]) -> pa.Table | None:
    """Reads every column of a stem; its uids, captions and hashes, None if they cannot be read."""
    for name in families:
        if name not in _families(part):
            problems.append(
                f"{store.join(part.root, 'annotations', name, part.stem)}.parquet: not there, as it is of other files"
            )
    try:
        where = part.columns()
    except WinnowError as e:
        problems.append(str(e))
        return None
    rows = None
    for path in (part.parquet, *part.others):
        names = [name for name, place in where.items() if place == path]
        try:
            if path == part.parquet:
                rows = _read_rows(part, names)
            else:  # against the metadata's uids and number of rows
                for _ in part.batches(["uid", *(n for n in names if n != "uid")]):
                    pass
        except WinnowError as e:
            problems.append(str(e))
        except (pa.ArrowException, OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as e:
            problems.append(f"{path}: unreadable: {e}")
    return rows


def _read_rows(part: Part, names: list[str]) -> pa.Table:
    found: list[pa.Table] = []
    first = 0
    wanted = [name for name in ("uid", "text", "sha256") if name in names]
    if "uid" not in wanted:
        raise InputError("no column 'uid'", where=part.parquet, expected=f"one of {', '.join(names)} to be uid")
    for batch in part.batches(names):
        uids.pack(batch["uid"], where=part.parquet, first=first)
        found.append(pa.Table.from_batches([batch.select(wanted)]))
        first += len(batch)
    return pa.concat_tables(found) if found else pa.table({name: pa.array([], pa.string()) for name in wanted})


def _status(shard: str, problems: list[str]) -> int | None:
    """The successes that a shard's status and statistics tell of, None if there are neither."""
    told: dict[str, Any] = {}
    rows = successes = None
    if store.exists(shard + "_stats.json"):
        try:
            told = store.read_json(shard + "_stats.json")
        except WinnowError as e:
            problems.append(str(e))
    if store.exists(shard + ".parquet"):
        try:
            with store.open_input(shard + ".parquet") as f:
                table = pq.read_table(f)
            if "status" in table.column_names:
                rows, successes = len(table), table["status"].to_pylist().count(Status.SUCCESS.value)
        except (pa.ArrowException, OSError) as e:
            problems.append(f"{shard}.parquet: unreadable: {e}")
    for name, here in (("count", rows), ("successes", successes)):
        if here is not None and isinstance(said := told.get(name), int) and said != here:
            problems.append(f"{shard}_stats.json: {name} {said}, the status table has {here}")
    said = told.get("successes")
    return successes if successes is not None else said if isinstance(said, int) else None


def _tar(shard: str, rows: pa.Table | None, told: int | None, placed: bool, counts: Counter[str], problems: list[str]) -> None:
    """Reads a tar to its end: its structure, each sample's members, and what its json says against the metadata."""
    path = shard + ".tar"
    found: list[str] = []
    wrong: dict[str, list[str]] = {}
    known = {} if rows is None else {u.lower(): i for i, u in enumerate(rows["uid"].to_pylist())}
    columns = {} if rows is None else {n: rows[n].to_pylist() for n in rows.column_names}
    try:
        with store.open_input(path) as f:
            for sample in shards.samples(path):
                uid, faults = _sample(f, sample, known, columns, counts)
                found.append(uid)
                for fault in faults:
                    wrong.setdefault(fault, []).append(sample.key)
    except (WinnowError, tarfile.TarError, OSError) as e:
        problems.append(str(e) if path in str(e) else f"{path}: {e}")
    counts["samples"] += len(found)
    for fault, keys in wrong.items():
        problems.append(f"{path}: {len(keys)} samples with {fault}: {_some(keys)}")
    if told is not None and told != len(found):
        problems.append(f"{path}: {len(found)} samples, its status tells of {told}")
    if rows is not None and placed:
        there, here = Counter(u.lower() for u in columns["uid"]), Counter(found)
        if missing := sorted((there - here).elements()):
            problems.append(f"{path}: {len(missing)} uids of the metadata are not in it: {_some(missing)}")
        if more := sorted((here - there).elements()):
            problems.append(f"{path}: {len(more)} samples whose uids are not in the metadata: {_some(more)}")


def _sample(
    f: IO[bytes], sample: Sample, known: dict[str, int], columns: dict[str, list[Any]], counts: Counter[str]
) -> tuple[str, list[str]]:
    """A sample's uid, and what is wrong with it."""
    faults = []
    fields = shards.sidecar(f, sample)
    if "json" in sample.members and not fields:
        faults.append("a json that cannot be read")
    uid = uid_of(fields, sample.key).lower()
    row = known.get(uid)
    extension = sample.image_extension
    if extension is None:
        faults.append("no picture")
    else:
        picture = shards.read(f, sample, extension)
        kinds = next((kinds for start, kinds in _BEGINNINGS.items() if picture.startswith(start)), ())
        if extension.lower() not in kinds:
            faults.append(f"a picture that is no {extension.lower()}")
        served = fields.get("sha256")
        if isinstance(served, str) and hashlib.sha256(picture).hexdigest() == served:
            counts["served_bytes"] += 1
    if row is not None:
        stated = columns["sha256"][row] if "sha256" in columns else None
        if stated is not None and fields.get("sha256") not in (None, stated):
            faults.append("another sha256 in the json than in the metadata")
        text = columns["text"][row] if "text" in columns else None
        if "txt" in sample.members and text is not None:
            caption = shards.read(f, sample, "txt").decode("utf-8", "replace")
            if caption not in (text, fields.get("caption")):
                faults.append("another caption in the tar than in the metadata")
    return uid, faults


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


# Checksums ------------------------------------------------------------------------------------------------------------


def write_checksums(pool: Pool, path: str, options: engine.Options) -> int:
    """Writes the SHA-256 of each of the pool's files as `sha256sum` does, paths relative to the pool; returns how many."""
    names = store.list_files(pool.root)
    found = every(engine.make_engine(options.engine, options.workers), functools.partial(_sha256, pool.root), names)
    store.write_bytes(path, "".join(f"{sha}  {name}\n" for sha, name in zip(found, names, strict=True)).encode())
    return len(names)


def check_checksums(pool: Pool, path: str, options: engine.Options) -> Outcome:
    """Files that are gone or have other bytes than when the list was made. Counts: checked, problems."""
    stated = {}
    for number, line in enumerate(store.read_lines(path), 1):
        if not (match := _LINE.fullmatch(line)):
            raise InputError(f"line {number}: {line[:80]!r}", where=path, expected="64 hex digits, two spaces, a path")
        stated[match[2]] = match[1]
    names = list(stated)
    found = every(engine.make_engine(options.engine, options.workers), functools.partial(_sha256, pool.root), names)
    problems = [
        f"{store.join(pool.root, name)}: {'gone' if sha is None else 'other bytes than before'}"
        for name, sha in zip(names, found, strict=True)
        if sha != stated[name]
    ]
    return Outcome({"checked": len(names), "problems": len(problems)}, tuple(problems))


def _sha256(root: str, name: str) -> str | None:
    path = store.join(root, name)
    if not store.exists(path):
        return None
    try:
        return store.sha256(path)
    except OSError as e:
        raise WorkFailed(f"{path}: {e}") from e
