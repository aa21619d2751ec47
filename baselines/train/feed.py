"""Batches of exact sizes, and the account of what became of every sample.

A batch may end one pass over the data and begin the next; samples that cannot be used are counted and replaced by those
that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from baselines.train.data import Source, Survey
from baselines.train.decode import Chunk, Decoder, Raw, decoded
from pools import uids
from pools.errors import WorkFailed

SMALL = 500  # below so many samples a share of failures says little before the pass is over


@dataclass(frozen=True)
class Batch:
    images: Tensor  # [n, 3, H, W]
    tokens: Tensor  # [n, context length]
    uids: list[str]


@dataclass
class Feed:
    """Batches of exact sizes out of chunks, and the account of what became of every sample."""

    chunks: Iterator[Chunk]
    max_failed: float
    kept: int = 0
    unique: int = 0
    rounds: int = 0  # complete passes
    failed: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)  # uid or shard → why it failed
    problems: dict[str, str] = field(default_factory=dict)  # shard → its damage
    _images: list[Tensor] = field(default_factory=list)
    _targets: list[Tensor] = field(default_factory=list)
    _good: list[Raw] = field(default_factory=list)

    def take(self, n: int) -> Batch:
        """The next n samples. Raises WorkFailed when more samples than allowed cannot be used."""
        while len(self._good) < n:
            self._add(next(self.chunks))
        images, targets = torch.cat(self._images), torch.cat(self._targets)
        items, self._good = self._good[:n], self._good[n:]
        self._images, self._targets = ([images[n:]], [targets[n:]]) if self._good else ([], [])
        self.kept += n
        self.unique += sum(i.first for i in items)
        return Batch(images[:n], targets[:n], [i.uid for i in items])

    def _add(self, chunk: Chunk) -> None:
        for item in chunk.items:
            if item.round > self.rounds:
                self.rounds = item.round
                self._check(final=True)
                if not self.kept and not self._good:
                    raise WorkFailed(f"no sample can be used: {self._failures()}")
            if item.failed == "damaged_shard":
                self.problems.setdefault(item.uid, item.detail)
            elif item.failed:
                self.failed[item.failed] += 1
                if len(self.reasons) < 20:
                    self.reasons.setdefault(item.uid, item.detail or item.failed)
                self._check(final=False)
            else:
                self._good.append(item)
        if len(chunk.images):
            self._images.append(chunk.images)
            self._targets.append(chunk.targets)

    def _check(self, *, final: bool) -> None:
        failed = self.failed.total()
        tried = failed + self.kept + len(self._good)
        if failed > self.max_failed * (tried if final else max(tried, SMALL)):
            raise WorkFailed(
                f"{failed} of {tried} samples cannot be used, more than the {self.max_failed:.0%} allowed: {self._failures()}\n"
                "  → clean the data, or allow more with --max-failed"
            )

    def _failures(self) -> str:
        counts = ", ".join(f"{why} {n}" for why, n in sorted(self.failed.items()))
        return counts + "".join(f"\n  {uid}: {why}" for uid, why in list(self.reasons.items())[:5])


def open_feed(found: Survey, listed: uids.Uids | None, *, seed: int, decoder: Decoder, workers: int, max_failed: float) -> Feed:
    """The feed of a training."""
    return Feed(decoded(Source(found.shards, seed, listed), decoder, workers), max_failed)
