"""NumPy arrays as Arrow's. For the first that `pyarrow.array` is given, it imports pandas, if there is one: half a second."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {np.dtype(kind): pa.from_numpy_dtype(np.dtype(kind)) for kind in ("i2", "i4", "i8", "u1", "u8", "f4", "f8")}


def booleans(values: NDArray[np.bool_], null: NDArray[np.bool_] | None = None) -> pa.BooleanArray:
    """(n,) bool → (n,), null where `null` says so."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [_valid(null), _bits(values)])


def numbers(values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> pa.Array:
    """(n,) of a fixed width → (n,) of the same type, without copying; null where `null` says so."""
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [_valid(null), pa.py_buffer(np.ascontiguousarray(values))])


def numpy(array: pa.Array) -> NDArray[Any]:
    """(n,) without nulls → (n,)."""
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _valid(null: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if null is None else _bits(~null)


def _bits(values: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
