"""Zero-shot scoring of five tasks with one model, against clip-benchmark: `python -m tests.benchmarks.score --peer FOLDER`.

FOLDER is where `pip install --no-deps --target FOLDER clip-benchmark==1.6.2 pycocoevalcap` put the peer; what else it needs is
here. The tasks have the class counts and the numbers of templates of CIFAR-10, DTD, Pets, Cars and Food-101, and made-up
JPEGs of 500 pixels, in webdataset folders that both read. The model is one of open_clip's with random weights in a file,
which each loads as it does. Whole processes, on a CPU, fp32; rounds alternate and the least time of each counts. Scores must
be equal. With random weights images lie close to each other: a score may differ by one image of a task, which is said.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pools import shards

# Classes, and templates, of each task.
TASKS = {"cifar10": (10, 18), "vtab-dtd": (47, 8), "vtab-pets": (37, 1), "cars": (196, 8), "food101": (101, 1)}
THINGS = ("tabby", "harbour", "violin", "maple", "saloon", "granite", "lantern", "finch", "noodle", "tapestry")
LOOKS = ("striped", "old", "wooden", "crimson", "small", "bright", "northern", "woven", "polished", "sleeping")
WAYS = ("a photo of a {c}", "a blurry photo of the {c}", "itap of a {c}", "a close-up of one {c} in daylight", "the {c}")
PEER = """
import sys
from clip_benchmark.cli import main
if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Took:
    wall: float  # seconds, the whole process
    cpu: float  # seconds, all processes
    scores: dict[str, tuple[float, float]]  # acc1 and mean per class recall


def picture(rng: np.random.Generator) -> bytes:
    coarse = rng.integers(0, 256, (12, 16, 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC), np.float32)
    grained = smooth + rng.normal(0, 4, (375, 500, 1))
    out = io.BytesIO()
    Image.fromarray(np.clip(grained, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_evals(folder: Path, images: int) -> None:
    for number, (task, (classes, templates)) in enumerate(TASKS.items()):
        rng = np.random.default_rng(number)
        place = folder / f"wds_{task}_test"
        with shards.write(str(place / "test" / "0.tar")) as tar:
            for i in range(images):
                tar.add(f"s{i:07d}", {"cls": str(int(rng.integers(classes))).encode(), "jpg": picture(rng)})
        names = [f"{LOOKS[i % 10]} {THINGS[i // 10 % 10]}{' of the sea' * (i // 100)}" for i in range(classes)]
        ways = [WAYS[i % 5] + "." * (1 + i // 5) for i in range(templates)]
        (place / "test" / "nshards.txt").write_text("1")
        (place / "classnames.txt").write_text("\n".join(names))
        (place / "zeroshot_classification_templates.txt").write_text("\n".join(ways))


def run(arguments: list[str], environment: dict[str, str], cwd: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a process and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, cwd=cwd, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr.decode()[-3000:])
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peer(model: str, weights: Path, evals: Path, out: Path, folder: str) -> Took:
    names = [f"wds/{task}" for task in TASKS]
    arguments = ["-c", PEER, "eval", "--dataset", *names, "--dataset_root", f"{evals}/wds_{{dataset_cleaned}}_test"]
    arguments += ["--model", model, "--pretrained", str(weights), "--task", "zeroshot_classification", "--no_amp"]
    out.mkdir()
    wall, cpu = run([*arguments, "--output", f"{out}/{{dataset}}.json", "--quiet"], {"PYTHONPATH": folder}, out)
    scores = {}
    for task in TASKS:
        found = json.loads((out / f"{task}.json").read_text())["metrics"]
        scores[task] = (found["acc1"], found["mean_per_class_recall"])
    return Took(wall, cpu, scores)


def ours(model: str, weights: Path, evals: Path, out: Path) -> Took:
    arguments = ["-m", "pipeline.cli", "score", "--model", model, "--pretrained", str(weights), "--evals", str(evals)]
    wall, cpu = run([*arguments, "-o", str(out), "--quiet"], {}, Path(__file__).parents[2])
    scores = {}
    for line in (out / "eval_results.jsonl").read_text().splitlines():
        found = json.loads(line)
        scores[found["key"].replace("/", "-")] = (found["metrics"]["acc1"], found["metrics"]["mean_per_class_recall"])
    return Took(wall, cpu, scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, metavar="FOLDER")
    parser.add_argument("--model", default="ViT-S-32")
    parser.add_argument("--images", type=int, default=200, help="of each task")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    import open_clip
    import torch

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_evals(folder / "evals", args.images)
        torch.manual_seed(0)
        weights = folder / "weights.pt"
        torch.save(open_clip.create_model(args.model).state_dict(), weights)
        took: dict[str, list[Took]] = {"clip-benchmark": [], "winnow": []}
        for i in range(args.rounds):
            took["clip-benchmark"].append(peer(args.model, weights, folder / "evals", folder / f"peer{i}", args.peer))
            took["winnow"].append(ours(args.model, weights, folder / "evals", folder / f"ours{i}"))
    for name, rounds in took.items():
        wall, cpu = min(t.wall for t in rounds), min(t.cpu for t in rounds)
        print(f"{name:15} {wall:7.1f} s wall {cpu:7.1f} s CPU, {args.rounds} rounds of 5 × {args.images} images")
    theirs, own = took.values()
    for what in ("wall", "cpu"):
        print(f"{what}: {min(getattr(t, what) for t in theirs) / min(getattr(t, what) for t in own):.2f} times")
    for task in TASKS:
        a, b = theirs[0].scores[task], own[0].scores[task]
        apart = round(abs(a[0] - b[0]) * args.images)
        same = "equal" if np.allclose(a, b, atol=1e-9) else f"{apart} images apart"
        print(f"{task:10} acc1 {a[0]:.4f} {b[0]:.4f}  recall {a[1]:.4f} {b[1]:.4f}  {same}")
        if apart > 1:
            raise SystemExit(f"{task}: scores differ by {apart} images")


if __name__ == "__main__":
    main()
