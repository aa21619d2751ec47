"""Checkpoints that hold tensors and plain values only, so that `torch.load(weights_only=True)` reads them."""

from __future__ import annotations

import torch

from pools import store


def save(path: str, model: torch.nn.Module, *, step: int, samples: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    """Writes the weights under `state_dict` (open_clip's key), and the optimiser's state where it is given."""
    weights = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    held = {"step": step, "samples": samples, "state_dict": weights}
    if optimizer is not None:
        held["optimizer"] = optimizer.state_dict()
    with store.atomic(path) as f:
        torch.save(held, f)


def due(seen: int, batch: int, total: int, count: int) -> bool:
    """Whether one of `count` evenly spread marks (the last at `total`) lies in the batch that ends at `seen` samples."""
    return any((seen - batch) * count < total * k <= seen * count for k in range(1, count + 1))
