"""The model under test as a function of images and of texts, in batches."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score import prompts
from baselines.score.cache import DiskCache, Known
from baselines.score.evals.tars import Pictures
from baselines.train.decode import Chunk, Decoder, Raw, decoded, rgb
from baselines.train.model import Loaded
from pipeline.annotate.clip.texts import TextTower
from pipeline.engine import default_workers
from pools.errors import WorkFailed

Unreadable = Literal["error", "wrong", "exclude"]  # what an image counts for that cannot be read
Kind = Literal["image", "class"]
_PREFIX: dict[Kind, str] = {"image": "", "class": "class "}
_CHUNK = 8  # images that a thread decodes at a time
_Pending = tuple[Raw, str, Tensor | None]  # an image without its bytes, its key, its feature if that is known


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
    """A model on its device, in evaluation mode. Features are L2-normalised float32 in main memory.

    What was encoded before is not encoded again: in this run as far as `cache` has room, in others by `disk`.
    """

    loaded: Loaded
    device: str = "cpu"
    batch_size: int = 256
    workers: int = 0  # processes that decode; without any, threads do
    unreadable: Unreadable = "error"
    cache: FeatureCache = field(default_factory=FeatureCache)
    disk: DiskCache | None = None

    def texts(self, texts: Sequence[str]) -> Tensor:
        """[n, d] for n texts."""
        return torch.cat([self._texts(texts[at : at + self.batch_size]) for at in range(0, len(texts), self.batch_size)])

    def _texts(self, texts: Sequence[str]) -> Tensor:
        with torch.inference_mode():
            return self._tower.encode(self.loaded.tokenizer(list(texts)).numpy(), self.device).cpu()

    @functools.cached_property
    def _tower(self) -> TextTower:
        return TextTower(self.loaded.model)

    def class_vectors(self, classnames: Sequence[str], templates: Sequence[str]) -> Tensor:
        """[classes, d] as `prompts.class_vectors` makes them; a class with the same prompts as an earlier one is known."""
        keys = [hashlib.sha256("\0".join(prompts.prompts(name, templates)).encode()).hexdigest() for name in classnames]
        found = {key: vector for key in keys if (vector := self._known("class", key)) is not None}
        missing = {key: name for key, name in zip(keys, classnames, strict=True) if key not in found}
        if missing:
            made = prompts.class_vectors(self.texts, list(missing.values()), templates, self.batch_size)
            for key, vector in zip(missing, made, strict=True):
                found[key] = vector
                self._keep("class", key, vector)
            self._save()
        return torch.stack([found[key] for key in keys])

    def features(self, raws: Iterable[Raw], task: str, digest: str = "") -> tuple[list[Raw], Tensor]:
        """All of `images` at once: the items, and [m, d] for the m of them that could be read."""
        items: list[Raw] = []
        vectors: list[Tensor] = []
        for few, found in self.images(raws, task, digest):
            items += few
            vectors += [found] if len(found) else []
        return items, torch.cat(vectors)

    def images(self, raws: Iterable[Raw], task: str, digest: str = "") -> Iterator[tuple[list[Raw], Tensor]]:
        """Batches in order: the items, without their bytes, and [m, d] for the m of them that could be read.

        An image whose very bytes were encoded before (another task shows the same pictures) is not encoded again. Where
        `digest`, the identity of all the images, was gone through before, not even their bytes are read; `Pictures` has it.
        Raises WorkFailed naming the task and the image for one that cannot be read, if that is an error, or if none can.
        """
        if isinstance(raws, Pictures):
            digest = digest or raws.digest
        if self.disk is not None and digest and (known := self.disk.known(digest)) is not None:
            yield from self._again(raws, known, task)
            return
        pending: deque[_Pending] = deque()
        chunks = _decoded(self._unknown(raws, pending), self.loaded.transform, self.workers, self.batch_size)
        keys: list[str] = []
        failed: dict[int, tuple[str, str]] = {}
        width = 0
        # What stands after the last image that had to be encoded is left for an empty batch.
        for items, pixels in itertools.chain(_batches(chunks, self.batch_size), [([], torch.empty(0))]):
            merged, features = self._merge(items, self._pixels(pixels), pending, task)
            for key, item in merged:
                if item.failed:
                    failed[len(keys) + len(failed)] = (item.failed, item.detail)
                else:
                    keys.append(key)
            width = features.shape[1] if len(features) else width
            self._save()
            yield [item for _, item in merged], features
        if not keys:
            raise WorkFailed(f"{task}: none of {len(failed)} images can be read")
        if self.disk is not None and digest:
            self.disk.remember(digest, keys, failed, width)
            self._save()

    def _again(self, raws: Iterable[Raw], known: Known, task: str) -> Iterator[tuple[list[Raw], Tensor]]:
        """`images` from what is known of all of them."""
        bare = enumerate(raws.bare() if isinstance(raws, Pictures) else (replace(raw, image=b"") for raw in raws))
        row = 0
        while few := list(itertools.islice(bare, self.batch_size)):
            items = []
            for i, item in few:
                failed, detail = known.failed.get(i, ("", ""))
                if failed:
                    item = replace(item, failed=failed, detail=detail)
                    self._refuse(item, task)
                items.append(item)
            good = sum(not item.failed for item in items)
            yield items, known.features[row : row + good]
            row += good

    def _unknown(self, raws: Iterable[Raw], pending: deque[_Pending]) -> Iterator[Raw]:
        """The images that must be encoded; all of them are noted in `pending`, in order."""
        for raw in raws:
            key = hashlib.sha256(raw.image).hexdigest()
            feature = self._known("image", key)
            pending.append((replace(raw, image=b""), key, feature))
            if feature is None:
                yield raw

    def _known(self, kind: Kind, key: str) -> Tensor | None:
        found = self.cache.get(_PREFIX[kind] + key)
        return self.disk.get(kind, key) if found is None and self.disk is not None else found

    def _keep(self, kind: Kind, key: str, vector: Tensor) -> None:
        self.cache.put(_PREFIX[kind] + key, vector)
        if self.disk is not None:
            self.disk.put(kind, key, vector)

    def _save(self) -> None:
        if self.disk is not None:
            self.disk.save()

    def _pixels(self, pixels: Tensor) -> Tensor:
        if not len(pixels):
            return torch.empty(0)
        with torch.inference_mode():
            return F.normalize(self.loaded.model.encode_image(pixels.to(self.device)).float(), dim=-1).cpu()

    def _merge(
        self, encoded: list[Raw], features: Tensor, pending: deque[_Pending], task: str
    ) -> tuple[list[tuple[str, Raw]], Tensor]:
        """Puts what was encoded between what was known, up to the last one encoded; the rest waits for the next batch.

        Items come with their keys.
        """
        upcoming, rows = iter(encoded), iter(features)
        left = len(encoded)
        items: list[tuple[str, Raw]] = []
        vectors: list[Tensor] = []
        while pending and (left or not encoded):
            item, key, feature = pending.popleft()
            if feature is None:
                item, left = next(upcoming), left - 1
                if not item.failed:
                    feature = next(rows)
                    self._keep("image", key, feature)
            if feature is not None:
                vectors.append(feature)
            else:
                self._refuse(item, task)
            items.append((key, item))
        return items, torch.stack(vectors) if vectors else torch.empty(0)

    def _refuse(self, item: Raw, task: str) -> None:
        """Raises WorkFailed for an image that cannot be read, if that is an error."""
        if self.unreadable == "error":
            raise WorkFailed(
                f"{task}: {item.uid} cannot be read: {item.detail}\n"
                "  → fetch the data again; or count it with --unreadable wrong, or leave it out with --unreadable exclude"
            )


def _decoded(raws: Iterable[Raw], transform: Callable[[Any], Tensor], workers: int, ahead: int) -> Iterator[Chunk]:
    """Chunks in the order of the images; without workers, so many images are decoded ahead of whoever takes them."""
    if workers:
        yield from decoded(raws, Decoder(transform, torch.tensor), workers)
        return
    coming: deque[Future[Chunk]] = deque()
    threads, raws = min(8, default_workers()), iter(raws)
    most = max(threads, -(-ahead // _CHUNK))
    torch.get_num_threads()  # settles this thread's number, which is else taken from the first that asks: theirs of one
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            while True:
                while len(coming) < most and (few := list(itertools.islice(raws, _CHUNK))):
                    coming.append(pool.submit(_open, few, transform))
                if not coming:
                    return
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()


def _open(raws: list[Raw], transform: Callable[[Any], Tensor]) -> Chunk:
    """As `Decoder` does it, without its seeds: nothing is random here."""
    items, pixels = [], []
    for raw in raws:
        failed, detail = raw.failed, raw.detail
        if not failed:
            try:
                pixels.append(transform(rgb(raw.image)))
            except ValueError as e:
                failed, detail = "undecodable", str(e)
        items.append(replace(raw, image=b"", failed=failed, detail=detail))
    return Chunk(tuple(items), torch.stack(pixels) if pixels else torch.empty(0), torch.empty(0))


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
