"""Which entry of the list goes into which new shard, and where in it.

An entry is one copy of a sample. Everything random is decided by the hash of its uid, its copy and the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.reshard.locate import Found
from pipeline.reshard.settings import SHARD_SIZE, Settings
from pipeline.reshard.spool import Buckets, Records, Spool
from pools import hashes, uids
from pools.uids import UID

# `copy` counts the entries of a uid; a sample whose members stand apart has a record for each `part`.
ENTRY = np.dtype(
    [
        ("uid", UID),
        ("position", "<i8"),
        ("start", "<i8"),
        ("length", "<i8"),
        ("source", "<u4"),
        ("copy", "<u4"),
        ("part", "<u4"),
    ]
)
_BITS = 20  # of a hash that tell in which range a border between two shards lies
Numbers = NDArray[np.int64]


def lay_out(chosen: Spool, entries: int, size: int, settings: Settings) -> Iterator[Records]:
    """The records of one new shard after the other; `entries` and `size` in bytes are those of all."""
    if not entries:
        return
    buckets = Buckets(ENTRY)
    if settings.shuffle == "all":
        borders = _borders(chosen, _sizes(entries, size, settings), settings.seed)
        for records in _entries(chosen):
            buckets.add(np.searchsorted(borders, _hash(records, settings.seed), "right").astype(np.int64), records)
    else:
        number = _numbering(entries, size, settings)
        stream = _entries(chosen) if settings.shuffle == "none" else _within_buffer(_entries(chosen), settings)
        for records in stream:
            buckets.add(number(records), records)
    buckets.flush()
    for _, records in buckets.spool:
        yield records[_by_hash(records, settings.seed)] if settings.shuffle == "all" else records


def _entries(chosen: Spool) -> Iterator[Records]:
    """Every copy of every sample, in the order of the sources; the copies of a sample stand together."""
    for source, found in chosen:
        yield expanded(found, source)


def expanded(found: Found, source: int) -> Records:
    times = found["copies"]
    records = np.empty(int(times.sum()), ENTRY)
    copy = np.arange(len(records)) - np.repeat(np.cumsum(times) - times, times)
    for name in ("uid", "position", "start", "length", "part"):
        records[name] = np.repeat(found[name], times)
    records["source"], records["copy"] = source, copy
    if not found["part"].any():
        return records
    sample = np.repeat(np.cumsum(found["part"] == 0), times)
    in_order: Records = records[np.lexsort((records["part"], copy, sample))]
    return in_order


def _hash(records: Records, seed: int) -> NDArray[np.uint64]:
    of_uid = uids.hash64(np.ascontiguousarray(records["uid"]), seed)
    return hashes.join(of_uid, records["copy"].astype(np.uint64))


def _by_hash(records: Records, seed: int) -> NDArray[np.intp]:
    order: NDArray[np.intp] = np.lexsort((records["part"], records["position"], _hash(records, seed)))
    return order


def _sizes(entries: int, size: int, settings: Settings) -> Numbers:
    """How many entries each new shard holds."""
    if settings.shards or settings.shard_bytes:
        number = min(entries, settings.shards or -(-size // (settings.shard_bytes or 1)))
        return np.array([entries // number + (i < entries % number) for i in range(number)])
    each = settings.shard_size or SHARD_SIZE
    whole, rest = divmod(entries, each)
    return np.array([each] * whole + [rest] * (rest > 0))


def _borders(chosen: Spool, sizes: Numbers, seed: int) -> NDArray[np.uint64]:
    """The hashes at which a new shard begins, the first excepted: exact, by two passes, the second over few hashes."""
    ranks = np.cumsum(sizes)[:-1]
    counts = np.zeros(1 << _BITS, np.int64)
    shift = np.uint64(64 - _BITS)
    for records in _entries(chosen):
        counts += np.bincount((_hash(records, seed) >> shift)[records["part"] == 0].astype(np.int64), minlength=1 << _BITS)
    before = np.cumsum(counts) - counts
    ranges = np.searchsorted(before + counts, ranks, "right")
    near: list[NDArray[np.uint64]] = []
    for records in _entries(chosen):
        hashed = _hash(records, seed)[records["part"] == 0]
        near.append(hashed[np.isin((hashed >> shift).astype(np.int64), ranges)])
    ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *near]))
    starts = np.searchsorted((ordered >> shift).astype(np.int64), ranges, "left")
    return ordered[starts + ranks - before[ranges]]


def _numbering(entries: int, size: int, settings: Settings) -> Callable[[Records], Numbers]:
    """A function that tells of one batch of entries after the other into which shard each goes."""
    if settings.shard_bytes:
        return _ByBytes(size, -(-size // settings.shard_bytes))
    return _ByCount(np.cumsum(_sizes(entries, size, settings)))


class _ByCount:
    def __init__(self, ends: Numbers) -> None:
        self.ends, self.done = ends, 0

    def __call__(self, records: Records) -> Numbers:
        ordinal = self.done + np.cumsum(records["part"] == 0) - 1
        self.done += int((records["part"] == 0).sum())
        return np.searchsorted(self.ends, ordinal, "right").astype(np.int64)


class _ByBytes:
    """Even shares of the bytes: a sample goes where its first byte falls."""

    def __init__(self, size: int, number: int) -> None:
        self.size, self.number, self.done = size, number, 0

    def __call__(self, records: Records) -> Numbers:
        before = self.done + np.cumsum(records["length"]) - records["length"]
        self.done += int(records["length"].sum())
        shares = np.floor(before * (self.number / self.size)).astype(np.int64)
        heads = records["part"] == 0
        of_samples: Numbers = np.minimum(shares[heads][np.cumsum(heads) - 1], self.number - 1)
        return of_samples


def _within_buffer(stream: Iterator[Records], settings: Settings) -> Iterator[Records]:
    """Each entry moves back by a random number of places, less than the buffer has."""
    waiting, keys = np.empty(0, ENTRY), np.empty(0, np.float64)
    done = 0
    for records in stream:
        heads = records["part"] == 0
        ordinal = done + np.cumsum(heads) - 1
        done += int(heads.sum())
        moved = ordinal + _hash(records, settings.seed) / 2.0**64 * settings.buffer
        waiting, keys = np.concatenate([waiting, records]), np.concatenate([keys, moved])
        order = np.lexsort((waiting["part"], waiting["position"], keys))
        waiting, keys = waiting[order], keys[order]
        ready = int(np.searchsorted(keys, done, "left"))
        yield waiting[:ready]
        waiting, keys = waiting[ready:], keys[ready:]
    yield waiting
