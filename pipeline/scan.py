"""What a filter learns about a whole pool: its units summarised in parallel, the summaries merged."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from filters.recipe import Fitted
from filters.registry import Filter, Scan
from pipeline.engine import Engine, Failed
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.part import Part

S = TypeVar("S")


@dataclass(frozen=True)
class PoolScan:
    """The rows of a pool that some stages keep (at first all), read a unit at a time by an engine."""

    pool: Pool
    engine: Engine
    stages: tuple[Filter, ...] = ()

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


def _summarise(
    stages: tuple[Filter, ...],
    columns: tuple[str, ...],
    summarise: Callable[[pa.RecordBatch], S],
    merge: Callable[[S, S], S],
    start: S,
    part: Part,
) -> S:
    """The merged summary of one unit's rows."""
    before = Fitted(tuple("" for _ in stages), stages)
    needed = dict.fromkeys([*columns, *(c for stage in stages for c in stage.needs)])
    with naming(part):
        summaries = (summarise(before.survivors(batch)) for batch in part.batches(list(needed)))
        return functools.reduce(merge, summaries, start)


@contextlib.contextmanager
def naming(part: Part) -> Iterator[None]:
    """Puts the unit's file into errors of filters, which see rows and no files."""
    try:
        yield
    except InputError as e:
        if e.where is not None:
            raise
        raise InputError(e.what, where=part.parquet, expected=e.expected, fix=e.fix) from e
