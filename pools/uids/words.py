"""One uid: made, packed into two words, spelled again, and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pools.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

UID = np.dtype("u8,u8")
Uids = NDArray[np.void]
Words = NDArray[np.uint64]
_BLOCK = 1 << 15  # rows whose words stay in a core's cache


def _EACH(value: int) -> np.uint64:  # noqa: N802
    return np.uint64(value * 0x0101010101010101)


def new(url: str, alt: str) -> str:
    """The uid of a new candidate: MD5 over alt text + url in UTF-8, as cc2dataset writes it."""
    return hashlib.md5((alt + url).encode(), usedforsecurity=False).hexdigest()


def pack(uids: pa.Array | pa.ChunkedArray | Iterable[str], *, where: str | None = None, first: int = 0) -> Uids:
    """Hex digits to records: (n,) strings → (n,) `u8,u8`.

    Raises InputError naming the first bad row, of which `first` is the number of the first.
    """
    import pyarrow as pa  # which takes longer to import than resharding takes to plan; so below

    array = uids if isinstance(uids, pa.Array | pa.ChunkedArray) else pa.array(list(uids), pa.string())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = array.cast(pa.large_binary())
    if len(array) == 0:
        return np.empty(0, UID)
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets)
    if array.null_count or (lengths != 32).any():
        bad = next(i for i, u in enumerate(array) if not u.is_valid or len(u.as_py()) != 32)
        raise bad_uid(array[bad].as_py(), f"row {first + bad}", where)
    digits = np.frombuffer(array.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    packed = from_digits(digits)
    if packed is None:
        bad = int(_are_hex(digits).argmin()) // 32
        raise bad_uid(array[bad].as_py(), f"row {first + bad}", where)
    return packed


def from_digits(digits: NDArray[np.uint8]) -> Uids | None:
    """(32 n,) hex digits as ASCII, either case → (n,) records; None if one is no hex digit."""
    words = np.empty((len(digits) // 32, 2), np.uint64)
    for start in range(0, len(words), _BLOCK):
        block = digits[32 * start : 32 * (start + _BLOCK)]
        if not _are_hex(block).all():
            return None
        words[start : start + _BLOCK] = _words_of(block)
    return records_of(words)


def _are_hex(digits: NDArray[np.uint8]) -> NDArray[np.bool_]:
    good: NDArray[np.bool_] = (digits - np.uint8(48) < 10) | ((digits | np.uint8(32)) - np.uint8(97) < 6)
    return good


def _words_of(digits: NDArray[np.uint8]) -> Words:
    """(32 n,) hex digits as ASCII → (n, 2), eight digits at a time: a register holds them side by side, the first lowest."""
    eight = digits.view("<u8")
    values = (eight & _EACH(0x0F)) + ((eight >> np.uint64(6)) & _EACH(0x01)) * np.uint64(9)  # of a letter bit 6 is set
    pairs = ((values << np.uint64(4)) | (values >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs | (pairs >> np.uint64(8))) & np.uint64(0x0000FFFF0000FFFF)
    halves = (fours | (fours >> np.uint64(16))).astype(np.uint32).byteswap().astype(np.uint64).reshape(-1, 2)
    return ((halves[:, 0] << np.uint64(32)) | halves[:, 1]).reshape(-1, 2)


def bad_uid(value: bytes | None, place: str, where: str | None) -> InputError:
    """The error of what is no uid; `place` is its row or line."""
    shown = "null" if value is None else repr(value.decode("utf-8", "replace"))
    return InputError(
        f"{place}: uid {shown}",
        where=where,
        expected="32 hex digits",
        fix="keep uids as strings (a spreadsheet or CSV reader may have turned them into numbers)",
    )


def from_digests(digests: pa.Array | pa.ChunkedArray) -> Uids:
    """(n,) `fixed_size_binary[16]`, the bytes that the hex digits spell, to records."""
    import pyarrow as pa

    parts = digests.chunks if isinstance(digests, pa.ChunkedArray) else [digests]
    words = [np.frombuffer(a.buffers()[1], ">u8", 2 * len(a), 16 * a.offset) for a in parts if len(a)]
    return records_of(np.concatenate([np.empty(0, np.uint64), *words]).astype(np.uint64).reshape(-1, 2))


def unpack(uids: Uids) -> pa.Array:
    """Records to hex digits: (n,) `u8,u8` → (n,) strings, lower case."""
    import pyarrow as pa

    if len(uids) == 0:
        return pa.array([], pa.string())
    digits = np.empty((len(uids), 32), np.uint8)
    spell(uids, digits)
    offsets = np.arange(0, 32 * (len(uids) + 1), 32, dtype=np.int64)
    large = pa.LargeStringArray.from_buffers(len(uids), pa.py_buffer(offsets), pa.py_buffer(digits))
    return large.cast(pa.string())


_PAIRS = np.frombuffer("".join(f"{i:02x}" for i in range(256)).encode(), "u2")  # of each octet its two digits


def spell(uids: Uids, out: NDArray[np.uint8]) -> None:
    """Writes the hex digits of n uids, lower case, into the first 32 columns of an (n, ≥ 32) array."""
    for start in range(0, len(uids), _BLOCK):
        octets = words_of(uids[start : start + _BLOCK]).astype(">u8").view(np.uint8)
        out[start : start + _BLOCK, :32] = _PAIRS[octets].view(np.uint8).reshape(-1, 32)


def texts(uids: Uids) -> list[str]:
    """The hex digits of a few uids, without the columns that `unpack` makes."""
    digits = np.empty((len(uids), 32), np.uint8)
    spell(uids, digits)
    return [bytes(row).decode() for row in digits]


def hash64(uids: Uids, seed: int) -> Words:
    """One well-mixed 64-bit value per uid and seed, which decides everything random.

    splitmix64 (Steele, Lea, Flood 2014) over both halves: uids that people bring are not uniform.
    """
    words = words_of(uids)
    state = _splitmix(np.array([seed & (2**64 - 1)], np.uint64))
    found = np.empty(len(words), np.uint64)
    for start in range(0, len(words), _BLOCK):
        block = words[start : start + _BLOCK]
        found[start : start + _BLOCK] = _splitmix(_splitmix(state ^ block[:, 0]) ^ block[:, 1])
    return found


def _splitmix(x: Words) -> Words:
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def smallest(hashes: Words, number: int) -> NDArray[np.bool_]:
    """(n,) whether each is among the `number` smallest; of equal ones those that stand first."""
    if not 0 < number < len(hashes):
        return np.full(len(hashes), number > 0)
    limit = np.partition(hashes, number - 1)[number - 1]
    mask: NDArray[np.bool_] = hashes < limit
    mask[np.flatnonzero(hashes == limit)[: number - int(mask.sum())]] = True
    return mask


def records_of(words: Words) -> Uids:
    """(n, 2) words, high and low, as (n,) records; the same memory."""
    records: Uids = words.view(UID).reshape(-1)
    return records


def words_of(uids: Uids) -> Words:
    """(n,) records as (n, 2) words; the same memory where it is one stretch."""
    return np.ascontiguousarray(uids).view(np.uint64).reshape(-1, 2)
