"""What the user of the trainer may choose, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from pipeline.device import Device, choose_device
from pools.errors import InputError
from pools.scales import Captions, Loss, Optimizer, Precision, Sampling, Scale, get_scale

# Fields of a scale of which the user may want others.
_OVERRIDES = ("batch_size", "learning_rate", "warmup_steps", "model", "loss", "optimizer", "grad_clip", "sampling", "captions")
# Fewer bits than the scale says, or more: the scales leave that to the machine.
_FREE = ("precision",)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run. All that the scale fixes can be overridden, which makes the run not comparable."""

    data: str | Sequence[str]  # folders of shards, or patterns of tars: `a/{000..127}.tar`, several joined by `::`
    output: str  # the run folder
    scale: str
    uids: str | None = None  # a uid list: only these samples, each as often as the list names it
    weights: Sequence[float] | None = None  # of each of the `data`: how often a pass takes it
    seed: int = 0
    workers: int | None = None  # decoding processes, 0 = in this one; default: none on a CPU, up to 8 beside a GPU
    # Instead of the scale's:
    samples: int | None = None  # samples seen
    steps: int | None = None  # the same in optimiser steps
    batch_size: int | None = None
    learning_rate: float | None = None
    warmup_steps: int | None = None
    model: str | None = None  # a name that open_clip knows, one of `models`, or a config file (.json)
    loss: Loss | None = None
    optimizer: Optimizer | None = None
    grad_clip: float | None = None
    sampling: Sampling | None = None
    captions: Captions | None = None
    precision: Precision | None = None
    # How it is computed:
    device: Device = "auto"
    accumulate: int = 1  # parts in which a process's share of a batch is computed
    compile: bool = False  # the model through torch.compile
    checkpoint_every: int = 500  # steps between two states to go on from; 0 = at the scale's checkpoints only
    cooldown_from: str | None = None  # a checkpoint with its whole state, of which this run is a branch that cools down
    wandb: str | None = None  # the project in Weights & Biases
    max_failed: float = 0.1  # share of samples that may be unusable before the run stops
    overwrite: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.samples is not None and self.steps is not None:
            raise InputError("both samples and steps", where="--samples, --steps", expected="one of them")
        # A contrastive loss needs two pairs at least.
        at_least = (("samples", 2), ("steps", 1), ("batch_size", 2), ("workers", 0), ("warmup_steps", 0), ("grad_clip", 0))
        for name, least in (*at_least, ("accumulate", 1), ("checkpoint_every", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise InputError(f"{name} is {value}", where=_option(name), expected=f"{least} or more")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate is {self.learning_rate}", where="--learning-rate", expected="more than 0")
        if not 0 <= self.max_failed <= 1:
            raise InputError(f"max_failed is {self.max_failed}", where="--max-failed", expected="a share from 0 to 1")
        self._check_choices()

    def _check_choices(self) -> None:
        kinds = {"precision": Precision, "loss": Loss, "optimizer": Optimizer, "sampling": Sampling, "captions": Captions}
        for name, known in (("device", get_args(Device)), *((n, (None, *get_args(kind))) for n, kind in kinds.items())):
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
    accumulate: int = 1
    compile: bool = False

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
        """Size of the batch of a step, over all processes; steps count from 0."""
        size = self.scale.batch_size
        return size if step < self.steps - 1 else self.scale.samples_seen - size * (self.steps - 1)

    def parts(self, step: int, processes: int) -> int:
        """In how many parts each process computes its share of a batch: the same number in all."""
        return max(1, min(self.accumulate, self.batch(step) // processes))

    def check(self, processes: int) -> None:
        """Raises InputError if some process would have no sample of a batch."""
        least = min(self.batch(0), self.batch(self.steps - 1))
        if least < processes:
            raise InputError(
                f"a batch of {least} samples for {processes} processes",
                where="--batch-size, --samples",
                expected="a sample or more for each, also in the last batch",
            )


def resolve(config: TrainConfig, *, cuda: bool) -> Plan:
    """The plan of a configuration on a machine with or without CUDA. Raises InputError if CUDA is asked for and missing."""
    device = choose_device(config.device, cuda=cuda)
    base = get_scale(config.scale)
    own = {name: getattr(config, name) for name in (*_OVERRIDES, *_FREE) if getattr(config, name) is not None}
    own |= {name: float(own[name]) for name in ("learning_rate", "grad_clip") if name in own}
    batch = own.get("batch_size", base.batch_size)
    samples = config.samples or (config.steps * batch if config.steps else base.samples_seen)
    scale = replace(base, **own, samples_seen=samples)
    changed = tuple(n for n in ("samples_seen", *_OVERRIDES) if getattr(scale, n) != getattr(base, n))
    precision = "fp32" if device == "cpu" else scale.precision
    return Plan(scale, device, precision, config.seed, changed, config.accumulate, config.compile)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
