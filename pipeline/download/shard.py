"""One shard: fetch its rows' images at once, write them in the rows' order."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.download.fetch import Fetched, FetchFailed
from pipeline.download.images import ImageRules, Prepared, Reject, prepare
from pipeline.download.rows import Row, carried, keys, with_uids
from pools import shards, store
from pools.manifest import Outcome
from pools.schema import METADATA, STATUS, Reason, Status, Table

HELD_BYTES = 1 << 26  # of finished images that wait for an earlier row; more are not asked for until it is there
Fetch = Callable[[str], Fetched | FetchFailed]


@dataclass(frozen=True)
class Got:
    """What became of one url: an image with the hash of the bytes as served, or a reason."""

    image: Prepared | None
    sha256: str | None = None
    status: Status = Status.SUCCESS
    reason: Reason | None = None
    message: str | None = None


def write_shard(pool: str, name: str, table: pa.Table, fetch: Fetch, rules: ImageRules, threads: int) -> Outcome:
    """Writes `shards/<name>.{tar,parquet,_stats.json}` and `metadata/<name>.parquet` of a pool; counts rows by reason.

    A shard without a single image gets neither tar nor metadata: readers hang on an empty tar.
    """
    rows = with_uids(table.to_pylist())
    extra = carried(table.schema)
    base, metadata = store.join(pool, "shards", name), store.join(pool, "metadata", name + ".parquet")
    records: list[Row] = []
    kept: list[int] = []
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(contextlib.closing(in_order([r["url"] for r in rows], fetch, rules, threads)))
        writer: shards.Writer | None = None
        for row, key, got in zip(rows, keys([r["uid"] for r in rows]), found, strict=True):
            record = _record(row, key, got)
            if got.image is not None:
                writer = writer or stack.enter_context(shards.write(base + ".tar"))
                sidecar = {**record, "text": row["text"], **{there: row[here] for here, there in extra.items()}}
                writer.add(key, {"jpg": got.image.jpeg, "txt": record["caption"].encode(), "json": _json(sidecar)})
                kept.append(len(records))
            records.append(record)
    if kept:
        _write_table(metadata, METADATA, [records[i] for i in kept], table.take(kept), extra)
    else:
        # An earlier, killed attempt may have had some.
        store.remove_tree(base + ".tar")
        store.remove_tree(metadata)
    _write_table(base + ".parquet", STATUS, records, table, extra)
    store.write_json(base + "_stats.json", _stats(records))
    failed = Counter(f"failed:{r['reason']}" for r in records if r["reason"] is not None)
    return Outcome({"in": len(rows), "kept": len(kept), **dict(sorted(failed.items()))})


def in_order(urls: Sequence[str | None], fetch: Fetch, rules: ImageRules, threads: int) -> Generator[Got, None, None]:
    """What became of each url, in the order given, while up to 2 · threads of them are under way.

    Images are prepared as they come in and wait for earlier rows in their stored form, up to HELD_BYTES, so that one
    slow server does not stop the others.
    """
    with ThreadPoolExecutor(threads) as workers:
        under_way: dict[Future[Fetched | FetchFailed], int] = {}
        ready: dict[int, Got] = {}
        held = asked = 0
        try:
            for index in range(len(urls)):
                while index not in ready:
                    while asked < len(urls) and len(under_way) < 2 * threads and (held < HELD_BYTES or asked <= index):
                        under_way[workers.submit(_fetch, fetch, urls[asked])] = asked
                        asked += 1
                    for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                        got = _prepared(future.result(), rules)
                        ready[under_way.pop(future)] = got
                        held += _size(got)
                done = ready.pop(index)
                held -= _size(done)
                yield done
        finally:
            workers.shutdown(wait=False, cancel_futures=True)


def _fetch(fetch: Fetch, url: str | None) -> Fetched | FetchFailed:
    return fetch(url) if url else FetchFailed(Reason.BAD_URL, "no url")


def _size(got: Got) -> int:
    return len(got.image.jpeg) if got.image is not None else 0


def _prepared(fetched: Fetched | FetchFailed, rules: ImageRules) -> Got:
    if isinstance(fetched, FetchFailed):
        return Got(None, None, Status.FAILED_TO_DOWNLOAD, fetched.reason, fetched.message)
    sha256 = hashlib.sha256(fetched.body).hexdigest()
    image = prepare(fetched.body, rules)
    if isinstance(image, Reject):
        return Got(None, sha256, Status.FAILED_TO_RESIZE, image.reason, image.message)
    return Got(image, sha256)


def _record(row: Row, key: str, got: Got) -> Row:
    image = got.image
    return {
        "uid": row["uid"],
        "url": row["url"],
        "caption": row["text"] or "",
        "key": key,
        "status": str(got.status),
        "reason": None if got.reason is None else str(got.reason),
        "error_message": got.message,
        "width": image and image.width,
        "height": image and image.height,
        "original_width": image and image.original_width,
        "original_height": image and image.original_height,
        "sha256": got.sha256,
    }


def _json(record: Row) -> bytes:
    return json.dumps(_plain(record), ensure_ascii=False, allow_nan=False).encode()


def _plain(value: Any) -> Any:
    """A parquet value as JSON knows it: NaN and infinities are null, bytes hex digits, times and decimals text."""
    match value:
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case float():
            return value if math.isfinite(value) else None
        case bytes():
            return value.hex()
        case None | str() | int():
            return value
    return str(value)


def _write_table(path: str, kind: Table, records: list[Row], table: pa.Table, extra: dict[str, str]) -> None:
    """The table's own columns from the records, the input's from the rows they came from."""
    own = pa.schema([f for f in kind.schema if f.name != "text"])
    out = pa.Table.from_pylist(records, own).append_column("text", table["text"].cast(pa.string()))
    for here, there in extra.items():
        out = out.append_column(there, table[here])
    first = kind.schema.names
    with store.atomic(path) as f:
        pq.write_table(out.select([*first, *(n for n in out.schema.names if n not in first)]), f)


def _stats(rows: list[Row]) -> dict[str, Any]:
    """Counts under img2dataset's names, without its times: a rerun gives the same bytes."""
    statuses = Counter(r["status"] for r in rows)
    http = str(Reason.HTTP_STATUS)
    words = Counter((r["error_message"] if r["reason"] == http else r["reason"]) or r["status"] for r in rows)
    return {
        "count": len(rows),
        "successes": statuses[Status.SUCCESS],
        "failed_to_download": statuses[Status.FAILED_TO_DOWNLOAD],
        "failed_to_resize": statuses[Status.FAILED_TO_RESIZE],
        "status_dict": dict(sorted(words.items())),
    }
