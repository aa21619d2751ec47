"""64-bit perceptual hashes that differ in few bits, found without comparing each with each (multi-index hashing).

Norouzi, Punjani, Fleet 2012, and Manku, Jain, Sarma 2007: of b blocks of bits, hashes that differ in at most d bits agree in
b − d whole blocks, so that each choice of b − d blocks gives a table in which they share a key. More blocks make more
tables with longer keys, on which fewer of many hashes meet by chance.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pools import hashes, store
from pools.errors import InputError
from pools.hashes import Hashes

MAX_DISTANCE = 16
ALL_BITS = np.uint64(2**64 - 1)
_MAX_TABLES = 64
_SHORT, _CROWD = 64, 2048  # hashes with one key up to which many such are compared together, and each with each at all
_PIECE = 1 << 20  # pairs compared at once
_DIGIT = np.full(256, 255, np.uint8)
_DIGIT[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_DIGIT[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def check_distance(bits: int) -> None:
    """Raises ValueError for a distance at which hashes of 64 bits say nothing."""
    if not 0 <= bits <= MAX_DISTANCE:
        raise ValueError(f"max_distance {bits} is not in 0 … {MAX_DISTANCE} (bits of 64)")


def of_column(values: pa.Array, column: str) -> Hashes:
    """(n,) perceptual hashes, whole numbers or 16 hex digits, as 64 bits; 0 for a null. Raises InputError for others."""
    kind = values.type
    if kind in (pa.uint64(), pa.int64()):
        return np.ascontiguousarray(values.fill_null(0).to_numpy(zero_copy_only=False)).view(np.uint64)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.uint64)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"column {column!r} holds {kind}", expected="perceptual hashes: 64-bit whole numbers or 16 hex digits")
    texts = values.fill_null("0" * 16).cast(pa.binary()).to_pylist()
    bad = next((i for i, text in enumerate(texts) if len(text) != 16), None)
    digits = _DIGIT[np.frombuffer(b"".join(texts), np.uint8)].reshape(-1, 16) if bad is None else np.empty((0, 16), np.uint8)
    if bad is None and (wrong := (digits > 15).any(axis=1)).any():
        bad = int(wrong.argmax())
    if bad is not None:
        raise InputError(f"perceptual hash {values[bad].as_py()!r}", expected="16 hex digits")
    octets = np.ascontiguousarray((digits[:, 0::2] << 4) | digits[:, 1::2])
    return octets.view(">u8").reshape(-1).astype(np.uint64)


def masks(distance: int, number: int, bits: np.uint64 = ALL_BITS) -> list[np.uint64]:
    """The bits that make the key of each table, for so many hashes: two hashes within `distance` agree on one mask at least.

    `bits`, more than `distance` of them, are those in which the hashes differ; masks are made of no others.
    """
    places = [i for i in range(64) if int(bits) >> i & 1]
    if distance == 0:
        return [bits]
    blocks = distance + 1
    while (
        len(places) * (blocks - distance) / blocks < math.log2(max(number, 2))
        and math.comb(blocks + 1, distance) <= _MAX_TABLES
        and blocks < len(places)
    ):
        blocks += 1
    borders = [len(places) * i // blocks for i in range(blocks + 1)]
    blocks_of_bits = [sum(1 << i for i in places[start:end]) for start, end in itertools.pairwise(borders)]
    return [np.uint64(sum(chosen)) for chosen in itertools.combinations(blocks_of_bits, blocks - distance)]


def near_pairs(found: Hashes, distance: int, labels: Hashes | None = None) -> NDArray[np.int64]:
    """(m, 2) places i < j of hashes that differ in at most `distance` bits, and have one label if there are any; sorted."""
    pieces = [np.empty((0, 2), np.int64), *each_near_pair(found, distance, labels)]
    pairs = np.concatenate(pieces)
    return np.asarray(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], np.int64)


def each_near_pair(found: Hashes, distance: int, labels: Hashes | None = None) -> Iterator[NDArray[np.int64]]:
    """The same in pieces (m, 2) and in any order, each pair once; of no hash and label may there be two.

    Hashes of images are not spread evenly: those of drawings and of nearly blank pictures have many bits in common, and many
    then share a key. Such a crowd is cut anew, by keys of the bits in which its own members differ, unless that would take
    as many comparisons as comparing them all.
    """
    yield from _near_within(np.arange(len(found)), (), found, distance, labels)


def _near_within(
    places: NDArray[np.intp], before: tuple[np.uint64, ...], found: Hashes, distance: int, labels: Hashes | None
) -> Iterator[NDArray[np.int64]]:
    """Near pairs of a crowd, or of all, but for those that agree on a mask of the tables before: they met there."""
    own, own_labels = found[places], None if labels is None else labels[places]
    differing = np.bitwise_or.reduce(own ^ own[0]) if len(own) else np.uint64(0)
    if any(int(mask & differing) == 0 for mask in before):
        return
    keys = masks(distance, len(own), differing) if int(differing).bit_count() > distance else []
    if not keys or (before and _comparisons(own, own_labels, keys) > len(own) ** 2 // 4):
        for pairs in _near_of_all(own, distance):
            yield _new(pairs, places, found, labels, before)
        return
    for mask in keys:
        order, starts, sizes = _runs(_keyed(own, own_labels, mask))
        at = places[order]
        for pairs in _near_of_runs(own[order], starts, sizes, distance):
            yield _new(pairs, at, found, labels, before)
        for i in np.flatnonzero(sizes > _CROWD):
            yield from _near_within(at[starts[i] : starts[i] + sizes[i]], before, found, distance, labels)
        before = (*before, mask)


def _keyed(own: Hashes, labels: Hashes | None, mask: np.uint64) -> Hashes:
    return own & mask if labels is None else hashes.join(own & mask, labels)


def _runs(keys: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """(n,) order by key; where in it each key begins, and how often it stands there."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), bool), ordered[1:] != ordered[:-1]]))
    return order, starts, np.diff(np.append(starts, len(keys)))


