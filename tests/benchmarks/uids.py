"""Sorting and set algebra of long uid lists: `python -m tests.benchmarks.uids FOLDER [--uids 100000000]`.

Makes two lists of so many random uids in FOLDER (which takes up to 200 bytes a uid), the second with half of its uids from the
first, then runs each sub-command of `winnow uids` in a process of its own. Prints CPU and wall seconds and the most memory that
the process held, pages of files it had mapped included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pools import uids
from pools.uids import streams
from pools.uids.files import write_stream
from pools.uids.words import Uids, records_of

BLOCK = 1 << 20
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Cost:
    """Seconds, and MB."""

    cpu: float
    wall: float
    memory: float


def measure(*command: str) -> Cost:
    """What `winnow uids …` took. Raises SystemExit with what it said where it failed."""
    start = time.monotonic()
    arguments = [sys.executable, "-m", "pipeline.cli", "uids", *command]
    with subprocess.Popen(arguments, env=os.environ | ONE_CORE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(said.decode(errors="replace"))
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss / 1024)


def random_uids(number: int, seed: int) -> Iterator[Uids]:
    """`number` uids in no order, a block at a time."""
    for start in range(0, number, BLOCK):
        rng = np.random.default_rng([seed, start])
        yield records_of(rng.integers(0, 2**64, (min(BLOCK, number - start), 2), np.uint64))


def mixed(ours: Path, theirs: Path) -> Iterator[Uids]:
    """Half of one list, and as many of the other, in no order."""
    for a, b in zip(uids.stored(str(ours)).blocks(BLOCK), uids.stored(str(theirs)).blocks(BLOCK), strict=True):
        both = records_of(np.concatenate([x[: len(x) // 2].view(np.uint64).reshape(-1, 2) for x in (a, b)]))
        yield both[np.random.default_rng(len(both)).permutation(len(both))]


def make(folder: Path, number: int) -> None:
    """Writes `a-raw.npy` and `b-raw.npy`."""
    folder.mkdir(parents=True, exist_ok=True)
    ours, theirs = folder / "a-raw.npy", folder / "other.npy"
    write_stream(str(ours), random_uids(number, 1))
    write_stream(str(theirs), random_uids(number, 2))
    write_stream(str(folder / "b-raw.npy"), mixed(ours, theirs))
    theirs.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--uids", type=int, default=100_000_000)
    options = parser.parse_args()
    folder, number = options.folder, options.uids
    # Made in a process of its own: to those that are measured, the memory of this one counts as theirs.
    maker = multiprocessing.get_context("spawn").Process(target=make, args=(folder, number))
    maker.start()
    maker.join()
    a, b, out = (str(folder / f"{name}.npy") for name in ("a", "b", "out"))
    print(f"{number:,} uids in each of two lists, half of the second's in the first too")
    total = Cost(0, 0, 0)
    for name, command in {
        "sort (convert) a": ("convert", str(folder / "a-raw.npy"), "--output", a),
        "sort (convert) b": ("convert", str(folder / "b-raw.npy"), "--output", b),
        "union": ("union", a, b, "--output", out),
        "intersect": ("intersect", a, b, "--output", out),
        "minus": ("minus", a, b, "--output", out),
        "union --counted": ("union", a, b, "--counted", "--output", out),
        "add": ("add", a, b, "--output", out),
        "sample, half": ("sample", a, "--fraction", "0.5", "--output", out),
        "verify": ("verify", a),
        "info": ("info", a),
        "to text": ("convert", a, "--output", str(folder / "a.txt")),
        "from text": ("convert", str(folder / "a.txt"), "--output", out),
    }.items():
        cost = measure(*command)
        total = Cost(total.cpu + cost.cpu, total.wall + cost.wall, max(total.memory, cost.memory))
        print(f"{name:18}{cost.cpu:8.1f} s CPU {cost.wall:8.1f} s wall {cost.memory:7.0f} MB", flush=True)
    assert streams.first_unsorted(uids.stored(out).blocks()) is None
    print(f"{'all of it':18}{total.cpu:8.1f} s CPU {total.wall:8.1f} s wall {total.memory:7.0f} MB")


if __name__ == "__main__":
    main()
