"""What the user of the trainer may choose, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from pipeline.device import Device, choose_device
from pools.errors import InputError
from pools.scales import Precision, Scale, get_scale


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. All that the scale fixes can be overridden, which makes the run not comparable."""

    data: str | Sequence[str]  # folders of shards, or patterns of tars: `a/{000..127}.tar`, several joined by `::`
    output: str  # the run folder
    scale: str
    uids: str | None = None  # a uid list: only these samples, each as often as the list names it
    seed: int = 0
    workers: int | None = None  # decoding processes, 0 = in this one; default: none on a CPU, up to 8 beside a GPU
    samples: int | None = None  # samples seen, instead of the scale's
    steps: int | None = None  # the same in optimiser steps
    batch_size: int | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    device: Device = "auto"
    precision: Precision | None = None  # default: the scale's
    max_failed: float = 0.1  # share of samples that may be unusable before the run stops
    overwrite: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.samples is not None and self.steps is not None:
            raise InputError("both samples and steps", where="--samples, --steps", expected="one of them")
        # A contrastive loss needs two pairs at least.
        for name, least in (("samples", 2), ("steps", 1), ("batch_size", 2), ("workers", 0), ("warmup_steps", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}", where=_option(name), expected=f"{least} or more")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate is {self.learning_rate}", where="--learning-rate", expected="more than 0")
        if not 0 <= self.max_failed <= 1:
            raise InputError(f"max_failed is {self.max_failed}", where="--max-failed", expected="a share from 0 to 1")
        for name, known in (("device", get_args(Device)), ("precision", (None, *get_args(Precision)))):
            if getattr(self, name) not in known:
                wanted = ", ".join(k for k in known if k)
                raise InputError(f"unknown {name} {getattr(self, name)!r}", where=_option(name), expected=f"one of {wanted}")


@dataclass(frozen=True)
class Plan:
    """A configuration with every number settled. `changed` names what departs from the scale."""

    scale: Scale
    device: str
    precision: Precision  # as used: fp32 on a CPU
    seed: int
    changed: tuple[str, ...] = field(default=())

    @property
    def comparable(self) -> bool:
        return self.scale.comparable and not self.changed

    @property
    def steps(self) -> int:
        """Optimiser steps; the last batch takes what is left of the samples."""
        whole, rest = divmod(self.scale.samples_seen, self.scale.batch_size)
        # A batch of one pair has no negatives and teaches nothing: it joins the batch before.
        return max(1, whole + (rest > 1))

    def batch(self, step: int) -> int:
        """Size of the batch of a step; steps count from 0."""
        size = self.scale.batch_size
        return size if step < self.steps - 1 else self.scale.samples_seen - size * (self.steps - 1)


def resolve(config: TrainConfig, *, cuda: bool) -> Plan:
    """The plan of a configuration on a machine with or without CUDA. Raises InputError if CUDA is asked for and missing."""
    device = choose_device(config.device, cuda=cuda)
    base = get_scale(config.scale)
    batch = config.batch_size or base.batch_size
    scale = replace(
        base,
        batch_size=batch,
        samples_seen=config.samples or (config.steps * batch if config.steps else base.samples_seen),
        learning_rate=float(config.learning_rate or base.learning_rate),
        warmup_steps=base.warmup_steps if config.warmup_steps is None else config.warmup_steps,
        precision=config.precision or base.precision,
    )
    # fp32 for amp is more precise and no departure; the scales leave the precision to the machine.
    names = ("samples_seen", "batch_size", "learning_rate", "warmup_steps")
    changed = tuple(n for n in names if getattr(scale, n) != getattr(base, n))
    return Plan(scale, device, "fp32" if device == "cpu" else scale.precision, config.seed, changed)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
