"""Memory does not grow with the pool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.slow
FILE = 20_000  # rows


def said(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "tests.pipeline.selecting_memory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280).stdout.split()


def write(folder: Path, files: int) -> Path:
    """Captions of which basic keeps some."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    words = np.array(["the", "a", "of", "dog", "cat", "house", "river", "red", "old", "sits", "und", "der", "Hund", "läuft"])
    for f in range(files):
        texts = [" ".join(words[rng.integers(0, len(words), n)]) for n in rng.integers(1, 12, FILE)]
        table = {
            "uid": [f"{v:016x}{f:016x}" for v in rng.integers(0, 2**63, FILE)],
            "text": texts,
            "original_width": rng.integers(100, 900, FILE),
            "original_height": rng.integers(100, 900, FILE),
        }
        pq.write_table(pa.table(table), folder / f"{f:03}.parquet")
    return folder


@pytest.mark.parametrize("workers", ["0", "2"])
def test_basic_takes_as_much_memory_for_ten_times_the_pool(tmp_path: Path, workers: str) -> None:
    peaks = []
    # So many that in the smaller pool too each process comes to the compiled code for languages (`filters.lid.FEW`).
    for files in (12, 120):
        pool, out = write(tmp_path / f"pool{files}", files), tmp_path / f"out{files}"
        winnow = [sys.executable, "-m", "pipeline.cli", "filter", "basic", str(pool), "-o", str(out)]
        peaks.append(int(said("tree", *winnow, "--workers", workers, "--quiet")[0]))
    assert peaks[1] < 1.1 * peaks[0], peaks


def test_the_top_of_a_hundred_million_scores_takes_less_than_a_gigabyte() -> None:
    threshold, megabytes = said("top", "0.3", "100", "1000000")
    assert abs(float(threshold) - 0.7) < 0.001
    assert int(megabytes) < 1000
