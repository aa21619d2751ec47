"""From bytes to tensors, in this process or in others, in the order of the samples and with the same result.

The samples are read by the main process, as raw bytes and in their final order, and sent to the workers in chunks of a
fixed size. So neither what is seen nor how it is augmented depends on the number of workers, and there is no worker that
could be left without a shard.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipeline.download.images import prepare as images

if TYPE_CHECKING:
    from PIL.Image import Image

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


@dataclass(frozen=True)
class Chunk:
    """Decoded samples: `images` [n, 3, H, W] and `targets` [n, …] are those of the n items that have not failed."""

    items: tuple[Raw, ...]  # without their bytes
    images: Tensor
    targets: Tensor


def rgb(data: bytes) -> Image:
    """The picture in RGB. Raises ValueError with the reason if the bytes are none, are cut, or would fill the memory."""
    found = images.open_image(data, images.MAX_PIXELS)
    if not isinstance(found, images.Reject):
        found = images.rgb(found)
    if isinstance(found, images.Reject):
        raise ValueError(f"{found.reason}: {found.message}")
    return found


class Decoder(Dataset[Chunk]):
    """Turns raw samples into a chunk: `transform` takes an RGB picture, `encode` the targets of the good samples."""

    def __init__(self, transform: Callable[[Any], Tensor], encode: Callable[[list[Any]], Tensor]) -> None:
        self.transform, self.encode = transform, encode

    def __getitems__(self, raws: list[Raw]) -> Chunk:
        items, pixels = [], []
        # The transforms draw from torch's global generator, which is the training's as well. It alone is seeded:
        # torch.manual_seed also notes a stack trace for every kind of device that is not there, at 0.3 ms a sample.
        with torch.random.fork_rng(devices=[]):
            for raw in raws:
                failed, detail = raw.failed, raw.detail
                if not failed:
                    try:
                        torch.default_generator.manual_seed(raw.seed)
                        pixels.append(self.transform(rgb(raw.image)))
                    except ValueError as e:
                        failed, detail = "undecodable", str(e)
                items.append(replace(raw, image=b"", failed=failed, detail=detail))
        good = [i.target for i in items if not i.failed]
        return Chunk(
            tuple(items), torch.stack(pixels) if pixels else torch.empty(0), self.encode(good) if good else torch.empty(0)
        )


class _Chunks(Iterable[list[Raw]]):
    def __init__(self, raws: Iterable[Raw]) -> None:
        self.raws = raws

    def __iter__(self) -> Iterator[list[Raw]]:
        raws = iter(self.raws)
        while chunk := list(islice(raws, CHUNK)):
            yield chunk


def decoded(raws: Iterable[Raw], decoder: Decoder, workers: int) -> Iterator[Chunk]:
    """Chunks in the order of the samples."""
    # Forked workers would inherit threads and a CUDA context; a server that has imported torch starts them quickly.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["open_clip", __name__])
    loader = DataLoader(
        decoder,
        # A "batch of indices" is here a batch of raw samples: the loader sends it to a worker and keeps the order.
        batch_sampler=_Chunks(raws),
        num_workers=workers,
        collate_fn=_same,
        generator=torch.Generator(),
        multiprocessing_context=context if workers else None,
    )
    yield from loader


def _same(chunk: Any) -> Any:
    return chunk
