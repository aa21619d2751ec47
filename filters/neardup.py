"""Near-duplicates of evaluation images: every row that resembles one goes, whatever else the pool holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from filters import arrays, hamming
from filters.registry import register
from filters.score import Threshold


@register("eval_similarity")
@dataclass(frozen=True, kw_only=True)
class EvalSimilarity:
    """Images whose similarity to the nearest evaluation image, in `column`, is `below` a bound, or `max` at most.

    All rows at or above the bound (`below`), or above it (`max`), are near-duplicates and go. Compared in the column's own
    precision; null and NaN are not judged. DataComp (section 3): near-duplicates are those with 0.604169 or more. ALIGN
    (section 3.1): those with more than 0.975, which is `max: 0.975`.
    """

    below: float | None = None
    max: float | None = None
    column: str = "eval_similarity"

    def __post_init__(self) -> None:
        if (self.below is None) == (self.max is None):
            raise ValueError("takes one of below (at the bound is a near-duplicate) and max (at the bound is none)")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def _threshold(self) -> Threshold:
        return Threshold(self.column, max=self.max, below=self.below)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return self._threshold.keep(batch)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return self._threshold.measure(batch)


@register("eval_phash")
@dataclass(frozen=True, kw_only=True)
class EvalPhash:
    """Images whose perceptual hash differs in more than `max_distance` bits from all hashes in `index`.

    `index` is a `.npy` of unsigned 64-bit numbers, the hashes of the evaluation images; `column` holds whole numbers or 16
    hex digits. A null is not judged. State: up to 64 tables of 16 bytes for each hash of the index, in each process.
    """

    index: str = field(metadata={"file": True})
    max_distance: int
    column: str = "phash"

    def __post_init__(self) -> None:
        hamming.check_distance(self.max_distance)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        values = batch[self.column]
        return arrays.booleans(self._nearest(values) > self.max_distance, arrays.numpy(values.is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """Bits to the nearest hash of the index, null where it is farther than `max_distance`."""
        nearest = self._nearest(batch[self.column])
        return pa.array(nearest, pa.int64(), mask=nearest > self.max_distance).cast(pa.string())

    def _nearest(self, values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return hamming.read_index(self.index, self.max_distance).nearest(hamming.of_column(values, self.column))
