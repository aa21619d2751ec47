"""Builds a small made-up web many times, each time killed (SIGKILL) at another file, and once more after each kill.

`python -m tests.baselines.kill_web FOLDER` leaves FOLDER/whole (never killed), FOLDER/<n> (killed at the n-th file that was
finished: before it gets its name if n is odd, after that if n is even; then built again) and prints how many files there are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import IO

from baselines.miniweb import evals
from baselines.miniweb.web import build
from pipeline.engine import Options
from pools import store

_atomic = store.atomic


class Killer:
    def __init__(self, fatal: int) -> None:
        self.fatal, self.written = fatal, 0

    @contextlib.contextmanager
    def atomic(self, path: str) -> Iterator[IO[bytes]]:
        with _atomic(path) as f:
            yield f
            self.written += 1
            mine = self.written == self.fatal
            if mine and self.fatal % 2:
                os.kill(os.getpid(), signal.SIGKILL)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)


def run(folder: str, fatal: int = 0) -> int:
    killer = Killer(fatal)
    store.atomic = killer.atomic
    build(folder, pictures=60, options=Options(workers=0, quiet=True))
    return killer.written


def main(folder: str) -> None:
    evals.PER_CLASS, evals.RETRIEVAL = 1, 20  # few held-out pictures: this is about files
    os.fsync = lambda fd: None  # which a killed process does not need, and which takes most of the time
    files = run(f"{folder}/whole")
    # The claim, a part with its mark, the next, an evaluation set, the last mark, the tables, the manifest.
    for n in (*range(1, 7), files // 2, *range(files - 3, files + 1)):
        if (child := os.fork()) == 0:
            run(f"{folder}/{n}", fatal=n)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        run(f"{folder}/{n}")
    print(files)


if __name__ == "__main__":
    main(*sys.argv[1:])
