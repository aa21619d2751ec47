"""The report on a pool and a selection of it: `python -m tests.benchmarks.report POOL [--rows 1000000] [--recipe NAME]`.

POOL is a folder of metadata parquet; its files are linked into another folder, over and over, until there are so many rows. The
recipe is applied, then `winnow report` is run on both in a process of its own. Prints wall seconds and the most memory that
it and its workers held at once, what they share counted once. The bound is 60 seconds and 1 GB for a million rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SECONDS, MEGABYTES = 60, 1000  # for a million rows


def link(source: Path, target: Path, rows: int) -> int:
    """Links files until there are `rows` rows, and returns how many there are."""
    files = sorted(source.rglob("*.parquet"))
    if not files:
        raise SystemExit(f"no parquet in {source}")
    sizes = [pq.ParquetFile(f).metadata.num_rows for f in files]
    target.mkdir()
    there = number = 0
    while there < rows:
        place = number % len(files)
        os.symlink(files[place].absolute(), target / f"{number:06}.parquet")
        there += sizes[place]
        number += 1
    return there


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, env=os.environ | ONE_CORE, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--recipe", default="clip_score_l14_30")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        pool, selection, pages = (Path(scratch) / name for name in ("pool", "selection", "pages"))
        rows = link(chosen.pool, pool, chosen.rows)
        run("pipeline.cli", "filter", chosen.recipe, str(pool), "--output", str(selection), "--quiet")
        start = time.monotonic()
        winnow = (sys.executable, "-m", "pipeline.cli", "report", str(pool), str(selection), "--output", str(pages), "--quiet")
        megabytes = int(run("tests.pipeline.selecting_memory", "tree", *winnow).split()[-1])
        seconds = time.monotonic() - start
        size = max(p.stat().st_size for p in pages.glob("*.html"))
        print(f"{rows:,} rows, {chosen.recipe}: {seconds:.1f} s wall, {megabytes} MB at most, largest page {size / 1e6:.2f} MB")
        if rows <= 1_000_000 and (seconds > SECONDS or megabytes > MEGABYTES):
            raise SystemExit(f"above the bound of {SECONDS} s and {MEGABYTES} MB")


if __name__ == "__main__":
    main()
