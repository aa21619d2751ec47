"""How much memory reading a pool takes: `python -m tests.pipeline.report_memory POOL LIMIT` prints rows and megabytes."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.engine import Options
from pipeline.report.reading import read
from pools.layout import Pool


def main(pool: str, limit: str) -> None:
    found = read(Pool.open(pool), options=Options(workers=0, quiet=True), limit=int(limit))
    # Not getrusage's figure, in which the process that started this one counts too.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(found.rows, int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) >> 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
