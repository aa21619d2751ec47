"""Only the rows that a uid list names: their numbers in each file, found once by reading the uids alone."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.download.sources import staging
from pipeline.download.sources.columns import Columns
from pools import store, uid_files, uids
from pools.errors import InputError
from pools.manifest import Outcome, Run, digest_of
from pools.uids import Uids

if TYPE_CHECKING:
    from pipeline.engine import Options, Unit

VERSION = 1
BATCH_ROWS = 1 << 16
_PIECE = 1 << 20  # uids
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Chosen:
    """Of each file how many rows are wanted, and the `.npy` that holds their numbers; the list's digest; counts."""

    rows: tuple[int, ...]
    picks: tuple[str, ...]
    digest: str
    found: Outcome


def choose(
    files: Sequence[tuple[str, int]],
    columns: Columns,
    uid_list: str,
    inputs: Sequence[str],
    scratch: str,
    options: Options | None,
) -> Chosen:
    """Finds the rows whose uid is in a list of any form that `pools.uid_files` reads. Counts what the list asks for.

    Counts: asked, found and missing (distinct uids), repeats (entries of the list that say a uid again: its image is
    fetched once for each row that has it). Raises InputError for a list of uids to remove.
    """
    from pipeline import engine

    given = options or engine.Options()
    values = _load(uid_list)
    digest = uids.digest(values)
    root = store.join(scratch, "source", digest_of([VERSION, list(inputs), digest])[:16])
    units = [engine.Unit(f"{i:08d}", "", (path, columns)) for i, (path, _) in enumerate(files)]
    run = Run(store.join(root, "rows"), "look up uids", VERSION, {"uids": digest}, tuple(inputs))
    with staging.alone(root, given, run.stage) as options:
        run.claim()
        ordered = store.join(run.output, "uids.npy")
        if not store.exists(ordered):
            # Any form, sorted once: the processes map it into memory and share its pages.
            pieces = (values[i : i + _PIECE] for i in range(0, len(values), _PIECE))
            uids.write_pieces(ordered, pieces, len(values))
        engine.run(run, units, functools.partial(_pick, output=run.output, wanted=ordered), options)
    picks = tuple(store.join(run.output, u.name + ".npy") for u in units)
    rows = tuple(_length(path) for path in picks)
    asked = _distinct([values])
    found = _distinct([uids.load(store.join(run.output, u.name + "-uids.npy")) for u in units])
    counts = {"asked": asked, "found": found, "missing": asked - found, "repeats_in_list": len(values) - asked}
    return Chosen(rows, picks, digest, Outcome({name: n for name, n in counts.items() if n or not name.startswith("repeats")}))


def _load(path: str) -> Uids:
    if uids.read_info(path).kind != "keep":
        raise InputError("this is a list of uids to remove", where=path, expected="a list of uids to keep")
    if uid_files.form_of(path) in ("npy", "u16") and store.exists(path):
        values = uids.load(path)
        if uids.first_unsorted(values) is None:
            return values
    return uid_files.read(path)


def _distinct(lists: list[Uids]) -> int:
    """How many different uids sorted lists hold, about a million of them in memory at a time."""
    pieces = ([a[s] for a, s in zip(lists, slices, strict=True)] for slices in uids.intervals(lists, _PIECE))
    return sum(len(uids.unique(uids.sort(np.concatenate([np.empty(0, uids.UID), *piece])))) for piece in pieces)


def picked(path: str, start: int, stop: int) -> Numbers:
    """Numbers `start` to `stop` of the rows that a `.npy` lists."""
    with store.open_input(path) as f:
        _, offset = _header(f)
        f.seek(offset + 8 * start)
        return np.frombuffer(f.read(8 * (stop - start)), "<i8")


def _length(path: str) -> int:
    with store.open_input(path) as f:
        return _header(f)[0]


