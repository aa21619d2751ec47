"""Uid lists as files: DataComp's `.npy` of `u8,u8` with a sidecar, and raw memory maps of the same records."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pools import store
from pools.errors import InputError
from pools.uids import sets, streams
from pools.uids.lookup import mapped
from pools.uids.runs import RUN, scratch_beside, sorted_pieces
from pools.uids.sets import ROWS_IN_MEMORY, first_unsorted, sort
from pools.uids.streams import BLOCK, Stored
from pools.uids.words import UID, Uids, records_of

NPY_MAGIC = b"\x93NUMPY"
_LEAST_RUN = 1 << 18
Kind = Literal["keep", "remove"]


@dataclass(frozen=True)
class ListInfo:
    """The sidecar `<list>.npy.json`: what the uids are for. A list without one is a keep list."""

    kind: Kind = "keep"
    count: int | None = None
    recipe: str | None = None  # digest of the recipe that made the list


def write_list(path: str, uids: Uids, *, kind: Kind = "keep", recipe: str | None = None) -> None:
    """Sorts and writes a DataComp uid list (`.npy`, `u8,u8`) and its sidecar, each atomically."""
    ordered = uids if first_unsorted(uids) is None else sort(uids)
    with store.atomic(path) as f:
        _save(f, ordered)
    write_info(path, ListInfo(kind, len(ordered), recipe))


def write_part(path: str, chunks: list[Uids]) -> None:
    """Writes the uids of one unit as a sorted `.npy`, to be merged by `merge_parts`."""
    with store.atomic(path) as f:
        _save(f, sort(np.concatenate([np.empty(0, UID), *chunks])))


def merge_parts(
    parts: list[str], path: str, *, kind: Kind = "keep", recipe: str | None = None, rows_in_memory: int | None = None
) -> None:
    """Merges parts into one sorted list, sorting about `rows_in_memory` uids at a time, and writes its sidecar.

    By default a 256th of them, but at least 2¹⁸ (4 MB) and at most 2²¹.
    """
    with scratch_beside(path, "runs") as scratch:
        lists = [stored(part) for part in parts]
        run = rows_in_memory or min(RUN, max(_LEAST_RUN, sum(one.rows for one in lists) >> 8))
        blocks = (block for one in lists for block in one.blocks(min(run, BLOCK)))
        write_stream(path, sorted_pieces(blocks, scratch, run), kind=kind, recipe=recipe)


def intervals(sorted_lists: Sequence[Uids], rows: int = ROWS_IN_MEMORY) -> Iterator[list[slice]]:
    """A slice of each list, for one range of uids after the other: the ranges are equal, about `rows` uids in each."""
    number = max(1, -(-sum(len(a) for a in sorted_lists) // rows))
    borders = records_of(np.array([[i * 2**64 // number, 0] for i in range(1, number)], np.uint64).reshape(-1, 2))
    cuts = [[0, *sets.places(a, borders).tolist(), len(a)] for a in sorted_lists]
    for i in range(number):
        yield [slice(c[i], c[i + 1]) for c in cuts]


def write_pieces(path: str, pieces: Iterable[Uids], total: int, *, kind: Kind = "keep", recipe: str | None = None) -> None:
    """Writes a list of `total` uids that comes in sorted pieces, and its sidecar."""
    with store.atomic(path) as f:
        _write_header(f, total)
        written = _append(f, pieces)
        assert written == total, f"{written} uids, the header says {total}"
    write_info(path, ListInfo(kind, total, recipe))


def write_stream(path: str, pieces: Iterable[Uids], *, kind: Kind = "keep", recipe: str | None = None) -> int:
    """Writes a list that comes in sorted pieces, and its sidecar; returns how many uids there were."""
    if store.is_local(path):
        with store.atomic(path) as f:
            _write_header(f, 0)
            total = _append(f, pieces)
            f.seek(0)
            _write_header(f, total)  # of the same length: NumPy leaves room for the number to grow
    else:  # a store's file cannot be gone back in
        with tempfile.TemporaryFile() as spool:
            total = _append(spool, pieces)
            spool.seek(0)
            with store.atomic(path) as f:
                _write_header(f, total)
                shutil.copyfileobj(spool, f, 1 << 22)
    write_info(path, ListInfo(kind, total, recipe))
    return total


def _write_header(f: IO[bytes], total: int) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(UID), "fortran_order": False, "shape": (total,)}  # type: ignore[no-untyped-call]
    np.lib.format.write_array_header_1_0(f, header)  # type: ignore[no-untyped-call]


def _append(f: IO[bytes], pieces: Iterable[Uids]) -> int:
    written = 0
    for piece in pieces:
        f.write(np.ascontiguousarray(piece).view(np.uint8).data)
        written += len(piece)
    return written


def _save(f: IO[bytes], uids: Uids) -> None:
    np.lib.format.write_array(f, uids, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]


def write_info(path: str, info: ListInfo) -> None:
    """Writes the sidecar of a list."""
    store.write_json(path + ".json", asdict(info))


def read_info(path: str) -> ListInfo:
    """The sidecar of a list, or what its absence means."""
    if not store.exists(path + ".json"):
        return ListInfo()
    known = {k: v for k, v in store.read_json(path + ".json").items() if k in ListInfo.__dataclass_fields__}
    return ListInfo(**known)


def read_list(path: str, *, kind: Kind = "keep") -> Uids:
    """A sorted uid list from `.npy` or a raw memory map of the same records; memory-mapped where the file is local.

    Raises InputError for another dtype, an unsorted list, or a list of the other kind.
    """
    if not store.exists(path):
        raise InputError("no such uid list", where=path)
    if (info := read_info(path)).kind != kind:
        raise InputError(f"this is a list of uids to {info.kind}", where=path, expected=f"a list of uids to {kind}")
    uids = load(path)
    # Read, not looked at through a map, which would count as memory then.
    row = streams.first_unsorted(stored(path).blocks()) if store.is_local(path) else first_unsorted(uids)
    if row is not None:
        raise InputError(
            f"row {row} is smaller than row {row - 1}",
            where=path,
            expected="uids in sorted order",
            fix=f"winnow uids convert {path} --output SORTED.npy",
        )
    return uids


def load(path: str) -> Uids:
    """The records of a `.npy` or a raw memory map, in the order they have; memory-mapped where the file is local."""
    with store.open_input(path) as f:
        raw = not f.read(6).startswith(NPY_MAGIC)
        if not raw and not store.is_local(path):
            f.seek(0)
            return _checked(_read_npy(f, path), path)
    if raw:
        return _load_raw(path)
    return _checked(_read_npy(store.local_path(path), path), path)


def stored(path: str) -> Stored:
    """Where the records of a `.npy` or a raw memory map lie. Raises InputError as `load` does."""
    with store.open_input(path) as f:
        if not f.read(6).startswith(NPY_MAGIC):
            return Stored(path, _raw_rows(path))
        shape, dtype, start = npy_header(f, path)
    _check_dtype(dtype, len(shape), path)
    if store.size(path) < start + 16 * shape[0]:
        raise InputError("unreadable .npy: cut", where=path, expected="a whole .npy of dtype u8,u8")
    return Stored(path, shape[0], start)


def npy_header(f: IO[bytes], path: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape and dtype that the header of a `.npy` states, and the byte at which the array begins."""
    f.seek(0)
    try:
        version = np.lib.format.read_magic(f)  # type: ignore[no-untyped-call]
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(f)  # type: ignore[no-untyped-call]
    except ValueError as e:
        raise InputError(f"unreadable .npy: {e}", where=path, expected="a whole .npy of dtype u8,u8") from e
    if fortran and len(shape) > 1:
        raise InputError("unreadable .npy: its rows are not one after the other", where=path, expected="C order")
    return shape, dtype, f.tell()


