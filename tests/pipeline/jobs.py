"""Units of work for tests of the engine; at the top of a module, so that worker processes find them."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path

from pipeline.engine import Options, Unit, run
from pools import store
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run


def work(unit: Unit) -> Outcome:
    """Writes a file, and leaves a trace of having worked; `args` are folder, trace and what goes wrong."""
    folder, trace, trouble = unit.args
    with Path(trace).open("a") as f:
        f.write(unit.name + "\n")
    if trouble == "fails":
        raise WorkFailed(f"{unit.name}: the disk is full")
    if trouble == "crashes":
        raise ZeroDivisionError("a bug")
    if trouble == "input":
        raise InputError("wrong", where=unit.name)
    if trouble == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "lasts":
        time.sleep(60)
    if trouble == "loses":
        return Outcome({"in": 2, "kept": 1})
    store.write_bytes(store.join(folder, unit.name + ".txt"), unit.name.encode())
    return Outcome({"in": 1, "kept": 1}, ("cut in the middle",) if trouble == "partly" else ())


def frozen(task: int) -> int:
    """How many objects of this process the collector leaves alone."""
    return gc.get_freeze_count()


def main(folder: str, trace: str) -> None:
    """A job whose units last a minute, in two processes; an interrupt ends it with 130, as the command line has it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run(Run(folder, "job", 1, {}), [Unit(n, "", (folder, trace, "lasts")) for n in "abcd"], work, Options(workers=2))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    from tests.pipeline import jobs  # the module that workers import; this one is called __main__

    jobs.main(*sys.argv[1:])
