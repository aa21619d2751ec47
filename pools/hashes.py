"""64-bit hashes of values of a column, the same on every machine and wherever a column is cut into batches.

Of n different values, n² / 2^65 pairs share a hash: one pair in four among 3·10^9 values, three pairs among 10^10.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pools.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Hashes = NDArray[np.uint64]
_LONG = 4096  # bytes from which a value is hashed by itself
_STEP, _FIRST, _SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_TAIL = np.array([(1 << 8 * n) - 1 for n in range(8)] + [(1 << 64) - 1], np.uint64)  # the first 0 … 8 bytes of a word


def mix(words: Hashes) -> Hashes:
    """(n,) → (n,), one to one and well mixed: splitmix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = words + _STEP
        z ^= z >> np.uint64(30)
        z *= _FIRST
        z ^= z >> np.uint64(27)
        z *= _SECOND
        z ^= z >> np.uint64(31)
    return z


def join(first: Hashes, second: Hashes) -> Hashes:
    """(n,) hashes of the ordered pairs of two hashes."""
    return mix(mix(first) ^ second)


def of_column(values: pa.Array, column: str = "") -> Hashes:
    """(n,) texts, bytes or whole numbers → (n,) hashes; a null hashes as the empty text.

    Raises InputError, with the column's name, for another type.
    """
    import pyarrow as pa

    kind = values.type
    if pa.types.is_integer(kind):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        return mix(numbers.astype(np.uint64 if pa.types.is_unsigned_integer(kind) else np.int64).view(np.uint64))
    if pa.types.is_dictionary(kind):
        return of_column(values.dictionary_decode(), column)
    if pa.types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
    elif pa.types.is_null(kind):
        values = values.cast(pa.string())
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)):
        raise InputError(f"column {column!r} holds {kind}", expected="texts, bytes or whole numbers")
    return _of_bytes(values.cast(pa.large_binary()))


def _of_bytes(values: pa.Array) -> Hashes:
    """Eight bytes after the other of all values at once, the longest first, so that those with more bytes are a prefix."""
    if len(values) == 0:
        return np.empty(0, np.uint64)
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    lengths = np.diff(offsets)
    if values.null_count:
        lengths = np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    body = np.zeros(int(offsets[-1] - offsets[0]) + 8, np.uint8)
    if values.buffers()[2] is not None:
        body[:-8] = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    words: NDArray[np.uint64] = np.ndarray((len(body) - 7,), "<u8", body, strides=(1,))  # one from each byte on
    order = np.argsort(-lengths, kind="stable")
    starts, left = (offsets[:-1] - offsets[0])[order], lengths[order]
    state = mix(left.astype(np.uint64))
    long = int(np.searchsorted(-left, -_LONG, "right"))
    for i in range(long):
        state[i] = _of_long(body[starts[i] : starts[i] + left[i]])
    starts, left = starts[long:], left[long:].copy()
    short: NDArray[Any] = state[long:]
    while number := int(np.searchsorted(-left, 0, "left")):
        starts, left = starts[:number], left[:number]
        short[:number] = mix(short[:number] ^ (words[starts] & _TAIL[np.minimum(left, 8)]))
        starts, left = starts + 8, left - 8
    hashes = np.empty_like(state)
    hashes[order] = state
    return hashes


def _of_long(value: NDArray[np.uint8]) -> int:
    return int.from_bytes(hashlib.blake2b(value.tobytes(), digest_size=8).digest(), "little")


def isin(hashes: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """(n,) whether each is among `known`, which is sorted: looked up in order, as `known` may be gigabytes on disk."""
    if len(known) == 0:
        return np.zeros(len(hashes), bool)
    wanted, back = np.unique(hashes, return_inverse=True)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: NDArray[np.bool_] = (known[places] == wanted)[back]
    return found
