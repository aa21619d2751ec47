"""The training data: which shards there are, and which samples they hold.

Shards are read with `pools.shards`, the toolkit's one reader, and not with webdataset's pipeline: that one spreads shards
over its workers, so the number of samples and their order depend on the number of workers; it waits for ever where a
worker gets no sample, drops broken samples without counting them, and takes a sample whose members stand apart for two.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from baselines.train.captions import Captions
from baselines.train.order import Ints, Shard
from baselines.train.places import Held, held_by
from baselines.train.reading import Reader, item_of
from pipeline import engine
from pools import shards, store, uids
from pools.errors import InputError, WorkFailed
from pools.manifest import MANIFEST, Outcome
from pools.wanted import Taken, Wanted

MANY = 64  # shards from which on several processes count
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


def weigh_shards(data: str | Sequence[str], weights: Sequence[float] | None = None) -> dict[str, float]:
    """The tars of several sources, in order, each with its source's weight (1 where none are given).

    Each entry of `data` is a source; of a single entry its parts between `::` are, if there are as many weights. Raises
    InputError as `list_shards` does, and where weights and sources do not match or a shard is in two sources.
    """
    sources = [data] if isinstance(data, str) else list(data)
    if weights is None:
        return dict.fromkeys(list_shards(sources), 1.0)
    if len(sources) == 1 and len(weights) > 1:
        sources = sources[0].split("::")
    if len(weights) != len(sources):
        raise InputError(
            f"{len(weights)} weights for {len(sources)} sources",
            where="--weights",
            expected="one for each --data",
            fix="for example --data A --data B --weights 1,2",
        )
    if wrong := [w for w in weights if not 0 < w < math.inf]:
        raise InputError(f"a weight is {wrong[0]}", where="--weights", expected="numbers above 0")
    found: dict[str, float] = {}
    for source, weight in zip(sources, weights, strict=True):
        for path in list_shards(source):
            if path in found:
                raise InputError("this shard is in two sources", where=path, expected="sources without a common shard")
            found[path] = float(weight)
    return found


@dataclass(frozen=True)
class Survey:
    """What the shards hold."""

    shards: tuple[Shard, ...]  # those with samples to train on
    empty: tuple[str, ...]
    problems: dict[str, str] = field(default_factory=dict)  # shard → its damage

    @property
    def samples(self) -> int:
        """In a pass, copies that a list asks for counted, weights not."""
        return sum(s.entries for s in self.shards)


def survey(
    paths: Sequence[str] | Mapping[str, float],
    *,
    need_uid: bool = False,
    listed: uids.Uids | None = None,
    captions: Captions = "alt",
) -> Survey:
    """Counts the samples of all shards, given as paths or with weights, and finds those that a list names.

    A count is `successes` of the shard's `_stats.json`; where there is none, the shard's headers are read, and with a list
    the `.json` of every sample as well. Of samples that share a uid the first counts, as in resharding. Raises InputError
    unless some sample at the head of the first shards can be trained on, and where none of the list is here.
    """
    weights = paths if isinstance(paths, Mapping) else dict.fromkeys(paths, 1.0)
    look = _Look(captions, need_uid or listed is not None)
    wanted = None if listed is None else _Wanted(Wanted(listed), Taken(len(listed)))
    full, empty, problems = [], [], {}
    for path, held in _counted(list(weights), with_uids=wanted is not None):
        if held.count:
            look.at(path)
        if held.damage:
            problems[path] = held.damage
        shard = Shard(path, held.count, weights[path], wanted and wanted.picks(held))
        if shard.entries:
            full.append(shard)
        elif not held.count and not held.damage:
            empty.append(path)
    if len(empty) == len(weights):
        raise InputError(f"all {len(weights)} shards are empty", where=empty[0], expected="samples to train on")
    look.check()
    if not full:
        what = "no sample can be used" if listed is None else f"none of the {len(listed)} listed uids is here"
        raise InputError(what, where=next(iter(weights)), expected="samples to train on")
    return Survey(tuple(full), tuple(empty), problems)


def _counted(paths: list[str], *, with_uids: bool) -> Iterator[tuple[str, Held]]:
    """The shards in order. Where there are many, several processes read them."""
    count = functools.partial(held_by, with_uids=with_uids)
    if len(paths) < MANY:
        yield from ((path, count(path)) for path in paths)
        return
    # Spawned, since the one fork server that there can be is to have PyTorch at hand, for those who decode.
    with ProcessPoolExecutor(engine.default_workers(), multiprocessing.get_context("spawn")) as pool:
        yield from zip(paths, pool.map(count, paths, chunksize=8), strict=True)


class _Wanted(NamedTuple):
    listed: Wanted
    taken: Taken  # which of the list's places earlier shards had

    def picks(self, held: Held) -> Ints | None:
        """Numbers of the samples that the list names and that no shard before had, as often as it names them."""
        if held.uids is None or held.named is None:
            return None
        at, copies = self.listed.find(held.uids)
        there = np.flatnonzero(copies)
        there = there[self.taken.take(at[there])]
        return np.repeat(held.named[there], copies[there])


class _Look:
    """A look at the heads of shards, until some sample can be trained on."""

    def __init__(self, captions: Captions, need_uid: bool) -> None:
        self.captions, self.need_uid = captions, need_uid
        self.reader = Reader(captions, need_uid=need_uid)
        self.usable = False
        self.seen: Counter[str] = Counter()
        self.where = ""

    def at(self, path: str) -> None:
        if self.usable:
            return
        heads: list[shards.Sample] = []
        with contextlib.suppress(WorkFailed):  # what comes before the damage counts; the survey reports it
            heads.extend(itertools.islice(shards.samples(path), LOOK_AT))
        self.where = self.where or (path if heads else "")
        self.seen.update(e for s in heads for e in s.members)
        self.usable = any(not self.reader.read(item_of(s)).failed for s in heads)

    def check(self) -> None:
        if self.usable or not self.seen:
            return
        texts = {"alt": "a caption (.txt, or `caption` or `text` in .json)", "title": "`page_title` in .json"}
        raise InputError(
            f"no sample to train on; the shards hold {', '.join(f'.{e}' for e in sorted(self.seen))}",
            where=self.where,
            expected="an image (.jpg, .png, .webp), "
            + texts.get(self.captions, " or ".join(texts.values()))
            + (" and `uid` in .json" if self.need_uid else ""),
        )


def read_uids(path: str) -> uids.Uids:
    """A keep list that is not empty. Raises InputError that names the stage of the recipe which emptied it, if it is known."""
    listed = uids.read_list(path)
    if len(listed) == 0:
        why = _emptied(path)
        raise InputError(
            f"the uid list is empty: nothing to train on{why and f' ({why})'}",
            where=path,
            expected="one uid or more",
            fix="loosen that stage of the recipe, filter again"
            if why
            else "see in the selection's _manifest.json which stage of the recipe dropped the last row",
        )
    return listed


def _emptied(path: str) -> str:
    """Which stage dropped the last row, from the manifest of the selection that the list lies in; empty if there is none."""
    manifest = store.join(path.rpartition("/")[0] or ".", MANIFEST)
    if not store.exists(manifest):
        return ""
    told = store.read_json(manifest)
    counts = told.get("counts") if isinstance(told, dict) else None
    if not isinstance(counts, dict):
        return ""
    from pipeline.selection import emptied_by

    return emptied_by(Outcome(counts)) or ""
