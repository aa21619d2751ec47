"""A recipe fitted to a pool: stages that judge rows, and what they say of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays
from filters.registry import Filter
from pools.schema import VERDICTS

_KEPT = arrays.numbers(np.array([-1], np.int16))[0]  # in place of the null of verdicts


@dataclass(frozen=True)
class Known:
    """Verdicts (n,) on a batch by the first `stages` stages of the same recipe, all on the same pool."""

    verdicts: pa.RecordBatch
    stages: int


@dataclass(frozen=True)
class Judged:
    """What became of a batch's rows: those `kept` (n,), counts as `Fitted.tally` has them, and verdicts if asked for."""

    kept: pa.BooleanArray
    counts: Counter[str]
    verdicts: pa.RecordBatch | None


@dataclass(frozen=True)
class Fitted:
    """A recipe ready to judge rows, anywhere."""

    names: tuple[str, ...]
    stages: tuple[Filter, ...]

    def judge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A verdict (`pools.schema.VERDICTS`) for each row of each batch; a batch needs `uid` and the rules' columns."""
        for batch in batches:
            yield self.judge_batch(batch).verdicts

    def judge_batch(self, batch: pa.RecordBatch, *, verdicts: bool = True, known: Known | None = None) -> Judged:
        """Judges a batch; stages that `known` speaks of are not asked again."""
        drops = [] if known is None else _drops(known)
        alive = np.arange(len(batch))
        if drops:
            alive = np.setdiff1d(alive, np.concatenate([drop.rows for drop in drops]), assume_unique=True)
        rest = batch.take(arrays.numbers(alive)) if drops else batch
        for i, stage in enumerate(self.stages):
            if known is not None and i < known.stages:
                continue
            mask, values = _judged_by(stage, rest, verdicts)
            keep = mask.fill_null(arrays.FALSE)
            if keep.true_count == len(keep):
                continue
            gone = arrays.numpy(pc.invert(keep))
            drops.append(_Drop(i, alive[gone], mask.null_count, values))
            alive, rest = alive[~gone], rest.filter(keep)
        return Judged(_mask(alive, len(batch)), self._counts(len(batch), drops), self._said(batch, drops) if verdicts else None)

    def survivors(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that all stages keep."""
        for stage in self.stages:
            batch = batch.filter(stage.keep(batch).fill_null(arrays.FALSE))
        return batch

    def tally(self, verdicts: pa.RecordBatch) -> Counter[str]:
        """Rows in, kept, and dropped by each stage (`dropped:<index>-<name>`); `unscored:<…>` are among the dropped."""
        return self._counts(len(verdicts), _drops(Known(verdicts, len(self.stages))))

    def _counts(self, rows: int, drops: Sequence[_Drop]) -> Counter[str]:
        counts = Counter({"in": rows, "kept": rows - sum(len(drop.rows) for drop in drops)})
        by_stage = {drop.stage: drop for drop in drops}
        for i, name in enumerate(self.names):
            counts[f"dropped:{i}-{name}"] = len(by_stage[i].rows) if i in by_stage else 0
            if i in by_stage and by_stage[i].unscored:
                counts[f"unscored:{i}-{name}"] = by_stage[i].unscored
        return counts

    def _said(self, batch: pa.RecordBatch, drops: Sequence[_Drop]) -> pa.RecordBatch:
        """The verdicts on a batch."""
        dropped_by = np.full(len(batch), -1, np.int16)
        # Where a row's value stands among those of all drops, one after the other; behind them stands a null.
        place = np.full(len(batch), sum(len(drop.rows) for drop in drops), np.int64)
        start = 0
        for drop in drops:
            dropped_by[drop.rows] = drop.stage
            place[drop.rows] = np.arange(start, start + len(drop.rows))
            start += len(drop.rows)
        values = pa.concat_arrays([*(drop.values for drop in drops), pa.nulls(1, pa.string())]).take(arrays.numbers(place))
        by = arrays.numbers(dropped_by, dropped_by < 0)
        reasons = arrays.strings(self.names or [""]).take(by)
        return pa.record_batch([batch["uid"], by, reasons, values], schema=VERDICTS.schema)


@dataclass(frozen=True)
class _Drop:
    """What one stage dropped of a batch: the rows (m,), how many of them it could not judge, its values (m,) as text."""

    stage: int
    rows: NDArray[np.int64]
    unscored: int
    values: pa.StringArray | None


def _judged_by(stage: Filter, batch: pa.RecordBatch, verdicts: bool) -> tuple[pa.BooleanArray, pa.StringArray | None]:
    """The mask (n,), and with verdicts the values of the rows it drops."""
    if not verdicts:
        return stage.keep(batch), None
    if (judge := getattr(stage, "judge", None)) is not None:
        mask, values = judge(batch)
        gone = pc.invert(mask.fill_null(arrays.FALSE))
        values = values.filter(gone)
    else:
        mask = stage.keep(batch)
        gone = pc.invert(mask.fill_null(arrays.FALSE))
        values = stage.measure(batch.filter(gone)) if gone.true_count else pa.nulls(0, pa.string())
    # A null value says unscored, so what was judged has a text, be it empty.
    said = values.cast(pa.string()).fill_null(arrays.NO_TEXT)
    if mask.null_count:
        said = pc.if_else(mask.is_valid().filter(gone), said, pa.nulls(1, pa.string())[0])
    return mask, said


def _drops(known: Known) -> list[_Drop]:
    """What the first stages dropped, as their verdicts say."""
    dropped_by = arrays.numpy(known.verdicts["dropped_by"].fill_null(_KEPT))
    values = known.verdicts["value"]
    found = []
    for stage in range(known.stages):
        rows = np.flatnonzero(dropped_by == stage)
        if len(rows):
            said = values.take(arrays.numbers(rows))
            found.append(_Drop(stage, rows, said.null_count, said))
    return found


def _mask(rows: NDArray[np.int64], length: int) -> pa.BooleanArray:
    mask = np.zeros(length, bool)
    mask[rows] = True
    return arrays.booleans(mask)
