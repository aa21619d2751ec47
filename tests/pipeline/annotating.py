"""Small pools with shards, for tests of annotators."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pools import shards

Row = tuple[str, str | None, bytes | None]  # uid, text, image


def jpeg(number: int, size: tuple[int, int] = (40, 30)) -> bytes:
    """A picture of noise, (width, height)."""
    rng = np.random.default_rng(number)
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(out, "JPEG")
    return out.getvalue()


def rows(count: int, first: int = 0) -> list[Row]:
    return [(f"{i:032x}", f"a picture of number {i}", jpeg(i)) for i in range(first, first + count)]


def write(pool: Path, stem: str, samples: list[Row], *, tar_order: list[int] | None = None, **columns: Any) -> None:
    """A metadata file and its shard; `tar_order` names the samples that the shard has."""
    (pool / "metadata").mkdir(parents=True, exist_ok=True)
    table = pa.table({"uid": [s[0] for s in samples], "text": pa.array([s[1] for s in samples], pa.string()), **columns})
    pq.write_table(table, pool / "metadata" / f"{stem}.parquet")
    with shards.write(str(pool / "shards" / f"{stem}.tar")) as tar:
        for i in tar_order if tar_order is not None else range(len(samples)):
            uid, text, image = samples[i]
            members = {"txt": (text or "").encode(), "json": json.dumps({"uid": uid}).encode()}
            tar.add(f"{i:05d}", members if image is None else {"jpg": image, **members})


def family(pool: Path, name: str, stem: str = "00000000") -> list[dict[str, Any]]:
    """The rows of a column family."""
    found: list[dict[str, Any]] = pq.read_table(pool / "annotations" / name / f"{stem}.parquet").to_pylist()
    return found
