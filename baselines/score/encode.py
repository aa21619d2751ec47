"""The model under test as a function of images and of texts, in batches."""

from __future__ import annotations

import hashlib
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.train.decode import Chunk, Decoder, Raw, decoded
from baselines.train.model import Loaded
from pools.errors import WorkFailed

Unreadable = Literal["error", "wrong", "exclude"]  # what an image counts for that cannot be read


class FeatureCache:
    """Features by the SHA-256 of the image they are of; those used longest ago give way once `limit` bytes are held."""

    def __init__(self, limit: int = 100 << 20) -> None:
        self.limit, self.held = limit, 0
        self._features: OrderedDict[str, Tensor] = OrderedDict()

    def get(self, key: str) -> Tensor | None:
        if (found := self._features.get(key)) is not None:
            self._features.move_to_end(key)
        return found

    def put(self, key: str, feature: Tensor) -> None:
        if key in self._features:
            return
        self._features[key] = feature.clone()  # a row alone would keep its whole batch alive
        self.held += _cost(feature)
        while self.held > self.limit:
            self.held -= _cost(self._features.popitem(last=False)[1])


def _cost(feature: Tensor) -> int:
    """Bytes of an entry: the numbers, and what the objects around them take."""
    return 4 * feature.numel() + 1024


@dataclass(frozen=True)
class Encoder:
    """A model on its device, in evaluation mode. Features are L2-normalised float32 in main memory."""

    loaded: Loaded
    device: str = "cpu"
    batch_size: int = 256
    workers: int = 0
    unreadable: Unreadable = "error"
    cache: FeatureCache = field(default_factory=FeatureCache)

    def texts(self, texts: Sequence[str]) -> Tensor:
        """[n, d] for n texts."""
        return torch.cat([self._texts(texts[at : at + self.batch_size]) for at in range(0, len(texts), self.batch_size)])

    def _texts(self, texts: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            tokens = self.loaded.tokenizer(list(texts)).to(self.device)
            return F.normalize(self.loaded.model.encode_text(tokens).float(), dim=-1).cpu()

    def images(self, raws: Iterable[Raw], task: str) -> Iterator[tuple[list[Raw], Tensor]]:
        """Batches in order: the items, without their bytes, and [m, d] for the m of them that could be read.

        An image whose very bytes were encoded before (another task shows the same pictures) is not encoded again. Raises
        WorkFailed naming the task and the image for one that cannot be read, if that is an error, or if none can.
        """
        pending: deque[tuple[Raw, str, Tensor | None]] = deque()
        chunks = decoded(self._unknown(raws, pending), Decoder(self.loaded.transform, torch.tensor), self.workers)
        total = read = 0
        # What stands after the last image that had to be encoded is left for an empty batch.
        for items, pixels in itertools.chain(_batches(chunks, self.batch_size), [([], torch.empty(0))]):
            merged, features = self._merge(items, self._pixels(pixels), pending, task)
            total, read = total + len(merged), read + len(features)
            yield merged, features
        if not read:
            raise WorkFailed(f"{task}: none of {total} images can be read")

    def _unknown(self, raws: Iterable[Raw], pending: deque[tuple[Raw, str, Tensor | None]]) -> Iterator[Raw]:
        """The images that must be encoded; all of them are noted in `pending`, in order."""
        for raw in raws:
            key = hashlib.sha256(raw.image).hexdigest()
            feature = self.cache.get(key)
            pending.append((replace(raw, image=b""), key, feature))
            if feature is None:
                yield raw

    def _pixels(self, pixels: Tensor) -> Tensor:
        if not len(pixels):
            return torch.empty(0)
        with torch.inference_mode():
            return F.normalize(self.loaded.model.encode_image(pixels.to(self.device)).float(), dim=-1).cpu()

    def _merge(
        self, encoded: list[Raw], features: Tensor, pending: deque[tuple[Raw, str, Tensor | None]], task: str
    ) -> tuple[list[Raw], Tensor]:
        """Puts what was encoded between what was known, up to the last one encoded; the rest waits for the next batch."""
        upcoming, rows = iter(encoded), iter(features)
        left = len(encoded)
        items: list[Raw] = []
        vectors: list[Tensor] = []
        while pending and (left or not encoded):
            item, key, feature = pending.popleft()
            if feature is None:
                item, left = next(upcoming), left - 1
                if not item.failed:
                    feature = next(rows)
                    self.cache.put(key, feature)
            if feature is not None:
                vectors.append(feature)
            elif self.unreadable == "error":
                raise WorkFailed(
                    f"{task}: {item.uid} cannot be read: {item.detail}\n"
                    "  → fetch the data again; or count it with --unreadable wrong, or leave it out with --unreadable exclude"
                )
            items.append(item)
        return items, torch.stack(vectors) if vectors else torch.empty(0)


def _batches(chunks: Iterable[Chunk], size: int) -> Iterator[tuple[list[Raw], Tensor]]:
    """Chunks put together until there are `size` images or more."""
    held: list[Chunk] = []
    for chunk in chunks:
        held.append(chunk)
        if sum(len(c.images) for c in held) >= size:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(held: list[Chunk]) -> tuple[list[Raw], Tensor]:
    good = [c.images for c in held if len(c.images)]
    return [i for c in held for i in c.items], torch.cat(good) if good else torch.empty(0)
