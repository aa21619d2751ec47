"""Shards to reshard, lists, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.engine import Options
from pools import shards, uids

QUIET = Options(workers=0, quiet=True)


def uid(i: int) -> str:
    return f"{i * 7919 % 1000:032x}"


def members(n: int, **fields: Any) -> dict[str, bytes]:
    said = {"uid": uid(n), "caption": f"caption {n}", **fields}
    return {"jpg": b"\xff\xd8" + bytes([n % 256]) * 50, "txt": f"caption {n}".encode(), "json": json.dumps(said).encode()}


def write_source(folder: Path, sizes: tuple[int, ...]) -> Path:
    """Shards of so many samples, numbered from 1; the keys are the same in each shard, as the field's downloaders make them."""
    n = 0
    for s, size in enumerate(sizes):
        with shards.write(str(folder / f"{s:05d}.tar")) as out:
            for k in range(size):
                n += 1
                out.add(f"{k:06d}", members(n))
    return folder


def write_list(folder: Path, *samples: int, name: str = "list.npy") -> str:
    path = str(folder / name)
    uids.write_list(path, uids.pack([uid(i) for i in samples]))
    return path


def written(folder: Path | str) -> list[tuple[str, str, int, dict[str, bytes]]]:
    """(shard, key, sample number, members) in order."""
    number = {uid(i): i for i in range(1, 1000)}
    found = []
    for path in shards.list_shards(str(folder)):
        for key, parts in shards.read_all(path):
            found.append((path.rpartition("/")[2].removesuffix(".tar"), key, number[key.rpartition("-")[0]], parts))
    return found


def samples(folder: Path | str) -> list[int]:
    return [n for _, _, n, _ in written(folder)]


def sizes(folder: Path | str) -> list[int]:
    """Samples of each shard, by its name."""
    names = [shard for shard, *_ in written(folder)]
    return [names.count(name) for name in sorted(set(names))]
