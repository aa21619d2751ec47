"""Training on a GPU from shards, against open_clip_train and against the model alone: `python -m tests.benchmarks.train_gpu`.

For ViT-B/32 and ViT-B/16, by the recipes of DataComp's scales small and large with so many pairs on the one GPU: samples a
second end to end from shards that the script makes itself (512 × 384 JPEGs), ours and the peer's, each in a process of its
own once its first steps are over; and of forward and backward on a batch that lies on the GPU. Utilisation is the model's own
floating-point operations (three times the forward's, nothing for what is computed twice) over the rate of a large matrix
product measured on the same GPU. `--tiny` runs the whole script on a CPU in less than a minute; `--seconds` bounds it.

Only public packages are needed besides this checkout: torch, open_clip_torch[training].
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from baselines.train.loss import ContrastiveLoss
from baselines.train.model import new_model
from tests.benchmarks.training import Recipe, Timing, ours, peer, write_shards

WARMUP = 10  # steps that are not counted


@dataclass(frozen=True)
class Case:
    model: str
    batch: int  # on this GPU
    scale: str
    steps: int


# DataComp's batches of 4096 on 4 GPUs and of 8192 on 16.
CASES = (Case("ViT-B-32", 1024, "small", 80), Case("ViT-B-16", 512, "large", 70))
TINY = (Case("winnow-vit-tiny", 8, "tiny", 20),)


def forward_flops(config: dict[str, Any]) -> int:
    """Floating-point operations of the forward pass of one pair through two ViT-like towers, multiplications and additions.

    Matrix products alone: norms, softmax and embeddings are a few per cent.
    """
    vision, text, width = config["vision_cfg"], config["text_cfg"], config["embed_dim"]
    patches = (vision["image_size"] // vision["patch_size"]) ** 2
    embedding = patches * 3 * vision["patch_size"] ** 2 * vision["width"]
    towers = _tower(patches + 1, vision) + _tower(text["context_length"], text)
    return int(2 * (embedding + towers + (vision["width"] + text["width"]) * width))


def _tower(tokens: int, cfg: dict[str, Any]) -> int:
    """Multiplications of a transformer: projections, two matrix products of attention, the MLP."""
    width = int(cfg["width"])
    mlp = int(2 * cfg.get("mlp_ratio", 4.0) * width**2)
    return int(cfg["layers"]) * tokens * (4 * width**2 + mlp + 2 * tokens * width)


def timed(run: Callable[[], object], times: int, device: str) -> float:
    """Seconds of one call, after as many that are not counted."""
    for counted in (False, True):
        _wait(device)
        start = time.perf_counter()
        for _ in range(times):
            run()
        _wait(device)
        if counted:
            return (time.perf_counter() - start) / times
    raise AssertionError("counted above")


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def matrix_rate(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of a large matrix product of random numbers."""
    n = 8192 if device == "cuda" else 256
    a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    return 2 * n**3 / timed(lambda: a @ b, 20, device)


def resident(case: Case, device: str, *, checkpointing: bool) -> float:
    """Samples a second of forward and backward, as the trainer does them, on a batch that lies on the device."""
    loaded = new_model(case.model, device=device)
    net = loaded.model.to(memory_format=torch.channels_last).train()
    net.set_grad_checkpointing(checkpointing)
    side, context = loaded.config["vision_cfg"]["image_size"], loaded.config["text_cfg"]["context_length"]
    images = torch.randn(case.batch, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)
    tokens = torch.randint(1, 49_000, (case.batch, context), device=device)
    uids, loss = [str(i) for i in range(case.batch)], ContrastiveLoss()

    def step() -> None:
        net.zero_grad()
        with torch.autocast(device, torch.float16, enabled=device == "cuda"):
            out = net(images, tokens)
            value = loss(out["image_features"], out["text_features"], out["logit_scale"], None, uids)
        (value * 1024).backward()  # type: ignore[no-untyped-call]  # as scaled as amp has it, so that no gradient is 0

    return case.batch / timed(step, 20 if device == "cuda" else 2, device)


def rows(case: Case, data: str, folder: Path, args: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """The ways to train and their samples a second, one after the other."""
    device = args.device
    recipe = Recipe(data, case.model, case.batch, case.steps, case.scale, args.precision, device, device == "cuda")
    skip = min(WARMUP, case.steps // 2)

    def run(name: str, train: Callable[..., Timing], workers: int, **more: Any) -> tuple[str, float]:
        timing = train(recipe, folder / f"{case.model}-{name.replace(' ', '-')}", workers=workers, **more)
        return name, timing.steady(case.batch, skip)

    yield "forward and backward, resident", resident(case, device, checkpointing=recipe.grad_checkpointing)
    if device == "cuda":
        torch.cuda.empty_cache()  # the trainings want it
    yield run("winnow", ours, args.workers)
    yield run("open_clip_train", peer, max(args.workers, 1))
    if device == "cuda" and time.monotonic() < args.until - 90:
        yield run("winnow compiled", ours, args.workers, more=("--compile",))


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="on a CPU, with the smallest of models")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--shards", type=int, default=32)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=460, help="nothing new is begun when they are nearly over")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    args = parser.parse_args(given)
    start = time.monotonic()
    args.until = start + args.seconds
    args.device, args.precision, cases = ("cpu", "fp32", TINY) if args.tiny else ("cuda", "amp", CASES)
    width, height = (64, 48) if args.tiny else (512, 384)
    if args.tiny:
        args.shards, args.rows, args.workers = 2, 32, 0
    figures: dict[str, Any] = {"device": "cpu" if args.tiny else torch.cuda.get_device_name(), "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as name:
        data = write_shards(Path(name) / "shards", args.shards, args.rows, width=width, height=height)
        peak = matrix_rate(args.device, torch.float32 if args.tiny else torch.float16)
        figures["matrix_tflops"] = peak / 1e12
        print(f"{figures['device']}, torch {torch.__version__}, matrix product {peak / 1e12:.4g} TFLOP/s", flush=True)
        for case in cases:
            figures[case.model] = report(case, data, Path(name), args, peak)
    print(f"{time.monotonic() - start:.0f} s in all")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


def report(case: Case, data: str, folder: Path, args: argparse.Namespace, peak: float) -> dict[str, float]:
    flops = 3 * forward_flops(new_model(case.model).config)
    print(f"{case.model}, {case.batch} pairs a step, {case.steps} steps, {flops / 1e9:.4g} GFLOP a pair", flush=True)
    found: dict[str, float] = {}
    for way, rate in rows(case, data, folder, args):
        found[way] = rate
        said = f"  {way:32} {rate:9.1f} samples/s, {rate * flops / peak:6.1%} of the matrix product's rate"
        if way.startswith("winnow"):
            said += f", {rate / found['forward and backward, resident']:.1%} of resident"
        if way == "winnow compiled":
            said += f", {rate / found['winnow']:.2f} times winnow"
        print(said, flush=True)
    print(f"  winnow is {found['winnow'] / found['open_clip_train']:.2f} times as fast as open_clip_train", flush=True)
    return found


if __name__ == "__main__":
    main()
