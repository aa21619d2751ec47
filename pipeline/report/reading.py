"""One reading of a pool, with what selections said of its rows: all that the report counts.

Counts are exact and memory is bounded, whatever the pool's size; what there can be any number of (captions, addresses, hashes,
domains) is exact up to `tallies.LIMIT` different values, and says so beyond. Files are read by several processes, and their
counts added up in the pool's order, so that the same pool gives the same numbers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays
from pipeline import engine
from pipeline.progress import Progress
from pipeline.report import columns, joined
from pipeline.report.columns import COUNTED, DOMAIN, Columns
from pipeline.report.counts import Counts, Histogram, Labels, nice_edges
from pipeline.report.joined import Chosen
from pipeline.report.tallies import LIMIT, Tally
from pipeline.report.thresholds import CHARACTERS, RATIO, SIDE, WORDS, Rules, read_rules
from pipeline.scan import naming
from pools import uids
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.outputs import Selection
from pools.part import Part

LOADED_LATE = ("publicsuffixlist", "filters.lid")  # what workers load besides
MOST_SELECTIONS = 8
TOP = 30  # most frequent values that are named
ONLY = 60  # uids that are drawn of what one selection alone keeps
_FILES_LOOKED_AT = 64  # for columns and their types
_FILES_SAMPLED = 8  # for the range of scores
SIDES = (1, 16, 32, 48, 64, 96, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024, 1280, 1600, 2048, 3072, 4096, 8192)
RATIOS = (1, 1.1, 1.25, 1.34, 1.5, 1.78, 2, 2.5, 3, 4, 6, 10, 20)
LENGTHS = {
    WORDS: (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 200),
    CHARACTERS: (1, 6, 10, 15, 20, 30, 40, 50, 60, 80, 100, 125, 150, 200, 300, 500, 1000, 5000),
}


@dataclass(frozen=True)
class Groups:
    """The sets of rows that everything is counted in: all, kept by each selection, and with several only by each.

    Kept rows count as often as they stand in the selection's list. Labels are counted for the rows that each stage of each
    selection dropped, too: `stages` has the numbers of these.
    """

    selections: int
    stages: tuple[int, ...]

    @property
    def main(self) -> int:
        return 1 + self.selections * (2 if self.selections > 1 else 1)

    @property
    def all(self) -> int:
        return self.main + sum(self.stages)

    def kept(self, selection: int = 0) -> int:
        return 1 + selection

    def only(self, selection: int) -> int:
        return 1 + self.selections + selection

    def dropped(self, selection: int, stage: int) -> int:
        return self.main + sum(self.stages[:selection]) + stage


@dataclass
class Counted:
    """What was counted of some rows; those of several units are merged in their order."""

    groups: Groups
    limit: int
    rows: int = 0
    totals: Counts = field(init=False)  # (groups.all,)
    patterns: Counts = field(init=False)  # rows by the set of selections that keep them, whose bits are its number
    histograms: dict[str, Histogram] = field(default_factory=dict)
    labels: dict[str, Labels] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    identified: int = 0  # captions whose language was found out here
    only: dict[int, tuple[NDArray[np.uint64], list[str]]] = field(default_factory=dict)  # smallest hashes, and their uids

    def __post_init__(self) -> None:
        self.totals = np.zeros(self.groups.all, np.int64)
        self.patterns = np.zeros(1 << self.groups.selections, np.int64)

    def histogram(self, name: str, edges: NDArray[np.float64]) -> Histogram:
        return self.histograms.setdefault(name, Histogram(edges, self.groups.main))

    def label(self, name: str, most: int, *, gives_up: bool) -> Labels:
        return self.labels.setdefault(name, Labels(self.groups.all, most, gives_up))

    def tally(self, name: str) -> Tally:
        return self.tallies.setdefault(name, Tally(self.groups.main, self.limit))

    def draw(self, selection: int, hashes: NDArray[np.uint64], found: Sequence[str]) -> None:
        """Keeps the uids with the smallest hashes."""
        before, names = self.only.get(selection, (np.empty(0, np.uint64), []))
        every, all_names = np.concatenate([before, hashes]), [*names, *found]
        order = np.argsort(every, kind="stable")[:ONLY]
        self.only[selection] = every[order], [all_names[i] for i in order]

    def merge(self, other: Counted) -> None:
        self.rows += other.rows
        self.totals += other.totals
        self.patterns += other.patterns
        self.identified += other.identified
        for name, histogram in other.histograms.items():
            self.histogram(name, histogram.edges).merge(histogram)
        for name, labels in other.labels.items():
            self.label(name, labels.most, gives_up=labels.gives_up).merge(labels)
        for name, tally in other.tallies.items():
            self.tally(name).merge(tally)
        for selection, (hashes, names) in other.only.items():
            self.draw(selection, hashes, names)


@dataclass(frozen=True)
class Numbers:
    """What a report says of a pool and some selections of it."""

    pool: str
    files: int
    selections: tuple[Selection, ...]
    rules: tuple[Rules, ...]
    counted: Counted
    names: dict[str, dict[int, str]]  # of each tally {hash: value} of the most frequent values

    @property
    def groups(self) -> Groups:
        return self.counted.groups

    @property
    def rows(self) -> int:
        return self.counted.rows


def read(
    pool: Pool, selections: Sequence[Selection] = (), *, options: engine.Options, seed: int = 0, limit: int = LIMIT
) -> Numbers:
    """Reads a pool once, and a little of it twice more: to know the range of scores, and to name what is frequent.

    `limit`: different values of a column up to which counts are exact; memory is about 100 bytes each. Raises InputError for
    a selection of another pool, and for more than `MOST_SELECTIONS`.
    """
    if len(selections) > MOST_SELECTIONS:
        raise InputError(f"{len(selections)} selections", where=pool.root, expected=f"{MOST_SELECTIONS} or fewer")
    rules = tuple(read_rules(s) for s in selections)
    chosen = tuple(Chosen.of(s, weighted=r.mix) for s, r in zip(selections, rules, strict=True))
    groups = Groups(len(chosen), tuple(len(r.stages) if c.verdicts else 0 for r, c in zip(rules, chosen, strict=True)))
    workers = engine.make_engine(options.engine, options.workers)
    work = _Count(groups, chosen, _edges(pool, rules), seed, limit)
    total = Counted(groups, limit)
    with Progress("report: counting", len(pool.parts), quiet=options.quiet, unit="files") as progress:
        for found in _in_order(workers, work, pool.parts):
            total.merge(found)
            progress.advance()
    names = {name: _names(pool, name, tally) for name, tally in total.tallies.items()}
    return Numbers(pool.root, len(pool.parts), tuple(selections), rules, total, names)


def _in_order(workers: engine.Engine, work: Callable[[Part], Counted], parts: Sequence[Part]) -> Iterator[Counted]:
    """The results in the parts' order, each as soon as those before it are there."""
    waiting: dict[int, Counted] = {}
    following = 0
    with contextlib.closing(workers.map(work, parts)) as results:
        for i, found in results:
            if isinstance(found, engine.Failed):
                raise found.input_error or WorkFailed(found.message)
            waiting[i] = found
            while following in waiting:
                yield waiting.pop(following)
                following += 1


