"""Uids in any order → one sorted file, at any number: sorted runs in a scratch folder, then their merge."""

from __future__ import annotations

import contextlib
import posixpath
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pools import store
from pools.uids import sets, streams
from pools.uids.streams import Stored
from pools.uids.words import Uids, records_of

RUN = 1 << 21  # uids that are sorted at once


@contextlib.contextmanager
def scratch_beside(path: str, name: str = "scratch") -> Iterator[str]:
    """A folder that is gone when the block ends: beside a local file, where there is room for it, else a temporary one.

    Its name is the same each time, so that what a killed process left is found and replaced.
    """
    if not store.is_local(path):
        with tempfile.TemporaryDirectory() as folder:
            yield folder
        return
    folder, base = posixpath.split(store.local_path(path))
    scratch = posixpath.join(folder, f".{base}.{name}")
    store.remove_tree(scratch)
    try:
        yield scratch
    finally:
        store.remove_tree(scratch)


def sorted_pieces(blocks: Iterable[Uids], scratch: str, run: int = RUN) -> Iterator[Uids]:
    """All uids of the blocks in order, in pieces; at most about `run` at a time are in memory, the others in `scratch`.

    That is a folder of this machine, which is made if there is need of it.
    """
    streams.keep_freed_memory()
    written: list[Stored] = []
    held: list[Uids] = []
    for block in blocks:
        for start in range(0, len(block), run):
            held.append(block[start : start + run])
            if sum(map(len, held)) >= run:
                written.append(_write_run(held, store.join(scratch, f"{len(written):06d}")))
                held = []
    if not written:
        yield sets.sort(records_of(sets.joined(held)))
        return
    if held:
        written.append(_write_run(held, store.join(scratch, f"{len(written):06d}")))
    yield from streams.added([stored.reader() for stored in written])


def _write_run(held: list[Uids], path: str) -> Stored:
    return spooled([sets.sort(records_of(sets.joined(held)))], path)


def spooled(pieces: Iterable[Uids], path: str) -> Stored:
    """Writes pieces to a scratch file on this machine, whose loss would be none; its folder is made if it is not there."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    rows = 0
    with Path(path).open("wb") as f:
        for piece in pieces:
            f.write(np.ascontiguousarray(piece).view(np.uint8).data)
            rows += len(piece)
    return Stored(path, rows)
