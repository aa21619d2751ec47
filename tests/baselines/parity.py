"""Trainings of 20 steps: ours, open_clip_train's own loop on the same batches, and loops written out for other recipes.

`python -m tests.baselines.parity` writes golden_losses.json anew, from open_clip_train's losses.
"""

from __future__ import annotations

import json
import math
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
from open_clip.loss import ClipLoss, SigLipLoss
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.train.config import TrainConfig
from baselines.train.feed import Batch, Feed
from baselines.train.loop import train
from baselines.train.loss import initial_logits
from baselines.train.model import new_model
from pools import scales
from pools.scales import Scale, get_scale
from tests.baselines.conftest import write_shards

GOLDEN = Path(__file__).with_name("golden_losses.json")
STEPS, BATCH, WARMUP, COOLDOWN = 20, 20, 5, 6

# 60 pairs are three batches of 20: no batch holds a pair twice, which open_clip would take for negatives of each other.
_SMALL: dict[str, Any] = {
    "samples_seen": STEPS * BATCH,
    "batch_size": BATCH,
    "warmup_steps": WARMUP,
    "checkpoints": 1,
    "cpu_threads": 1,
    "precision": "fp32",
    "captions": "alt",
    "augment": "resized_crop",
}
RECIPES: dict[str, Scale] = {
    "softmax": replace(get_scale("tiny"), model="winnow-vit-tiny", **_SMALL),
    "sigmoid": replace(get_scale("tiny"), model="winnow-vit-tiny", loss="sigmoid", **_SMALL),
    "convolutions": replace(get_scale("tiny"), **_SMALL),
    "siglip": replace(get_scale("siglip"), model="winnow-vit-tiny", **{**_SMALL, "cooldown_steps": COOLDOWN}),
    "align": replace(get_scale("align"), model="winnow-align-tiny", **_SMALL),
}


@dataclass
class Trained:
    """What a training of ours saw and wrote."""

    recipe: Scale
    losses: list[float]
    rates: list[float]
    batches: list[Batch] = field(default_factory=list)


def ours(name: str, folder: Path) -> Trained:
    """Trains by one of the recipes on 60 coloured squares, and keeps the batches that the feed gave."""
    recipe, batches = replace(RECIPES[name], name=name), []
    take = Feed.take

    def taken(feed: Feed, *sizes: Any, **more: Any) -> Batch:
        batch = take(feed, *sizes, **more)
        batches.append(Batch(batch.images.clone(), batch.tokens.clone(), list(batch.uids)))
        return batch

    data = write_shards(folder / "shards", list(range(60)))
    with mock.patch.object(Feed, "take", taken), _known(recipe):
        train(TrainConfig(data=data, output=str(folder / "run"), scale=name, workers=0, device="cpu", quiet=True))
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(len(set(b.uids)) == BATCH for b in batches)
    return Trained(recipe, [line["loss"] for line in lines], [line["lr"] for line in lines], batches)


@contextmanager
def _known(recipe: Scale) -> Iterator[None]:
    rows = {**scales.load_scales(), recipe.name: recipe}
    with mock.patch.object(scales, "load_scales", lambda: rows):
        yield


def pixels(batch: Batch) -> Tensor:
    """As ToTensor and Normalize make them."""
    if batch.images.dtype != torch.uint8:
        return batch.images
    mean, std = (torch.tensor(v)[:, None, None] for v in (OPENAI_DATASET_MEAN, OPENAI_DATASET_STD))
    return (batch.images.float() / 255 - mean) / std


def untrained(recipe: Scale) -> Any:
    logits: dict[str, Any] = {**initial_logits(recipe)}
    return new_model(recipe.model, **logits).model.train()


# open_clip_train -----------------------------------------------------------------------------------------------------------


@dataclass
class _Loader:
    """What `train_one_epoch` asks of its data."""

    batches: Sequence[Batch]
    num_batches: int = STEPS
    num_samples: int = STEPS * BATCH

    @property
    def dataloader(self) -> _Loader:
        return self

    def set_epoch(self, epoch: int) -> None:
        pass

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return ((pixels(b), b.tokens) for b in self.batches)


