"""NumPy arrays and Python's words as Arrow's.

With the first value of Python's that `pyarrow.array`, `pyarrow.scalar` or a function of `pyarrow.compute` is given, pyarrow
imports pandas, if there is one: half a second, as long as some recipes take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NUMBERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_TYPES = {np.dtype(kind): pa.from_numpy_dtype(np.dtype(kind)) for kind in _NUMBERS}
_KINDS = {arrow: kind for kind, arrow in _TYPES.items()}


def booleans(values: NDArray[np.bool_], null: NDArray[np.bool_] | None = None) -> pa.BooleanArray:
    """(n,) bool → (n,), null where `null` says so."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [_valid(null), _bits(values)])


def numbers(values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """(n,) of a fixed width → (n,) of the same type, without copying; null where `null` says so."""
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [_valid(null), pa.py_buffer(np.ascontiguousarray(values))])


def strings(values: Sequence[str | None]) -> pa.StringArray:
    """Words, or None for null, as strings."""
    encoded = [b"" if v is None else v.encode() for v in values]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    if len(encoded) and ends[-1] > _MOST_BYTES:
        return pa.array(values, pa.string())
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    null = np.fromiter((v is None for v in values), bool, len(encoded))
    buffers = [_valid(null) if null.any() else None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def numpy(array: pa.Array) -> NDArray[Any]:
    """(n,) without nulls → (n,), not to be written to; where there are nulls, anything stands."""
    data = array.buffers()[1] if pa.types.is_primitive(array.type) else None
    if data is None:
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values
    here = slice(array.offset, array.offset + len(array))
    if pa.types.is_boolean(array.type):
        start = here.start // 8
        packed = np.frombuffer(data, np.uint8)[start : -(-here.stop // 8)]
        return np.unpackbits(packed, bitorder="little")[here.start - 8 * start :][: len(array)].view(bool)
    if array.type not in _KINDS:
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return np.frombuffer(data, _KINDS[array.type], here.stop)[here]


def floats(array: pa.Array) -> NDArray[np.floating]:
    """(n,) numbers → (n,) in their own precision, whole ones as doubles; null is NaN."""
    values = numpy(array)
    if not pa.types.is_floating(array.type):
        values = values.astype(np.float64)
    return np.where(numpy(array.is_valid()), values, np.nan).astype(values.dtype) if array.null_count else values


def _valid(null: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if null is None else _bits(~null)


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


_MOST_BYTES = (1 << 31) - 1  # of all strings of an array
FALSE, TRUE = booleans(np.array([False, True]))
NO_TEXT = strings([""])[0]
