"""The verdicts of a selection in one reading: what each stage did, and places of rows worth a look, chosen by their hashes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from filters import arrays
from pipeline.report.margins import Margin
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.outputs import Selection
from pools.part import Part

DROPPED, UNSCORED, NEAR_DROPPED, NEAR_PASSED, KEPT = (
    "dropped",
    "could not be judged",
    "nearly kept",
    "nearly dropped",
    "kept",
)
BATCH = 1 << 16  # rows
_NONE = -1  # in place of the stage of rows that are kept
_OWN = 0x7265706F7274  # so that samples have nothing to do with random filters and orders of the same seed


@dataclass(frozen=True)
class Place:
    """Where a row stands in its pool."""

    stem: str
    row: int  # from 0


@dataclass(frozen=True)
class Survey:
    """Counts as in the manifest (`in`, `kept`, and of each stage by its index), and {(stage, side): rows}; kept: (-1, KEPT)."""

    rows: int = 0
    dropped: Counter[int] = field(default_factory=Counter)
    unscored: Counter[int] = field(default_factory=Counter)
    places: dict[tuple[int, str], list[Place]] = field(default_factory=dict)

    @property
    def chosen(self) -> list[Place]:
        """All places, each once."""
        return list(dict.fromkeys(place for places in self.places.values() for place in places))

    @property
    def kept(self) -> int:
        return self.rows - self.dropped.total()


def stems(selection: Selection) -> list[str]:
    """Of the files that have verdicts; empty if the filter wrote none."""
    folder = store.join(selection.root, "verdicts")
    return [f.removesuffix(".parquet") for f in store.list_files(folder, ".parquet")] if store.is_dir(folder) else []


def parts_of(selection: Selection, pool: Pool) -> dict[str, Part]:
    """{stem: the pool's file that these verdicts are on}. Raises InputError if the selection is of another pool."""
    have = {part.stem: part for part in pool.parts}
    judged = stems(selection)
    if judged and set(judged) != set(have):
        other = sorted(set(judged) ^ set(have))[0]
        raise InputError(
            f"{selection.root} is not a selection of this pool: file {other!r} is in one of them only",
            where=pool.root,
            expected="the pool that was filtered",
        )
    return have


def survey(selection: Selection, pool: Pool | None, margins: Sequence[Margin], samples: int, seed: int) -> Survey:
    """Reads all verdicts, and with a pool the columns that are compared with a number, a batch at a time.

    Of each stage `samples` rows a side; which ones depends on uids and seed alone, not on how the pool is cut into files.
    Raises InputError if uids of selection and pool differ.
    """
    parts = parts_of(selection, pool) if pool is not None else {}
    groups: dict[tuple[int, str], _Least] = {}
    dropped, unscored, rows = Counter[int](), Counter[int](), 0
    for stem in stems(selection):
        for start, verdicts, columns in _batches(selection, stem, parts.get(stem), margins):
            judged = _Batch(verdicts, columns, stem, start, seed)
            rows += len(verdicts)
            dropped.update(judged.counts(judged.everywhere))
            unscored.update(judged.counts(judged.unscored))
            for key, chosen, distance in judged.groups(margins):
                groups.setdefault(key, _Least(samples)).add(judged, chosen, distance)
    return Survey(rows, dropped, unscored, {key: least.places() for key, least in sorted(groups.items())})


def _batches(
    selection: Selection, stem: str, part: Part | None, margins: Sequence[Margin]
) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch | None]]:
    """(first row, verdicts, the pool's columns that are compared with a number) of some rows after the others."""
    columns = list(dict.fromkeys(c for m in margins if part and m.readable(part) for c in m.columns))
    values = part.batches(["uid", *columns], BATCH) if part and columns else None
    start = 0
    with store.open_input(selection.verdicts(stem)) as f:
        taken = Rows(values) if values else None
        for batch in pq.ParquetFile(f).iter_batches(BATCH, columns=["uid", "dropped_by", "value"], use_threads=False):
            beside = taken.next(len(batch)) if taken else None
            if beside is not None and not beside["uid"].equals(batch["uid"]):
                raise InputError(
                    f"rows {start} to {start + len(batch)}: other uids than the pool's",
                    where=selection.verdicts(stem),
                    expected="verdicts on this pool",
                )
            yield start, batch, beside
            start += len(batch)


