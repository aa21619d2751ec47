"""Filters against DataComp's own code on one pool: `python -m tests.benchmarks.filters POOL --peer … --checkout …`.

The peer is the python of an environment of its own (`pip install torch numpy==1.26.4 pandas==2.3.3 pyarrow==19.0.1 nltk==3.8.1
tqdm fsspec fasttext-wheel`), the checkout one of mlfoundations/datacomp. Whole processes, one worker each, rounds alternate;
what is compared is the least of each, CPU seconds (of the process and its workers) and wall. The lists must be equal. The peer
is given the language model that we have, the compressed one, our WordNet and list of synsets, and nothing to download; where
gcld3 is not installed (cld3-py has it), which only laion2b asks for, an empty module stands for it.

The recipes by images ask for `l14_img` in a `.npz` beside each file of the pool, and for `--centroids` and `--targets`, two
`.npy` of features; the peer multiplies on the CPU what it would on a GPU, with one worker. Its wall seconds hold up to eleven
in which it waits for nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from filters.models import IMAGENET_21K, LID_176_FTZ, WORDNET_30, packaged

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# The peer's own steps; its workers import this file too, so what it replaces is replaced in them.
PEER = """
import importlib.util, sys, types
checkout, assets = {checkout!r}, {assets!r}
sys.path.insert(0, checkout)
if importlib.util.find_spec("gcld3") is None:
    sys.modules["gcld3"] = types.ModuleType("gcld3")
from baselines import apply_filter as f
import nltk, numpy as np, torch
nltk.data.path = [assets]
nltk.download = lambda name: None
f.download = lambda name, root=None: f"{{assets}}/{{name}}"
to = torch.Tensor.to
torch.Tensor.to = lambda self, *a, **k: self if str(a[0]).startswith("cuda") else to(self, *a, **k)
load = lambda path: np.load(path + ".npy")
f.torch.load = lambda path: load(path) if path.endswith("centroids") else dict(image_features=torch.from_numpy(load(path)))
if __name__ == "__main__":
    name, pool, save, *more = sys.argv[1:]
    given = dict(pair.split("=") for pair in more)
    args = types.SimpleNamespace(name=name, metadata_dir=pool, save_path=save, num_workers=1, arch=given.get("arch"))
    args.fraction, args.threshold = (float(given[k]) if k in given else None for k in ("fraction", "threshold"))
    args.image_based_scale, args.num_gpus, args.batch_size = "own", 1, 1024
    f.apply_filter(args)
"""

# Name of ours, and what the peer calls it.
RECIPES = {
    "no_filter": ["no_filter"],
    "clip_score_l14_30": ["clip_score", "arch=l14", "fraction=0.3"],
    "basic": ["basic_filter"],
    "laion2b": ["laion2b"],
    "text_based": ["text_based"],
    "image_based": ["image_based"],
}


@dataclass(frozen=True)
class Cost:
    """Seconds, and the memory of the largest process in MB."""

    cpu: float
    wall: float
    memory: float

    def least(self, other: Cost) -> Cost:
        return Cost(min(self.cpu, other.cpu), min(self.wall, other.wall), min(self.memory, other.memory))


def measure(command: list[str], log: Path, folder: Path | None = None) -> Cost:
    """What a process and those it waited for took. Python keeps what it compiled, as it does where nobody asks otherwise."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | ONE_CORE
    start = time.monotonic()
    with (
        log.open("wb") as said,
        subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=folder) as process,
    ):
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
                command = [str(Path(sys.executable).with_name("winnow")), "filter", name, pool, "--output", str(output)]
                command += ["--workers", "0", "--overwrite", "--quiet", *ways[way]]
            # Our recipe by images finds its centroids and targets where it runs.
            cost = measure(command, folder / "log", None if way == "peer" else folder)
            costs[way] = costs[way].least(cost) if number else cost
    expected = np.load(f"{lists['peer']}.npy")
    for way, cost in costs.items():
        if way != "peer" and not np.array_equal(np.load(lists[way] / "uids.npy"), expected):
            raise SystemExit(f"{name}, {way}: another list than the peer's, of {len(expected)}")
        ratio = f"  {costs['peer'].cpu / cost.cpu:5.1f}x CPU  {costs['peer'].wall / cost.wall:5.1f}x wall"
        print(f"{name:20} {way:14} {cost.cpu:7.2f} s CPU {cost.wall:7.2f} s wall {cost.memory:6.0f} MB{ratio}", flush=True)


def prepare(folder: Path, centroids: str | None, targets: str | None) -> None:
    """What both need, under the peer's names."""
    shutil.copy(packaged(LID_176_FTZ), folder / "fasttext")
    shutil.copy(packaged(IMAGENET_21K), folder / "imagenet21k_wordnet_ids")
    wordnet = folder / "corpora" / "wordnet"
    shutil.copytree(packaged(WORDNET_30), wordnet)
    for data in wordnet.glob("data.*"):  # NLTK reads a line at the offset that it states: without the packaged file's returns
        data.write_bytes(data.read_bytes().replace(b"\r\n", b"\n"))
    if centroids and targets:
        np.save(folder / "centroids.npy", np.load(centroids))
        shutil.copy(folder / "centroids.npy", folder / "own_centroids.npy")
        np.save(folder / "targets.npy", np.load(targets))
        for i, part in enumerate(np.array_split(np.load(targets), 5)):
            np.save(folder / f"in1k_clip_vit_l14_{i}.npy", part)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool")
    parser.add_argument("--peer", required=True, help="python of the peer's environment")
    parser.add_argument("--checkout", required=True, help="checkout of mlfoundations/datacomp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=list(RECIPES))
    parser.add_argument("--centroids", help="a .npy, for the recipe by images")
    parser.add_argument("--targets", help="a .npy of features, for the same")
    args = parser.parse_args()
    names = args.only or [n for n in RECIPES if n != "image_based" or args.centroids]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "peer.py"
        script.write_text(PEER.format(checkout=str(Path(args.checkout).resolve()), assets=folder))
        prepare(Path(folder), args.centroids, args.targets)
        for name in names:
            compare(name, str(Path(args.pool).resolve()), args.peer, script, Path(folder), args.rounds)


if __name__ == "__main__":
    main()
