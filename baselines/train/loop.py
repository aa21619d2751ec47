"""The training itself.

A run folder holds `config.yaml` (every number settled), `model_config.json`, `metrics.jsonl` (a line a step),
`checkpoints/step_<n>.pt` (weights) and `latest.pt` (weights and optimiser), and `_manifest.json`, which comes last.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import torch
import yaml
from torch import Tensor

from baselines.train import checkpoint, model
from baselines.train.config import Plan, TrainConfig, resolve
from baselines.train.data import Survey, list_shards, read_uids, survey
from baselines.train.decode import Decoder
from baselines.train.feed import Batch, Feed, open_feed
from baselines.train.loss import contrastive_loss
from baselines.train.schedule import learning_rate
from pipeline import engine
from pipeline.progress import Progress
from pools import store, uids
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import TrainingRun

VERSION = 2
MAX_LOGIT_SCALE = math.log(100)


def train(config: TrainConfig) -> Outcome:
    """Trains one model and returns the account of the samples.

    Raises InputError before anything is written if the data, the list or the device cannot be used; WorkFailed if too many
    samples are broken or the loss is no number. The same configuration gives the same weights on a CPU.
    """
    if os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
        raise InputError("several processes", where="WORLD_SIZE", expected="one: training is on one device so far")
    plan = resolve(config, cuda=torch.cuda.is_available())
    paths = list_shards(config.data)
    listed = read_uids(config.uids) if config.uids else None
    run = Run(config.output, "train", VERSION, _identity(plan, listed), (digest_of([store.digest(p) for p in paths]),))
    if (before := engine.recall(run, engine.Options(overwrite=config.overwrite, quiet=config.quiet))) is not None:
        return before
    found = survey(paths, need_uid=listed is not None)
    loaded = model.new_model(plan.scale.model, device=plan.device, seed=plan.seed)
    run.claim(overwrite=config.overwrite)
    _announce(config, plan, found, listed)
    _write_config(config, plan, loaded)
    feed = open_feed(
        found,
        listed,
        seed=plan.seed,
        decoder=Decoder(loaded.train_transform, loaded.tokenizer),
        workers=_workers(config, plan),
        max_failed=config.max_failed,
    )
    with _threads(plan):
        _Trainer(config, plan, loaded.model, feed).run()
    outcome = _account(plan, found, feed)
    run.finish(outcome.check(), comparable=plan.comparable, device=_device_name(plan), torch=torch.__version__)
    repeats = plan.scale.samples_seen / feed.unique
    Progress.note(
        f"train: saw {feed.kept} samples, {feed.unique} different ones, each {repeats:.2f} times on average", quiet=config.quiet
    )
    return outcome


class _Trainer:
    """Model, optimiser and where the training stands."""

    def __init__(self, config: TrainConfig, plan: Plan, net: Any, feed: Feed) -> None:
        self.config, self.plan, self.feed = config, plan, feed
        # Convolutions are a third faster with the channels of a pixel side by side; the numbers are the same up to rounding.
        self.net = net.to(memory_format=torch.channels_last)
        self.optimizer = _optimizer(net, plan)
        self.scaler = torch.amp.GradScaler("cuda", enabled=plan.precision == "amp")  # fp16 gradients underflow without it
        self.lines: list[str] = []
        if plan.scale.grad_checkpointing and plan.device == "cuda":
            net.set_grad_checkpointing(True)

    def run(self) -> None:
        scale, seen = self.plan.scale, 0
        self.net.train()
        with Progress("train", self.plan.steps, quiet=self.config.quiet, unit="steps") as progress:
            for step in range(self.plan.steps):
                batch = self.feed.take(self.plan.batch(step))
                seen += len(batch.uids)
                loss = self._step(step, batch, seen)
                progress.advance(detail=f"loss {loss:.3f}")
                if checkpoint.due(seen, len(batch.uids), scale.samples_seen, scale.checkpoints):
                    self._save(step + 1, seen)

    def _step(self, step: int, batch: Batch, seen: int) -> float:
        scale = self.plan.scale
        rate = learning_rate(step, steps=self.plan.steps, peak=scale.learning_rate, warmup=scale.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        loss = self._forward(batch)
        line = {
            "step": step + 1,
            "samples": seen,
            "loss": loss.item(),
            "lr": rate,
            "scale": self.net.logit_scale.exp().item(),
        }
        self.lines.append(json.dumps(line) + "\n")
        if not math.isfinite(line["loss"]):
            self._stop(line, batch)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with torch.no_grad():
            self.net.logit_scale.clamp_(0, MAX_LOGIT_SCALE)
        return float(line["loss"])

    def _forward(self, batch: Batch) -> Tensor:
        device, dtype = self.plan.device, torch.float16 if self.plan.precision == "amp" else torch.bfloat16
        images = batch.images.to(device, non_blocking=True, memory_format=torch.channels_last)
        tokens = batch.tokens.to(device, non_blocking=True)
        with torch.autocast(device, dtype, enabled=self.plan.precision != "fp32"):
            out = self.net(images, tokens)
            return contrastive_loss(out["image_features"], out["text_features"], out["logit_scale"], batch.uids)

    def _save(self, step: int, seen: int) -> None:
        out = TrainingRun(self.config.output)
        checkpoint.save(out.checkpoint_at(step), self.net, step=step, samples=seen)
        checkpoint.save(out.checkpoint, self.net, step=step, samples=seen, optimizer=self.optimizer)
        self._write_metrics()

    def _write_metrics(self) -> None:
        store.write_bytes(TrainingRun(self.config.output).metrics, "".join(self.lines).encode())

    def _stop(self, line: dict[str, Any], batch: Batch) -> None:
        self._write_metrics()
        where = store.join(self.config.output, "bad_batch.json")
        store.write_json(where, {**{k: str(v) for k, v in line.items()}, "uids": batch.uids})
        raise WorkFailed(
            f"the loss is {line['loss']} at step {line['step']} (logit scale {line['scale']:.4g}, learning rate "
            f"{line['lr']:.4g}); the batch's uids are in {where}\n  → try a lower --learning-rate or another --precision"
        )


def _optimizer(net: torch.nn.Module, plan: Plan) -> torch.optim.Optimizer:
    """AdamW as open_clip sets it up for ViTs: no weight decay on norms, biases and the logit scale (less than 2 dimensions)."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": plan.scale.weight_decay},
    ]
    return torch.optim.AdamW(groups, lr=plan.scale.learning_rate, betas=(0.9, plan.scale.beta2), eps=1e-6, fused=True)