class Rows:
    """Batches of a file in steps of any number of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: list[pa.RecordBatch] = []

    def next(self, rows: int) -> pa.RecordBatch:
        """The next so many, fewer at the end."""
        while sum(map(len, self._rest)) < rows and (batch := next(self._batches, None)) is not None:
            self._rest.append(batch)
        found = pa.concat_batches(self._rest)
        self._rest = [found.slice(rows)]
        return found.slice(0, rows)


def sample_keys(found: pa.Array, seed: int) -> NDArray[np.uint64]:
    """(n,) numbers of chance that uids and seed decide; the rows with the least are the sample."""
    return uids.hash64(uids.pack(found), seed ^ _OWN)


class _Batch:
    """Verdicts of some rows, as arrays."""

    def __init__(self, verdicts: pa.RecordBatch, columns: pa.RecordBatch | None, stem: str, start: int, seed: int) -> None:
        self.columns, self.stem, self.start = columns, stem, start
        self.by = arrays.numpy(verdicts["dropped_by"].fill_null(pa.scalar(_NONE, pa.int16()))).astype(np.int64)
        self.everywhere = self.by != _NONE
        self.unscored = self.everywhere & arrays.numpy(verdicts["value"].is_null())
        self.hashes = sample_keys(verdicts["uid"], seed)

    def counts(self, which: NDArray[np.bool_]) -> Counter[int]:
        numbers = np.bincount(self.by[which])
        return Counter({int(stage): int(numbers[stage]) for stage in np.flatnonzero(numbers)})

    def groups(
        self, margins: Sequence[Margin]
    ) -> Iterator[tuple[tuple[int, str], NDArray[np.bool_], NDArray[np.float64] | None]]:
        """((stage, side), which rows, how far each is from what is looked for)."""
        yield (_NONE, KEPT), ~self.everywhere, None
        for stage in np.unique(self.by[self.everywhere]).tolist():
            here = self.by == stage
            yield (stage, DROPPED), here & ~self.unscored, None
            yield (stage, UNSCORED), here & self.unscored, None
        have = set(self.columns.schema.names) if self.columns is not None else set()
        for margin in margins:
            if not have.issuperset(margin.columns):
                continue
            distance = margin.distance(self.columns)
            known = ~np.isnan(distance)
            yield (margin.stage, NEAR_DROPPED), (self.by == margin.stage) & known, distance
            yield (margin.stage, NEAR_PASSED), ((self.by > margin.stage) | ~self.everywhere) & known, distance


class _Least:
    """The rows of the least distance, of these the ones with the least hashes."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._places: list[Place] = []
        self._distances = np.empty(0, np.float64)
        self._hashes = np.empty(0, np.uint64)

    def add(self, batch: _Batch, which: NDArray[np.bool_], distance: NDArray[np.float64] | None) -> None:
        rows = np.flatnonzero(which)
        if not len(rows) or not self._number:
            return
        distances = np.zeros(len(rows)) if distance is None else distance[rows]
        hashes = batch.hashes[rows]
        best = self._best(distances, hashes)
        self._places += [Place(batch.stem, batch.start + int(row)) for row in rows[best]]
        self._distances = np.concatenate([self._distances, distances[best]])
        self._hashes = np.concatenate([self._hashes, hashes[best]])
        best = self._best(self._distances, self._hashes)
        self._places = [self._places[i] for i in best]
        self._distances, self._hashes = self._distances[best], self._hashes[best]

    def places(self) -> list[Place]:
        """In order."""
        return self._places

    def _best(self, distances: NDArray[np.float64], hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Indices of the first `number`, in order."""
        near = np.arange(len(distances))
        if len(near) > self._number:
            last = np.partition(distances, self._number - 1)[self._number - 1]
            near = np.flatnonzero(distances <= last)
            if len(near) > self._number and distances[near].min() == last:
                near = near[np.argpartition(hashes[near], self._number - 1)[: self._number]]
        best: NDArray[np.intp] = near[np.lexsort((hashes[near], distances[near]))[: self._number]]
        return best
