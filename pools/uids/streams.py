"""Sorted lists of any length, read from the front a block at a time and put side by side.

Besides a block of each, nothing is held: neither a list nor its mapping.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from pools import store
from pools.errors import InputError
from pools.uids import sets
from pools.uids.words import UID, Uids, hash64, records_of

BLOCK = 1 << 17  # uids over all lists, which a core's cache holds
_LEAST = 1 << 10  # uids of one list in a block


class Reader(Protocol):
    """A list, read from the front."""

    def read(self, number: int) -> Uids:
        """The next `number` uids; fewer at the end alone."""
        ...


class Held:
    """A list in memory."""

    def __init__(self, uids: Uids) -> None:
        self._uids, self._at = uids, 0

    def read(self, number: int) -> Uids:
        found = self._uids[self._at : self._at + number]
        self._at += len(found)
        return found


@dataclass(frozen=True)
class Stored:
    """`rows` records of a file, from byte `start` on."""

    path: str
    rows: int
    start: int = 0

    def reader(self) -> Reader:
        return _File(self)

    def blocks(self, rows: int = BLOCK) -> Iterator[Uids]:
        """All of it, `rows` uids at a time."""
        reader = self.reader()
        while len(block := reader.read(rows)):
            yield block


class _File:
    """The records of a file. One on this machine is opened for each read, since there may be more than can be open at once."""

    def __init__(self, stored: Stored) -> None:
        self._stored, self._at = stored, 0
        self._remote: IO[bytes] | None = None

    def read(self, number: int) -> Uids:
        number = min(number, self._stored.rows - self._at)
        block = np.empty(number, UID)
        if number:
            offset = self._stored.start + 16 * self._at
            if store.is_local(self._stored.path):
                with Path(store.local_path(self._stored.path)).open("rb", buffering=0) as f:
                    f.seek(offset)
                    got = f.readinto(block.view(np.uint8).data)
            else:
                self._remote = self._remote or store.open_input(self._stored.path)
                self._remote.seek(offset)
                got = self._remote.readinto(block.view(np.uint8).data)  # type: ignore[attr-defined]
            if got != 16 * number:
                raise InputError("the file has changed, or ends too soon", where=self._stored.path, expected="a whole list")
            self._at += number
        return block


@functools.cache
def keep_freed_memory() -> None:
    """Lets this process take freed memory again, which the C library otherwise returns after each block, in vain.

    It keeps what is no larger than the largest block that was freed, up to 32 MB; each page anew costs more than sorting it.
    """
    np.empty((1 << 25) - (1 << 13), np.uint8)


def aligned(readers: Sequence[Reader], rows: int = BLOCK) -> Iterator[list[Uids]]:
    """Of sorted lists, slices side by side: about `rows` uids each time, all entries of a uid in one of them."""
    keep_freed_memory()
    share = max(_LEAST, rows // max(1, len(readers)))
    held = [reader.read(share) for reader in readers]
    more = [len(block) == share for block in held]
    while any(map(len, held)):
        if not any(more):
            yield held
            return
        border = min(block[-1].item() for block, there in zip(held, more, strict=True) if there)
        cuts = [bisect.bisect_left(block, border, key=np.void.item) for block in held]
        if any(cuts):
            yield [block[:cut] for block, cut in zip(held, cuts, strict=True)]
        # One uid may stand more often than a block has room for.
        full = not any(cuts)
        for i, reader in enumerate(readers):
            left = held[i][cuts[i] :]
            if more[i] and (len(left) < share // 2 or (full and left[-1].item() == border)):
                wanted = max(share, len(left))
                found = reader.read(wanted)
                more[i] = len(found) == wanted
                left = records_of(sets.joined([left, found])) if len(left) else found
            held[i] = left


def first_unsorted(blocks: Iterable[Uids]) -> int | None:
    """`sets.first_unsorted` of a list that comes in blocks."""
    start, last = 0, np.empty(0, UID)
    for block in blocks:
        chained = records_of(sets.joined([last, block[:1]]))
        if sets.first_unsorted(chained) is not None:
            return start
        if (row := sets.first_unsorted(block)) is not None:
            return start + row
        start, last = start + len(block), block[-1:]
    return None


@dataclass(frozen=True)
class Tally:
    """What a sorted list holds: entries, different uids, those that stand more than once, how often one does at most."""

    entries: int = 0
    distinct: int = 0
    repeated: int = 0
    most: int = 0


def tally(reader: Reader) -> Tally:
    """Counts a sorted list of any length."""
    entries = distinct = repeated = most = 0
    for (block,) in aligned([reader]):
        first = np.flatnonzero(sets.starts(block))
        times = np.diff(np.append(first, len(block)))
        entries, distinct = entries + len(block), distinct + len(first)
        repeated, most = repeated + int((times > 1).sum()), max(most, int(times.max(initial=0)))
    return Tally(entries, distinct, repeated, most)


def combined(operation: sets.Operation, readers: Sequence[Reader], *, counted: bool = False) -> Iterator[Uids]:
    """`sets.combine` over sorted lists from the left to the right, in sorted pieces."""
    step = functools.partial(sets.combine, operation, counted=counted)
    for first, *others in aligned(readers):
        yield functools.reduce(step, others, first) if others or counted else sets.unique(first)


def added(readers: Sequence[Reader]) -> Iterator[Uids]:
    """All entries of sorted lists, in sorted pieces."""
    return (sets.merged(blocks) for blocks in aligned(readers))


def sampled(stored: Stored, number: int, seed: int) -> Iterator[Uids]:
    """`sets.sample` of a list of any length, in pieces; it is read three times."""
    if number >= stored.rows:
        yield from stored.blocks()
        return
    bits = 20
    counts = np.zeros(1 << bits, np.int64)
    for block in stored.blocks():
        counts += np.bincount((hash64(block, seed) >> np.uint64(64 - bits)).astype(np.int64), minlength=len(counts))
    ends = np.cumsum(counts)
    bucket = int(np.searchsorted(ends, number, "left"))  # the one with the last hash that is wanted
    inside = [h[(h >> np.uint64(64 - bits)) == bucket] for h in (hash64(block, seed) for block in stored.blocks())]
    ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *inside]))
    wanted = number - int(ends[bucket] - counts[bucket])
    if not wanted:
        return
    limit = ordered[wanted - 1]
    ties = wanted - int(np.searchsorted(ordered, limit, "left"))
    for block in stored.blocks():
        hashes = hash64(block, seed)
        chosen = hashes < limit
        equal = np.flatnonzero(hashes == limit)[:ties]
        chosen[equal] = True
        ties -= len(equal)
        yield block[chosen]


def union(a: Uids, b: Uids) -> Uids:
    """Uids in either sorted list, each once, sorted."""
    return _in_memory("union", a, b, len(a) + len(b))


def intersect(a: Uids, b: Uids) -> Uids:
    """Uids in both sorted lists, each once, sorted."""
    return _in_memory("intersect", a, b, min(len(a), len(b)))


def minus(a: Uids, b: Uids) -> Uids:
    """Uids of the sorted list `a` that are not in the sorted list `b`, each once, sorted."""
    return _in_memory("minus", a, b, len(a))


def _in_memory(operation: sets.Operation, a: Uids, b: Uids, most: int) -> Uids:
    found, end = np.empty(most, UID), 0
    for piece in combined(operation, [Held(a), Held(b)]):
        found[end : end + len(piece)] = piece
        end += len(piece)
    return found[:end]
