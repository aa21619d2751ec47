"""Memory does not grow with the pool, once there are more different values than are counted one by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.report.tallies import LIMIT

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.slow
FILE = 20_000  # rows


def write(folder: Path, first: int, last: int) -> Path:
    """Files of rows no two of which have a caption, an address or a hash in common."""
    folder.mkdir(exist_ok=True)
    for f in range(first, last):
        rng = np.random.default_rng(f)
        words = rng.integers(0, 2**62, (FILE, 2))
        table = {
            "uid": [f"{a:016x}{b:016x}" for a, b in words.tolist()],
            "text": [f"caption {a} of {b}" for a, b in words.tolist()],
            "url": [f"https://host{a % 10**9}.example.de/{b}.jpg" for a, b in words.tolist()],
            "sha256": [f"{a:032x}{b:032x}" for a, b in words.tolist()],
            "score": rng.random(FILE, np.float32),
            "language": np.array(["en", "de", "fr"])[rng.integers(0, 3, FILE)],
        }
        pq.write_table(pa.table(table), folder / f"{f:03}.parquet")
    return folder


def measure(pool: Path, limit: int) -> tuple[int, int]:
    command = [sys.executable, "-m", "tests.pipeline.report_memory", str(pool), str(limit)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280)
    rows, megabytes = map(int, done.stdout.split())
    return rows, megabytes


def test_a_pool_of_a_million_rows_takes_no_more_than_one_of_two_hundred_thousand(tmp_path: Path) -> None:
    pool = write(tmp_path / "pool", 0, 10)
    small = measure(pool, 1 << 15)
    large = measure(write(pool, 10, 50), 1 << 15)
    assert (small[0], large[0]) == (200_000, 1_000_000)
    assert large[1] < 1.15 * small[1], (small, large)
    # As it is, a million of different values of each column are counted one by one.
    assert measure(pool, LIMIT)[1] < 600
