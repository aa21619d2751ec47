"""One new shard written by its table: bytes are copied as they lie, under new headers; only what is changed is taken apart."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine import Unit
from pipeline.reshard import faces
from pipeline.reshard.changes import Change
from pipeline.reshard.tables import Row, Table
from pools import shards, store, tar_scan
from pools.errors import WorkFailed
from pools.manifest import Outcome

BUFFER = 1 << 20  # bytes that are written at once: what a core's cache holds
OPEN_FILES = 64
AHEAD = 16  # samples of a store beyond this machine, or with a change to make, that are worked on at once
BLOCK = tar_scan.BLOCK


@dataclass(frozen=True)
class Copy:
    """Work on a unit: the table at `args[0]` becomes the shard at `args[1]`."""

    change: Change
    threads: int = 1  # in which pictures are decoded

    def __call__(self, unit: Unit) -> Outcome:
        table_path, path = unit.args
        with store.open_input(table_path) as f:
            table = Table.read(f)
        remote = not all(map(store.is_local, table.sources))
        done = _Done()
        with shards.write(path) as out, contextlib.closing(_Sources()) as sources:
            if self.change.any or remote:
                self._write_changed(table, sources, out, done, max(self.threads, AHEAD if remote else 1))
            else:
                _write_plain(table, sources, out, done)
        stats = path.removesuffix(".tar") + "_stats.json"
        store.write_json(stats, {"count": done.counts.total(), "successes": done.counts["kept"]})
        if done.failed:
            store.write_json(path_of_failed(table_path), done.failed)
        problems = tuple(f"{uid}: {why}" for uid, why in done.failed[:20])
        return Outcome({"in": done.counts.total(), **done.counts}, problems)

    def _write_changed(self, table: Table, sources: _Sources, out: shards.Writer, done: _Done, threads: int) -> None:
        def make(row: Row) -> dict[str, bytes] | faces.Failure:
            members = _members(b"".join(sources.read(s, start, n) for s, start, n in row.runs), row)
            return self.change(row.uid, members, row.caption, row.boxes)

        for row, members in _in_order(make, table.rows(), threads):
            if isinstance(members, faces.Failure):
                done.fail(row.uid, members)
            else:
                out.add(row.key, members)
                done.counts["kept"] += 1


@dataclass
class _Done:
    counts: Counter[str] = field(default_factory=lambda: Counter({"kept": 0}))
    failed: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, uid: str, failure: faces.Failure) -> None:
        self.counts[f"failed:{failure.reason}"] += 1
        self.failed.append((uid, f"{failure.reason}: {failure.detail}"))


def path_of_failed(table_path: str) -> str:
    return table_path.removesuffix(".table") + "_failed.json"


class _Sources:
    """The shards that are read from: files of this machine stay open for a while, stores are asked for just the bytes."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, int] = OrderedDict()

    def file(self, path: str) -> int:
        """A descriptor of a local file."""
        if (fd := self._open.get(path)) is not None:
            self._open.move_to_end(path)
            return fd
        fd = self._open[path] = os.open(store.local_path(path), os.O_RDONLY)
        if len(self._open) > OPEN_FILES:
            os.close(self._open.popitem(last=False)[1])
        return fd

    def read(self, path: str, start: int, length: int) -> bytes:
        if store.is_local(path):
            with Path(store.local_path(path)).open("rb", buffering=0) as f:  # several threads read
                data = os.pread(f.fileno(), length, start)
        else:
            data = store.read_range(path, start, length)
        if len(data) < length:
            raise changed(path, start)
        return data

    def close(self) -> None:
        for fd in self._open.values():
            os.close(fd)


def changed(path: str, at: int) -> WorkFailed:
    return WorkFailed(f"{path}: no sample at byte {at}: the shard has changed since it was looked at\n  → run again")


