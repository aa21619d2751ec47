"""A scan over rows in memory, for tests of filters that must see the pool first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from filters.recipe import Fitted
from filters.registry import Filter, Scan


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
        before = Fitted(tuple("" for _ in self.stages), self.stages)
        return functools.reduce(merge, (summarise(before.survivors(b)) for b in self.batches), start)


def uids(n: int) -> list[str]:
    return [f"{i:032x}" for i in range(n)]


def batch(**columns: Any) -> pa.RecordBatch:
    """A batch with a uid a row."""
    n = len(next(iter(columns.values())))
    arrays = {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()}
    return pa.RecordBatch.from_pydict({"uid": pa.array(uids(n)), **arrays})
