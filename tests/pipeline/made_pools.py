"""Small pools with everything that a pool can have, made without the code that is tested."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HEADER = {"model": "ViT-B-32", "weights": "ab12"}


def uid(i: int) -> str:
    return hashlib.md5(str(i).encode()).hexdigest()


def picture(i: int, owner: str = "") -> bytes:
    """What begins as a JPEG does."""
    return b"\xff\xd8\xff\xe0" + f"{owner} picture {i}".encode() * 20


def features(numbers: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.array([[i, i / 2, -i] for i in numbers], np.float16).reshape(-1, 3)


def make_pool(
    root: Path, stems: dict[str, list[int]], *, owner: str = "", annotation: str | None = "b32", tars: bool = True
) -> Path:
    """`stems`: of each file the samples; each shard also tells of one row that failed."""
    for stem, numbers in stems.items():
        uids = [uid(i) for i in numbers]
        pictures = [picture(i, owner) for i in numbers]
        metadata = {
            "uid": uids,
            "url": [f"http://h/{i}.jpg" for i in numbers],
            "text": [f"{owner}text {i}" for i in numbers],
            "original_width": pa.array([100 + i for i in numbers], pa.int32()),
            "original_height": pa.array([50] * len(numbers), pa.int32()),
            "sha256": [hashlib.sha256(p).hexdigest() for p in pictures],
            "content_language": ["de" if i % 3 == 0 else "en" if i % 3 == 1 else None for i in numbers],
        }
        _write(root / "metadata" / f"{stem}.parquet", pa.table(metadata))
        if annotation:
            scores = {"uid": uids, f"clip_{annotation}_similarity_score": pa.array([i / 100 for i in numbers], pa.float32())}
            path = root / "annotations" / annotation / f"{stem}.parquet"
            _write(path, pa.table(scores).replace_schema_metadata({"winnow": json.dumps(HEADER)}))
            np.savez(path.with_suffix(".npz"), **{f"{annotation}_img": features(numbers)})  # type: ignore[arg-type]
        if tars:
            shard = root / "shards" / stem
            write_tar(
                shard.with_name(shard.name + ".tar"),
                [(u, p, f"{owner}text {i}") for u, p, i in zip(uids, pictures, numbers, strict=True)],
            )
            status = {"uid": [*uids, uid(-1)], "status": ["success"] * len(uids) + ["failed_to_download"]}
            _write(shard.with_name(shard.name + ".parquet"), pa.table(status))
            told = {"count": len(uids) + 1, "successes": len(uids), "failed_to_download": 1}
            shard.with_name(shard.name + "_stats.json").write_text(json.dumps(told))
    return root


def write_tar(path: Path, samples: list[tuple[str, bytes, str]]) -> None:
    """(uid, picture, caption) of each sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for uid_, body, text in samples:
            fields = {"uid": uid_, "caption": text, "sha256": hashlib.sha256(body).hexdigest()}
            for extension, data in (("jpg", body), ("txt", text.encode()), ("json", json.dumps(fields).encode())):
                info = tarfile.TarInfo(f"{uid_}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def samples(folder: Path) -> dict[str, list[tuple[str, bytes]]]:
    """Of each tar below a folder the (uid, picture) of its samples."""
    found = {}
    for path in sorted(folder.rglob("*.tar")):
        with tarfile.open(path) as tar:
            members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]
        jpgs = [name for name in members if name.endswith(".jpg")]
        uids = [json.loads(members[name.replace(".jpg", ".json")])["uid"] for name in jpgs]
        found[str(path.relative_to(folder))] = [(u, members[name]) for u, name in zip(uids, jpgs, strict=True)]
    return found


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
