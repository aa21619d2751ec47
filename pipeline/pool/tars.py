"""Folders of webdataset tars (img2dataset's, or with nothing but pictures and captions) → a pool: shards and metadata.

The tars are read only. One whose samples all have a uid in their json stands in the pool as it is (a hard link where that
can be, else a copy); any other is written anew: the same members, keyed by uid, with a json that holds it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.download.images import orientation
from pipeline.download.images.prepare import MAX_PIXELS, Reject, open_image
from pipeline.download.sources import value_types
from pipeline.download.sources.rows import keys
from pipeline.download.sources.value_types import Kinds
from pipeline.pool.files import stand
from pipeline.pool.tables import STAGE
from pools import shards, store, uids
from pools.errors import InputError
from pools.manifest import Outcome, Run
from pools.schema import METADATA
from pools.shards import Sample

VERSION = 1
_HEX = re.compile(r"[0-9a-fA-F]{32}")
# Of a sample's json what the metadata has under its own names, or what says nothing of a picture that is there.
_LEFT_OUT = frozenset(
    {
        *("uid", "url", "caption", "text", "key", "status", "reason", "error_message", "exif"),
        *("original_width", "original_height", "sha256"),
    }
)
_OWN: Kinds = {**dict.fromkeys(METADATA.schema.names, "text"), "original_width": "int", "original_height": "int"}
Row = dict[str, Any]


def is_tars(source: str) -> bool:
    """Whether a source is a tar, or a folder that holds some."""
    if store.is_dir(source):
        return any(name.endswith(".tar") for name in store.list_files(source))
    return source.endswith(".tar")


def import_tars(source: str, output: str, *, options: engine.Options) -> Outcome:
    """Writes POOL/shards/<stem>.tar and POOL/metadata/<stem>.parquet for each tar, rows in the tar's order.

    Of the metadata `key` is the sample's name in the pool's tar and `source_key` that in the given one; the fields of the
    samples' json are columns. A uid that a json has is kept; else it is the MD5 of caption + url, and where there is no
    url the MD5 of caption + picture. Counts: in (samples), kept, failed:no_image; shards that stand as they are.
    """
    root = source if store.is_dir(source) else None
    paths = shards.list_shards(source) if root is not None else [p for p in store.find_glob(source) if p.endswith(".tar")]
    if not paths:
        raise InputError("no such tar", where=source, expected="a folder of .tar files, or a pattern")
    units = [engine.Unit(_stem(path, root), "", (path,)) for path in paths]
    run = Run(output, STAGE, VERSION, {"form": "tars"}, tuple(store.digest(path, root) for path in paths))
    if (before := engine.recall(run, options)) is not None:
        return before
    run.claim(overwrite=options.overwrite)
    options = replace(options, overwrite=False)
    look = Run(store.join(output, ".winnow", "look"), f"{STAGE}: look", VERSION, {}, run.inputs)
    engine.run(look, units, functools.partial(_look, output=look.output), options)
    kinds: Kinds = {}
    for unit in units:
        value_types.merge(kinds, store.read_json(store.join(look.output, unit.name + ".json"))["kinds"])
    work = functools.partial(_bring, pool=output, look=look.output, kinds=kinds)

    def finish(total: Outcome) -> Outcome:
        store.remove_tree(look.output)
        return total

    return engine.run(run, units, work, options, finish)


def _stem(path: str, root: str | None) -> str:
    below = store.name(path) if root is None else path[len(root) :].strip("/")
    return below.removesuffix(".tar")


def _look(unit: engine.Unit, *, output: str) -> Outcome:
    """First pass: the kinds of the fields that the samples' json have, and whether all of them have a uid of their own."""
    (path,) = unit.args
    kinds: Kinds = {}
    samples, whole = 0, True
    with store.open_input(path) as f:
        for sample in shards.samples(path):
            fields = shards.sidecar(f, sample)
            uid = _text(fields, "uid") or ""
            whole &= sample.image_extension is not None and _HEX.fullmatch(uid) is not None
            samples += 1
            more = {n: value_types.kind_of(n, v, parse=False) for n, v in fields.items() if n not in _LEFT_OUT}
            value_types.merge(kinds, more)
    store.write_json(store.join(output, unit.name + ".json"), {"kinds": kinds, "whole": whole and samples > 0})
    return Outcome()


@dataclass(frozen=True)
class _Read:
    """One sample: its members, the row that it gives, and its json."""

    members: dict[str, bytes]
    row: Row
    fields: Row


