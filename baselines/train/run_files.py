"""What a run folder says of a run: whose it is, every number settled, what became of the samples; and what people are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import yaml

from baselines.train import model
from baselines.train.config import Plan, TrainConfig
from baselines.train.data import Survey
from baselines.train.distributed import World
from baselines.train.feed import Feed
from pipeline.progress import Progress
from pools import store, uids
from pools.manifest import Outcome
from pools.outputs import TrainingRun

_SAMPLING = {"passes": "without replacement", "replacement": "with replacement"}
_NOT_THE_RESULT = ("comparable", "precision", "grad_checkpointing", "cpu_threads")


def identity(config: TrainConfig, plan: Plan, listed: uids.Uids | None) -> dict[str, Any]:
    """What the result depends on besides the data."""
    scale = {k: v for k, v in asdict(plan.scale).items() if k not in _NOT_THE_RESULT}
    if plan.scale.model.endswith(".json"):
        scale["model"] = model.file_digest(plan.scale.model)
    return {
        **scale,
        "precision": plan.precision,
        "seed": plan.seed,
        "uids": None if listed is None else uids.digest(listed),
        **({} if config.weights is None else {"weights": list(config.weights)}),
        **({} if config.cooldown_from is None else {"cooldown_from": store.digest(config.cooldown_from)}),
    }


def write_config(config: TrainConfig, plan: Plan, world: World, loaded: model.Loaded) -> None:
    """Writes `config.yaml` and `model_config.json`."""
    scale = asdict(plan.scale) | {"cooled": list(plan.scale.cooled)}
    settled = {
        "scale": scale,
        "data": config.data if isinstance(config.data, str) else list(config.data),
        "weights": None if config.weights is None else list(config.weights),
        "uids": config.uids,
        "seed": plan.seed,
        "sampling": _SAMPLING[plan.scale.sampling],
        "steps": plan.steps,
        "device": plan.device,
        "precision": plan.precision,
        "processes": world.size,
        "accumulate": plan.accumulate,
        "compile": plan.compile,
        "cooldown_from": config.cooldown_from,
        "max_failed": config.max_failed,
        "changed": list(plan.changed),
        "comparable": plan.comparable,
    }
    text = yaml.safe_dump(settled, sort_keys=False, allow_unicode=True)
    store.write_bytes(TrainingRun(config.output).config, text.encode())
    model.write_config(config.output, loaded.config)


def announce(config: TrainConfig, plan: Plan, world: World, found: Survey, listed: uids.Uids | None) -> None:
    """Says what will be done, before anything is."""
    scale = plan.scale
    of = "" if listed is None else f", the {len(listed)} listed uids"
    empty = f" ({len(found.empty)} empty ones skipped)" if found.empty else ""
    lines = [
        f"train: {scale.model} on {device_name(plan)} in {plan.precision}: {scale.samples_seen} samples in {plan.steps} steps "
        f"of {scale.batch_size}, from {len(found.shards)} shard(s){empty}{of}, {_SAMPLING[scale.sampling]}"
        + (" within a pass" if scale.sampling == "passes" else "")
    ]
    if world.size > 1:
        lines.append(f"train: {world.size} processes, each with its own samples of every batch: {_split(plan, world)}")
    if plan.accumulate > 1:
        lines.append(f"train: each share is computed in {plan.parts(0, world.size)} parts, the loss is that of the whole batch")
    if plan.device == "cpu" and scale.precision != "fp32":
        lines.append(f"train: {scale.precision} is for GPUs; this machine's CPU computes in fp32")
    if scale.warmup_steps >= plan.steps:
        lines.append(f"train: the warmup ({scale.warmup_steps} steps) is as long as the run or longer ({plan.steps} steps)")
    if plan.changed:
        lines.append(f"train: not comparable with other runs of scale {scale.name}: own {', '.join(plan.changed)}")
    for line in lines:
        Progress.note(line, quiet=config.quiet)


def _split(plan: Plan, world: World) -> str:
    whole, rest = divmod(plan.batch(0), world.size)
    return f"{whole} each" if not rest else f"{whole + 1} in the first {rest}, {whole} in the others"


def account(plan: Plan, found: Survey, feeds: Sequence[dict[str, Any]]) -> Outcome:
    """The samples of all processes' feeds, which `told_by` has described."""
    kept = sum(f["kept"] for f in feeds)
    failed: dict[str, int] = {}
    for why, n in (item for f in feeds for item in f["failed"].items()):
        failed[f"failed:{why}"] = failed.get(f"failed:{why}", 0) + n
    counts = {"in": kept + sum(failed.values()), "kept": kept, **dict(sorted(failed.items()))}
    counts |= {"unique": sum(f["unique"] for f in feeds), "steps": plan.steps, "empty_shards": len(found.empty)}
    problems = {shard: why for f in feeds for shard, why in f["problems"].items()}
    return Outcome(counts, tuple(why for _, why in sorted(problems.items())))


def told_by(feed: Feed) -> dict[str, Any]:
    """A feed's account in plain values, to be sent to rank 0."""
    return {"kept": feed.kept, "unique": feed.unique, "failed": dict(feed.failed), "problems": dict(feed.problems)}


def device_name(plan: Plan) -> str:
    return torch.cuda.get_device_name() if plan.device == "cuda" else "cpu"


def conclude(config: TrainConfig, plan: Plan, outcome: Outcome) -> None:
    """Says what was seen."""
    kept, unique = outcome.counts["kept"], outcome.counts["unique"]
    each = plan.scale.samples_seen / max(unique, 1)
    text = f"train: saw {kept} samples, {unique} different ones, each {each:.2f} times on average"
    Progress.note(text, quiet=config.quiet)
