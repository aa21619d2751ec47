"""Runs a resharding many times, each time killed (SIGKILL) at another file, and once more after each kill.

`python -m tests.pipeline.kill_reshard SHARDS LIST BOXES FOLDER` leaves FOLDER/whole/out (never killed), FOLDER/<n>/out (killed
at the n-th file that was written, then rerun) and prints how many files a run writes. Those that die are forked.
"""

from __future__ import annotations

import os
import signal
import sys

from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import store
from tests.pipeline.kill import Killer
from tests.pipeline.resharding import QUIET


def run(source: str, listed: str, boxes: str, output: str, fatal: int = 0) -> int:
    killer = Killer(fatal)
    store.atomic = killer.atomic
    reshard(source, listed, f"{output}/out", settings=Settings(shard_size=2, shuffle="all", inject=boxes), options=QUIET)
    return killer.written


def main(source: str, listed: str, boxes: str, folder: str) -> None:
    files = run(source, listed, boxes, f"{folder}/whole")
    for n in range(1, files + 1):
        if (child := os.fork()) == 0:
            run(source, listed, boxes, f"{folder}/{n}", fatal=n)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        run(source, listed, boxes, f"{folder}/{n}")
    print(files)


if __name__ == "__main__":
    main(*sys.argv[1:])