def _identity(plan: Plan, listed: uids.Uids | None) -> dict[str, Any]:
    scale = {
        k: v for k, v in asdict(plan.scale).items() if k not in ("comparable", "precision", "grad_checkpointing", "cpu_threads")
    }
    return {
        **scale,
        "precision": plan.precision,
        "seed": plan.seed,
        "uids": None if listed is None else uids.digest(listed),
    }


def _write_config(config: TrainConfig, plan: Plan, loaded: model.Loaded) -> None:
    settled = {
        "scale": asdict(plan.scale),
        "data": config.data if isinstance(config.data, str) else list(config.data),
        "uids": config.uids,
        "seed": plan.seed,
        "sampling": "without replacement",
        "steps": plan.steps,
        "device": plan.device,
        "precision": plan.precision,
        "max_failed": config.max_failed,
        "changed": list(plan.changed),
        "comparable": plan.comparable,
    }
    text = yaml.safe_dump(settled, sort_keys=False, allow_unicode=True)
    store.write_bytes(TrainingRun(config.output).config, text.encode())
    model.write_config(config.output, loaded.config)


def _announce(config: TrainConfig, plan: Plan, found: Survey, listed: uids.Uids | None) -> None:
    scale = plan.scale
    of = "" if listed is None else f", the {len(listed)} listed uids"
    empty = f" ({len(found.empty)} empty ones skipped)" if found.empty else ""
    lines = [
        f"train: {scale.model} on {_device_name(plan)} in {plan.precision}: {scale.samples_seen} samples in {plan.steps} steps "
        f"of {scale.batch_size}, from {len(found.shards)} shard(s){empty}{of}, without replacement within a pass"
    ]
    if plan.device == "cpu" and scale.precision != "fp32":
        lines.append(f"train: {scale.precision} is for GPUs; this machine's CPU computes in fp32")
    if scale.warmup_steps >= plan.steps:
        lines.append(f"train: the warmup ({scale.warmup_steps} steps) is as long as the run or longer ({plan.steps} steps)")
    if plan.changed:
        lines.append(f"train: not comparable with other runs of scale {scale.name}: own {', '.join(plan.changed)}")
    for line in lines:
        Progress.note(line, quiet=config.quiet)


def _account(plan: Plan, found: Survey, feed: Feed) -> Outcome:
    failed = {f"failed:{why}": n for why, n in sorted(feed.failed.items())}
    counts = {"in": feed.kept + sum(failed.values()), "kept": feed.kept, **failed}
    counts |= {"unique": feed.unique, "steps": plan.steps, "empty_shards": len(found.empty)}
    return Outcome(counts, tuple(why for _, why in sorted(feed.problems.items())))


@contextlib.contextmanager
def _threads(plan: Plan) -> Iterator[None]:
    """The scale's number of threads. On a busy machine two threads that wait for each other take four times as long as one."""
    before = torch.get_num_threads()
    if plan.device == "cpu" and plan.scale.cpu_threads:
        torch.set_num_threads(plan.scale.cpu_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _workers(config: TrainConfig, plan: Plan) -> int:
    if config.workers is not None:
        return config.workers
    return 0 if plan.device == "cpu" else min(8, engine.default_workers())


def _device_name(plan: Plan) -> str:
    return torch.cuda.get_device_name() if plan.device == "cuda" else "cpu"
