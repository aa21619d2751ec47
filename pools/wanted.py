"""A sorted uid list that is looked things up in, however long it is, little of it in memory at a time."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pools import store, uids
from pools.errors import InputError
from pools.uids import Uids
from pools.uids.lookup import Held, Paged, Records, mapped
from pools.uids.lookup import Indices as Indices
from pools.uids.streams import Stored
from pools.uids.words import words_of

STEP = 1 << 17  # uids that are read at a time
_HELD = 1 << 24  # bytes up to which a list is read whole


@dataclass(frozen=True)
class Summary:
    """What reading a list once tells."""

    count: int
    distinct: int
    digest: str  # SHA-256 over the records, as `uids.digest` has it


class Wanted:
    """How often a list names a uid, and where in the list it stands. A list in a file is read there, never held."""

    def __init__(self, records: Uids | Stored, *, where: str | None = None) -> None:
        self.where = where
        self._records = _opened(records)

    @classmethod
    def open(cls, path: str, *, kind: uids.Kind = "keep") -> Wanted:
        """A list of DataComp's form and this kind; whether it is sorted is for `summary` to say."""
        if not store.exists(path):
            raise InputError("no such uid list", where=path)
        return _open(path, store.digest(path), kind)

    def __len__(self) -> int:
        return len(self._records)

    def find(self, wanted: Uids) -> tuple[Indices, Indices]:
        """(n,) uids in any order → where each begins in the list, and how often it stands there (0 = not at all)."""
        first, end = self._records.search(words_of(wanted))
        return first, end - first

    def pieces(self) -> Iterator[tuple[int, Uids]]:
        """The list in stretches: (where it begins, uids)."""
        for start in range(0, len(self), STEP):
            yield start, self._records.read(start, STEP)

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


def _opened(records: Uids | Stored) -> Records:
    stored = records if isinstance(records, Stored) else mapped(records)
    if stored is not None:
        return Held(stored.reader().read(stored.rows)) if 16 * stored.rows <= _HELD else Paged(stored)
    assert not isinstance(records, Stored)
    return Held(records)


@functools.lru_cache(maxsize=4)
def _open(path: str, digest: str, kind: uids.Kind) -> Wanted:
    if path.endswith((".txt", ".csv", ".parquet")):
        raise InputError(
            "not a list of records",
            where=path,
            expected=".npy of dtype u8,u8",
            fix=f"winnow uids convert {path} --output L.npy",
        )
    if (info := uids.read_info(path)).kind != kind:
        raise InputError(f"this is a list of uids to {info.kind}", where=path, expected=f"a list of uids to {kind}")
    return Wanted(uids.stored(path), where=path)


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