def _read_npy(source: Any, path: str) -> NDArray[Any]:
    try:
        mode: Literal["r"] | None = "r" if isinstance(source, str | os.PathLike) else None
        array: NDArray[Any] = np.load(source, mmap_mode=mode, allow_pickle=False)
        return array
    except ValueError as e:
        # An empty array cannot be mapped; objects (pickles) and cut files are refused.
        if mode and "mmap" in str(e):
            return np.load(source, allow_pickle=False)  # type: ignore[no-any-return]
        raise InputError(f"unreadable .npy: {e}", where=path, expected="a whole .npy of dtype u8,u8") from e


def _checked(array: NDArray[Any], path: str) -> Uids:
    _check_dtype(array.dtype, array.ndim, path)
    records: Uids = array.view(UID)
    return records


def _check_dtype(dtype: np.dtype[Any], dimensions: int, path: str) -> None:
    two_words = dtype.fields is not None and [t.str for t, *_ in dtype.fields.values()] == ["<u8", "<u8"]
    if not two_words or dtype.itemsize != 16 or dimensions != 1:
        raise InputError(
            f"dtype {dtype}, {dimensions} dimension(s)",
            where=path,
            expected="a list of dtype u8,u8 (high and low half of each uid)",
            fix="make it with `winnow uids convert`, or numpy.array([(high, low), …], 'u8,u8')",
        )


def _raw_rows(path: str) -> int:
    size = store.size(path)
    if size % 16:
        raise InputError(f"{size} bytes, neither .npy nor a whole number of 16-byte records", where=path, expected="u8,u8")
    return size // 16


def _load_raw(path: str) -> Uids:
    if _raw_rows(path) and store.is_local(path):
        return np.memmap(store.local_path(path), UID, mode="r")
    with store.open_input(path) as f:
        return np.frombuffer(f.read(), UID)


def digest(uids: Uids) -> str:
    """SHA-256 over the records as they lie in a list file."""
    sha = hashlib.sha256()
    where = mapped(uids)
    for block in _blocks(uids) if where is None else where.blocks():
        sha.update(np.ascontiguousarray(block).view(np.uint8).data)
    return sha.hexdigest()


def _blocks(uids: Uids) -> Iterator[Uids]:
    return (uids[start : start + BLOCK] for start in range(0, len(uids), BLOCK))
