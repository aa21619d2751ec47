"""Arrays of an `.npz`, read a block of rows at a time, packed or not."""

from __future__ import annotations

import contextlib
import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from pools import store
from pools.errors import InputError

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def names(path: str) -> list[str]:
    """The arrays of a file. Raises InputError."""
    with _readable(path), store.open_input(path) as f, zipfile.ZipFile(f) as archive:
        return [n.removesuffix(".npy") for n in archive.namelist()]


@dataclass(frozen=True)
class Header:
    """What an array is, as it says itself."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def rows(self) -> int:
        return self.shape[0]


def header(path: str, name: str) -> Header:
    """Of one array, of which nothing else is read. Raises InputError."""
    with _readable(path), _opened(path, name) as (found, _):
        return found


def blocks(path: str, name: str, rows: int) -> Iterator[NDArray[Any]]:
    """One array in blocks of so many rows, of which one is held. Raises InputError where the file ends early or is damaged.

    An array that stands column by column has to be held whole.
    """
    with _readable(path), _opened(path, name) as (found, f):
        width = found.dtype.itemsize * math.prod(found.shape[1:])
        if found.fortran_order and len(found.shape) > 1:
            whole = np.frombuffer(_exactly(f, width * found.rows), found.dtype).reshape(found.shape, order="F")
            yield from (whole[start : start + rows] for start in range(0, found.rows, rows))
            return
        for start in range(0, found.rows, rows):
            count = min(rows, found.rows - start)
            yield np.frombuffer(_exactly(f, count * width), found.dtype).reshape(count, *found.shape[1:])


@contextlib.contextmanager
def _opened(path: str, name: str) -> Iterator[tuple[Header, IO[bytes]]]:
    """The header of an array, and the file behind it: one of its own, as others are read by turns with it."""
    with store.open_input(path) as f, zipfile.ZipFile(f) as archive, archive.open(f"{name}.npy") as member:
        version = npy.read_magic(member)  # type: ignore[no-untyped-call]
        if version not in _HEADERS:
            raise ValueError(f"{name}.npy is of version {version}")
        shape, fortran_order, dtype = _HEADERS[version](member)  # type: ignore[no-untyped-call]
        if dtype.hasobject or len(shape) not in (1, 2):
            raise ValueError(f"{name} holds {'objects' if dtype.hasobject else f'an array of {len(shape)} dimensions'}")
        yield Header(shape, fortran_order, dtype), member


def _exactly(f: IO[bytes], size: int) -> bytes:
    data = f.read(size)
    if len(data) != size:
        raise ValueError("an array ends early")
    return data


@contextlib.contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, KeyError) as e:
        raise InputError(f"unreadable: {e}", where=path, expected="arrays saved with numpy.savez") from e