class _Writer:
    """Stands where TensorBoard's writer is expected."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        if name == "train/loss":
            self.losses.append(value)


def open_clip_train(recipe: Scale, batches: Sequence[Batch], *, same_order: bool = False) -> list[float]:
    """The losses of `open_clip_train.train.train_one_epoch` on those batches, set up as its `main` does it.

    With `same_order` it sums floats in our order: with the channels of a pixel side by side, and in a fused AdamW. Batch norms
    and ReLUs make of the last bit 1e-4 within 20 steps.
    """
    from open_clip_train.scheduler import cosine_lr  # type: ignore[import-untyped]
    from open_clip_train.train import train_one_epoch  # type: ignore[import-untyped]

    net = untrained(recipe).to(memory_format=torch.channels_last if same_order else torch.contiguous_format)
    free = [p for n, p in net.named_parameters() if p.ndim < 2 or "bn" in n or "ln" in n or "bias" in n or "logit_scale" in n]
    rest = [p for p in net.parameters() if all(p is not f for f in free)]
    groups = [{"params": free, "weight_decay": 0.0}, {"params": rest, "weight_decay": recipe.weight_decay}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, recipe.beta2), eps=1e-6, fused=same_order)
    schedule = cosine_lr(optimizer, recipe.learning_rate, recipe.warmup_steps, STEPS)
    args = Namespace(
        device="cpu", precision="fp32", distill=False, accum_freq=1, skip_scheduler=False, horovod=False, grad_clip_norm=None,
        log_every_n_steps=1, world_size=1, batch_size=BATCH, wandb=False, rank=0, local_rank=0, log_local=False,
    )  # fmt: skip
    writer, loss = _Writer(), SigLipLoss() if recipe.loss == "sigmoid" else ClipLoss()
    data = {"train": _Loader(batches)}
    train_one_epoch(net, data, loss, 0, optimizer, None, schedule, None, args, tb_writer=writer)
    return writer.losses


# Loops written out -----------------------------------------------------------------------------------------------------------


def siglip(recipe: Scale, batches: Sequence[Batch]) -> list[float]:
    """AdamW, warmup, 1/√step, cooldown, open_clip's loss."""
    net = untrained(recipe)
    decayed = [p for n, p in net.named_parameters() if p.ndim > 1 and "bias" not in n]
    free = [p for n, p in net.named_parameters() if p.ndim < 2 or "bias" in n]
    groups = [{"params": decayed, "weight_decay": 1e-4}, {"params": free, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-6)
    losses = []
    for i, batch in enumerate(batches, 1):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(i / WARMUP, math.sqrt(WARMUP / i)) * min(1, (STEPS + 1 - i) / COOLDOWN)
        out = net(pixels(batch), batch.tokens)
        loss = SigLipLoss()(out["image_features"], out["text_features"], out["logit_scale"], out["logit_bias"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.logit_scale.data.clamp_(0, math.log(100))
        losses.append(loss.item())
    return losses


def align(recipe: Scale, batches: Sequence[Batch]) -> list[float]:
    """timm's LAMB, warmup, a line to 0, the sum of two smoothed entropies."""
    from timm.optim.lamb import Lamb

    net = untrained(recipe).to(memory_format=torch.channels_last)  # it has batch norms too
    decayed = [p for p in net.parameters() if p.ndim > 1]
    free = [p for p in net.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 1e-5}, {"params": free, "weight_decay": 0.0}]
    optimizer = Lamb(groups, betas=(0.9, 0.999), eps=1e-6, max_grad_norm=None)
    losses = []
    for i, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * ((i + 1) / WARMUP if i < WARMUP else (STEPS - i) / (STEPS - WARMUP))
        out = net(pixels(batch), batch.tokens)
        logits = out["logit_scale"] * out["image_features"] @ out["text_features"].T
        labels = torch.arange(BATCH)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1) + F.cross_entropy(logits.T, labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()  # type: ignore[no-untyped-call]
        net.logit_scale.data.clamp_(0, math.log(100))
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.set_num_threads(1)
    golden = {}
    for name in ("softmax", "sigmoid"):
        with tempfile.TemporaryDirectory() as folder:
            run = ours(name, Path(folder))
            golden[name] = [round(loss, 8) for loss in open_clip_train(run.recipe, run.batches)]
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
