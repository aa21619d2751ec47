"""Pools of captions alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def pool_of_texts(folder: Path, texts: Sequence[str | None]) -> str:
    """A pool of one metadata file, `a`."""
    (folder / "metadata").mkdir(parents=True)
    uids = [f"{i:032x}" for i in range(len(texts))]
    pq.write_table(pa.table({"uid": uids, "text": pa.array(texts, pa.string())}), folder / "metadata" / "a.parquet")
    return str(folder)
