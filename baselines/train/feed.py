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
    rounds: int = 0  # passes that are over
    failed: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)  # uid or shard → why it failed
    problems: dict[str, str] = field(default_factory=dict)  # shard → its damage
    _rows: Iterator[tuple[Raw, Tensor | None, Tensor | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._rows = _rows(self.chunks)

    def take(self, n: int) -> Batch:
        """The next n samples. Raises WorkFailed when more samples than allowed cannot be used."""
        items: list[Raw] = []
        images: list[Tensor] = []
        targets: list[Tensor] = []
        while len(items) < n:
            item, image, target = next(self._rows)
            if item.round > self.rounds:
                self.rounds = item.round
                self._check(self.kept + len(items), final=True)
            if image is None or target is None:
                self._fail(item, self.kept + len(items))
            else:
                items.append(item)
                images.append(image)
                targets.append(target)
        self.kept += n
        self.unique += sum(i.first for i in items)
        return Batch(torch.stack(images), torch.stack(targets), [i.uid for i in items])

    def _fail(self, item: Raw, good: int) -> None:
        if item.failed == "damaged_shard":
            self.problems.setdefault(item.uid, item.detail)
            return
        self.failed[item.failed] += 1
        if len(self.reasons) < 20:
            self.reasons.setdefault(item.uid, item.detail or item.failed)
        self._check(good, final=False)

    def _check(self, good: int, *, final: bool) -> None:
        failed = self.failed.total()
        tried = failed + good
        if final and not good:
            raise WorkFailed(f"no sample can be used: {self._failures()}")
        if failed > self.max_failed * (tried if final else max(tried, SMALL)):
            raise WorkFailed(
                f"{failed} of {tried} samples cannot be used, more than the {self.max_failed:.0%} allowed: {self._failures()}\n"
                "  → clean the data, or allow more with --max-failed"
            )

    def _failures(self) -> str:
        counts = ", ".join(f"{why} {n}" for why, n in sorted(self.failed.items()))
        return counts + "".join(f"\n  {uid}: {why}" for uid, why in list(self.reasons.items())[:5])


def _rows(chunks: Iterator[Chunk]) -> Iterator[tuple[Raw, Tensor | None, Tensor | None]]:
    """Each sample with its image and target, or with None where it has failed."""
    for chunk in chunks:
        good = zip(chunk.images, chunk.targets, strict=True)
        for item in chunk.items:
            image, target = (None, None) if item.failed else next(good)
            yield item, image, target


def open_feed(found: Survey, listed: uids.Uids | None, *, seed: int, decoder: Decoder, workers: int, max_failed: float) -> Feed:
    """The feed of a training."""
    return Feed(decoded(Source(found.shards, seed, listed), decoder, workers), max_failed)