def _header(f: Any) -> tuple[int, int]:
    np.lib.format.read_magic(f)  # type: ignore[no-untyped-call]
    (length,), _, _ = np.lib.format.read_array_header_1_0(f)  # type: ignore[no-untyped-call]
    return int(length), int(f.tell())


def _pick(unit: Unit, *, output: str, wanted: str) -> Outcome:
    """Writes the numbers of a file's wanted rows and, sorted, the uids that they have."""
    path, columns = unit.args
    values = uids.load(wanted)
    numbers, met = [np.empty(0, np.int64)], [np.empty(0, uids.UID)]
    for rows, packed in _uids_of(path, columns):
        mask = contains(values, packed)
        numbers.append(rows[mask])
        met.append(packed[mask])
    with store.atomic(store.join(output, unit.name + ".npy")) as f:
        np.lib.format.write_array(f, np.concatenate(numbers).astype("<i8"), version=(1, 0))  # type: ignore[no-untyped-call]
    uids.write_part(store.join(output, unit.name + "-uids.npy"), [uids.unique(uids.sort(np.concatenate(met)))])
    return Outcome()


def _uids_of(path: str, columns: Columns) -> Iterator[tuple[Numbers, Uids]]:
    """Batches of the numbers and uids of a file's rows; a uid that is not 32 hex digits is in no list and left out.

    A row without a uid has that of its text and url, as the download gives it.
    """
    with store.open_input(path) as f:
        file = pq.ParquetFile(f)
        here = {out: name for name, out in columns.names(file.schema_arrow.names, where=path).items()}
        needed = [here[name] for name in ("uid", "url", "text") if name in here]
        complete = "uid" in here and all(_all_have(file, here["uid"], group) for group in range(file.num_row_groups))
        first = 0
        for batch in file.iter_batches(BATCH_ROWS, columns=[here["uid"]] if complete else needed):
            column = batch[here["uid"]] if complete else _made(batch, here)
            good = pc.match_substring_regex(column, "^[0-9a-fA-F]{32}$")
            rows = np.flatnonzero(good.to_numpy(zero_copy_only=False))
            yield first + rows, uids.pack(column.filter(good))
            first += len(batch)


def _all_have(file: pq.ParquetFile, column: str, group: int) -> bool:
    """Whether the statistics of a row group say that no value of a column is null or empty."""
    row_group = file.metadata.row_group(group)
    leaves = (row_group.column(i) for i in range(row_group.num_columns))
    statistics = next((leaf.statistics for leaf in leaves if leaf.path_in_schema == column), None)
    if statistics is None or not statistics.has_null_count or statistics.null_count:
        return False
    return bool(statistics.has_min_max) and bool(statistics.min)


def _made(batch: pa.RecordBatch, here: dict[str, str]) -> pa.Array:
    def values(name: str) -> list[str | None]:
        return batch[here[name]].to_pylist() if name in here else [None] * len(batch)

    rows = zip(values("uid"), values("url"), values("text"), strict=True)
    return pa.array([uid or uids.new(url or "", text or "") for uid, url, text in rows], pa.string())


def contains(sorted_list: Uids, values: Uids) -> NDArray[np.bool_]:
    """(n,) whether each value is in the list, by bisection of all at once: nothing of a mapped list is copied."""
    high, low = sorted_list["f0"], sorted_list["f1"]
    lo = np.zeros(len(values), np.int64)
    hi = np.full(len(values), len(sorted_list), np.int64)
    while (active := lo < hi).any():
        middle = (lo + hi) >> 1
        probe = np.where(active, middle, 0)
        less = (high[probe] < values["f0"]) | ((high[probe] == values["f0"]) & (low[probe] < values["f1"]))
        lo = np.where(active & less, middle + 1, lo)
        hi = np.where(active & ~less, middle, hi)
    inside = lo < len(sorted_list)
    at = np.where(inside, lo, 0)
    if not len(sorted_list):
        return inside
    found: NDArray[np.bool_] = inside & (high[at] == values["f0"]) & (low[at] == values["f1"])
    return found
