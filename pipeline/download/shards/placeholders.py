"""The same bytes under many urls: most are a site's picture for "not here" (removed, not found, hotlinking forbidden).

What is counted are urls, not rows. Three passes over two columns of the shards' parquet files, with bounded memory: a table
of small counters, of which no hash that is frequent can be missing; then the urls of the hashes that the table leaves; then
the hashes themselves. For 10⁹ rows the counters are 1 GiB, and each row that they leave takes 16 bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.download.shards.records import Files
from pools import store, uids
from pools.schema import Reason

REPORT = "_placeholders.jsonl"
EXAMPLES = 5  # urls of each hash in the report
_SLOTS = (1 << 16, 1 << 30)  # counters, of a byte: at least and at most
_PAIRS = 1 << 22  # (hash, url) in memory before repeats among them are dropped
_READERS = 8
Words = NDArray[np.uint64]


def write_report(pool: str, names: Sequence[str], least_urls: int) -> list[dict[str, Any]]:
    """Writes `shards/_placeholders.jsonl` and returns it: an object for each SHA-256 that so many urls have served.

    Each has sha256, urls, rows (a url may stand in several), examples; the most urls first. Rows that were taken out as
    placeholders count as before.
    """
    found = report(pool, names, least_urls)
    with store.atomic(store.join(pool, "shards", REPORT)) as f:
        for line in found:
            f.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
    return found


def report(pool: str, names: Sequence[str], least_urls: int) -> list[dict[str, Any]]:
    hashes, numbers = _many_urls(pool, names, least_urls)
    rows: dict[str, int] = {}
    examples: dict[str, dict[str, None]] = {}
    for table in _tables(pool, names) if len(hashes) else ():
        for row in table.filter(pa.array(np.isin(_prefix(table), hashes))).to_pylist():
            sha256 = row["sha256"]
            rows[sha256] = rows.get(sha256, 0) + 1
            if len(urls := examples.setdefault(sha256, {})) < EXAMPLES:
                urls[row["url"]] = None
    urls_of = dict(zip(hashes.tolist(), numbers.tolist(), strict=True))
    found: list[dict[str, Any]] = [
        {"sha256": sha256, "urls": urls_of[int(sha256[:16], 16)], "rows": n, "examples": list(examples[sha256])}
        for sha256, n in rows.items()
    ]
    return sorted(found, key=lambda of: (-urls_of[int(of["sha256"][:16], 16)], of["sha256"]))


def read_report(pool: str) -> frozenset[str]:
    """The hashes of a report."""
    return frozenset(json.loads(line)["sha256"] for line in store.read_lines(store.join(pool, "shards", REPORT)))


def _many_urls(pool: str, names: Sequence[str], least: int) -> tuple[Words, NDArray[np.int64]]:
    """The first 64 bits of each hash that so many urls served, and their number."""
    frequent = _frequent_slots(pool, names, least)
    shift = np.uint64(64 - (len(frequent).bit_length() - 1))
    parts: list[Words] = []
    waiting = 0
    for table in _tables(pool, names):
        prefix = _prefix(table)
        left = frequent[prefix >> shift]
        urls = [_hash(url) for url in table["url"].filter(pa.array(left)).to_pylist()]
        parts.append(np.stack([prefix[left], np.array(urls, np.uint64)], axis=1))
        waiting += len(urls)
        if waiting > _PAIRS:
            parts, waiting = [_distinct(parts)], 0
    pairs = _distinct(parts)
    hashes, numbers = np.unique(pairs[:, 0], return_counts=True)
    return hashes[numbers >= least], numbers[numbers >= least]


def _distinct(parts: list[Words]) -> Words:
    pairs: Words = np.unique(np.concatenate([np.empty((0, 2), np.uint64), *parts]), axis=0)
    return pairs


def _frequent_slots(pool: str, names: Sequence[str], least: int) -> NDArray[np.bool_]:
    """(slots,) whether so many rows, of whichever hashes, fell into a slot: the upper bits of the hash."""
    bits = min(max(4 * _rows(pool, names), _SLOTS[0]), _SLOTS[1]).bit_length() - 1
    counts = np.zeros(1 << bits, np.uint8)
    for table in _tables(pool, names, ("sha256",)):
        slots, numbers = np.unique(_prefix(table) >> np.uint64(64 - bits), return_counts=True)
        counts[slots] = np.minimum(counts[slots].astype(np.int64) + numbers, 255).astype(np.uint8)
    return counts >= min(least, 255)


def _rows(pool: str, names: Sequence[str]) -> int:
    """An estimate from the first shard, which is as large as any."""
    for name in names[:1]:
        with store.open_input(Files.of(pool, name).parquet) as f:
            return int(pq.ParquetFile(f).metadata.num_rows) * len(names)
    return 0


def _tables(pool: str, names: Sequence[str], columns: tuple[str, ...] = ("sha256", "url")) -> Iterator[pa.Table]:
    """Of each shard the rows that have an image, or had one before it was taken out as a placeholder."""

    def one(name: str) -> pa.Table:
        with store.open_input(Files.of(pool, name).parquet) as f:
            table = pq.ParquetFile(f).read(columns=[*columns, "reason"])
        had = pc.or_(pc.is_null(table["reason"]), pc.fill_null(pc.equal(table["reason"], str(Reason.PLACEHOLDER)), False))
        return table.filter(had).select(columns)

    with ThreadPoolExecutor(_READERS) as readers:
        upcoming = iter(names)
        ahead = deque(readers.submit(one, name) for name in islice(upcoming, 2 * _READERS))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(readers.submit(one, name) for name in islice(upcoming, 1))


def _prefix(table: pa.Table) -> Words:
    """(n,) the first 64 bits of each SHA-256."""
    packed = uids.pack(pc.utf8_slice_codeunits(table["sha256"], 0, 32))
    words: Words = packed.view(np.uint64).reshape(-1, 2)[:, 0]
    return words


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
