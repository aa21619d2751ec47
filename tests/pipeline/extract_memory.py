"""How much memory extraction takes: `python -m tests.pipeline.extract_memory FOLDER FILES,ROWS …` does a job after the other.

Each job is of FILES files with ROWS rows of 16 kB in them, packed if there are several; after it a line tells the most memory
that Python and Arrow held so far, in MB. The first job, for which modules are loaded, tells nothing. All that bounds memory is
small here, so that what is unbounded shows.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa

from pipeline.extract import job, rows, runs, scan, walked
from tests.pipeline import wats
from tests.pipeline.extracting import run

LINKS = 10


def write(folder: Path, files: int, number: int) -> Path:
    for f in range(files):
        pages = (
            wats.page(f"http://e.example/{f}/{p}", [(f"{f}-{p}-{k}.jpg", f"{f} {p} {k} " + "x" * 16000) for k in range(LINKS)])
            for p in range(number // LINKS)
        )
        wats.write(folder / (f"{f:03}.wat" if files == 1 else f"{f:03}.wat.gz"), pages)
    return folder


def main(folder: str, *sizes: str) -> None:
    rows.MANY, walked.ROWS, scan._FEW = 100, 100, 20
    runs._GROUP_ROWS, job._ROWS, job._FILES = 5, 100, 1000
    for n, size in enumerate(sizes):
        files, number = map(int, size.split(","))
        inputs = write(Path(folder) / f"{n}-in", files, number)
        if n > 0:
            tracemalloc.start()
        outcome = run(inputs, Path(folder) / f"{n}-out")
        assert outcome.counts["kept"] == files * number
        if n > 0:
            print((tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory()) >> 20)
            tracemalloc.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
