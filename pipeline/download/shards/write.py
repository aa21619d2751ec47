"""Shards from rows: several in a row share threads, so that the slow rows at one's end do not hold up the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.download.images.blur import usable
from pipeline.download.shards import records
from pipeline.download.shards.flow import Got, Wanted, in_order, spool_folder
from pipeline.download.sources.rows import Row, carried, keys, with_uids
from pools import store
from pools.manifest import Outcome


@dataclass(frozen=True)
class Shard:
    """A shard's rows, ready to be asked for."""

    rows: list[Row]
    rest: pa.Table  # text and the input's columns, under the names they get
    extra: dict[str, str]  # those columns: {name in the input: name there}

    @classmethod
    def of(cls, table: pa.Table) -> Shard:
        extra = carried(table.schema)
        rest = pa.table({"text": table["text"].cast(pa.string()), **{there: table[here] for here, there in extra.items()}})
        return cls(with_uids(table.to_pylist()), rest, extra)

    def wanted(self, blur: bool) -> Iterator[Wanted]:
        for row in self.rows:
            boxes = row.get("face_bboxes") if blur else None
            usable(boxes or (), f"face_bboxes of {row['uid']}")  # or the job ends before it stores the face
            yield Wanted(row["url"], row.get("sha256"), boxes)


def write_shards(
    pool: str,
    names: Sequence[str],
    read: Callable[[str], pa.Table],
    get: Callable[[Wanted], Got],
    threads: int,
    *,
    per_host: int = 8,
    blur: bool = True,
    seen: Callable[[Got | None], None] = lambda got: None,
) -> Generator[tuple[str, Outcome], None, None]:
    """Writes `shards/<name>.{tar,parquet,_stats.json}` and `metadata/<name>.parquet` for each name, in order.

    `read` gives a shard's rows, when the first of them is about to be asked for.
    """
    begun: dict[str, Shard] = {}

    def shard(name: str) -> Shard:
        if name not in begun:
            begun[name] = Shard.of(read(name))
        return begun[name]

    wanted = (one for name in names for one in shard(name).wanted(blur))
    folder = spool_folder(store.join(pool, "shards"))
    with contextlib.closing(in_order(wanted, get, threads, per_host=per_host, seen=seen, folder=folder)) as found:
        for name in names:
            yield name, records.write(records.Files.of(pool, name), shard(name).rest, _entries(shard(name), found))
            del begun[name]


def _entries(shard: Shard, found: Iterator[Got]) -> Iterator[tuple[Row, records.Members | None]]:
    for row, key in zip(shard.rows, keys([r["uid"] for r in shard.rows]), strict=True):
        got = next(found)
        done = records.record(row["uid"], row["url"], row["text"], key, got)
        rest = {"text": row["text"], **{there: row[here] for here, there in shard.extra.items()}}
        yield done, records.members(done, got, rest)
