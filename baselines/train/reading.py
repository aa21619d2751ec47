"""Samples in the order of the training, and their bytes out of the shards: each by itself, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch.utils.data import Dataset

from baselines.train.captions import Captions, caption_of
from baselines.train.decode import Chunk, Decoder, Raw
from baselines.train.order import Group, Order, Shard, Slot
from baselines.train.places import Files, Place, Places, scan
from pools import shards, store

if TYPE_CHECKING:
    from baselines.train.data import Survey

HELD = 1 << 19  # samples whose places are remembered from one group to the next


class Item(NamedTuple):
    """One sample to read."""

    path: str
    key: str
    parts: tuple[Place, ...]  # image, txt, json
    slot: int = 0
    round: int = 0
    first: bool = True
    failed: str = ""
    detail: str = ""


def item_of(sample: shards.Sample) -> Item:
    """A sample that is read for a look at it."""
    places = (sample.members.get(e, (-1, 0)) if e else (-1, 0) for e in (sample.image_extension, "txt", "json"))
    return Item(sample.shard, sample.key, tuple(places))


class Plan:
    """What one rank reads, in order, without end; `problems` grows as shards turn out to be others than was said."""

    def __init__(self, found: Survey, order: Order, start: int, step: int) -> None:
        self.shards, self.order, self.start, self.step = found.shards, order, start, step
        self.problems = dict(found.problems)
        self._held: dict[int, Places] = {}

    def __iter__(self) -> Iterator[Item]:
        groups = self.order.groups(self.start, self.step)
        group, slots = next(groups)
        while True:
            following = next(groups)
            self._forget(group, following[0])
            # Bit by bit, so that there is never a wait for the headers of many shards.
            later = [i for i in np.unique(following[0].shards).tolist() if i not in self._held]
            every = len(slots) // (len(later) + 1) + 1
            for k, slot in enumerate(slots):
                if later and k % every == 0:
                    self._at(later.pop())
                yield self._item(slot)
            group, slots = following

    def _at(self, shard: int) -> Places:
        places = self._held.get(shard)
        if places is None:
            places = self._held[shard] = self._places(self.shards[shard])
        return places

    def _item(self, slot: Slot) -> Item:
        shard = self.shards[slot.shard]
        places = self._at(slot.shard)
        at = places.row(slot.sample)
        if at < 0:
            name, detail = f"sample {slot.sample}", f"{shard.path} has no sample {slot.sample}"
            return Item(shard.path, name, (), slot.number, slot.round, slot.first, "missing_sample", detail)
        a, b, c, d, e, f = places.parts[at].tolist()
        return Item(shard.path, places.keys[at], ((a, b), (c, d), (e, f)), slot.number, slot.round, slot.first)

    def _places(self, shard: Shard) -> Places:
        places = scan(shard.path)
        if places.damage:
            self.problems.setdefault(shard.path, places.damage)
        if len(places) != shard.count:
            what = f"{shard.path}: holds {len(places)} samples, and not {shard.count} as its _stats.json says"
            self.problems.setdefault(shard.path, what)
        return places if shard.picks is None else places.only(shard.picks)

    def _forget(self, *groups: Group) -> None:
        """Lets go what these groups do not need, if there is much."""
        if sum(map(len, self._held.values())) > HELD:
            here = {i for group in groups for i in np.unique(group.shards).tolist()}
            self._held = {i: p for i, p in self._held.items() if i in here}


class Reader:
    """Reads samples from their shards, some of which stay open."""

    def __init__(self, captions: Captions = "alt", *, need_uid: bool = False, seed: int = 0) -> None:
        self.captions, self.need_uid, self.seed = captions, need_uid, seed
        self._files = Files()

    def read(self, item: Item) -> Raw:
        """One sample. One that lacks a part is returned with the reason."""
        path, key, parts, slot, round_, first, failed, detail = item
        seed = (self.seed << 40) + slot
        if failed:
            return Raw(f"{store.name(path)}/{key}", b"", "", failed, detail, seed, first, round_, slot)
        image, txt, body = found = self._files.read(path, parts)
        fields = (shards.fields_of(body) if body else None) or {}
        uid = shards.uid_of(key, fields) or ""
        name = uid or f"{store.name(path)}/{key}"
        if any(b is not None and len(b) < p[1] for b, p in zip(found, parts, strict=True)):
            return Raw(name, b"", "", "cut_shard", f"{path}: cut within {key}", seed, first, round_, slot)
        caption = caption_of(self.captions, txt, fields, seed)
        failed = "no_image" if image is None else "" if caption else "no_caption"
        failed = failed or ("no_uid" if self.need_uid and not uid else "")
        return Raw(name, b"" if failed or image is None else image, caption, failed, "", seed, first, round_, slot)


class Samples(Dataset[Chunk]):
    """Items to a chunk, in whatever process: read, then decoded."""

    def __init__(self, decoder: Decoder, captions: Captions, *, need_uid: bool, seed: int) -> None:
        self.decoder, self.settings = decoder, (captions, need_uid, seed)
        self._reader: Reader | None = None  # files are opened where they are read

    def __getitems__(self, items: list[Item]) -> Chunk:
        if self._reader is None:
            captions, need_uid, seed = self.settings
            self._reader = Reader(captions, need_uid=need_uid, seed=seed)
        return self.decoder.__getitems__([self._reader.read(i) for i in items])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}