def _write_plain(table: Table, sources: _Sources, out: shards.Writer, done: _Done) -> None:
    """Reads samples one after the other into a buffer, puts new headers in place of the old, and writes what is full."""
    buffer = bytearray(BUFFER)
    view = memoryview(buffer)
    at = 0
    for row in table.rows():
        need = sum(length for *_, length in row.runs)
        # Long names and sizes need more room than they had.
        if at + need + 8 * BLOCK > len(buffer):
            out.add_raw(view[:at])
            at = 0
            if need + 8 * BLOCK > len(buffer):
                buffer = bytearray(need + 8 * BLOCK)
                view = memoryview(buffer)
        end = at
        for path, start, length in row.runs:
            if os.preadv(sources.file(path), [view[end : end + length]], start) < length:
                raise changed(path, start)
            end += length
        at = _renamed(buffer, view, at, end, row)
        done.counts["kept"] += 1
    out.add_raw(view[:at])


def _renamed(buffer: bytearray, view: memoryview, at: int, end: int, row: Row) -> int:
    """Gives the members between two bytes of a buffer their new names, close together; returns where they end then."""
    parts = _parts(buffer, at, end, row)
    key = row.key.encode()
    headers = [tar_scan.header(b"%b.%b" % (key, extension), n) for extension, _, n in parts]
    if max(map(len, headers)) > BLOCK:
        made = b"".join(h + bytes(view[o : o + n]) + bytes(-n % BLOCK) for h, (_, o, n) in zip(headers, parts, strict=True))
        view[at : at + len(made)] = made
        return at + len(made)
    for header, (_, offset, n) in zip(headers, parts, strict=True):
        buffer[at : at + BLOCK] = header
        at += BLOCK
        if offset != at:
            view[at : at + n] = view[offset : offset + n]
        at += n
        if pad := -n % BLOCK:
            buffer[at : at + pad] = _ZEROS[:pad]
            at += pad
    return at


_ZEROS = bytes(BLOCK)


def _parts(buffer: bytes | bytearray, at: int, end: int, row: Row) -> list[tuple[bytes, int, int]]:
    """(extension, offset, size) of the members of a sample that lie between two bytes."""
    members = tar_scan.plain_members(buffer, at, end)
    if members is None:
        members = _walked(buffer, at, end, row)
    found: list[tuple[bytes, int, int]] = []
    key: bytes | None = None
    for name, offset, size in members:
        this, extension = shards.split(name)
        if key is None:
            key = this
        if this == key:  # of others there may be some between the members of a sample that stood apart
            found.append((extension, offset, size))
    if not found:
        raise changed(row.runs[0][0], row.runs[0][1])
    return found


def _walked(buffer: bytes | bytearray, at: int, end: int, row: Row) -> list[tuple[bytes, int, int]]:
    ending = tar_scan.Ending()

    def read(offset: int, length: int) -> bytes:
        return bytes(buffer[offset : min(offset + length, end)])

    walk = tar_scan.walk(read, ending, start=at, stop=end, size=end)
    found = [(name, offset, size) for batch in walk for name, _, offset, size, _ in batch]
    if ending.damage:
        raise changed(row.runs[0][0], row.runs[0][1])
    return found


def _members(data: bytes, row: Row) -> dict[str, bytes]:
    parts = _parts(data, 0, len(data), row)
    return {extension.decode("utf-8", "surrogateescape"): data[offset : offset + size] for extension, offset, size in parts}


def _in_order(make: Callable[[Row], Any], rows: Iterator[Row], threads: int) -> Iterator[tuple[Row, Any]]:
    """Each row with what was made of it, several at once."""
    if threads < 2:
        yield from ((row, make(row)) for row in rows)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[tuple[Row, Future[Any]]] = []
        for row in rows:
            waiting.append((row, pool.submit(make, row)))
            if len(waiting) >= 2 * threads:
                first, future = waiting.pop(0)
                yield first, future.result()
        for row, future in waiting:
            yield row, future.result()


def read_failed(table_paths: Sequence[str]) -> list[str]:
    """The uids of the entries that could not be written, an entry each."""
    paths = [path_of_failed(p) for p in table_paths]
    return [uid for path in paths if store.exists(path) for uid, _ in json.loads(store.read_bytes(path))]
