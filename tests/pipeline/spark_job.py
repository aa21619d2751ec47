"""Jobs on Spark as a program of its own: each unit writes a file that says where it ran.

`spark_job.py OUTPUT NAME…` runs, in one session, a job of four units by each of these names, and prints how it ended:
`meets` (no unit ends before all have begun), `hurt` (unit 1 kills its executor at the first try, unit 2 fails),
`lasts` (a minute).
"""

from __future__ import annotations

import sys

from pipeline import engine
from pools import store
from pools.errors import WorkFailed
from pools.manifest import Outcome, Run

UNITS = 4


def work(unit: engine.Unit) -> Outcome:
    """Sent by value, as it belongs to `__main__`; only the four packages are imported by their names."""
    import json
    import os
    import signal
    import subprocess
    import time
    from pathlib import Path

    import pipeline

    def wait(seconds: float, begun: Path, number: int) -> None:
        end = time.monotonic() + seconds
        while len(list(begun.iterdir())) < number and time.monotonic() < end:
            time.sleep(0.05)

    output, job = unit.args
    begun = Path(output + "-begun")
    begun.mkdir(parents=True, exist_ok=True)
    first_try = not (begun / unit.name).exists()
    (begun / unit.name).write_text(str(os.getpid()))
    if job == "lasts":
        time.sleep(60)
    if (job, unit.name) == ("hurt", "2"):
        raise WorkFailed("the disk is full")
    if (job, unit.name) == ("hurt", "1") and first_try:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(60)
    wait(60 if job == "meets" else 0, begun, UNITS)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare = subprocess.run([sys.executable, "-c", "import pyarrow, pipeline"], env=environment, capture_output=True, text=True)
    said = {
        "code": str(Path(str(pipeline.__file__)).absolute()),
        "folder": str(Path.cwd()),
        "path": [str(Path(entry).absolute()) for entry in sys.path],
        "met": len(list(begun.iterdir())),
        "bare": bare.stderr,
    }
    store.write_bytes(store.join(output, unit.name + ".json"), json.dumps(said).encode())
    return Outcome({"in": 1, "kept": 1})


def main(output: str, *jobs: str) -> int:
    for job in jobs:
        folder = store.join(output, job)
        units = [engine.Unit(str(n), "", (folder, job)) for n in range(UNITS)]
        try:
            print(job, engine.run(Run(folder, "job", 1, {}), units, work, engine.Options("spark")).counts["kept"])
        except WorkFailed as e:
            print(job, e)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
