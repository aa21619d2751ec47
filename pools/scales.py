"""The fixed scales: how large the pool is, and with which recipe the trainer turns any choice from it into a model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from pools.errors import InputError

Precision = Literal["amp", "amp_bf16", "fp32"]
Loss = Literal["softmax", "sigmoid", "align"]
Optimizer = Literal["adamw", "lamb"]
Schedule = Literal["cosine", "inverse_sqrt", "linear", "constant"]
Sampling = Literal["passes", "replacement"]
Captions = Literal["alt", "title", "both"]
Augment = Literal["resized_crop", "crop_flip"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "precision": get_args(Precision),
    "loss": get_args(Loss),
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
    "sampling": get_args(Sampling),
    "captions": get_args(Captions),
    "augment": get_args(Augment),
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One row of `scales.yaml`; runs of one comparable scale differ in their data only."""

    name: str
    pool_size: int  # image-text pairs in the pool
    samples_seen: int  # image-text pairs in training, repeats counted
    model: str  # a name open_clip knows, or one of baselines/train/models
    batch_size: int  # over all processes
    learning_rate: float  # at the end of the warmup
    warmup_steps: int
    beta2: float  # of AdamW and LAMB
    weight_decay: float
    checkpoints: int  # evenly spread, the last at the end
    precision: Precision
    grad_checkpointing: bool  # recompute activations: less memory, the same result
    comparable: bool  # whether a score at this scale may be put beside published ones
    cpu_threads: int  # of a training on a CPU; 0 = one a core, 1 = so small a model gains nothing from more
    loss: Loss = "softmax"
    label_smoothing: float = 0.0  # of the losses with a softmax
    optimizer: Optimizer = "adamw"
    beta1: float = 0.9
    eps: float = 1e-6
    grad_clip: float = 0.0  # largest norm of the whole gradient; 0 = not clipped
    schedule: Schedule = "cosine"  # after the warmup
    cooldown_steps: int = 0  # at the end: the schedule's rate times what falls linearly from 1 to 0
    cooled: tuple[int, ...] = ()  # percents of samples_seen at which checkpoints cooled down on a branch end
    sampling: Sampling = "passes"  # exact passes, or shards drawn with replacement
    captions: Captions = "alt"
    augment: Augment = "resized_crop"  # open_clip's random crop of 0.9 to 1 of the area, or ALIGN's crop and flip

    def __post_init__(self) -> None:
        if isinstance(self.cooled, list):
            object.__setattr__(self, "cooled", tuple(self.cooled))
        for f in fields(self):
            value = getattr(self, f.name)
            kind = {"int": int, "float": float, "bool": bool, "tuple[int, ...]": tuple}.get(str(f.type), str)
            if type(value) is not kind:
                raise self._wrong(f.name, f"a {kind.__name__}")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise self._wrong(name, " or ".join(known))
        if not 0 <= self.label_smoothing < 1:
            raise self._wrong("label_smoothing", "a share from 0 to below 1")
        for name in ("eps", "grad_clip", "warmup_steps", "cooldown_steps", "weight_decay"):
            if getattr(self, name) < 0:
                raise self._wrong(name, "0 or more")
        if any(type(p) is not int or not 0 < p <= 100 for p in self.cooled) or (self.cooled and not self.cooldown_steps):
            raise self._wrong("cooled", "percents from 1 to 100, and cooldown_steps of 1 or more")

    def _wrong(self, name: str, expected: str) -> InputError:
        return InputError(f"scale {self.name}: {name} is {getattr(self, name)!r}", where=str(PATH), expected=expected)


PATH = Path(__file__).with_name("scales.yaml")


@functools.cache
def load_scales() -> dict[str, Scale]:
    """All scales by name, in the order of the file."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return {name: Scale(name=name, **row) for name, row in rows.items()}


def get_scale(name: str) -> Scale:
    """The scale of that name. Raises InputError that lists what is known."""
    scales = load_scales()
    if name not in scales:
        raise InputError(f"unknown scale {name!r}", where="--scale", expected=f"one of {', '.join(scales)}")
    return scales[name]
