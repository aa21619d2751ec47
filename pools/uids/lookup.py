"""Sorted lists that things are looked up in, in memory or in a file of any length.

A file is read, not mapped: for each page of a mapped one that is touched the system counts up to 2 MB into the memory.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pools import store
from pools.errors import InputError
from pools.uids.sets import bisect
from pools.uids.streams import Stored
from pools.uids.words import UID, Uids, Words, words_of

_PAGE = 256  # uids between two that are kept in memory: 4 KB of the file
_AT_ONCE = 2048  # uids that are looked up together, each of them in one or two pages
Indices = NDArray[np.int64]


class Records(Protocol):
    """A sorted list; one that is not sorted gives wrong answers."""

    def __len__(self) -> int: ...

    def read(self, start: int, number: int) -> Uids:
        """`number` uids from a place on; fewer at the end."""
        ...

    def search(self, sought: Words) -> tuple[Indices, Indices]:
        """(n, 2) words → (n,) how many entries are smaller, (n,) how many are smaller or equal."""
        ...


class Held:
    """A list in memory."""

    def __init__(self, uids: Uids) -> None:
        self._uids, self._words = uids, words_of(uids)
        self._high = np.ascontiguousarray(self._words[:, 0])

    def __len__(self) -> int:
        return len(self._uids)

    def read(self, start: int, number: int) -> Uids:
        return self._uids[start : start + number]

    def search(self, sought: Words) -> tuple[Indices, Indices]:
        return _search(self._high, self._words[:, 1], sought)


class Paged:
    """A list in a file, of which one uid in 256 is in memory. One of a store is copied to a temporary file first."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._start = stored.start
        self._file = _opened(stored)
        if not store.is_local(stored.path):
            self._start = 0
        pages = -(-stored.rows // _PAGE)
        self._high, self._low = np.empty(pages, np.uint64), np.empty(pages, np.uint64)
        step = 512 * _PAGE
        for start in range(0, stored.rows, step):
            firsts = words_of(self.read(start, step))[::_PAGE]
            here = slice(start // _PAGE, start // _PAGE + len(firsts))
            self._high[here], self._low[here] = firsts[:, 0], firsts[:, 1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Paged, (self._stored,)

    def __len__(self) -> int:
        return self._stored.rows

    def read(self, start: int, number: int) -> Uids:
        block = np.empty(max(0, min(number, len(self) - start)), UID)
        self._fill(block, start)
        return block

    def search(self, sought: Words) -> tuple[Indices, Indices]:
        order = np.argsort(sought[:, 0])  # neighbours share pages
        left, right = np.empty(len(sought), np.int64), np.empty(len(sought), np.int64)
        for start in range(0, len(order), _AT_ONCE):
            part = order[start : start + _AT_ONCE]
            left[part], right[part] = self._search(sought[part])
        return left, right

    def _search(self, sought: Words) -> tuple[Indices, Indices]:
        if not len(self):
            return np.zeros(len(sought), np.int64), np.zeros(len(sought), np.int64)
        # The first entry that is not smaller stands in one page or right behind it, and so does the first that is greater.
        page_of = [np.maximum(found - 1, 0) for found in _search(self._high, self._low, sought)]
        pages = np.unique(np.concatenate(page_of))
        words = words_of(self._pages(pages))
        found = _search(np.ascontiguousarray(words[:, 0]), words[:, 1], sought)
        left, right = (n + _PAGE * (page - np.searchsorted(pages, page)) for n, page in zip(found, page_of, strict=True))
        return left, right

    def _pages(self, pages: Indices) -> Uids:
        """The uids of some pages, ascending, one page behind the other."""
        end = min(len(self), int(pages[-1] + 1) * _PAGE)
        block = np.empty((len(pages) - 1) * _PAGE + end - int(pages[-1]) * _PAGE, UID)
        for run in np.split(np.arange(len(pages)), np.flatnonzero(np.diff(pages) > 1) + 1):
            self._fill(block[run[0] * _PAGE : (run[-1] + 1) * _PAGE], int(pages[run[0]]) * _PAGE)
        return block

    def _fill(self, block: Uids, start: int) -> None:
        view, at = block.view(np.uint8).data, self._start + 16 * start
        while len(view):
            got = os.preadv(self._file.fileno(), [view], at)
            if not got:
                raise InputError("the file has changed, or ends too soon", where=self._stored.path, expected="a whole list")
            view, at = view[got:], at + got


def _search(high: Words, low: Words, sought: Words) -> tuple[Indices, Indices]:
    left = np.searchsorted(high, sought[:, 0], "left")
    right = np.searchsorted(high, sought[:, 0], "right")
    return bisect(low, sought[:, 1], left, right, upper=False), bisect(low, sought[:, 1], left, right, upper=True)


def _opened(stored: Stored) -> IO[bytes]:
    if store.is_local(stored.path):
        return Path(store.local_path(stored.path)).open("rb", buffering=0)
    copy: IO[bytes] = tempfile.TemporaryFile(buffering=0)
    with store.open_input(stored.path) as f:
        f.seek(stored.start)
        shutil.copyfileobj(f, copy, 1 << 22)
    return copy


def mapped(records: Uids) -> Stored | None:
    """Where the records of a memory map lie; None if they are of no map."""
    if not isinstance(records, np.memmap) or not len(records) or not records.flags.c_contiguous:
        return None
    whole: Any = getattr(records, "_mmap", None)
    if whole is None or not isinstance(records.filename, str | os.PathLike):
        return None
    begin = records.offset - records.offset % mmap.ALLOCATIONGRANULARITY  # of the map in the file
    inside = records.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data
    return Stored(os.fspath(records.filename), len(records), begin + inside)
