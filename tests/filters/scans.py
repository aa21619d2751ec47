"""A scan over rows in memory, for tests of filters that must see the pool first."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from filters.recipe import Fitted
from filters.registry import Filter, Grouping, Key, Scan
from pools.tables import Table


@dataclass(frozen=True)
class Rows:
    """`pools.layout` and an engine stand behind the real one; this one holds batches."""

    batches: tuple[pa.RecordBatch, ...]
    stages: tuple[Filter, ...] = ()

    def through(self, stages: Sequence[Filter]) -> Scan:
        return replace(self, stages=(*self.stages, *stages))

    def reduce(
        self, columns: Sequence[str], summarise: Callable[[Any], Any], merge: Callable[[Any, Any], Any], start: Any
    ) -> Any:
        return functools.reduce(merge, (summarise(b) for b in self._survivors()), start)

    def frequent(self, key: Key, more_than: int) -> Table:
        return _sorted(k for k, n in self._counts(key).items() if n > more_than)

    def top(self, key: Key, k: int) -> Table:
        counts = self._counts(key)
        return _sorted(sorted(counts, key=lambda h: (-counts[h], h))[:k])

    def grouped(self, grouping: Grouping) -> Table:
        records = [grouping.records(b) for b in self._survivors()]
        return Table.of(grouping.finish(grouping.combine(np.concatenate(records))))

    def hold(self, records: Any) -> Table:
        return Table.of(records)

    def _survivors(self) -> Iterator[pa.RecordBatch]:
        before = Fitted(tuple("" for _ in self.stages), self.stages)
        return (before.survivors(b) for b in self.batches)

    def _counts(self, key: Key) -> Counter[int]:
        """The plain way: everything in one dictionary."""
        seen = [item for b in self._survivors() for item in key(b).tolist()]
        return Counter(group for group, _ in {(g, m) for g, m in seen}) if key.paired else Counter(seen)


def _sorted(hashes: Iterable[int]) -> Table:
    return Table.of(np.array(sorted(hashes), np.uint64))


def uids(n: int) -> list[str]:
    return [f"{i:032x}" for i in range(n)]


def batch(**columns: Any) -> pa.RecordBatch:
    """A batch with a uid a row."""
    n = len(next(iter(columns.values())))
    arrays = {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()}
    return pa.RecordBatch.from_pydict({"uid": pa.array(uids(n)), **arrays})
