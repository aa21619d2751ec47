"""Several processes that train one model: who is who, what they tell each other, and how they end together.

`torchrun` starts them and says by the environment who they are. Rank 0 alone writes and prints. The first process that fails
says why, and ends; all others notice, be it in the middle of an exchange, and end without a word.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from pipeline.device import choose_device
from pools.errors import InputError, WinnowError, WorkFailed

T = TypeVar("T")
PATIENCE = timedelta(hours=1)  # for one exchange: a process may wait for slow storage for long
_FAILED = "failed"  # in the store that the processes share: the rank that failed first


@dataclass(frozen=True)
class World:
    """This process among those that train together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # its number on its machine, and of its GPU

    @property
    def first(self) -> bool:
        return self.rank == 0

    def part(self, batch: int) -> int:
        """How many samples of a batch are this process's: the first ranks take one more if it does not divide."""
        whole, rest = divmod(batch, self.size)
        return whole + (self.rank < rest)

    def gather(self, value: T) -> list[T]:
        """The values of all ranks (plain ones), in every rank."""
        if self.size == 1:
            return [value]
        found: list[T | None] = [None] * self.size
        dist.all_gather_object(found, value)
        return found  # type: ignore[return-value]

    def told(self, value: T) -> T:
        """Rank 0's value, in every rank."""
        if self.size == 1:
            return value
        held = [value]
        dist.broadcast_object_list(held, src=0)
        return held[0]

    def sums(self, *values: float) -> list[float]:
        """The sum of each value over the ranks."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return list(map(float, total.tolist()))


def rank() -> int:
    """This process's rank by the environment, before it has joined the others."""
    return _number("RANK") if os.environ.get("WORLD_SIZE", "") not in ("", "1") else 0


def hush() -> None:
    """All ranks but the first say nothing until they join: what can go wrong before is the same for all (their arguments)."""
    if rank():
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123


@contextlib.contextmanager
def joined(device: str, *, cuda: bool) -> Iterator[World]:
    """Joins the processes that the environment names; alone without any. On leaving, one error is raised in one of them.

    Exchanges go through NCCL for what lies on a GPU, else through gloo. Raises InputError if a machine has fewer GPUs than
    processes, and SystemExit in those that end because another failed.
    """
    size = os.environ.get("WORLD_SIZE", "")
    if size in ("", "1"):
        yield World()
        return
    world = World(_number("RANK"), _number("WORLD_SIZE"), _number("LOCAL_RANK"))
    on_gpu = choose_device(device, cuda=cuda) != "cpu"
    if on_gpu:
        there, wanted = torch.cuda.device_count(), _number("LOCAL_WORLD_SIZE")
        if wanted > there:
            raise InputError(f"{wanted} processes on a machine with {there} GPUs", where="torchrun --nproc_per_node")
        torch.cuda.set_device(world.local_rank)
    store, _, _ = next(rendezvous("env://", timeout=PATIENCE))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=PrefixStore("group", store),
        rank=world.rank,
        world_size=world.size,
        timeout=PATIENCE,
    )
    if not world.first and sys.__stderr__ is not None:
        sys.stderr = sys.__stderr__
    try:
        yield world
    except BaseException as e:
        if not _speaks_for_all(store, world, e):
            raise SystemExit(_status(e)) from None
        if not isinstance(e, WinnowError) and _is_loss(e):
            raise WorkFailed("another of the processes has ended without a word\n  → was it killed, or out of memory?") from e
        raise
    dist.destroy_process_group()


def _speaks_for_all(store: Any, world: World, error: BaseException) -> bool:
    """Whether this process is the first to fail; the store remembers, as long as whoever holds it lives."""
    try:
        first = store.compare_set(_FAILED, "", str(world.rank))
    except RuntimeError:
        return False  # it went with rank 0, which has said why
    return bool(first.decode() == str(world.rank))


def _is_loss(error: BaseException) -> bool:
    """Whether an exchange broke off because another process has gone; gloo has no class of its own for that."""
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(w in said for w in ("connection", "gloo", "nccl", "timed out", "peer"))


def _status(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return 130
    return error.exit_code if isinstance(error, WinnowError) else 1


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    if not value.isdecimal():
        raise InputError(
            f"{name} is {value!r}, where WORLD_SIZE says that there are several processes",
            where="the environment",
            expected="a number",
            fix="start them with torchrun --nproc_per_node N -m baselines.train …",
        )
    return int(value)
