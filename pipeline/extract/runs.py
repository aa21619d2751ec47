"""Rows on their way from many files to the candidates: sorted runs on disk, of which any range can be read alone.

The order is that of a hash of the uid, in which the candidates are written in the end: a shuffle that the input alone
decides. A file holds one run after the other, each sorted and without repeats, in groups of a few thousand rows whose
bounds the parquet footer knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.extract.rows import ROWS
from pools import store, uids

SEED = 0
ORDER = "order"
RUN = pa.schema(
    [(ORDER, pa.uint64()), *(f for f in ROWS if f.name != "page"), ("crawl", pa.string()), ("source_file", pa.string())]
)
_STRINGS = [f.name for f in RUN if f.type == pa.string()]
_GROUP_ROWS = 4096
_GROUP_BYTES = 4 << 20
_FEW = ["content_language", "opt_out", "crawl", "source_file"]  # columns of few distinct values


def make(batch: pa.RecordBatch, crawl: str | None, source_file: str) -> pa.Table:
    """A batch of `ROWS` as one run: sorted, of equal uids the row of the earliest page."""
    few = {"crawl": pa.repeat(pa.scalar(crawl, pa.string()), len(batch)), "source_file": pa.repeat(source_file, len(batch))}
    pages = np.argsort(batch["page"].to_numpy(), kind="stable")
    columns = [few[name] if name in few else batch[name] for name in RUN.names[1:]]
    hashes = uids.hash64(uids.from_digests(batch["uid"]), SEED)
    table = pa.table([pa.array(hashes), *columns], schema=RUN)
    return distinct(table.take(pa.array(pages)))


def distinct(table: pa.Table) -> pa.Table:
    """The rows in order; of equal uids the first alone."""
    order, ids = table[ORDER].to_numpy(), uids.from_digests(table["uid"])
    at = np.lexsort((ids["f1"], ids["f0"], order))
    high, low = ids["f0"][at], ids["f1"][at]
    first = np.ones(len(at), bool)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return table.take(pa.array(at[first]))


def size(table: pa.Table) -> int:
    """Bytes of its text."""
    return sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in _STRINGS)


def write(out: IO[bytes], runs: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(out, RUN, compression="lz4", use_dictionary=_FEW, write_statistics=[ORDER]) as writer:
        for run in runs:
            if len(run):
                rows = max(1, min(_GROUP_ROWS, _GROUP_BYTES * len(run) // max(1, size(run))))
                writer.write_table(run, row_group_size=rows)


def read(path: str, low: int, high: int) -> pa.Table:
    """The rows whose hash is at least `low` and less than `high`, run after run."""
    with store.open_input(path) as file, pq.ParquetFile(file) as parquet:
        groups = [g for g in range(parquet.num_row_groups) if _overlaps(parquet.metadata.row_group(g), low, high)]
        table = parquet.read_row_groups(groups, use_threads=False).cast(RUN)
    hashes = table[ORDER].to_numpy()
    inside = hashes >= np.uint64(low)
    if high <= np.iinfo(np.uint64).max:
        inside &= hashes < np.uint64(high)
    return table if inside.all() else table.filter(pa.array(inside))


def merge(paths: Sequence[str], low: int, high: int) -> pa.Table:
    """One run of all rows of these files in a range of hashes; of equal uids the row of the first file, of its first run."""
    return distinct(pa.concat_tables([RUN.empty_table(), *(read(path, low, high) for path in paths)]))


def bounds(number: int) -> list[tuple[int, int]]:
    """Equal parts of all hashes, as [low, high)."""
    borders = [(k << 64) // number for k in range(number + 1)]
    return list(itertools.pairwise(borders))


def _overlaps(group: pq.RowGroupMetaData, low: int, high: int) -> bool:
    statistics = group.column(0).statistics
    return bool(statistics.min < high and statistics.max >= low)
