"""The fixed scales: how large the pool is, and with which recipe the trainer turns any choice from it into a model."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from pools.errors import InputError

Precision = Literal["amp", "amp_bf16", "fp32"]


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
    beta2: float  # AdamW; β1 is 0.9, eps 1e-6
    weight_decay: float
    checkpoints: int  # evenly spread, the last at the end
    precision: Precision
    grad_checkpointing: bool  # recompute activations: less memory, the same result
    comparable: bool  # whether a score at this scale may be put beside published ones
    cpu_threads: int  # of a training on a CPU; 0 = one a core, 1 = so small a model gains nothing from more

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            kind = {"int": int, "float": float, "bool": bool}.get(str(f.type), str)
            if type(value) is not kind:
                raise InputError(f"scale {self.name}: {f.name} is {value!r}", where=str(PATH), expected=f"a {kind.__name__}")
        if self.precision not in get_args(Precision):
            raise InputError(f"precision {self.precision!r}", where=str(PATH), expected=" or ".join(get_args(Precision)))


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
