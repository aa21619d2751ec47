"""What a filter learns about a whole pool: its units summarised in parallel, the summaries merged."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.fitted import Fitted
from filters.grouping import Counted, counting
from filters.registry import Filter, Grouping, Key, Scan
from pipeline import exchange
from pipeline.engine import Engine, Failed
from pools import store
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.part import Part
from pools.tables import HELD_BYTES, Records, Table

S = TypeVar("S")


@dataclass(frozen=True)
class PoolScan:
    """The rows of a pool that some stages keep (at first all), read a unit at a time by an engine.

    What is spilled on the way, and tables that are too large to travel, lie below `scratch`, which all workers must reach:
    on a cluster a shared store, else this machine's folder for temporary files. There are 16 bytes on disk for a key and
    unit that have met, 8 for a key in a table. All is removed once nobody in this process has the table any more.
    """

    pool: Pool
    engine: Engine
    stages: tuple[Filter, ...] = ()
    scratch: str | None = None
    run_bytes: int = exchange.RUN_BYTES
    range_bytes: int = exchange.RANGE_BYTES

    def through(self, stages: Sequence[Filter]) -> Scan:
        return replace(self, stages=(*self.stages, *stages))

    def reduce(
        self, columns: Sequence[str], summarise: Callable[[pa.RecordBatch], S], merge: Callable[[S, S], S], start: S
    ) -> S:
        work = functools.partial(_summarise, self.stages, tuple(columns), summarise, merge, start)
        total = start
        with contextlib.closing(self.engine.map(work, self.pool.parts)) as results:
            for _, summary in results:
                if isinstance(summary, Failed):
                    raise summary.input_error or WorkFailed(summary.message)
                total = merge(total, summary)
        return total

    def frequent(self, key: Key, more_than: int) -> Table:
        return self._through_files(counting(key, more_than), _groups, np.dtype("<u8"))

    def top(self, key: Key, k: int) -> Table:
        assert not key.paired, "a pair is seen or not"
        return self._through_files(Counted(key), _groups, np.dtype("<u8"), functools.partial(_most_frequent, self.engine, k))

    def grouped(self, grouping: Grouping) -> Table:
        return self._through_files(grouping, _as_they_are, grouping.result)

    def hold(self, records: Records) -> Table:
        if records.nbytes <= HELD_BYTES:
            return Table.of(records)
        folder = _Scratch(self.scratch)
        path = store.join(folder.path, "table.npy")
        return Table(len(records), exchange.save(path, [records], len(records), records.dtype)[:16], path, keeper=folder)

    def _through_files(
        self,
        grouping: Grouping,
        pick: Callable[[Records], Records],
        dtype: np.dtype[Any],
        choose: Callable[[list[str]], list[str]] = list,
    ) -> Table:
        """The table of what `pick` takes of the results, of which `choose` may leave some out."""
        folder = _Scratch(self.scratch)
        records = functools.partial(_records, self.stages, grouping)
        runs = exchange.spill(self.engine, records, grouping, self.pool.parts, folder.path, self.run_bytes)
        paths = choose(exchange.collect(self.engine, runs, self.range_bytes))
        store.remove_tree(store.join(folder.path, "runs"))
        counts = [len(exchange.load(path)) for path in paths]
        pieces = (pick(exchange.load(path)) for path in paths)
        if sum(counts) * dtype.itemsize <= HELD_BYTES:
            return Table.of(np.concatenate([np.empty(0, dtype), *pieces]))
        path = store.join(folder.path, "table.npy")
        digest = exchange.save(path, pieces, sum(counts), dtype)
        store.remove_tree(store.join(folder.path, "results"))
        return Table(sum(counts), digest[:16], path, keeper=folder)


class _Scratch:
    """A folder of its own below `root`, which ends with this object."""

    def __init__(self, root: str | None) -> None:
        self.path = store.join(root or tempfile.gettempdir(), f"winnow-{uuid.uuid4().hex}")
        weakref.finalize(self, store.remove_tree, self.path)


def _groups(records: Records) -> Records:
    groups: Records = records["group"]
    return groups


def _as_they_are(records: Records) -> Records:
    return records


def _most_frequent(engine: Engine, k: int, paths: list[str]) -> list[str]:
    """Of files of (group, count), in the order of the groups, those with the `k` largest counts; the first of equal ones."""
    found = exchange.every(engine, _histogram, paths)
    counts = np.unique(np.concatenate([np.empty(0, np.uint64), *(counts for counts, _ in found)]))
    keys = np.zeros(len(counts), np.int64)
    for here, number in found:
        keys[np.searchsorted(counts, here)] += number
    at_least = np.cumsum(keys[::-1])[::-1]  # keys with this count or more
    if len(counts) == 0 or at_least[0] <= k:
        return paths
    place = int(np.flatnonzero(at_least >= k)[-1])
    limit, missing = counts[place], k - int(at_least[place] - keys[place])
    tasks = []
    for path, (here, number) in zip(paths, found, strict=True):
        ties = min(missing, int(number[here == limit].sum()))
        missing -= ties
        tasks.append((path, ties))
    return exchange.every(engine, functools.partial(_choose, int(limit)), tasks)


def _histogram(path: str) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Counts and how many keys have each. A sum of n allows for no more than √(2n) different ones."""
    counts, keys = np.unique(exchange.load(path)["count"], return_counts=True)
    return counts, keys


def _choose(limit: int, task: tuple[str, int]) -> str:
    """The records of a file above the limit, and the first so many that are at it."""
    path, ties = task
    records = exchange.load(path)
    keep = records["count"] > limit
    keep[np.flatnonzero(records["count"] == limit)[:ties]] = True
    chosen = path.removesuffix(".npy") + "-chosen.npy"
    exchange.save(chosen, [records[keep]], int(keep.sum()), records.dtype)
    return chosen


def _summarise(
    stages: tuple[Filter, ...],
    columns: tuple[str, ...],
    summarise: Callable[[pa.RecordBatch], S],
    merge: Callable[[S, S], S],
    start: S,
    part: Part,
) -> S:
    """The merged summary of one unit's rows."""
    with naming(part):
        return functools.reduce(merge, (summarise(batch) for batch in _survivors(stages, columns, part)), start)


def _records(stages: tuple[Filter, ...], grouping: Grouping, part: Part) -> Iterator[Records]:
    """A grouping's records of one unit's rows."""
    with naming(part):
        for batch in _survivors(stages, grouping.needs, part):
            yield grouping.records(batch)


def _survivors(stages: tuple[Filter, ...], columns: Sequence[str], part: Part) -> Iterator[pa.RecordBatch]:
    """The unit's rows that all stages keep, with these columns among others."""
    before = Fitted(tuple("" for _ in stages), stages)
    needed = dict.fromkeys([*columns, *(c for stage in stages for c in stage.needs)])
    return (before.survivors(batch) for batch in part.batches(list(needed)))


@contextlib.contextmanager
def naming(part: Part) -> Iterator[None]:
    """Puts the unit's file into errors of filters, which see rows and no files."""
    try:
        yield
    except InputError as e:
        if e.where is not None:
            raise
        raise InputError(e.what, where=part.parquet, expected=e.expected, fix=e.fix) from e
