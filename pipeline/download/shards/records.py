"""The files of one shard: tar, status, statistics, and the metadata of the samples that are in the tar."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.download.shards.flow import Got
from pools import shards, store
from pools.errors import DiskFull
from pools.manifest import Outcome
from pools.schema import METADATA, STATUS, Reason, Status, Table

Row = dict[str, Any]
Members = Mapping[str, bytes]
_OWN = [name for name in STATUS.schema.names if name != "text"]


@dataclass(frozen=True)
class Files:
    """Paths of one shard's files."""

    tar: str
    parquet: str
    stats: str
    metadata: str

    @classmethod
    def of(cls, pool: str, name: str) -> Files:
        base = store.join(pool, "shards", name)
        return cls(base + ".tar", base + ".parquet", base + "_stats.json", store.join(pool, "metadata", name + ".parquet"))


def record(uid: str, url: str | None, text: str | None, key: str, got: Got) -> Row:
    """A row of the status, which is what a sample's json holds besides the input's columns."""
    image = got.image
    return {
        "uid": uid,
        "url": url,
        "caption": text or "",
        "key": key,
        "status": str(got.status),
        "reason": None if got.reason is None else str(got.reason),
        "error_message": got.message,
        "width": image and image.width,
        "height": image and image.height,
        "original_width": got.original_width,
        "original_height": got.original_height,
        "sha256": got.sha256,
        "frames": got.frames,
        "final_url": got.final_url,
        "sha256_expected": got.sha256_expected,
    }


def members(row: Row, got: Got, rest: Row) -> Members | None:
    """A sample's files in the tar, None for a row without an image. `rest`: text and the input's columns."""
    if got.image is None:
        return None
    return {got.image.ext: got.image.data, "txt": row["caption"].encode(), "json": _json({**row, **rest})}


def write(files: Files, rest: pa.Table, entries: Iterable[tuple[Row, Members | None]]) -> Outcome:
    """Writes a shard's files; `rest` has the rows' text and the input's columns, under the names they get. Counts rows.

    Without a single image there is neither tar nor metadata: readers hang on an empty tar. Raises DiskFull, which says
    how much the shard needs as far as that can be told.
    """
    records: list[Row] = []
    kept: list[int] = []
    written = 0
    try:
        with contextlib.ExitStack() as stack:
            writer: shards.Writer | None = None
            for row, sample in entries:
                if sample is not None:
                    writer = writer or stack.enter_context(shards.write(files.tar))
                    written += sum(-(-len(data) // 512) * 512 + 512 for data in sample.values())
                    writer.add(row["key"], sample)
                    kept.append(len(records))
                records.append(row)
        if kept:
            _write_table(files.metadata, METADATA, [records[i] for i in kept], rest.take(kept))
        else:
            # An earlier, killed attempt may have had some.
            store.remove_tree(files.tar)
            store.remove_tree(files.metadata)
        _write_table(files.parquet, STATUS, records, rest)
        store.write_json(files.stats, _stats(records))
    except DiskFull as e:
        raise _too_full(e, files.tar, written, len(records), len(rest)) from e
    return _outcome(records)


def _too_full(error: DiskFull, tar: str, written: int, done: int, rows: int) -> DiskFull:
    what, _, advice = str(error).partition("\n")
    # The row that did not fit is in `written` and not yet among those done.
    need = written * rows // min(done + 1, rows) if rows else written
    free = ""
    if store.is_local(tar):
        with contextlib.suppress(OSError):
            free = f", {shutil.disk_usage(Path(store.local_path(tar)).parent).free:,} are free"
    return DiskFull(f"{what}; this shard needs about {need:,} bytes{free}\n{advice}".rstrip())


def _write_table(path: str, kind: Table, records: list[Row], rest: pa.Table) -> None:
    """The table's own columns from the records, then text and the input's."""
    own = pa.schema([f for f in kind.schema if f.name != "text"])
    out = pa.Table.from_pylist(records, own)
    for name in rest.schema.names:
        out = out.append_column(name, rest[name])
    first = kind.schema.names
    with store.atomic(path) as f:
        pq.write_table(out.select([*first, *(n for n in out.schema.names if n not in first)]), f)


def rest_of(status: pa.Table) -> pa.Table:
    """Of a status table the text and the input's columns, as `write` takes them."""
    return status.select([name for name in status.schema.names if name not in _OWN])


def rows_of(status: pa.Table) -> list[Row]:
    """Of a status table what `record` makes; columns that it lacks are null."""
    there = [name for name in _OWN if name in status.schema.names]
    return [{name: row.get(name) for name in _OWN} for row in status.select(there).to_pylist()]


def _outcome(rows: list[Row]) -> Outcome:
    reasons = Counter(r["reason"] for r in rows)
    kept = reasons.pop(None, 0)
    words = {r: ("dropped:" if r == Reason.PLACEHOLDER else "failed:") + r for r in reasons}
    counts = {"in": len(rows), "kept": kept, **{words[r]: reasons[r] for r in sorted(reasons)}}
    http = Counter(r["error_message"] for r in rows if r["reason"] == Reason.HTTP_STATUS)
    counts |= {str(message).lower().replace(" ", "_"): n for message, n in sorted(http.items())}
    if flagged := sum(r["sha256_expected"] is False and r["reason"] is None for r in rows):
        counts["other_sha256"] = flagged
    return Outcome(counts)


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


def _json(row: Row) -> bytes:
    return json.dumps(_plain(row), ensure_ascii=False, allow_nan=False).encode()


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
