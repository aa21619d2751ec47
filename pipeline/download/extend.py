"""Generations: rows that came to a done download later, by uid, as shards of their own behind those that were there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.download.shards.records import Files
from pipeline.download.sources import rows
from pools import store, uids
from pools.errors import InputError
from pools.manifest import Outcome


@dataclass(frozen=True)
class Generation:
    """One extension: what was named, the shards it makes, and how many of its rows the pool had already."""

    inputs: str  # digest
    first: int  # number of its first shard
    shards: int
    rows: int
    known: int
    counts: dict[str, int]  # what was met while the source was read (`Source.found`)
    problems: tuple[str, ...]

    @property
    def found(self) -> Outcome:
        return Outcome(dict(self.counts), tuple(self.problems))

    def told(self) -> dict[str, Any]:
        return asdict(self)


def generations(output: str) -> list[Generation]:
    """Those that were begun, in order."""
    folder = store.join(output, ".winnow", "generations")
    names = store.list_files(folder, ".json") if store.is_dir(folder) else []
    return [Generation(**store.read_json(store.join(folder, name))) for name in names]


def rows_file(output: str, number: int) -> str:
    """The new rows of a generation (counted from 1), with all columns of its input."""
    return store.join(output, ".winnow", "generations", f"{number:04d}.parquet")


def begin(pool: str, output: str, source: rows.Source, inputs: str, shard_size: int, names: Sequence[str]) -> Generation:
    """Writes the rows of `source` whose uids the pool has not, then what they are.

    `names`: the shards that are there; `inputs`: the digest of what was named. Of the pool 16 bytes a row are in memory
    (while they are sorted, 50), of the source some thousand rows.
    """
    number = len(generations(output)) + 1
    known = _Known(pool, names)
    new = old = 0
    schema = source.schema if "uid" in source.schema.names else source.schema.append(pa.field("uid", pa.string()))
    with store.atomic(rows_file(output, number)) as f, pq.ParquetWriter(f, schema) as writer:
        for table in _tables(source):
            ids = pa.array([row["uid"] for row in rows.with_uids(table.select(_ids(table)).to_pylist())], pa.string())
            there = known.holds(packed(ids))
            index = source.schema.get_field_index("uid")
            full = table.append_column("uid", ids) if index < 0 else table.set_column(index, "uid", ids)
            full = full.filter(pa.array(~there)).cast(schema)
            new, old = new + len(full), old + int(there.sum())
            if len(full):
                writer.write_table(full)
    found = Generation(inputs, len(names), -(-new // shard_size), new, old, *asdict(source.found).values())
    store.write_json(rows_file(output, number).replace(".parquet", ".json"), found.told())
    return found


def _tables(source: rows.Source) -> Iterator[pa.Table]:
    """All rows in order, some thousand at once, under the columns of the whole source."""
    none = source.schema.empty_table()
    for spans in source.shards(max(1, source.rows)):
        for span in spans:
            for table in rows.tables_of(span):
                yield pa.concat_tables([none, table], promote_options="permissive").select(none.schema.names).cast(none.schema)


def packed(ids: pa.Array | pa.ChunkedArray) -> uids.Uids:
    """Uids as records; those that are no 32 hex digits by their MD5."""
    try:
        return uids.pack(ids)
    except InputError:
        md5 = (hashlib.md5(u.encode(), usedforsecurity=False).hexdigest() for u in ids.to_pylist())
        return uids.pack([u if _is_hex(u) else m for u, m in zip(ids.to_pylist(), md5, strict=True)])


def _is_hex(uid: str) -> bool:
    return len(uid) == 32 and all(c in "0123456789abcdefABCDEF" for c in uid)


def _ids(table: pa.Table) -> list[str]:
    return [name for name in ("uid", "url", "text") if name in table.schema.names]


class _Known:
    """The uids of all rows of some shards."""

    def __init__(self, pool: str, names: Iterable[str]) -> None:
        def one(name: str) -> uids.Uids:
            with store.open_input(Files.of(pool, name).parquet) as f:
                return packed(pq.ParquetFile(f).read(columns=["uid"])["uid"])

        with ThreadPoolExecutor(8) as readers:
            found = uids.sort(np.concatenate([np.empty(0, uids.UID), *readers.map(one, names)]))
        # Apart, so that each is searched without a copy.
        self._high, self._low = np.ascontiguousarray(found["f0"]), np.ascontiguousarray(found["f1"])

    def holds(self, asked: uids.Uids) -> NDArray[np.bool_]:
        """(n,) whether each is among them."""
        high, low = asked["f0"], asked["f1"]
        at, end = (np.searchsorted(self._high, high, side) for side in ("left", "right"))
        found = np.zeros(len(asked), bool)
        while (left := ~found & (at < end)).any():
            found[left] = self._low[at[left]] == low[left]
            at = at + left
        return found
