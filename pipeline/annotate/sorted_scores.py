"""A table of scores in files sorted by uid, to be looked up in at any size: what is asked for is mapped, not loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pools import uids
from pools.errors import InputError
from pools.uids.sets import places

BUCKET_ROWS = 1 << 20  # sorted in memory at once, about
_SEED = 0


@dataclass(frozen=True)
class SortedScores:
    """2^bits buckets by a hash of the uid: `<i>.npy` has the uids of the i-th, sorted, and `<i>.arrow` their values."""

    folder: str
    bits: int
    schema: pa.Schema  # without uid
    counts: tuple[int, ...]  # different uids of each bucket

    @classmethod
    def build(cls, batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int, folder: str, where: str) -> SortedScores:
        """Of batches with a uid and values; `rows` is about how many there are.

        Memory: a bucket. Raises InputError for a uid that stands twice with different values, or is no uid.
        """
        bits = max(0, (rows // BUCKET_ROWS).bit_length())
        paths = _scatter(batches, bits, Path(folder), where)
        counts = tuple(_sort(path, where) if path is not None else 0 for path in paths)
        values = pa.schema([field for field in schema if field.name != "uid"])
        return cls(folder, bits, values, counts)

    @property
    def count(self) -> int:
        """Different uids."""
        return sum(self.counts)

    def take(self, wanted: uids.Uids) -> tuple[pa.Table, NDArray[np.bool_]]:
        """The values of n uids, null where a uid is not in the table; and (n,) whether it is."""
        found = np.zeros(len(wanted), bool)
        parts, rows = [self.schema.empty_table()], []
        for bucket, here in _buckets(wanted, self.bits):
            at, inside = self._positions(bucket, wanted[here])
            if inside.any():
                parts.append(self._values(bucket).take(pa.array(at[inside])))
                rows.append(here[inside])
                found[here[inside]] = True
        index = np.zeros(len(wanted), np.int64)
        if rows:
            index[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
        return pa.concat_tables(parts).take(pa.array(index, mask=~found)), found

    def seen(self) -> list[NDArray[np.bool_]]:
        """A flag a uid, all unset, for `see`."""
        return [np.zeros(count, bool) for count in self.counts]

    def see(self, wanted: uids.Uids, flags: list[NDArray[np.bool_]]) -> None:
        """Sets the flags of these uids."""
        for bucket, here in _buckets(wanted, self.bits):
            at, inside = self._positions(bucket, wanted[here])
            flags[bucket][at[inside]] = True

    def _positions(self, bucket: int, wanted: uids.Uids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where uids stand in a bucket, and whether they do; in the order that is asked for."""
        if not self.counts[bucket]:
            return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
        there = np.load(Path(self.folder) / f"{bucket}.npy", mmap_mode="r", allow_pickle=False)
        at = np.minimum(places(there, wanted), len(there) - 1)
        return at, there[at] == wanted

    def _values(self, bucket: int) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(Path(self.folder) / f"{bucket}.arrow"))).read_all()


def _buckets(wanted: uids.Uids, bits: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each bucket that some of the uids fall into, and which these are."""
    bucket = _bucket_of(wanted, bits)
    order = np.argsort(bucket, kind="stable")
    for here in np.split(order, np.flatnonzero(np.diff(bucket[order])) + 1):
        if len(here):
            yield int(bucket[here[0]]), here


def _bucket_of(packed: uids.Uids, bits: int) -> NDArray[np.int64]:
    if bits == 0:
        return np.zeros(len(packed), np.int64)
    return (uids.hash64(packed, _SEED) >> np.uint64(64 - bits)).astype(np.int64)


def _scatter(batches: Iterable[pa.RecordBatch], bits: int, folder: Path, where: str) -> list[Path | None]:
    """A file of each bucket's rows as they come; None for a bucket without any."""
    writers: dict[int, tuple[Path, pa.ipc.RecordBatchFileWriter]] = {}
    first = 0
    for batch in batches:
        packed = uids.pack(batch["uid"], where=where, first=first)
        first += len(batch)
        for bucket, here in _buckets(packed, bits):
            part = batch.take(pa.array(here))
            if bucket not in writers:
                path = folder / f"{bucket}.rows"
                writers[bucket] = (path, pa.ipc.new_file(str(path), part.schema))
            writers[bucket][1].write_batch(part)
    for _, writer in writers.values():
        writer.close()
    return [writers[i][0] if i in writers else None for i in range(1 << bits)]


def _sort(path: Path, where: str) -> int:
    """The bucket's rows by uid, each once; how many there are."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        packed = uids.pack(table["uid"])
        order = uids.order(packed)
        packed, table = packed[order], table.take(pa.array(order)).combine_chunks()
    again = np.flatnonzero(packed[1:] == packed[:-1]) + 1
    _check_equal(table, again, where)
    once = np.ones(len(packed), bool)
    once[again] = False
    np.save(path.with_suffix(".npy"), packed[once])
    values = table.drop_columns(["uid"]).filter(pa.array(once))
    with pa.ipc.new_file(str(path.with_suffix(".arrow")), values.schema) as writer:
        writer.write_table(values)
    path.unlink()
    return int(once.sum())


def _check_equal(table: pa.Table, again: NDArray[np.intp], where: str) -> None:
    """Of rows that have the uid of the row before them: whether they have its values too."""
    if not len(again):
        return
    rows, before = table.take(pa.array(again)), table.take(pa.array(again - 1))
    # As text, for which a NaN is as good as another one.
    for row, other in zip(rows.to_pylist(), before.to_pylist(), strict=True):
        if repr(row) != repr(other):
            name = next(k for k in row if repr(row[k]) != repr(other[k]))
            raise InputError(
                f"uid {row['uid']} stands twice, with {name} {other[name]!r} and {row[name]!r}",
                where=where,
                expected="one value for each uid",
            )
