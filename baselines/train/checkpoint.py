"""Checkpoints that hold tensors and plain values only, so that `torch.load(weights_only=True)` reads them.

All have the weights under `state_dict` (open_clip's key) beside `step` and `samples`. What goes on from where it stopped has
besides them `data`, `optimizer`, `scaler`, and for each process, under `ranks`, where its feed and its random numbers stood.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class State:
    """Where a training stood after `step` steps."""

    step: int
    samples: int
    data: str  # digest of the shards: a feed's place is one in them
    state_dict: Mapping[str, torch.Tensor]
    optimizer: Mapping[str, Any]
    scaler: Mapping[str, Any]
    ranks: list[dict[str, Any]]  # of each process: `feed`, `random`

    def check(self, processes: int, data: str, where: str) -> None:
        """Raises InputError if it is of other shards, or of another number of processes: each had its own samples."""
        if self.data != data:
            raise InputError("of a run on other shards, or they have changed since", where=where, expected="the same --data")
        if len(self.ranks) != processes:
            raise InputError(
                f"of a run with {len(self.ranks)} processes, here {processes}",
                where=where,
                expected="as many",
                fix="start as many as before, or begin anew with --overwrite",
            )

    def restore(self, net: torch.nn.Module, where: str) -> None:
        """Puts the weights into a model. Raises InputError if they are another's."""
        try:
            net.load_state_dict(self.state_dict)
        except RuntimeError as e:
            raise InputError(f"the weights are of another model: {str(e).splitlines()[-1].strip()}", where=where) from e

    def restore_rest(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, rank: int) -> None:
        """Puts the rest where it belongs."""
        optimizer.load_state_dict(dict(self.optimizer))
        if self.scaler:
            scaler.load_state_dict(dict(self.scaler))
        _set_random_state(self.ranks[rank]["random"])


def save(path: str, state: State, *, whole: bool) -> None:
    """Writes a state as a whole, or its weights, and how far they are."""
    held = {f: getattr(state, f) for f in ("step", "samples", "state_dict")}
    held["state_dict"] = {k: v.detach().cpu().contiguous() for k, v in state.state_dict.items()}
    if whole:
        held |= {f: getattr(state, f) for f in ("data", "optimizer", "scaler", "ranks")}
    with store.atomic(path) as f:
        torch.save(held, f)


def load(path: str) -> State:
    """The state in a file. Raises InputError if it is none, or holds weights alone."""
    try:
        with store.open_input(path) as f:
            held = torch.load(f, map_location="cpu", weights_only=True)
        return State(**held)
    except FileNotFoundError:
        raise InputError("no such checkpoint", where=path) from None
    except TypeError as e:
        raise InputError("not the whole state of a training", where=path, expected="such as latest.pt") from e
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as e:
        said = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InputError(f"cannot be read as a checkpoint: {said}", where=path, fix="begin anew with --overwrite") from e


def of_process(feed_state: Any) -> dict[str, Any]:
    """This process's entry in `ranks`."""
    return {"feed": asdict(feed_state), "random": _random_state()}


def _random_state() -> dict[str, torch.Tensor]:
    """That of torch's generators, on the CPU and on the GPU in use. The training draws from no other."""
    held = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        held["cuda"] = torch.cuda.get_rng_state()
    return held


def _set_random_state(held: Mapping[str, torch.Tensor]) -> None:
    torch.set_rng_state(held["cpu"])
    if "cuda" in held and torch.cuda.is_available():
        torch.cuda.set_rng_state(held["cuda"])


def due(seen: int, batch: int, total: int, count: int) -> bool:
    """Whether one of `count` evenly spread marks (the last at `total`) lies in the batch that ends at `seen` samples."""
    return any((seen - batch) * count < total * k <= seen * count for k in range(1, count + 1))
