"""How much memory a filter takes that must see the pool: `python -m tests.pipeline.scan_memory POOL SCRATCH NAME`.

Fits and judges with two workers, with small runs and ranges, so that what grows with the pool shows; prints the most memory,
in MB, that this process and all below it held at one time, each page that several share counted once.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filters import recipe  # noqa: F401  (registers the filters)
from filters.registry import FILTERS, Filter
from pipeline import exchange
from pipeline.engine import Local
from pipeline.scan import PoolScan
from pools.layout import Pool
from pools.part import Part

OPTIONS: dict[str, dict[str, Any]] = {
    "texts_per_image": {"max": 1000},
    "images_per_text": {"max": 10},
    "rare_tokens": {"top": 3000},
}


def tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def held() -> int:
    """kB of the process tree: proportional shares of all pages."""
    total = 0
    for pid in tree(os.getpid()):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total


class Watch(threading.Thread):
    """Looks again and again, until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.02):
            with contextlib.suppress(OSError):
                self.peak = max(self.peak, held())


def judge(rule: Filter, part: Part) -> int:
    return sum(rule.keep(batch).true_count for batch in part.batches(list(rule.needs)))


def main(root: str, scratch: str, name: str) -> None:
    import functools

    pool, engine = Pool.open(root), Local(2)
    watch = Watch()
    watch.start()
    scan = PoolScan(pool, engine, scratch=scratch, run_bytes=1 << 20, range_bytes=1 << 20)
    rule = FILTERS.build(name, OPTIONS[name]).fit(scan)  # type: ignore[union-attr]
    kept = sum(exchange.every(engine, functools.partial(judge, rule), pool.parts))
    watch.over.set()
    watch.join()
    assert kept > 0
    print(watch.peak >> 10)


if __name__ == "__main__":
    main(*sys.argv[1:])
