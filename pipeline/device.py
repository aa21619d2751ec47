"""Where a model runs."""

from __future__ import annotations

import ctypes
import re
from typing import Literal

from pools.errors import InputError

Device = Literal["auto", "cpu", "cuda"]


def choose_device(asked: str, *, cuda: bool) -> str:
    """`cpu`, `cuda` or `cuda:N`; `auto` is CUDA where there is one. Raises InputError if CUDA is asked for and missing."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", asked):
        raise InputError(f"unknown device {asked!r}", where="--device", expected="auto, cpu, cuda or cuda:N")
    if asked == "auto":
        return "cuda" if cuda else "cpu"
    if asked != "cpu" and not cuda:
        raise InputError(
            "no CUDA device here, or a torch built without CUDA",
            where=f"--device {asked}",
            expected="a GPU",
            fix="use --device cpu, or --device auto for whichever there is",
        )
    return asked


def has_cuda() -> bool:
    """Whether torch computes on a GPU here; without NVIDIA's driver that is known without loading torch, which takes long."""
    try:
        ctypes.CDLL("libcuda.so.1")
        import torch
    except (OSError, ModuleNotFoundError):
        return False
    return torch.cuda.is_available()
