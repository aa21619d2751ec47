"""Random subsets, decided by each row's uid alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays
from filters.rank import nth_greatest
from filters.registry import Filter, Of, Scan, register
from pools import uids

_ALL = (1 << 64) - 1


@register("random")
@dataclass(frozen=True, kw_only=True)
class Random:
    """A random `fraction` of the rows, or `count` of them, the same for one `seed` on every machine.

    A row is kept if the 64-bit hash of its uid and the seed is small: below fraction · 2^64, or among the `count` smallest
    of all rows (`of: pool`) or of those that reach the stage (`of: input`). So the smaller of two subsets with one seed is
    part of the larger, and 1.0 keeps all. Rows with equal uids stay together: as with ties, `count` may then be exceeded; of
    fewer rows than `count`, all are kept. DataComp (section 3): random subsets of 1, 10, 25, 50 and 75 %.
    """

    fraction: float | None = None
    count: int | None = None
    seed: int = 0
    of: Of | None = None
    needs: ClassVar[tuple[str, ...]] = ("uid",)

    def __post_init__(self) -> None:
        if (self.fraction is None) == (self.count is None):
            raise ValueError("takes one of fraction and count")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise ValueError(f"fraction {self.fraction:g} is not in (0, 1]")
        if self.fraction is not None and self.of is not None:
            raise ValueError("`of` belongs to count: a fraction is decided row by row")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count {self.count} is below 1")
        if self.count is not None and self.of is None:
            raise ValueError("count out of what? say `of: pool` (all rows) or `of: input` (rows that reach this stage)")

    def fit(self, scan: Scan) -> Filter:
        if self.fraction is not None:
            # The greatest whole number below fraction · 2^64, which is exact as a Fraction.
            return HashAtMost(math.ceil(Fraction(self.fraction) * (1 << 64)) - 1, self.seed)
        assert self.count is not None
        inverted = nth_greatest(scan, self.needs, _Inverted(self.seed), self.count - 1)
        return HashAtMost(_ALL if inverted is None else _ALL - inverted, self.seed)


@dataclass(frozen=True)
class HashAtMost:
    """Rows whose 64-bit hash of uid and seed is at most `last`."""

    last: int
    seed: int
    needs: ClassVar[tuple[str, ...]] = ("uid",)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return arrays.booleans(_hashes(batch, self.seed) <= np.uint64(self.last))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """The hash as a share of 2^64, to nine digits."""
        return arrays.numbers(np.round(_hashes(batch, self.seed) / 2.0**64, 9)).cast(pa.string())


@dataclass(frozen=True)
class _Inverted:
    """The hashes in reverse order, as the smallest are wanted."""

    seed: int

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        return ~_hashes(batch, self.seed)


def _hashes(batch: pa.RecordBatch, seed: int) -> NDArray[np.uint64]:
    return uids.hash64(uids.pack(batch["uid"]), seed)
