"""64-bit perceptual hashes that differ in few bits, found without comparing each with each (multi-index hashing).

Norouzi, Punjani, Fleet 2012, and Manku, Jain, Sarma 2007: of b blocks of bits, hashes that differ in at most d bits agree in
b − d whole blocks, so that each choice of b − d blocks gives a table in which they share a key. More blocks make more
tables with longer keys, on which fewer of many hashes meet by chance.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pools import hashes, store
from pools.errors import InputError
from pools.hashes import Hashes

MAX_DISTANCE = 16
_MAX_TABLES = 64
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


def masks(distance: int, number: int) -> list[np.uint64]:
    """The bits that make the key of each table, for so many hashes: two hashes within `distance` agree on one mask at least."""
    if distance == 0:
        return [np.uint64(2**64 - 1)]
    blocks = distance + 1
    while (
        64 * (blocks - distance) / blocks < math.log2(max(number, 2))
        and math.comb(blocks + 1, distance) <= _MAX_TABLES
        and blocks < 64
    ):
        blocks += 1
    borders = [64 * i // blocks for i in range(blocks + 1)]
    bits = [(1 << end) - (1 << start) for start, end in itertools.pairwise(borders)]
    return [np.uint64(sum(chosen)) for chosen in itertools.combinations(bits, blocks - distance)]


def near_pairs(found: Hashes, distance: int, labels: Hashes | None = None) -> NDArray[np.int64]:
    """(m, 2) places i < j of hashes that differ in at most `distance` bits, and have one label if there are any; sorted."""
    pairs: NDArray[np.int64] = np.empty((0, 2), np.int64)
    for mask in masks(distance, len(found)):
        keys = found & mask
        if labels is not None:
            keys = hashes.join(keys, labels)
        order = np.argsort(keys, kind="stable")
        pieces = [pairs]
        for first, second in _meeting(keys[order]):
            i, j = order[first], order[second]
            near = np.bitwise_count(found[i] ^ found[j]) <= distance
            if labels is not None:
                near &= labels[i] == labels[j]
            pieces.append(np.sort(np.stack([i[near], j[near]], axis=1), axis=1))
        pairs = np.unique(np.concatenate(pieces), axis=0)
    return pairs


def _meeting(sorted_keys: Hashes) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """All places with equal keys, as pairs of one distance after the other."""
    places = np.arange(len(sorted_keys))
    for step in range(1, len(sorted_keys)):
        places = places[places + step < len(sorted_keys)]
        places = places[sorted_keys[places] == sorted_keys[places + step]]
        if len(places) == 0:
            return
        yield places, places + step


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
            rows = np.repeat(np.arange(len(wanted)), numbers)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
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
