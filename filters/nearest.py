"""The nearest of many centroids, by inner product, exactly: the same answer on every machine, however rows are batched.

Products are first computed fast, in floats by BLAS or in whole numbers (`filters.quantised`), with a bound on their error.
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

from filters.quantised import Quantised

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK_BYTES = 1 << 23  # of the products that are held at once
_ROWS_AT_ONCE = 1024
# Below so many multiplications what compiling and loading it takes is more than it saves.
COMPILED_FROM = 1 << 33


@dataclass(frozen=True)
class Nearest:
    """Finds the nearest of `centroids` (k, d), finite and float32. Holds them once more in 8 bits for pools that need it."""

    centroids: Floats

    def __call__(self, features: NDArray[np.floating]) -> Ids:
        """(n, d) → (n,) index of the centroid with the greatest inner product, -1 where a row is not finite."""
        found = np.full(len(features), -1, np.int64)
        rows = np.ascontiguousarray(features, np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        good = np.flatnonzero(np.isfinite(lengths))
        if not self.longest:  # all products are 0
            found[good] = 0
            return found
        found[good[lengths[good] == 0]] = 0  # as are these
        good = good[lengths[good] > 0]
        if len(good):
            compiled = self._worthwhile(len(good))
            find = self._by_whole_numbers if compiled else self._by_floats
            if compiled:
                _ = self.quantised  # made once, not by each thread
            at_once = min(max(16, _BLOCK_BYTES // (4 * len(self.centroids))), _ROWS_AT_ONCE)
            blocks = np.array_split(good, -(-len(good) // at_once))
            with ThreadPoolExecutor(threads() if compiled else 1) as pool:  # floats are multiplied by threads of BLAS
                answers = pool.map(lambda block: find(rows[block], lengths[block]), blocks)
                for block, answer in zip(blocks, answers, strict=True):
                    found[block] = answer
        return found

    def _worthwhile(self, rows: int) -> bool:
        if rows * self.centroids.size < COMPILED_FROM and "quantised" not in self.__dict__:
            return False
        try:
            from filters.products import available
        except ModuleNotFoundError as e:
            if (e.name or "").split(".")[0] not in ("numba", "llvmlite"):
                raise
            return False
        return available()

    def _by_floats(self, rows: Floats, lengths: NDArray[np.float64]) -> Ids:
        products = rows @ self.centroids.T
        error = _float_error(rows.shape[1]) * lengths * self.longest + rows.shape[1] * 2.0**-149
        # Rounded down: the limit is a float32 as the products are.
        limit = np.nextafter((products.max(axis=1) - 2 * error).astype(np.float32), np.float32(-np.inf))
        close = ~(products < limit[:, None])  # where floats overflow, all of them
        found: Ids = close.argmax(axis=1)
        for i in np.flatnonzero(np.count_nonzero(close, axis=1) > 1):
            found[i] = self._settle(rows[i], np.flatnonzero(close[i]))
        return found

    def _by_whole_numbers(self, rows: Floats, lengths: NDArray[np.float64]) -> Ids:
        from filters import products

        def exactly(which_rows: Ids, which: Ids) -> NDArray[np.float64]:
            sums = np.empty(len(which))
            products.exact(rows, self.centroids, which_rows, which, sums)
            return sums

        roughly, errors, added = self.quantised.products((rows / lengths[:, None]).astype(np.float32))
        # The one that seems nearest sets the limit: no other is as near whose product cannot reach its own.
        found: Ids = roughly.argmax(axis=1)
        reached = exactly(np.arange(len(rows)), found) / (lengths * self.longest)
        limit = np.nextafter((reached - added - errors).astype(np.float32), np.float32(-np.inf))
        which_rows, which = np.divmod(np.flatnonzero(roughly >= limit[:, None]), roughly.shape[1])
        sums = exactly(which_rows, which)
        starts = np.searchsorted(which_rows, np.arange(len(rows)))  # each row has at least the one found
        greatest = np.maximum.reduceat(sums, starts)
        close = np.flatnonzero(sums >= (greatest - 2 * _double_error(rows.shape[1]) * lengths * self.longest)[which_rows])
        first = np.searchsorted(which_rows[close], np.arange(len(rows) + 1))
        found = which[close[first[:-1]]]
        for i in np.flatnonzero(np.diff(first) > 1):
            found[i] = self._first_of(rows[i], which[close[first[i] : first[i + 1]]])
        return found

    def _settle(self, row: Floats, candidates: NDArray[np.integer]) -> int:
        """The nearest of some centroids, ascending, to one row."""
        exact = row.astype(np.float64)  # products of two float32 are exact in it
        step = max(1, _BLOCK_BYTES // (8 * len(row)))
        parts = [candidates[i : i + step] for i in range(0, len(candidates), step)]
        products = np.concatenate([self.centroids[part].astype(np.float64) @ exact for part in parts])
        error = _double_error(len(row)) * float(np.sqrt(exact @ exact)) * self.longest
        return self._first_of(row, candidates[products >= products.max() - 2 * error])

    def _first_of(self, row: Floats, candidates: NDArray[np.integer]) -> int:
        """The same of centroids whose products no double tells apart."""
        if len(candidates) == 1:
            return int(candidates[0])
        exact = row.astype(np.float64)
        candidates = np.unique(self.firsts[candidates])
        best, terms = candidates[0], self.centroids[candidates[0]].astype(np.float64) * exact
        for other in candidates[1:]:
            others = self.centroids[other].astype(np.float64) * exact
            # The sum of all terms is rounded once: its sign is that of the difference.
            if math.fsum(np.concatenate([others, -terms])) > 0:
                best, terms = other, others
        return int(best)

    @functools.cached_property
    def longest(self) -> float:
        """The greatest length of a centroid, rounded up."""
        squares = np.einsum("ij,ij->i", self.centroids, self.centroids, dtype=np.float64)
        return float(np.sqrt(squares.max())) * (1 + 1e-9)

    @functools.cached_property
    def firsts(self) -> Ids:
        """(k,) the first centroid that equals each, so that many copies of one are compared once."""
        whole = np.ascontiguousarray(self.centroids).view(np.dtype((np.void, self.centroids[0].nbytes)))[:, 0]
        _, first, which = np.unique(whole, return_index=True, return_inverse=True)
        firsts: Ids = first[which]
        return firsts

    @functools.cached_property
    def quantised(self) -> Quantised:
        return Quantised.of(self.centroids, self.longest)


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


def _double_error(width: int) -> float:
    """The same in double precision, of float32 vectors: their products alone are exact."""
    return 2 * width * 2.0**-53
