"""What both benchmarks of the trainer share: shards of made-up pictures, and one training as a process of its own."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from pools.scales import get_scale

SEED = 0
LOG_EVERY = 5  # steps of the peer, which waits for a GPU whenever it logs
WORDS = "a the red green old small photo of dog house tree on in with two street water city at night blue wooden table cup"
MODELS = Path(__file__).parents[2] / "baselines" / "train" / "models"

# Whole processes with open_clip's own entry point; it has to be told of models that are ours.
PEER = f"""
import sys
import open_clip
open_clip.add_model_config({str(MODELS)!r})
from open_clip_train.main import main
main(sys.argv[1:])
"""


def pictures(number: int, width: int, height: int, quality: int = 88) -> list[bytes]:
    """JPEGs with shapes and some noise; 512 × 384 have 60 to 80 KB."""
    rng = np.random.default_rng(SEED)
    found = []
    for _ in range(number):
        coarse = Image.fromarray(rng.integers(0, 256, (max(height // 8, 2), max(width // 8, 2), 3)).astype(np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
        levels = smooth + rng.normal(0, rng.uniform(2, 8), (height, width, 3))
        out = io.BytesIO()
        Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=quality)
        found.append(out.getvalue())
    return found


def write_shards(folder: Path, shards: int, rows: int, *, width: int, height: int, different: int = 200) -> str:
    """Shards as img2dataset writes them, of so many different pictures over and over. Returns their pattern."""
    folder.mkdir(parents=True)
    images = pictures(min(different, shards * rows), width, height)
    rng = np.random.default_rng(SEED)
    for s in range(shards):
        with tarfile.open(folder / f"{s:05d}.tar", "w") as tar:
            for n in range(s * rows, (s + 1) * rows):
                caption = " ".join(rng.choice(WORDS.split(), rng.integers(4, 16)))
                meta = {"uid": f"{n:032x}", "caption": caption, "width": width, "height": height, "status": "success"}
                parts = {"jpg": images[n % len(images)], "json": json.dumps(meta).encode(), "txt": caption.encode()}
                for extension, data in parts.items():
                    info = tarfile.TarInfo(f"{n:09d}.{extension}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return f"{folder}/{{00000..{shards - 1:05d}}}.tar"


@dataclass(frozen=True)
class Recipe:
    """What both trainers are asked for."""

    data: str
    model: str
    batch: int
    steps: int
    scale: str  # of ours, whose other numbers the peer is given too
    precision: str
    device: str
    grad_checkpointing: bool = False


@dataclass(frozen=True)
class Timing:
    cpu: float  # seconds of the process and those it waited for
    wall: float
    stretches: list[tuple[int, float]]  # steps, and the seconds they took, one after the other
    loss: float  # of the last step

    def steady(self, batch: int, skip: int) -> float:
        """Samples a second of the stretches that begin after so many steps."""
        done, steps, seconds = 0, 0, 0.0
        for count, took in self.stretches:
            if done >= skip:
                steps, seconds = steps + count, seconds + took
            done += count
        return batch * steps / seconds


def ours(recipe: Recipe, output: Path, *, workers: int, threads: int = 1, more: tuple[str, ...] = ()) -> Timing:
    command = [sys.executable, "-m", "baselines.train", "--scale", recipe.scale, "--data", recipe.data, "--output", str(output)]
    command += ["--model", recipe.model, "--batch-size", str(recipe.batch), "--steps", str(recipe.steps)]
    command += ["--precision", recipe.precision, "--device", recipe.device, "--workers", str(workers), "--quiet", *more]
    cpu, wall = _run(command, output.with_suffix(".log"), threads)
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    stretches = [(1, recipe.batch / line["samples_per_s"]) for line in lines]
    return Timing(cpu, wall, stretches, lines[-1]["loss"])


def peer(recipe: Recipe, output: Path, *, workers: int, threads: int = 1) -> Timing:
    """open_clip_train, drawing shards with replacement as DataComp has it do."""
    samples = recipe.batch * recipe.steps
    command = [sys.executable, "-c", PEER, "--train-data", recipe.data, "--dataset-type", "webdataset", "--dataset-resampled"]
    command += ["--train-num-samples", str(samples), "--epochs", "1", "--batch-size", str(recipe.batch), "--seed", "0"]
    command += ["--model", recipe.model, "--precision", recipe.precision, "--device", recipe.device, "--workers", str(workers)]
    scale = get_scale(recipe.scale)
    command += ["--lr", str(scale.learning_rate), "--warmup", str(scale.warmup_steps), "--wd", str(scale.weight_decay)]
    command += ["--beta1", str(scale.beta1), "--beta2", str(scale.beta2), "--eps", str(scale.eps)]
    command += ["--logs", str(output.parent), "--name", output.name, "--log-every-n-steps", str(LOG_EVERY), "--report-to", ""]
    command += ["--local-loss", "--gather-with-grad", *(["--grad-checkpointing"] if recipe.grad_checkpointing else [])]
    cpu, wall = _run(command, output.with_suffix(".log"), threads)
    said = (output / "out.log").read_text()
    # After so many samples, the mean seconds of the steps since the line before, from the end of one to the end of the next.
    lines = [(int(seen) // recipe.batch, float(mean)) for seen, mean in re.findall(r"\[ *(\d+)/.*?Batch \(t\): ([\d.]+)", said)]
    stretches = [(b[0] - a[0], (b[0] - a[0]) * b[1]) for a, b in itertools.pairwise([(0, 0.0), *lines])]
    return Timing(cpu, wall, stretches, float(re.findall(r" Loss: ([\d.naif]+)", said)[-1]))


def _run(command: list[str], log: Path, threads: int) -> tuple[float, float]:
    """CPU and wall seconds. Ends the benchmark with what the process said if it fails."""
    settings = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    start = time.monotonic()
    with log.open("wb") as said, subprocess.Popen(command, env=os.environ | settings, stdout=said, stderr=said) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:3])}: {log.read_text(errors='replace')[-3000:]}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start