def _comparisons(own: Hashes, labels: Hashes | None, keys: Sequence[np.uint64]) -> int:
    """Pairs that meet in all tables together."""
    return sum(int((sizes * (sizes - 1) // 2).sum()) for _, _, sizes in (_runs(_keyed(own, labels, mask)) for mask in keys))


def _near_of_runs(
    ordered: Hashes, starts: NDArray[np.intp], sizes: NDArray[np.intp], distance: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Near pairs within each run that is no crowd: of short ones all together, step after step, of a longer one by itself."""
    ends = np.repeat(starts + np.where(sizes <= _SHORT, sizes, 0), sizes)
    first = np.arange(len(ordered))
    for step in range(1, _SHORT):
        first = first[first + step < ends[first]]
        if len(first) == 0:
            break
        near = np.bitwise_count(ordered[first] ^ ordered[first + step]) <= distance
        yield first[near], first[near] + step
    for i in np.flatnonzero((sizes > _SHORT) & (sizes <= _CROWD)):
        for first, second in _near_of_all(ordered[starts[i] : starts[i] + sizes[i]], distance):
            yield first + starts[i], second + starts[i]


def _near_of_all(own: Hashes, distance: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Near pairs of all, some rows of the triangle at a time."""
    start = 0
    while start < len(own) - 1:
        end = start + max(1, _PIECE // (len(own) - start))
        near = np.bitwise_count(own[start:end, None] ^ own[start:]) <= distance
        first, second = np.nonzero(near)
        upper = first < second
        yield first[upper] + start, second[upper] + start
        start = end


def _new(
    pairs: tuple[NDArray[np.intp], NDArray[np.intp]],
    places: NDArray[np.intp],
    found: Hashes,
    labels: Hashes | None,
    before: Sequence[np.uint64],
) -> NDArray[np.int64]:
    """Those of the near pairs that have one label and share no key in the tables before, by their places."""
    i, j = places[pairs[0]], places[pairs[1]]
    new = np.ones(len(i), bool) if labels is None else labels[i] == labels[j]
    differing = found[i] ^ found[j]
    for mask in before if len(i) else ():
        new &= (differing & mask) != 0
    return np.stack([np.minimum(i, j)[new], np.maximum(i, j)[new]], axis=1)


@dataclass(frozen=True)
class Index:
    """Hashes to look others up in, sorted by the key of each table."""

    distance: int
    tables: tuple[tuple[np.uint64, Hashes, Hashes], ...]  # mask, keys, hashes

    @classmethod
    def of(cls, found: Hashes, distance: int) -> Index:
        found = np.unique(found)
        tables = []
        for mask in masks(distance, len(found)):
            order = np.argsort(found & mask)
            tables.append((mask, (found & mask)[order], found[order]))
        return cls(distance, tuple(tables))

    def nearest(self, wanted: Hashes) -> NDArray[np.int64]:
        """(n,) bits to the nearest hash of the index; 65 where none is within the distance."""
        nearest = np.full(len(wanted), 65, np.int64)
        for mask, keys, known in self.tables:
            left, right = (np.searchsorted(keys, wanted & mask, side) for side in ("left", "right"))
            numbers = right - left
            # Many may share a key, those of drawn digits for one: so many comparisons at once.
            pieces = np.flatnonzero(np.diff(np.cumsum(numbers) // _PIECE)) + 1
            for rows in np.split(np.arange(len(wanted)), pieces):
                own = numbers[rows]
                within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
                rows = np.repeat(rows, own)
                bits = np.bitwise_count(wanted[rows] ^ known[left[rows] + within]).astype(np.int64)
                np.minimum.at(nearest, rows[bits <= self.distance], bits[bits <= self.distance])
        return nearest


@functools.lru_cache(maxsize=4)
def read_index(path: str, distance: int) -> Index:
    """The index of the hashes in a `.npy` of unsigned 64-bit numbers, made once in each process."""
    if not store.exists(path):
        raise InputError("no such file", where=path, expected="a .npy of 64-bit perceptual hashes")
    try:
        with store.open_input(path) as f:
            found: NDArray[Any] = np.load(f, allow_pickle=False)
    except ValueError as e:
        raise InputError(f"unreadable .npy: {e}", where=path, expected="64-bit perceptual hashes") from e
    if found.ndim != 1 or found.dtype not in (np.uint64, np.int64):
        raise InputError(
            f"dtype {found.dtype}, {found.ndim} dimension(s)", where=path, expected="a list of dtype u8: perceptual hashes"
        )
    return Index.of(found.view(np.uint64), distance)
