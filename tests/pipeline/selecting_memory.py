"""How much memory filters take: `python -m tests.pipeline.selecting_memory WHAT …` prints megabytes.

`top FRACTION BATCHES ROWS` finds the score at a fraction of so many batches of random single-precision numbers, and prints the
most that this process held. `tree COMMAND…` runs a command and prints the most that it and its descendants held at once.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from filters import arrays
from filters.score import top_threshold


@dataclass(frozen=True)
class Generated:
    """A scan of batches that are made when they are read."""

    batches: int
    rows: int

    def reduce(
        self, columns: Sequence[str], summarise: Callable[[Any], Any], merge: Callable[[Any, Any], Any], start: Any
    ) -> Any:
        import pyarrow as pa

        total = start
        for i in range(self.batches):
            values = np.random.default_rng(i).random(self.rows, np.float32)
            total = merge(total, summarise(pa.record_batch([arrays.numbers(values)], names=list(columns))))
        return total


def top(fraction: str, batches: str, rows: str) -> None:
    scan: Any = Generated(int(batches), int(rows))
    found = top_threshold(scan, "s", float(fraction))
    # Not getrusage's figure, in which the process that started this one counts too.
    lines = Path("/proc/self/status").read_text().splitlines()
    print(found, int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) >> 10)


def tree(*command: str) -> None:
    """What is seen once alone does not count: a process about to start another program is counted twice for that moment."""
    most = before = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            now = sum(_held(pid) for pid in _family(process.pid))
            most, before = max(most, min(before, now)), now
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(process.returncode)
    print(most >> 10)


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _held(pid: int) -> int:
    """Kilobytes of a process, what it shares with others in equal parts."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return 0


if __name__ == "__main__":
    (top if sys.argv[1] == "top" else tree)(*sys.argv[2:])
