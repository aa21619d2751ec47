"""This process's batches on its device. On a GPU the next batch is fetched and copied while the one before is computed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from baselines.train.feed import Feed
from baselines.train.step import Placed


@dataclass(frozen=True)
class Taken:
    """A batch, and where the feed stood after it."""

    batch: Placed
    feed: Any  # the feed's state
    seconds: float  # that fetching it took


class Batches:
    """The batches of the steps in their order, `size(step)` samples each."""

    def __init__(self, feed: Feed, size: Callable[[int], int], device: str) -> None:
        self.feed, self.size, self.device = feed, size, device
        self._ahead: Taken | None = None
        self._copies: Any = torch.cuda.Stream() if device == "cuda" else None  # type: ignore[no-untyped-call]

    def get(self, step: int) -> Taken:
        """The batch of the step, ready to be computed on."""
        taken, self._ahead = self._ahead or self._take(step), None
        if self._copies is not None:
            torch.cuda.current_stream().wait_stream(self._copies)
            for tensor in (taken.batch.images, taken.batch.tokens):
                tensor.record_stream(torch.cuda.current_stream())
        return taken

    def fetch_ahead(self, step: int) -> None:
        """Fetches the batch of the step, if it helps. To be called while the device is at work."""
        if self._copies is not None:
            self._ahead = self._take(step)

    def _take(self, step: int) -> Taken:
        start = time.perf_counter()
        batch = self.feed.take(self.size(step))
        images, tokens = self._placed(batch.images), self._placed(batch.tokens)
        return Taken(Placed(images, tokens, batch.uids), self.feed.state(), time.perf_counter() - start)

    def _placed(self, tensor: Tensor) -> Tensor:
        if self._copies is None:
            return tensor
        with torch.cuda.stream(self._copies):
            return tensor.to(self.device, non_blocking=True)  # beside the computation, since the feed pins its batches
