"""How far rows are from what a stage asks for: which of them are near its threshold, and on which side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays
from filters.combine import COMBINATORS
from pipeline.report.thresholds import CHARACTERS, RATIO, SIDE, WORDS, Rules, Threshold
from pools.part import Part

_SIDES = ("original_width", "original_height")
_COLUMNS: Mapping[str, tuple[str, ...]] = {SIDE: _SIDES, RATIO: _SIDES}


@dataclass(frozen=True)
class Margin:
    """All that one stage compares with numbers; a row passes it if every threshold is met."""

    stage: int
    thresholds: tuple[Threshold, ...]

    def __str__(self) -> str:
        return " and ".join(f"{t.column} {t}" for t in self.thresholds)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for t in self.thresholds for c in _COLUMNS.get(t.column, (t.column,))))

    def readable(self, part: Part) -> bool:
        """Whether a file has these columns, with numbers in them."""
        have = part.columns()
        if not all(c in have for c in self.columns):
            return False
        kinds = part.types(self.columns).values()
        return all(pa.types.is_floating(k) or pa.types.is_integer(k) for k in kinds)

    def distance(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """(n,) how far rows are from passing, or from not: the least margin, as a share of the threshold. NaN if not known."""
        margins = []
        for t in self.thresholds:
            values = measured(t.column, {c: arrays.floats(batch[c]).astype(np.float64) for c in self.columns})
            over = values - t.value if t.bound in ("min", "above") else t.value - values
            margins.append(over / (abs(t.value) or 1.0))
        distance: NDArray[np.float64] = np.abs(np.minimum.reduce(margins))
        return distance

    def said(self, scores: Mapping[str, float]) -> str:
        """The values that are compared, of one row, in words; without those that are not known."""
        told = []
        for column in dict.fromkeys(t.column for t in self.thresholds):
            if all(c in scores for c in _COLUMNS.get(column, (column,))):
                value = float(measured(column, {c: np.array([v]) for c, v in scores.items()})[0])
                told.append(f"{column} {value:.4g}")
        return ", ".join(told)


def measured(column: str, columns: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """(n,) what a threshold is compared with."""
    if column not in _COLUMNS:
        return columns[column]
    width, height = (columns[c] for c in _SIDES)
    short: NDArray[np.float64] = np.minimum(width, height)
    if column == SIDE:
        return short
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: NDArray[np.float64] = np.maximum(width, height) / short
    return ratio


def margins_of(rules: Rules) -> list[Margin]:
    """Of the stages whose thresholds can be measured; not of combinators, which a row may pass in several ways."""
    by_stage: dict[int, list[Threshold]] = defaultdict(list)
    for threshold in rules.thresholds:
        by_stage[threshold.stage].append(threshold)
    return [
        Margin(stage, tuple(found))
        for stage, found in sorted(by_stage.items())
        if rules.stages[stage] not in COMBINATORS and not _counted(found)
    ]


def _counted(thresholds: Sequence[Threshold]) -> bool:
    """Whether it takes a tokenizer to say how near a row is."""
    return any(t.column in (WORDS, CHARACTERS) for t in thresholds)
