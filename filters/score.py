"""Rules on a numeric column: bounds, and the top fraction of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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

    DataComp (section 3): B/32 or L/14, a threshold or the top fraction of the whole pool.
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
    """
    total, width = scan.reduce([column], _Width(column), _wider, (0, 16))
    key = nth_greatest(scan, [column], _Ordered(column, width), width, int(total * fraction))
    return float("-inf") if key is None else _number(key, width)


_FLOAT = {16: np.float16, 32: np.float32, 64: np.float64}
_UINT: dict[int, type[Any]] = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def _wider(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], max(a[1], b[1])


@dataclass(frozen=True)
class _Width:
    """Summary of a batch: its rows, and the bits of the floats that hold its column without loss."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> tuple[int, int]:
        kind = batch.schema.field(self.column).type
        return len(batch), kind.bit_width if pa.types.is_floating(kind) else 64


@dataclass(frozen=True)
class _Ordered:
    """The scored numbers' bits as keys in the numbers' order: negative ones inverted, others with the sign bit set."""

    column: str
    width: int

    def __call__(self, batch: pa.RecordBatch) -> NDArray[Any]:
        numbers = batch[self.column].drop_null().to_numpy(zero_copy_only=False).astype(_FLOAT[self.width])
        numbers = numbers[~np.isnan(numbers)] + 0  # −0 + 0 = 0: the two zeros are one number
        kind = _UINT[self.width]
        bits = numbers.view(kind)
        sign = kind(1 << (self.width - 1))
        ordered: NDArray[Any] = np.where(bits & sign, ~bits, bits | sign)
        return ordered


def _number(key: int, width: int) -> float:
    sign = 1 << (width - 1)
    bits = key ^ sign if key & sign else key ^ ((1 << width) - 1)
    return float(np.array(bits, _UINT[width]).view(_FLOAT[width]))
