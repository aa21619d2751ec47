"""Inner products with many vectors, from 6 bits a number, and how far they can be from the true ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

_ROWS_AT_ONCE = 1024
# What float32 loses of vectors no longer than 1: some forty roundings of 2^-24 each, and as much again.
_ROUNDING = 5e-6


@dataclass(frozen=True)
class Quantised:
    """Vectors (k, d) no longer than 1, without their mean, as whole numbers of up to ±31 times a scale of each.

    The mean, often most of a vector of CLIP, would only cost precision: without it the products are as far apart.
    """

    mean: Floats
    packed: NDArray[np.int8]
    start: NDArray[np.int32]
    scale: Floats
    base: Floats  # products of the mean with the vectors without it
    count: int
    length: float  # of the longest vector without the mean
    error: float  # length of the greatest rounding error

    @staticmethod
    def of(vectors: Floats, length: float) -> Quantised:
        """Of vectors that are to be divided by a length first."""
        from filters import products

        count, width = vectors.shape
        padded = -(-count // products.TILE) * products.TILE
        numbers = np.zeros((padded, -(-width // products.WIDTH) * products.WIDTH), np.int8)
        scale, base = np.zeros((2, padded), np.float32)
        mean = (vectors.mean(axis=0, dtype=np.float64) / length).astype(np.float32)
        greatest = error = 0.0
        for begin in range(0, count, _ROWS_AT_ONCE):
            part = slice(begin, min(begin + _ROWS_AT_ONCE, count))
            centred = (vectors[part] / np.float64(length)).astype(np.float32) - mean
            rounded, scale[part] = _round(centred, products.VECTOR)
            numbers[part, :width] = rounded
            base[part] = centred.astype(np.float64) @ mean
            greatest = max(greatest, float(_lengths(centred).max()))
            error = max(error, float(_lengths(centred - rounded * scale[part, None]).max()))
        # Rows are stored with ROW added to each number, as they must not be negative.
        start = -products.ROW * numbers.sum(axis=1, dtype=np.int32)
        return Quantised(mean, products.pack(numbers), start, scale, base, count, greatest, error)

    def products(self, rows: Floats) -> tuple[Floats, Doubles, Doubles]:
        """Of rows (n, d) of length 1: products with the vectors without their mean (n, k), their greatest error and what
        the mean adds to each of a row (n,)."""
        from filters import products

        width = len(self.mean)
        square = float(np.dot(self.mean.astype(np.float64), self.mean))
        along = rows.astype(np.float64) @ self.mean
        shift = (along / (square or 1.0)).astype(np.float32)
        rest = rows - shift[:, None] * self.mean
        rounded, factor = _round(rest, products.ROW)
        numbers = np.full((-(-len(rows) // products.ROWS) * products.ROWS, self.packed.shape[1] * products.DEPTH), 0, np.uint8)
        numbers[: len(rows), :width] = rounded + products.ROW
        factors = np.zeros((len(numbers), 2), np.float32)
        factors[: len(rows), 0], factors[: len(rows), 1] = factor, shift
        found = np.empty((len(numbers), len(self.scale)), np.float32)
        products.approximate(numbers, factors, self.packed, self.start, self.scale, self.base, found)
        # For row x = q + e and vector v = p + f, q and p being rounded: ⟨x, v⟩ − ⟨q, p⟩ = ⟨q, f⟩ + ⟨e, v⟩.
        error = _lengths(rounded) * factor * self.error + _lengths(rest - rounded * factor[:, None]) * self.length
        return found[: len(rows), : self.count], error + _ROUNDING, along


def _round(vectors: Floats, greatest: int) -> tuple[Floats, Floats]:
    """Whole numbers of up to ± `greatest`, and the scales (n,) by which they give the vectors again, roughly."""
    scale = np.abs(vectors).max(axis=1) / np.float32(greatest)
    scale[scale < np.finfo(np.float32).tiny] = 1
    return np.clip(np.rint(vectors / scale[:, None]), -greatest, greatest), scale


def _lengths(vectors: NDArray[Any]) -> Doubles:
    lengths: Doubles = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return lengths
