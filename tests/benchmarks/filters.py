"""Filters against DataComp's own code on one pool: `python -m tests.benchmarks.filters POOL --peer … --checkout …`.

The peer is the python of an environment of its own (`pip install torch numpy==1.26.4 pandas==2.3.3 pyarrow==19.0.1 nltk==3.8.1
tqdm fsspec fasttext-wheel`), the checkout one of mlfoundations/datacomp. Whole processes, one worker each, rounds alternate;
what is compared is the least of each, CPU seconds (of the process and its workers) and wall. The lists must be equal. The peer
is given the language model that we have, the compressed one, and nothing to download; where gcld3 is not installed (cld3-py
has it), which only laion2b asks for, an empty module stands for it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from filters.models import LID_176_FTZ, packaged

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# The peer's own steps; its workers import this file too, so what it replaces is replaced in them.
PEER = """
import importlib.util, sys, types
checkout, model = {checkout!r}, {model!r}
sys.path.insert(0, checkout)
if importlib.util.find_spec("gcld3") is None:
    sys.modules["gcld3"] = types.ModuleType("gcld3")
from baselines import apply_filter as f
f.download = lambda name, root=None: model
if __name__ == "__main__":
    name, pool, save, *more = sys.argv[1:]
    given = dict(pair.split("=") for pair in more)
    args = types.SimpleNamespace(name=name, metadata_dir=pool, save_path=save, num_workers=1, arch=given.get("arch"))
    args.fraction, args.threshold = (float(given[k]) if k in given else None for k in ("fraction", "threshold"))
    f.apply_filter(args)
"""

# Name of ours, and what the peer calls it.
RECIPES = {
    "no_filter": ["no_filter"],
    "clip_score_l14_30": ["clip_score", "arch=l14", "fraction=0.3"],
    "basic": ["basic_filter"],
    "laion2b": ["laion2b"],
}


@dataclass(frozen=True)
class Cost:
    """Seconds, and the memory of the largest process in MB."""

    cpu: float
    wall: float
    memory: float

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.cpu, other.cpu), min(self.wall, other.wall), min(self.memory, other.memory))


def measure(command: list[str], log: Path) -> Cost:
    """What a process and those it waited for took."""
    start = time.monotonic()
    with log.open("wb") as said, subprocess.Popen(command, env=os.environ | ONE_CORE, stdout=said, stderr=said) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    if process.returncode:
        raise SystemExit(log.read_text(errors="replace")[-3000:])
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def compare(name: str, pool: str, peer: str, script: Path, folder: Path, rounds: int) -> None:
    """Prints a line for each way, and stops if a list differs."""
    ways = {"with verdicts": [], "--no-verdicts": ["--no-verdicts"]}
    costs: dict[str, Cost] = {}
    lists = {way: folder / f"{i}" for i, way in enumerate(("peer", *ways))}
    for number in range(rounds):
        for way, output in lists.items():
            if way == "peer":
                theirs, *options = RECIPES[name]
                command = [peer, str(script), theirs, pool, f"{output}.npy", *options]
            else:
                command = [sys.executable, "-m", "pipeline.cli", "filter", name, pool, "--output", str(output)]
                command += ["--workers", "0", "--overwrite", "--quiet", *ways[way]]
            cost = measure(command, folder / "log")
            costs[way] = costs[way].least(cost) if number else cost
    expected = np.load(f"{lists['peer']}.npy")
    for way, cost in costs.items():
        if way != "peer" and not np.array_equal(np.load(lists[way] / "uids.npy"), expected):
            raise SystemExit(f"{name}, {way}: another list than the peer's, of {len(expected)}")
        ratio = f"  {costs['peer'].cpu / cost.cpu:5.1f}x CPU  {costs['peer'].wall / cost.wall:5.1f}x wall"
        print(f"{name:20} {way:14} {cost.cpu:7.2f} s CPU {cost.wall:7.2f} s wall {cost.memory:6.0f} MB{ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("--peer", required=True, help="python of the peer's environment")
    parser.add_argument("--checkout", required=True, help="checkout of mlfoundations/datacomp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(RECIPES))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "peer.py"
        script.write_text(PEER.format(checkout=str(Path(args.checkout).resolve()), model=packaged(LID_176_FTZ)))
        for name in args.only or RECIPES:
            compare(name, str(Path(args.pool).resolve()), args.peer, script, Path(folder), args.rounds)


if __name__ == "__main__":
    main()
