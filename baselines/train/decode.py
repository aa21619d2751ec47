"""From bytes to tensors, in this process or in others, in the order of the samples and with the same result.

What is to be decoded is settled by the main process, in its final order, and sent to the workers in chunks of a fixed size.
So neither what is seen nor how it is augmented depends on the number of workers, and there is no worker that could be left
without a shard.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from baselines.train.pixels import Crop, Normalise, Steps, as_bytes
from baselines.train.pixels import rgb as rgb
from baselines.train.tokens import tokens_of

T = TypeVar("T")
CHUNK = 32  # samples sent to a worker at a time


@dataclass(frozen=True)
class Raw:
    """One sample as it was read."""

    uid: str
    image: bytes
    target: Any  # what belongs to the image: its caption, its class
    failed: str = ""  # why the sample cannot be used; empty if it can
    detail: str = ""
    seed: int = 0  # of the augmentation
    first: bool = True  # the sample's first time in this training
    round: int = 0  # how often the data were gone through before
    slot: int = 0  # its number in the order of the training


@dataclass(frozen=True)
class Chunk:
    """Decoded samples: `images` [n, 3, H, W] and `targets` [n, …] are those of the n items that have not failed."""

    items: tuple[Raw, ...]  # without their bytes
    images: Tensor
    targets: Tensor


class Decoder(Dataset[Chunk]):
    """Turns raw samples into a chunk: `transform` takes an RGB picture, `encode` the targets of the good samples.

    With `uint8` images stay bytes where the transform allows it, [n, 3, H, W] with the channels of a pixel side by side, and
    `normalise` makes of them, on whatever device, the floats that the transform gives; of floats it makes nothing else.
    """

    def __init__(self, transform: Callable[[Any], Any], encode: Callable[[list[Any]], Tensor], *, uint8: bool = False) -> None:
        self.encode = tokens_of(encode)
        self.pixels: Crop | Steps = Steps((transform,))
        self.normalise: Normalise | Callable[[Tensor], Tensor] = _same
        if uint8 and (parts := as_bytes(transform)) is not None:
            self.pixels, self.normalise = parts

    @property
    def by_itself(self) -> bool:
        """Whether it leaves PyTorch's global generator alone, so that a thread may decode beside the training."""
        return isinstance(self.pixels, Crop)

    def __getitems__(self, raws: list[Raw]) -> Chunk:
        items, pixels = [], []
        # The generator is the training's as well.
        with contextlib.nullcontext() if self.by_itself else torch.random.fork_rng(devices=[]):
            for raw in raws:
                failed, detail = raw.failed, raw.detail
                if not failed:
                    try:
                        pixels.append(self.pixels(raw.image, raw.seed))
                    except ValueError as e:
                        failed, detail = "undecodable", str(e)
                items.append(Raw(raw.uid, b"", raw.target, failed, detail, raw.seed, raw.first, raw.round, raw.slot))
        good = [i.target for i in items if not i.failed]
        return Chunk(tuple(items), _stack(pixels), self.encode(good) if good else torch.empty(0))


def _stack(pixels: list[Any]) -> Tensor:
    if not pixels:
        return torch.empty(0)
    if isinstance(pixels[0], Tensor):
        return torch.stack(pixels)
    return torch.from_numpy(np.stack([np.asarray(p) for p in pixels])).permute(0, 3, 1, 2)


class _Chunks(Iterable[list[T]]):
    def __init__(self, items: Iterable[T]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[list[T]]:
        items = iter(self.items)
        while chunk := list(islice(items, CHUNK)):
            yield chunk


def decoded(items: Iterable[T], decoder: Dataset[Chunk], workers: int, *, ahead: int = 0) -> Iterator[Chunk]:
    """Chunks in the order of the samples. With workers, `ahead` samples or more are decoded before they are asked for."""
    # Forked workers would inherit threads and a CUDA context; a server that has imported torch starts them quickly.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["open_clip", __name__])
    loader = DataLoader(
        decoder,
        # A "batch of indices" is here a list of samples: the loader sends it to a worker and keeps the order.
        batch_sampler=_Chunks(items),
        num_workers=workers,
        worker_init_fn=_deaf,
        collate_fn=_same,
        generator=torch.Generator(),
        multiprocessing_context=context if workers else None,
        prefetch_factor=max(2, -(-ahead // (CHUNK * workers))) if workers else None,
    )
    yield from loader


def _deaf(_: int) -> None:
    """Ctrl-C reaches all processes of a terminal: the first one finishes its step, for which it needs the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _same(value: Any) -> Any:
    return value
