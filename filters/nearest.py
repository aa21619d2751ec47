"""The nearest of many centroids, by inner product, exactly: the same answer on every machine, however rows are batched.

Products are first computed fast, in floats by BLAS or in whole numbers (`filters.products`), with a bound on their error.
Where that leaves more than one centroid in question, those are compared in double precision, and where these products are
as close as its rounding, as exact sums; of equal ones the first is nearest.
"""

from __future__ import annotations

import functools
import math
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK_BYTES = 1 << 25  # of the products that are held at once
_ROWS_AT_ONCE = 1024
# Below so many multiplications what compiling and loading it takes is more than it saves.
COMPILED_FROM = 1 << 33
_SCALE = 32000.0  # length of a vector in whole numbers: a product of two stays below 2^31


@dataclass(frozen=True)
class Nearest:
    """Finds the nearest of `centroids` (k, d), finite and float32. Holds them once more in 16 bits for pools that need it."""

    centroids: Floats

    def __call__(self, features: NDArray[np.floating]) -> Ids:
        """(n, d) → (n,) index of the centroid with the greatest inner product, -1 where a row is not finite."""
        found = np.full(len(features), -1, np.int64)
        rows = np.ascontiguousarray(features, np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        good = np.flatnonzero(np.isfinite(lengths))
        found[good[lengths[good] == 0]] = 0  # all products are 0
        good = good[lengths[good] > 0]
        if len(good):
            blocks = np.array_split(good, -(-len(good) // _ROWS_AT_ONCE))
            integers = self._worthwhile(len(good))
            find = self._by_integers if integers else self._by_floats
            _ = self.longest, integers and self.integers  # made once, not by each thread
            with ThreadPoolExecutor(threads() if integers else 1) as pool:  # floats are multiplied by threads of BLAS
                answers = pool.map(lambda block: find(rows[block], lengths[block]), blocks)
                for block, answer in zip(blocks, answers, strict=True):
                    found[block] = answer
        return found

    def _worthwhile(self, rows: int) -> bool:
        if rows * self.centroids.size < COMPILED_FROM and "integers" not in self.__dict__:
            return False
        try:
            from filters.products import available
        except ModuleNotFoundError as e:
            if (e.name or "").split(".")[0] not in ("numba", "llvmlite"):
                raise
            return False
        return available()

    def _by_floats(self, rows: Floats, lengths: NDArray[np.float64]) -> Ids:
        found = np.empty(len(rows), np.int64)
        step = max(1, _BLOCK_BYTES // (4 * len(self.centroids)))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            products = block @ self.centroids.T
            best = products.max(axis=1)
            error = _float_error(rows.shape[1]) * lengths[start : start + step] * self.longest
            # Rounded down: the limit is a float32 as the products are.
            limit = np.nextafter((best - 2 * error).astype(np.float32), np.float32(-np.inf))
            close = products >= limit[:, None]
            found[start : start + step] = close.argmax(axis=1)
            unsure = np.flatnonzero(np.count_nonzero(close, axis=1) > 1)
            for i in unsure:
                found[start + i] = self._settle(block[i], np.flatnonzero(close[i]))
        return found

    def _by_integers(self, rows: Floats, lengths: NDArray[np.float64]) -> Ids:
        from filters import products

        numbers, errors = _integers(rows, _SCALE / lengths, 4)
        best = np.full((len(numbers), products.TOP), products.LOWEST, np.int32)
        which = np.zeros(best.shape, np.int32)
        vectors, error = self.integers
        products.greatest(numbers, vectors, len(self.centroids), best, which)
        found: Ids = which[: len(rows), 0].astype(np.int64)
        # |⟨q, p⟩ − ⟨x, c⟩| ≤ |q|·|p − c| + |q − x|·|c|, and |q| ≤ |x| + |q − x|.
        bound = (_SCALE + errors) * error + errors * _SCALE
        close = best[: len(rows)] >= (best[: len(rows), 0] - 2 * bound)[:, None]
        number = close.sum(axis=1)
        for i in np.flatnonzero(number > 1):
            few = number[i] < min(products.TOP, len(self.centroids))
            candidates = np.sort(which[i, : number[i]]) if few else np.arange(len(self.centroids))
            found[i] = self._settle(rows[i], candidates)
        return found

    def _settle(self, row: Floats, candidates: NDArray[np.integer]) -> int:
        """The nearest of some centroids, ascending, to one row."""
        exact = row.astype(np.float64)  # products of two float32 are exact in it
        step = max(1, _BLOCK_BYTES // (8 * len(row)))
        parts = [candidates[i : i + step] for i in range(0, len(candidates), step)]
        products = np.concatenate([self.centroids[part].astype(np.float64) @ exact for part in parts])
        error = 2 * len(row) * 2.0**-53 * float(np.sqrt(exact @ exact)) * self.longest
        candidates = candidates[products >= products.max() - 2 * error]
        if len(candidates) == 1:
            return int(candidates[0])
        terms = [self.centroids[c].astype(np.float64) * exact for c in candidates]
        best = 0
        for i in range(1, len(terms)):
            # The sum of all terms is rounded once: its sign is that of the difference.
            if math.fsum(np.concatenate([terms[i], -terms[best]])) > 0:
                best = i
        return int(candidates[best])

    @functools.cached_property
    def longest(self) -> float:
        """The greatest length of a centroid, rounded up."""
        squares = np.einsum("ij,ij->i", self.centroids, self.centroids, dtype=np.float64)
        return float(np.sqrt(squares.max())) * (1 + 1e-9)

    @functools.cached_property
    def integers(self) -> tuple[NDArray[np.int16], float]:
        """The centroids in 16 bits, the longest of them `_SCALE` long, and the length of the greatest rounding error."""
        numbers, errors = _integers(self.centroids, np.full(len(self.centroids), _SCALE / (self.longest or 1.0)), 2)
        return numbers, float(errors.max())


def threads() -> int:
    """Threads for one process: as OMP_NUM_THREADS says, else all cores, or one where processes share them."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return len(os.sched_getaffinity(0)) if multiprocessing.parent_process() is None else 1


def _float_error(width: int) -> float:
    """Greatest error of a float32 inner product of unit vectors, in whatever order it is summed."""
    unit = width * 2.0**-24
    return unit / (1 - unit)


def _integers(rows: Floats, scales: NDArray[np.float64], multiple: int) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
    """Rows times their scales as whole numbers, padded with zeros to so many rows and to whole registers; errors' lengths."""
    from filters.products import LANES

    count, width = rows.shape
    numbers = np.zeros((-(-count // multiple) * multiple, -(-width // LANES) * LANES), np.int16)
    errors = np.empty(count)
    for start in range(0, count, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        scaled = rows[part] * scales[part, None].astype(np.float32)
        rounded = np.rint(scaled)
        numbers[start : start + len(scaled), :width] = rounded
        rounded -= scaled
        errors[part] = np.sqrt(np.einsum("ij,ij->i", rounded, rounded, dtype=np.float64))
    # Of the multiplication itself: scale and product are off by 2^-24 each of numbers that together are `_SCALE` long.
    return numbers, errors + 3 * 2.0**-24 * _SCALE