def _edges(pool: Pool, rules: Sequence[Rules]) -> dict[str, NDArray[np.float64]]:
    """The edges of every histogram; the thresholds of the rules are among the edges of sizes and lengths."""
    bounds: dict[str, list[float]] = {}
    for threshold in (t for rule in rules for t in rule.thresholds):
        bounds.setdefault(threshold.column, []).append(threshold.value)
    fixed = {SIDE: SIDES, RATIO: RATIOS, **LENGTHS}
    edges = {name: np.unique(np.array([*given, *bounds.get(name, [])], np.float64)) for name, given in fixed.items()}
    looked_at = _spread(pool.parts, _FILES_LOOKED_AT)
    scores = dict.fromkeys(name for part in looked_at for name in Columns.of(part, tuple(bounds)).scores)
    sampled: dict[str, list[NDArray[np.floating]]] = {name: [] for name in scores}
    for part in _spread(pool.parts, _FILES_SAMPLED):
        here = [name for name in Columns.of(part, tuple(bounds)).scores if name in sampled]
        batch = next(part.batches(here, joined.ROWS), None) if here else None
        for name in here if batch is not None else []:
            sampled[name].append(arrays.floats(batch[name]))  # type: ignore[index]
    for name, values in sampled.items():
        edges[name] = nice_edges(np.concatenate([np.empty(0), *values]), bounds.get(name, []))
    return edges


