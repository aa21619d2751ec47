"""Rules on a numeric column: bounds, the top fraction of it, the top so many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays
from filters.rank import nth_greatest
from filters.registry import Filter, Of, Scan, register
from pools import uids
from pools.errors import InputError
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
        numbers = arrays.floats(values)
        mask = np.ones(len(values), bool)
        bounds = ((np.greater_equal, self.min), (np.less_equal, self.max), (np.greater, self.above), (np.less, self.below))
        for compare, bound in bounds:
            if bound is not None:
                mask &= compare(numbers, numbers.dtype.type(bound))
        return arrays.booleans(mask, arrays.numpy(_unscored(values)))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column].cast(pa.string())


def _unscored(values: pa.Array) -> pa.BooleanArray:
    return values.is_null(nan_is_null=pa.types.is_floating(values.type))


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """The options that every rule on a score takes."""

    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None
    top_fraction: float | None = None
    top_count: int | None = None
    of: Of | None = None

    @property
    def scored(self) -> str:
        """The column."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        bounds = any(b is not None for b in (self.min, self.max, self.above, self.below))
        tops = [top for top in ("top_fraction", "top_count") if getattr(self, top) is not None]
        if not tops:
            if not bounds:
                raise ValueError("no bound given; takes min, max, above, below, or top_fraction or top_count")
            if self.of is not None:
                raise ValueError("`of` belongs to top_fraction and top_count")
            return
        if bounds or len(tops) > 1:
            raise ValueError(f"{tops[0]} and {'a bound' if bounds else tops[1]}; give them as two stages")
        if self.top_fraction is not None and not 0 < self.top_fraction <= 1:
            raise ValueError(f"top_fraction {self.top_fraction:g} is not in (0, 1]")
        if self.top_count is not None and self.top_count < 1:
            raise ValueError(f"top_count {self.top_count} is below 1")
        if self.of is None:
            raise ValueError(f"{tops[0]} of what? say `of: pool` (all rows) or `of: input` (rows that reach this stage)")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.scored,) if self.top_count is None else (self.scored, "uid")

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        kind = types[self.scored]
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {self.scored!r} holds {kind}", expected="numbers")

    def fit(self, scan: Scan) -> Filter:
        if self.top_count is not None:
            return fit_top(scan, self.scored, self.top_count)
        if self.top_fraction is not None:
            return Threshold(self.scored, min=top_threshold(scan, self.scored, self.top_fraction))
        return Threshold(self.scored, self.min, self.max, self.above, self.below)


@register("score")
@dataclass(frozen=True, kw_only=True)
class Score(_Scored):
    """Rows by the value of any numeric column: within bounds, or the greatest of the pool or of the stage's input.

    `top_fraction` as in clip_score. `top_count` keeps exactly so many: of rows that tie for the last places those with the
    smallest 64-bit hashes of their uids; rows with equal uids stay together, and may then be one too many. Of fewer scored
    rows, all are kept.
    """

    column: str

    @property
    def scored(self) -> str:
        return self.column


@register("clip_score")
@dataclass(frozen=True, kw_only=True)
class ClipScore(_Scored):
    """Rows by the cosine of a CLIP model's image and text features, the column `clip_<model>_similarity_score`.

    DataComp (section 3): B/32 or L/14, a threshold or the top fraction of the whole pool, of which its code keeps one row more
    than the fraction says, and all that tie with it; so does this. Of 1.0 that code dies, here all scored rows are kept.
    WebLI-100B (quality filtering): the 5 billion English pairs with the greatest; `top_count` as in score.
    """

    model: str

    @property
    def scored(self) -> str:
        return score_column(self.model)


def top_threshold(scan: Scan, column: str, fraction: float) -> float:
    """The value at index n = int(N · fraction) of the descending order, so that `>=` keeps n + 1 rows when untied.

    N counts all rows, null and NaN included (DataComp takes fractions of the whole pool); if n lies past the scored
    rows, all of those are kept: −inf. Exact, whatever the pool's size: see `filters.rank`.

    So it is in DataComp's own code, but for three things: a fraction of 1.0 ends it with an IndexError, 0 keeps one row (here
    it is refused), and where n falls on a NaN, which it sorts last, it keeps nothing and says nothing.
    """
    key = nth_greatest(scan, [column], Ordered(column), lambda rows: int(rows * fraction))
    return float("-inf") if key is None else _number(key)


def fit_top(scan: Scan, column: str, count: int) -> Filter:
    """Exactly the `count` rows with the greatest values, whatever the pool's size; see `Score` for those that tie."""
    key = nth_greatest(scan, [column], Ordered(column), count - 1)
    if key is None:
        return Top(column, float("-inf"), _ALL)
    last = _number(key)
    above, ties = scan.reduce([column], _AboveAndAt(column, last), _added, (0, 0))
    if above + ties == count:
        return Top(column, last, _ALL)
    inverted = nth_greatest(scan, [column, "uid"], _InvertedTies(column, last), count - above - 1)
    assert inverted is not None, "the ties are as many as were counted"
    return Top(column, last, _ALL - inverted)


@dataclass(frozen=True)
class Top:
    """Rows whose value is above `last`, or is `last` while the 64-bit hash of their uid is at most `hash`."""

    column: str
    last: float
    hash: int

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, "uid")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        above, ties = _above_and_at(batch[self.column], self.last)
        ties[ties] = _hashes(batch, ties) <= np.uint64(self.hash)
        return arrays.booleans(above | ties, arrays.numpy(_unscored(batch[self.column])))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column].cast(pa.string())


def _above_and_at(values: pa.Array, last: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(n,) which values are above a number, and which are it; null and NaN are neither."""
    numbers = arrays.floats(values).astype(np.float64)
    return numbers > last, numbers == last


def _hashes(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return uids.hash64(uids.pack(batch["uid"].filter(arrays.booleans(rows))), 0)


@dataclass(frozen=True)
class _AboveAndAt:
    """How many values of a batch are above a number, and how many are it."""

    column: str
    last: float

    def __call__(self, batch: pa.RecordBatch) -> tuple[int, int]:
        above, ties = _above_and_at(batch[self.column], self.last)
        return int(above.sum()), int(ties.sum())


def _added(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


@dataclass(frozen=True)
class _InvertedTies:
    """The hashes of the uids of rows with one value, in reverse order, as the smallest are wanted."""

    column: str
    last: float

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        return ~_hashes(batch, _above_and_at(batch[self.column], self.last)[1])


@dataclass(frozen=True)
class Ordered:
    """The scored numbers as keys in their order: the bits of doubles, which hold any float, negative ones inverted."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        numbers = arrays.numpy(batch[self.column].drop_null()).astype(np.float64)
        numbers = numbers[~np.isnan(numbers)] + 0  # −0 + 0 = 0: the two zeros are one number
        bits = numbers.view(np.uint64)
        return np.where(bits & _SIGN, ~bits, bits | _SIGN)


_ALL = (1 << 64) - 1
_SIGN = np.uint64(1 << 63)


def _number(key: int) -> float:
    sign = int(_SIGN)
    bits = key ^ sign if key & sign else key ^ ((1 << 64) - 1)
    return float(np.array(bits, np.uint64).view(np.float64))
