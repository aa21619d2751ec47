"""Where the parts of each sample lie in its shard: read from the headers, so that any sample can be read by itself."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pools import shards, store, tar_scan, uids
from pools.uids import Uids

PARTS = ("image", "txt", "json")
_OPEN = 64  # shards that are held open
Place = tuple[int, int]  # offset and size in bytes; the offset is -1 where there is no such part


@dataclass(frozen=True)
class Places:
    """The samples of one shard, as arrays: there may be millions at a time."""

    keys: tuple[str, ...]
    parts: NDArray[np.int64]  # [n, 6]: offset and size of each of PARTS
    damage: str = ""  # why reading stopped before the shard's end
    uids: Uids | None = None  # [m], of those that have one
    named: NDArray[np.int64] | None = None  # [m], which these are
    numbers: NDArray[np.int64] | None = None  # [n], sorted: which samples these are; None = all

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, samples: NDArray[np.int64]) -> Places:
        """Those with these numbers, as far as they are there."""
        numbers = np.unique(samples[samples < len(self)])
        return Places(tuple(self.keys[i] for i in numbers.tolist()), self.parts[numbers], self.damage, numbers=numbers)

    def row(self, sample: int) -> int:
        """Where the sample with this number stands here, -1 if it does not."""
        if self.numbers is None:
            return sample if sample < len(self) else -1
        at = int(np.searchsorted(self.numbers, sample))
        return at if at < len(self) and self.numbers[at] == sample else -1


def scan(path: str, *, with_uids: bool = False) -> Places:
    """The samples of a shard in order. Raises InputError where it is no tar, or members stand twice or apart."""
    ending = tar_scan.Ending()
    keys: list[str] = []
    places: list[int] = []
    found: list[str | None] = []
    batches = tar_scan.scan(path, ending, content=b".json" if with_uids else b"")
    for key, parts in shards.grouped(path, batches, ending):
        keys.append(key)
        image = next((e for e in parts if e.lower() in shards.IMAGE_EXTENSIONS), None)
        for extension in (image, "txt", "json"):
            part = parts.get(extension) if extension else None
            places += (-1, 0) if part is None else part[1:3]
        if with_uids:
            body = parts["json"][3] if "json" in parts else None
            found.append(shards.uid_of(key, None if body is None else shards.fields_of(body)))
    if ending.empty:
        raise shards.no_tar(path)
    damage = f"{path}: {ending.damage}" if ending.damage else ""
    table = np.array(places, np.int64).reshape(-1, 2 * len(PARTS))
    named = np.array([i for i, uid in enumerate(found) if uid], np.int64)
    return Places(tuple(keys), table, damage, uids.pack([uid for uid in found if uid]) if with_uids else None, named)


@dataclass(frozen=True)
class Held:
    """What a shard holds: its samples, those of them that have a uid and these, and its damage, before which they stand."""

    count: int
    damage: str = ""
    named: NDArray[np.int64] | None = None
    uids: Uids | None = None


def held_by(path: str, *, with_uids: bool) -> Held:
    """By its `_stats.json`; where there is none, or uids are wanted, by its headers. Raises InputError as `scan` does."""
    if store.size(path) == 0:
        return Held(0)
    if not with_uids and (stated := _stated(path)) is not None:
        return Held(stated)
    places = scan(path, with_uids=with_uids)
    return Held(len(places), places.damage, places.named, places.uids)


def _stated(path: str) -> int | None:
    """The samples of a shard as its `_stats.json` has them."""
    stats = path.removesuffix(".tar") + "_stats.json"
    if not store.exists(stats):
        return None
    told = store.read_json(stats)
    count = told.get("successes") if isinstance(told, dict) else None
    return count if isinstance(count, int) and count >= 0 else None


class Files:
    """Reads at any place of many shards, of which it holds some open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, int] = OrderedDict()

    def read(self, path: str, places: tuple[Place, ...]) -> list[bytes | None]:
        """The bytes of each place, None for one with a negative offset. Fewer bytes where the file ends."""
        there = [p for p in places if p[0] >= 0]
        if not there:
            return [None] * len(places)
        read = self._reader(path)
        start, stop = min(p[0] for p in there), max(p[0] + p[1] for p in there)
        if stop - start > 2 * sum(p[1] for p in there) + tar_scan.WINDOW:  # much else stands between them
            return [None if at < 0 else read(at, n) for at, n in places]
        body = read(start, stop - start)
        return [None if at < 0 else body[at - start : at - start + n] for at, n in places]

    def _reader(self, path: str) -> Callable[[int, int], bytes]:
        if not store.is_local(path):
            return lambda at, n: store.read_range(path, at, n)
        fd = self._open.get(path)
        if fd is None:
            if len(self._open) >= _OPEN:
                os.close(self._open.popitem(last=False)[1])
            fd = self._open[path] = os.open(store.local_path(path), os.O_RDONLY)
        else:
            self._open.move_to_end(path)
        return lambda at, n: os.pread(fd, n, at)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def __del__(self) -> None:
        self.close()
