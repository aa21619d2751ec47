"""Rules on a numeric column: bounds, and the top fraction of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays
from filters.rank import nth_greatest
from filters.registry import Filter, Of, Scan, register
from pools.schema import score_column


@dataclass(frozen=True)
class Threshold:
    """Rows whose value lies within all given bounds: `min`/`max` included, `above`/`below` excluded.

    Compared in the column's own precision: the bound 0.7 keeps a float32 0.7. Null and NaN are not judged.
    """

    column: str
    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        values = batch[self.column]
        if pa.types.is_floating(values.type):
            mask = pc.if_else(pc.is_nan(values), None, pc.is_valid(values))
        else:
            mask = pc.is_valid(values)
        mask = pc.if_else(mask, True, None)
        # Arrow cannot compare halves; as singles they keep their value, as does the bound once it is rounded to a half.
        comparable = values.cast(pa.float32()) if values.type == pa.float16() else values
        bounds = ((pc.greater_equal, self.min), (pc.less_equal, self.max), (pc.greater, self.above), (pc.less, self.below))
        for compare, bound in bounds:
            if bound is not None:
                mask = pc.and_(mask, compare(comparable, _scalar(bound, values.type)))
        return mask

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column].cast(pa.string())


def _scalar(bound: float, kind: pa.DataType) -> pa.Scalar:
    """The bound in a float column's precision; an integer column is compared with the exact number."""
    if kind == pa.float16():
        return pa.scalar(float(np.float16(bound)), pa.float32())
    return pa.scalar(bound, kind if pa.types.is_floating(kind) else pa.float64())


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """The options that every rule on a score takes."""

    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None
    top_fraction: float | None = None
    of: Of | None = None

    def __post_init__(self) -> None:
        bounds = (self.min, self.max, self.above, self.below)
        if self.top_fraction is None:
            if all(b is None for b in bounds):
                raise ValueError("no bound given; takes min, max, above, below, or top_fraction")
            if self.of is not None:
                raise ValueError("`of` belongs to top_fraction")
            return
        if any(b is not None for b in bounds):
            raise ValueError("top_fraction and a bound; give them as two stages")
        if not 0 < self.top_fraction <= 1:
            raise ValueError(f"top_fraction {self.top_fraction:g} is not in (0, 1]")
        if self.of is None:
            raise ValueError("top_fraction of what? say `of: pool` (all rows) or `of: input` (rows that reach this stage)")

    def fit_column(self, column: str, scan: Scan) -> Filter:
        if self.top_fraction is None:
            return Threshold(column, self.min, self.max, self.above, self.below)
        return Threshold(column, min=top_threshold(scan, column, self.top_fraction))


@register("score")
@dataclass(frozen=True, kw_only=True)
class Score(_Scored):
    """Rows by the value of any numeric column: within bounds, or the top fraction of the pool or of the stage's input."""

    column: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def fit(self, scan: Scan) -> Filter:
        return self.fit_column(self.column, scan)


@register("clip_score")
@dataclass(frozen=True, kw_only=True)
class ClipScore(_Scored):
    """Rows by the cosine of a CLIP model's image and text features, the column `clip_<model>_similarity_score`.

    DataComp (section 3): B/32 or L/14, a threshold or the top fraction of the whole pool, of which its code keeps one row more
    than the fraction says, and all that tie with it; so does this. Of 1.0 that code dies, here all scored rows are kept.
    """

    model: str

    @property
    def needs(self) -> tuple[str, ...]:
        return (score_column(self.model),)

    def fit(self, scan: Scan) -> Filter:
        return self.fit_column(score_column(self.model), scan)


def top_threshold(scan: Scan, column: str, fraction: float) -> float:
    """The value at index n = int(N · fraction) of the descending order, so that `>=` keeps n + 1 rows when untied.

    N counts all rows, null and NaN included (DataComp takes fractions of the whole pool); if n lies past the scored
    rows, all of those are kept: −inf. Exact, whatever the pool's size: see `filters.rank`.

    So it is in DataComp's own code, but for three things: a fraction of 1.0 ends it with an IndexError, 0 keeps one row (here
    it is refused), and where n falls on a NaN, which it sorts last, it keeps nothing and says nothing.
    """
    key = nth_greatest(scan, [column], Ordered(column), lambda rows: int(rows * fraction))
    return float("-inf") if key is None else _number(key)


@dataclass(frozen=True)
class Ordered:
    """The scored numbers as keys in their order: the bits of doubles, which hold any float, negative ones inverted."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        numbers = arrays.numpy(batch[self.column].drop_null()).astype(np.float64)
        numbers = numbers[~np.isnan(numbers)] + 0  # −0 + 0 = 0: the two zeros are one number
        bits = numbers.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits | _SIGN)


_SIGN = np.uint64(1 << 63)


def _number(key: int) -> float:
    sign = int(_SIGN)
    bits = key ^ sign if key & sign else key ^ ((1 << 64) - 1)
    return float(np.array(bits, np.uint64).view(np.float64))
