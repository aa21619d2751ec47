"""Runs an extraction many times, each time killed (SIGKILL) at another file, and once more after each kill.

`python -m tests.pipeline.kill_extract INPUT FOLDER PARTS` leaves FOLDER/whole (never killed), FOLDER/<n> (killed at the n-th
file that was written or folder that was removed, then rerun) and FOLDER/<n>.log, what the rerun said. Prints the last n.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from pipeline.extract.job import Settings
from pools import store
from tests.pipeline.extracting import run
from tests.pipeline.kill import Killer


def extract(inputs: str, output: str, parts: int, *, fatal: int = 0, quiet: bool = True) -> int:
    killer = Killer(fatal)
    store.atomic, store.remove_tree = killer.atomic, killer.remove_tree
    run(Path(inputs), Path(output), Settings(parts=parts, scratch=f"{output}-scratch"), quiet=quiet)
    return killer.written


def main(inputs: str, folder: str, parts: str) -> None:
    files = extract(inputs, f"{folder}/whole", int(parts))
    for n in range(1, files + 1):
        if (child := os.fork()) == 0:
            extract(inputs, f"{folder}/{n}", int(parts), fatal=n)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        with Path(f"{folder}/{n}.log").open("w") as log, contextlib.redirect_stderr(log):
            extract(inputs, f"{folder}/{n}", int(parts), quiet=False)
    print(files)


if __name__ == "__main__":
    main(*sys.argv[1:])
