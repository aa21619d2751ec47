"""A sorted uid list that is looked things up in, however long it is: memory-mapped, and little of it in memory at a time."""

from __future__ import annotations

import functools
import hashlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools import store, uids
from pools.errors import InputError
from pools.uids import Uids
from pools.uids.words import Words, words_of

STEP = 1 << 20  # uids that are read at a time
_AT_ONCE = 1024  # uids that are looked up in a long list before its pages are given back; each brings 16 pages
_PAGE = 256  # uids between two whose high words are kept: a page of the file
_LET_GO = 1 << 24  # bytes of a list from which its pages are given back to the system after use

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Summary:
    """What reading a list once tells."""

    count: int
    distinct: int
    digest: str  # SHA-256 over the records, as `uids.digest` has it


class Wanted:
    """How often a list names a uid, and where in the list it stands."""

    def __init__(self, records: Uids, *, where: str | None = None) -> None:
        self.records, self.where = records, where
        self._words: Words = records.view(np.uint64).reshape(-1, 2)
        self._long = records.nbytes > _LET_GO
        self._fences = np.empty(-(-len(records) // _PAGE), np.uint64)
        for start in range(0, len(records), STEP):
            piece = self._words[start : start + STEP : _PAGE, 0]
            self._fences[start // _PAGE : start // _PAGE + len(piece)] = piece
            self._let_go()

    @classmethod
    def open(cls, path: str) -> Wanted:
        """A keep list of DataComp's form; whether it is sorted is for `summary` to say."""
        if not store.exists(path):
            raise InputError("no such uid list", where=path)
        return _open(path, store.digest(path))

    def __len__(self) -> int:
        return len(self.records)

    def find(self, wanted: Uids) -> tuple[Indices, Indices]:
        """(n,) uids in any order → where each begins in the list, and how often it stands there (0 = not at all)."""
        words = words_of(wanted)
        order = np.argsort(words[:, 0])  # neighbours share pages
        positions, copies = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
        step = _AT_ONCE if self._long else max(1, len(words))
        for start in range(0, len(words), step):
            part = order[start : start + step]
            positions[part], copies[part] = self._find(words[part])
            self._let_go()
        return positions, copies

    def _find(self, words: Words) -> tuple[Indices, Indices]:
        low = np.maximum(np.searchsorted(self._fences, words[:, 0], "left") - 1, 0) * _PAGE
        high = np.minimum(np.searchsorted(self._fences, words[:, 0], "right") * _PAGE, len(self))
        first = self._bisect(words, low, high, upper=False)
        there = first < len(self)
        there[there] = (self._words[first[there]] == words[there]).all(axis=1)
        last = first.copy()
        last[there] = self._bisect(words[there], first[there], high[there], upper=True)
        return first, last - first

    def _bisect(self, words: Words, low: Indices, high: Indices, *, upper: bool) -> Indices:
        """searchsorted of each row of `words` within its own stretch of the list, all rows at once."""
        low, high = low.copy(), high.copy()
        while (active := np.flatnonzero(low < high)).size:
            middle = (low[active] + high[active]) // 2
            probe, sought = self._words[middle], words[active]
            below = (probe[:, 0] < sought[:, 0]) | (
                (probe[:, 0] == sought[:, 0]) & ((probe[:, 1] <= sought[:, 1]) if upper else (probe[:, 1] < sought[:, 1]))
            )
            low[active[below]] = middle[below] + 1
            high[active[~below]] = middle[~below]
        return low

    def pieces(self) -> Iterator[tuple[int, Uids]]:
        """The list in stretches: (where it begins, uids)."""
        for start in range(0, len(self), STEP):
            yield start, self.records[start : start + STEP]
            self._let_go()

    def places(self) -> Iterator[tuple[Uids, Indices]]:
        """The list in stretches, and of each uid where it begins in the list."""
        last, begin = None, 0
        for start, piece in self.pieces():
            words = words_of(piece)
            fresh = np.ones(len(words), bool)
            fresh[1:] = (words[1:] != words[:-1]).any(axis=1)
            fresh[0] = last is None or bool((words[0] != last).any())
            places = np.maximum.accumulate(np.where(fresh, np.arange(start, start + len(words)), begin))
            last, begin = words[-1].copy(), int(places[-1])
            yield piece, places

    def summary(self) -> Summary:
        """Raises InputError where the list is not sorted."""
        sha = hashlib.sha256()
        distinct, last = 0, None
        for start, piece in self.pieces():
            sha.update(piece)  # type: ignore[arg-type]
            words = words_of(piece)
            if last is not None:
                words = np.concatenate([last, words])
            high, low = words[:, 0], words[:, 1]
            same = high[1:] == high[:-1]
            down = (high[1:] < high[:-1]) | (same & (low[1:] < low[:-1]))
            if down.any():
                row = start + int(down.argmax()) + (last is None)
                raise InputError(
                    f"row {row} is smaller than row {row - 1}",
                    where=self.where,
                    expected="uids in sorted order",
                    fix=f"winnow uids convert {self.where} --output SORTED.npy",
                )
            distinct += len(words) - 1 - int((same & (low[1:] == low[:-1])).sum()) + (last is None)
            last = words[-1:].copy()
        return Summary(len(self), distinct, sha.hexdigest())

    def _let_go(self) -> None:
        """Gives mapped pages back to the system, which still has them cached: else a long list fills the memory bit by bit."""
        mapped: Any = getattr(self.records, "_mmap", None)
        if mapped is not None and self._long and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


@functools.lru_cache(maxsize=4)
def _open(path: str, digest: str) -> Wanted:
    if path.endswith((".txt", ".csv", ".parquet")):
        raise InputError(
            "not a list of records",
            where=path,
            expected=".npy of dtype u8,u8",
            fix=f"winnow uids convert {path} --output L.npy",
        )
    if (info := uids.read_info(path)).kind != "keep":
        raise InputError(f"this is a list of uids to {info.kind}", where=path, expected="a list of uids to keep")
    return Wanted(uids.load(path), where=path)


class Taken:
    """A bit for each place of a list."""

    def __init__(self, length: int) -> None:
        self._bits = np.zeros(-(-length // 8), np.uint8)

    def take(self, positions: Indices) -> NDArray[np.bool_]:
        """(n,) whether each is taken here for the first time; of equal ones only the first can be."""
        first = np.zeros(len(positions), bool)
        first[np.unique(positions, return_index=True)[1]] = True
        first &= ~self.has(positions)
        np.bitwise_or.at(self._bits, positions >> 3, np.uint8(1) << (positions & 7).astype(np.uint8))
        return first

    def has(self, positions: Indices) -> NDArray[np.bool_]:
        bits: NDArray[np.bool_] = (self._bits[positions >> 3] >> (positions & 7).astype(np.uint8)) & 1 == 1
        return bits