def _bring(unit: engine.Unit, *, pool: str, look: str, kinds: Kinds) -> Outcome:
    """Second pass: the shard and its metadata."""
    (path,) = unit.args
    whole = store.read_json(store.join(look, unit.name + ".json"))["whole"]
    tar = store.join(pool, "shards", unit.name + ".tar")
    counts: Counter[str] = Counter({"in": 0, "kept": 0})
    rows: list[Row] = []
    with contextlib.ExitStack() as stack:
        f = stack.enter_context(store.open_input(path))
        writer = None if whole else stack.enter_context(shards.write(tar))
        taken: set[str] = set()
        for sample in shards.samples(path):
            counts["in"] += 1
            if sample.image_extension is None:
                counts["failed:no_image"] += 1
                continue
            found = _read(f, sample)
            key = sample.key if writer is None else _key(found.row["uid"], taken)
            if writer is not None:
                writer.add(key, _members(found, key))
            rows.append({**found.row, "key": key, "source_key": sample.key})
            counts["kept"] += 1
    if whole:
        stand(path, tar)
        counts["shards_as_they_were"] += 1
    elif not rows:
        store.remove_tree(tar)  # readers hang on an empty tar
    if rows:
        _write_metadata(store.join(pool, "metadata", unit.name + ".parquet"), rows, kinds)
    return Outcome(dict(counts))


def _key(uid: str, taken: set[str]) -> str:
    """The uid, `<uid>-<n>` for its n-th repeat in the shard."""
    (key,) = keys([uid])
    number, first = 0, key
    while key in taken:
        number += 1
        key = f"{first}-{number}"
    taken.add(key)
    return key


def _read(f: IO[bytes], sample: Sample) -> _Read:
    members = {extension: shards.read(f, sample, extension) for extension in sample.members}
    fields = shards.sidecar(f, sample)
    assert sample.image_extension is not None
    picture = members[sample.image_extension]
    text = members["txt"].decode("utf-8", "replace") if "txt" in members else _text(fields, "caption") or _text(fields, "text")
    url, uid = _text(fields, "url"), _text(fields, "uid")
    if uid is None or not _HEX.fullmatch(uid):
        uid = uids.new(url, text or "") if url else _uid_of_bytes(text or "", picture)
    width, height = _size(fields, picture)
    row = {
        **{name: value for name, value in fields.items() if name not in _LEFT_OUT},
        **({value_types.BOXES: _boxes(fields)} if value_types.BOXES in fields else {}),
        "uid": uid,
        "url": url,
        "text": text,
        "original_width": width,
        "original_height": height,
        "sha256": _text(fields, "sha256"),
    }
    return _Read(members, row, fields)


def _text(fields: Row, name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _boxes(fields: Row) -> list[list[float]] | None:
    try:
        return value_types.boxes(fields[value_types.BOXES])
    except ValueError:
        return None


def _uid_of_bytes(text: str, picture: bytes) -> str:
    return hashlib.md5(text.encode() + picture, usedforsecurity=False).hexdigest()


def _size(fields: Row, picture: bytes) -> tuple[int | None, int | None]:
    """Width and height as served if the json has them, else of the picture, upright; None if its header is broken."""
    stated = fields.get("original_width"), fields.get("original_height")
    if all(isinstance(n, int) and not isinstance(n, bool) and 0 < n < 1 << 31 for n in stated):
        return stated
    opened = open_image(picture, MAX_PIXELS)
    if isinstance(opened, Reject):
        return None, None
    return orientation.size(*opened.size, orientation.read(opened))


def _members(found: _Read, key: str) -> dict[str, bytes]:
    """The sample's members in their order, a json with the uid, and the caption as txt."""
    row = found.row
    fields = {**found.fields, "uid": row["uid"], "url": row["url"], "caption": row["text"] or "", "key": key}
    members = dict(found.members)
    members.setdefault("txt", (row["text"] or "").encode("utf-8", "replace"))
    members["json"] = json.dumps(fields, ensure_ascii=True).encode()
    return members


def _write_metadata(path: str, rows: list[Row], kinds: Kinds) -> None:
    kinds = {**_OWN, "key": "text", "source_key": "text", **{n: k for n, k in kinds.items() if n not in ("key", "source_key")}}
    fixed = {field.name: field.type for field in METADATA.schema}
    columns = {
        name: value_types.column(name, kind, [row.get(name) for row in rows], parse=False) for name, kind in kinds.items()
    }
    table = pa.table({name: column.cast(fixed.get(name, column.type)) for name, column in columns.items()})
    with store.atomic(path) as f:
        pq.write_table(table, f, compression="zstd")