def _spread(parts: Sequence[Part], most: int) -> list[Part]:
    number = min(most, len(parts))
    return [parts[i * len(parts) // number] for i in range(number)]


@dataclass(frozen=True)
class _Count:
    """Work on a unit: its counts."""

    groups: Groups
    chosen: tuple[Chosen, ...]
    edges: dict[str, NDArray[np.float64]]
    seed: int
    limit: int

    def __call__(self, part: Part) -> Counted:
        found = Counted(self.groups, self.limit)
        there = Columns.of(part, tuple(self.edges))
        with naming(part):
            for batch, said in joined.batches(part, there.read, self.chosen):
                weights = self._weights(said, len(batch))
                kept = [s.dropped_by == joined.KEPT for s in said]
                found.rows += len(batch)
                found.totals += weights.sum(1)
                found.patterns += np.bincount(
                    sum((k.astype(np.int64) << i for i, k in enumerate(kept)), np.zeros(len(batch), np.int64)),
                    minlength=len(found.patterns),
                )
                columns.count(batch, there, weights, found, self.edges)
                if len(said) > 1:
                    self._draw(batch["uid"], weights, found)
        for tally in found.tallies.values():
            tally.settle()
        return found

    def _weights(self, said: Sequence[joined.Said], rows: int) -> NDArray[np.int64]:
        """(groups.all, n) how often each row counts in each group."""
        weights = np.zeros((self.groups.all, rows), np.int64)
        weights[0] = 1
        for i, one in enumerate(said):
            weights[self.groups.kept(i)] = one.entries
            if len(said) > 1:
                others = [s.dropped_by == joined.KEPT for j, s in enumerate(said) if j != i]
                alone = (one.dropped_by == joined.KEPT) & ~functools.reduce(np.logical_or, others)
                weights[self.groups.only(i)] = alone
            for stage in range(self.groups.stages[i]):
                weights[self.groups.dropped(i, stage)] = one.dropped_by == stage
        return weights

    def _draw(self, ids: pa.Array, weights: NDArray[np.int64], found: Counted) -> None:
        packed = uids.pack(ids)
        hashes = uids.hash64(packed, self.seed)
        for i in range(self.groups.selections):
            rows = np.flatnonzero(weights[self.groups.only(i)])
            rows = rows[np.argsort(hashes[rows], kind="stable")[:ONLY]]
            found.draw(i, hashes[rows], ids.take(arrays.numbers(rows)).to_pylist())


def _names(pool: Pool, name: str, tally: Tally) -> dict[int, str]:
    """{hash: value} of the most frequent values that are seen more than once: the pool is read until all have been met."""
    hashes, seen = tally.top(TOP)
    wanted = set(hashes[seen[:, 0] > 1].tolist())
    found: dict[int, str] = {}
    column = "url" if name == DOMAIN else name
    for part in pool.parts if wanted else []:
        if column not in part.columns():
            continue
        for batch in part.batches([column], joined.ROWS):
            here, values = COUNTED[name](batch[column])
            for i in np.flatnonzero(np.isin(here, list(wanted))).tolist():
                found[int(here[i])] = values(i)
            wanted -= found.keys()
            if not wanted:
                return found
    return found
