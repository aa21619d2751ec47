"""Rows of all units brought together by a key, at any size: spilled to files sorted by the key, then read a range at a time.

Every unit writes runs, each sorted by the 64-bit hash `group` and no larger than `RUN_BYTES`, with an index of where the
ranges begin. Then each range of hashes, about `RANGE_BYTES` over all runs, is read by one worker, combined and finished.
Memory is bounded by these two (a worker takes about four times the larger one), unless one group alone is larger. The
files lie in a folder that all workers can reach, so that the local engine and Spark run the same code to the same bytes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from filters.registry import Grouping
from pipeline.engine import Engine, Failed
from pools import store
from pools.errors import WorkFailed
from pools.part import Part
from pools.tables import Records

T = TypeVar("T")
R = TypeVar("R")
RUN_BYTES = 64 << 20
RANGE_BYTES = 64 << 20
_BITS = 12
_CUTS = 1 << _BITS  # ranges that an index knows; a worker takes one or several
_INDEX_BYTES = 8 * (_CUTS + 1)


@dataclass(frozen=True)
class Run:
    """A file: an index of _CUTS + 1 places, then the records."""

    path: str
    count: int


@dataclass(frozen=True)
class Runs:
    """All that was spilled of a pool."""

    grouping: Grouping
    folder: str
    runs: tuple[Run, ...]
    dtype: np.dtype[Any]

    def ranges(self, range_bytes: int) -> list[tuple[int, int]]:
        """The cuts from and to which each worker reads."""
        size = sum(run.count for run in self.runs) * self.dtype.itemsize
        number = 1 << min(_BITS, max(0, (size // range_bytes).bit_length()))
        return [(i * _CUTS // number, (i + 1) * _CUTS // number) for i in range(number)]


def every(engine: Engine, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """The results in the tasks' order. Raises what a task raised."""
    found: dict[int, R] = {}
    with contextlib.closing(engine.map(work, tasks)) as results:
        for i, result in results:
            if isinstance(result, Failed):
                raise result.input_error or WorkFailed(result.message)
            found[i] = result
    return [found[i] for i in range(len(tasks))]


def spill(
    engine: Engine,
    records: Callable[[Part], Iterator[Records]],
    grouping: Grouping,
    parts: Sequence[Part],
    folder: str,
    run_bytes: int = RUN_BYTES,
) -> Runs:
    """The records of all units as runs; `records` gives those of one unit in pieces."""
    written = every(engine, functools.partial(_spill, records, grouping, folder, run_bytes), parts)
    dtype = next((dtype for _, dtype in written if dtype is not None), grouping.result)
    return Runs(grouping, folder, tuple(run for found, _ in written for run in found), dtype)


def collect(engine: Engine, runs: Runs, range_bytes: int = RANGE_BYTES) -> list[str]:
    """The finished results of all groups: `.npy` files, the lower groups in the earlier ones."""
    return every(engine, functools.partial(_collect, runs), runs.ranges(range_bytes)) if runs.runs else []


def _spill(
    records: Callable[[Part], Iterator[Records]], grouping: Grouping, folder: str, run_bytes: int, part: Part
) -> tuple[list[Run], np.dtype[Any] | None]:
    written: list[Run] = []
    dtype = None
    for piece in gather(records(part), grouping.combine, run_bytes):
        dtype = piece.dtype
        if len(piece):
            written.append(_write(store.join(folder, "runs", f"{part.stem}-{len(written)}"), piece))
    return written, dtype


def gather(pieces: Iterator[Records], combine: Callable[[Records], Records], limit: int | None) -> Iterator[Records]:
    """Combined records of about `limit` bytes each (None: of all pieces at once): combining on as long as that makes room."""
    held: list[Records] = []
    size, room = 0, limit or RANGE_BYTES
    for piece in pieces:
        held.append(piece)
        size += piece.nbytes
        if size <= room:
            continue
        held = [combine(np.concatenate(held))]
        size = held[0].nbytes
        if size <= room // 2:
            continue
        if limit is None:
            room = 2 * size  # nothing left to leave out: twice as much comes in before it is tried again
        else:
            yield held[0]
            held, size = [], 0
    if held:
        yield combine(np.concatenate(held))


def _write(path: str, records: Records) -> Run:
    borders = np.arange(1, _CUTS, dtype=np.uint64) << np.uint64(64 - _BITS)
    index = np.array([0, *np.searchsorted(np.ascontiguousarray(records["group"]), borders), len(records)], "<i8")
    with store.atomic(path) as f:
        f.write(index.tobytes())
        f.write(np.ascontiguousarray(records).view(np.uint8).data)
    return Run(path, len(records))


def _collect(runs: Runs, cuts: tuple[int, int]) -> str:
    """Combines and finishes one range of groups."""
    slices = (_read(run.path, runs.dtype, *cuts) for run in runs.runs)
    found = list(gather(slices, runs.grouping.combine, None))
    result = runs.grouping.finish(found[0])
    path = store.join(runs.folder, "results", f"{cuts[0]:04}.npy")
    save(path, [result], len(result), runs.grouping.result)
    return path


def save(path: str, pieces: Iterable[Records], count: int, dtype: np.dtype[Any]) -> str:
    """Writes a `.npy` of so many records, which come in pieces; returns the SHA-256 of the records."""
    sha = hashlib.sha256()
    with store.atomic(path) as f:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}  # type: ignore[no-untyped-call]
        np.lib.format.write_array_header_1_0(f, header)  # type: ignore[no-untyped-call]
        for piece in pieces:
            octets = np.ascontiguousarray(piece, dtype).view(np.uint8).data
            f.write(octets)
            sha.update(octets)
    return sha.hexdigest()


def load(path: str) -> Records:
    """What `save` wrote, mapped where the file is local."""
    if store.is_local(path):
        mapped: Records = np.load(store.local_path(path), mmap_mode="r", allow_pickle=False)
        return mapped
    with store.open_input(path) as f:
        return np.load(f, allow_pickle=False)  # type: ignore[no-any-return]


def _read(path: str, dtype: np.dtype[Any], first: int, last: int) -> Records:
    with store.open_input(path) as f:
        index: NDArray[np.int64] = np.frombuffer(f.read(_INDEX_BYTES), "<i8")
        start, end = int(index[first]), int(index[last])
        f.seek(_INDEX_BYTES + start * dtype.itemsize)
        records: Records = np.frombuffer(f.read((end - start) * dtype.itemsize), dtype)
        return records
