"""A pool's files brought to another one: as they are, or only the rows and samples of some uids."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pools import shards, store, uids
from pools.layout import Pool
from pools.part import Part
from pools.uids import Uids

Keep = Callable[[Uids], NDArray[np.bool_]]  # (n,) uids → which of them stay


def stand(path: str, there: str) -> bool:
    """The same bytes at another place: a hard link where that can be, which is told, else a copy."""
    if store.is_local(path) and store.is_local(there):
        old, new = Path(store.local_path(path)), Path(store.local_path(there))
        new.parent.mkdir(parents=True, exist_ok=True)
        partial = new.with_name(f".{new.name}.partial")
        partial.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another disk, or one without hard links: then a copy
            os.link(old.resolve(), partial)
            partial.replace(new)
            return True
    with store.open_input(path) as source, store.atomic(there) as target:
        while block := source.read(1 << 22):
            target.write(block)
    return False


def uids_of(part: Part) -> Uids:
    """The uids of a part's rows, in their order."""
    found = [uids.pack(batch["uid"], where=part.parquet) for batch in part.batches(["uid"])]
    return np.concatenate([np.empty(0, uids.UID), *found])


def beside(part: Part, path: str, stem: str) -> str:
    """Where one of a part's other files lies in a pool in which the part's stem is `stem`, relative to the pool."""
    extension = path.rpartition(".")[2]
    folder = store.join(part.root, "annotations") + "/"
    if path.startswith(folder):
        return f"annotations/{path[len(folder) :].partition('/')[0]}/{stem}.{extension}"
    return f"metadata/{stem}.{extension}"


def bring_part(part: Part, output: str, stem: str, keep: Keep | None = None) -> tuple[int, int]:
    """Metadata, features and annotations under another stem, only the rows that `keep` keeps; returns rows there and kept.

    What img2dataset wrote becomes metadata: its successes, the caption as text.
    """
    found = uids_of(part)
    mask = np.ones(len(found), bool) if keep is None else keep(found)
    metadata = store.join(output, "metadata", stem + ".parquet")
    if part.of_img2dataset:
        names = [name for name, path in part.columns().items() if path == part.parquet]
        _write(metadata, part.read(names).filter(pa.array(mask)))
    elif mask.all():
        stand(part.parquet, metadata)
    else:
        _filter(part.parquet, metadata, mask)
    for path in part.others:
        there = store.join(output, beside(part, path, stem))
        if mask.all():
            stand(path, there)
        else:
            _filter(path, there, mask)
    return len(mask), int(mask.sum())


def _filter(path: str, there: str, mask: NDArray[np.bool_]) -> None:
    if not path.endswith(".npz"):
        with store.open_input(path) as f:
            _write(there, pq.ParquetFile(f).read().filter(pa.array(mask)))
        return
    with store.open_input(path) as f, np.load(f, allow_pickle=False) as arrays:
        kept: dict[str, Any] = {name: arrays[name][mask] for name in arrays.files}
    with store.atomic(there) as f:
        np.savez(f, **kept)


def _write(path: str, table: pa.Table) -> None:
    with store.atomic(path) as f:
        pq.write_table(table, f, compression="zstd")


def list_tars(pool: Pool) -> list[str]:
    """The stems of a pool's shards, sorted; none if it has no pictures."""
    if not store.is_dir(pool.shards):
        return []
    return [name.removesuffix(".tar") for name in store.list_files(pool.shards, ".tar")]


def uid_of(fields: dict[str, Any], key: str) -> str:
    """A sample's uid: its json's, or else its key."""
    uid = fields.get("uid")
    return uid if isinstance(uid, str) else key


def bring_shard(shard: str, there: str, keep: Keep | None = None) -> tuple[int | None, int | None]:
    """A shard (named without `.tar`) and what is told of its rows, only the samples of uids that `keep` keeps.

    Members are copied without decoding. A shard that keeps all of its samples stands as it is; one that keeps none is not
    written: readers hang on an empty tar. Returns samples there and kept, None if nothing asked for a count.
    """
    samples = kept = None
    if keep is None:
        stand(shard + ".tar", there + ".tar")
    else:
        samples, kept = _bring_tar(shard + ".tar", there + ".tar", keep)
    if samples == kept:
        for suffix in (".parquet", "_stats.json"):
            if store.exists(shard + suffix):
                stand(shard + suffix, there + suffix)
    elif store.exists(shard + ".parquet"):  # the statistics are of what there was
        with store.open_input(shard + ".parquet") as f:
            table = pq.read_table(f)
        if "uid" in table.column_names and keep is not None:
            _write(there + ".parquet", table.filter(pa.array(keep(uids.pack(table["uid"], where=shard + ".parquet")))))
    return samples, kept


def _bring_tar(path: str, there: str, keep: Keep) -> tuple[int, int]:
    with store.open_input(path) as f:
        samples = list(shards.samples(path))
        mask = keep(uids.pack([uid_of(shards.sidecar(f, s), s.key) for s in samples], where=path))
        if mask.all():
            stand(path, there)
        elif mask.any():
            with shards.write(there) as out:
                for sample, kept in zip(samples, mask.tolist(), strict=True):
                    if kept:
                        out.add(sample.key, {e: shards.read(f, sample, e) for e in sample.members})
    return len(samples), int(mask.sum())
