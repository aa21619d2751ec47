"""The training samples: which shards, which of their samples, in which order.

Shards are read with `pools.shards`, the toolkit's one reader, and not with webdataset's pipeline: that one spreads shards
over its workers, so the number of samples and their order depend on the number of workers; it waits for ever where a
worker gets no sample, drops broken samples without counting them, and takes a sample whose members stand apart for two.

Each pass takes every sample once (without replacement), in an order drawn from the seed and the number of the pass: the
shards are shuffled, then the samples within a window.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from baselines.train.decode import Raw
from pools import shards, store, uids
from pools.errors import InputError, WorkFailed
from pools.wanted import Taken, Wanted

WINDOW_SAMPLES = 4096  # of the shuffle
WINDOW_BYTES = 256 << 20
LOOK_AT = 100  # samples of a shard that are looked at before the training starts


def list_shards(data: str | Sequence[str]) -> list[str]:
    """Tars of folders and patterns, in order, each once.

    `a/{0..2}.tar::b/{0..2}.tar` names six tars. Raises InputError where there is none.
    """
    from braceexpand import braceexpand

    found: list[str] = []
    for entry in [data] if isinstance(data, str) else data:
        if not entry.endswith(".tar"):
            found += shards.list_shards(entry)
            continue
        for part in entry.split("::"):
            for path in braceexpand(part):
                matches = store.find_glob(path)
                if not matches:
                    raise InputError("no such shard", where=path, expected="an existing .tar")
                found += matches
    if not found:
        raise InputError("no data", where="--data", expected="a folder of shards (.tar)")
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Survey:
    """What a look at the heads of the shards has shown."""

    shards: tuple[str, ...]  # those that hold samples
    empty: tuple[str, ...]


def survey(paths: Sequence[str], *, need_uid: bool) -> Survey:
    """Sorts out empty shards. Raises InputError unless some sample at the head of the first shards can be trained on."""
    empty, full = [], []
    seen: Counter[str] = Counter()
    usable = False
    for path in paths:
        if store.size(path) == 0:
            empty.append(path)
            continue
        try:
            heads = list(itertools.islice(shards.samples(path), 1 if usable else LOOK_AT))
        except WorkFailed:
            full.append(path)  # damaged: what comes before the damage is used, and the training reports the rest
            continue
        (full if heads else empty).append(path)
        seen.update(e for s in heads for e in s.members)
        if not usable and heads:
            with store.open_input(path) as f:
                usable = any(not r.failed and (r.uid or not need_uid) for r in (_raw(f, s, need_uid) for s in heads))
    if not full:
        raise InputError(f"all {len(paths)} shards are empty", where=paths[0], expected="samples to train on")
    if not usable and seen:
        raise InputError(
            f"no sample to train on; the shards hold {', '.join(f'.{e}' for e in sorted(seen))}",
            where=full[0],
            expected="an image (.jpg, .png, .webp), a caption (.txt, or `caption` or `text` in .json)"
            + (" and `uid` in .json" if need_uid else ""),
        )
    return Survey(tuple(full), tuple(empty))


def read_uids(path: str) -> uids.Uids:
    """A keep list that is not empty."""
    listed = uids.read_list(path)
    if len(listed) == 0:
        raise InputError(
            "the uid list is empty: nothing to train on",
            where=path,
            expected="one uid or more",
            fix="see in the selection's _manifest.json which stage of the recipe dropped the last row",
        )
    return listed


@dataclass
class Source:
    """Raw samples in the order of training, pass after pass without end."""

    paths: Sequence[str]
    seed: int
    listed: uids.Uids | None = None

    def __post_init__(self) -> None:
        self._list = None if self.listed is None else Wanted(self.listed)

    def __iter__(self) -> Iterator[Raw]:
        position = itertools.count()
        for number in itertools.count():
            rng = random.Random(f"winnow {self.seed} {number}")
            order = list(self.paths)
            rng.shuffle(order)
            usable = False
            for raw in shuffled(self._pass(order), rng):
                usable = usable or not raw.failed
                seed = (self.seed << 40) + next(position)
                yield replace(raw, seed=seed, first=raw.first and number == 0, round=number)
            if not usable:
                what = "no sample can be used" if self.listed is None else f"none of the {len(self.listed)} listed uids is here"
                raise InputError(what, where=self.paths[0], expected="samples to train on")

    def _pass(self, order: Sequence[str]) -> Iterator[Raw]:
        taken = Taken(0 if self.listed is None else len(self.listed))
        for path in order:
            index: list[shards.Sample] = []
            damage = ""
            try:
                for sample in shards.samples(path):
                    index.append(sample)
            except WorkFailed as e:
                damage = str(e)
            with store.open_input(path) as f:
                for sample, copies in self._wanted(f, index, taken):
                    try:
                        raw = _raw(f, sample, self.listed is not None)
                    except WorkFailed as e:
                        damage = damage or str(e)
                        break
                    for i in range(copies):
                        yield replace(raw, first=i == 0)
            if damage:
                yield Raw(path, b"", None, "damaged_shard", damage)

    def _wanted(self, f: Any, index: Sequence[shards.Sample], taken: Taken) -> Iterator[tuple[shards.Sample, int]]:
        """The samples of a shard that are to be read, and how often each is wanted."""
        if self._list is None:
            return ((s, 1) for s in index)
        return shards.listed(f, index, self._list, taken)


def shuffled(raws: Iterator[Raw], rng: random.Random) -> Iterator[Raw]:
    """The same samples in another order, drawn within a window that is bounded in samples and in bytes."""
    window: list[Raw] = []
    held = 0
    for raw in raws:
        window.append(raw)
        held += len(raw.image)
        while len(window) > WINDOW_SAMPLES or (held > WINDOW_BYTES and len(window) > 1):
            i = rng.randrange(len(window))
            window[i], window[-1] = window[-1], window[i]
            out = window.pop()
            held -= len(out.image)
            yield out
    rng.shuffle(window)
    yield from window


def _raw(f: Any, sample: shards.Sample, need_uid: bool) -> Raw:
    """Reads one sample. One that lacks a part is returned with the reason."""
    meta = shards.sidecar(f, sample)
    uid = shards.uid_of(sample.key, meta) or ""
    name = uid or f"{store.name(sample.shard)}/{sample.key}"
    caption = _caption(shards.read(f, sample, "txt") if "txt" in sample.members else None, meta)
    image = sample.image_extension
    if image is None:
        return Raw(name, b"", caption, "no_image")
    if not caption:
        return Raw(name, b"", caption, "no_caption")
    if need_uid and not uid:
        return Raw("", b"", caption, "no_uid")
    return Raw(name, shards.read(f, sample, image), caption)


def _caption(txt: bytes | None, meta: dict[str, Any]) -> str:
    if txt is not None:
        return txt.decode("utf-8", "replace").strip()
    found = meta.get("caption") or meta.get("text")
    return found.strip() if isinstance(found, str) else ""
