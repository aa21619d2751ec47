"""Which sample stands where in a training: a function of the seed and of the shards' sample counts, and of nothing else.

The training is one endless row of slots. Rank r of `world` has the slots r, r + world, r + 2·world …: together the ranks
see what one process would, whatever their number, and none sees what another does. Any slot can be worked out without those
before it, so that a training is resumed at the very sample, and nothing is read but a rank's own samples.

`passes`: each pass takes every sample once, a sample of a source with weight w floor(w) times and, by the seed, once more in
so many passes as the fraction says. The shards are shuffled and dealt into groups of some 131,072 samples, within which all
samples are shuffled. `replacement`: shards are drawn with replacement, in proportion to the weights of their sources, as
DataComp does it; a group is so many of them that it has as many samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pools import hashes

Sampling = Literal["passes", "replacement"]
GROUP = 1 << 17  # samples that are shuffled together
_SMALL = 1 << 12  # samples that are drawn at a time at least
_PASS, _GROUP, _PART, _DRAW = range(4)  # what a permutation or a draw is for

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shard:
    """A shard that holds samples."""

    path: str
    count: int  # samples in it
    weight: float = 1.0  # of its source
    picks: Ints | None = None  # numbers of the samples that a list names, as often as it does; None = all, once

    @property
    def entries(self) -> int:
        return self.count if self.picks is None else len(self.picks)


class Slot(NamedTuple):
    """What stands in a slot."""

    number: int
    round: int  # passes (with replacement: groups) before this one
    shard: int
    sample: int  # in the shard
    first: bool  # whether the sample stands in no slot before


@dataclass(frozen=True)
class Group:
    """Slots that are shuffled together, [n] each."""

    start: int  # the first slot
    round: int
    shards: Ints
    samples: Ints
    first: NDArray[np.bool_]

    @property
    def stop(self) -> int:
        return self.start + len(self.shards)


class Order:
    """The slots of a training."""

    def __init__(self, shards: Sequence[Shard], seed: int, sampling: Sampling = "passes") -> None:
        self.shards, self.seed, self.sampling = shards, seed, sampling
        self._entries = np.array([s.entries for s in shards], np.int64)
        self._weights = np.array([s.weight for s in shards], np.float64)
        self._whole = np.floor(self._weights).astype(np.int64)
        self._fractions = (self._weights - self._whole) * self._entries
        self._shifts: NDArray[np.float64] = np.where(self._fractions > 0, _uniform(len(shards), _key(seed, _PART)), 0)
        self._at = -1  # the pass that was asked for last, and what is known of it
        self._this: tuple[Ints, Ints, Ints] = (self._entries, self._entries, self._entries)
        self._starts = [0]  # of the groups drawn with replacement, and of the one after them
        self._drawn: list[Ints] = []
        self._first_drawn = np.full(len(shards), np.iinfo(np.int64).max)

    @property
    def length(self) -> int:
        """Slots in a pass, on average if a weight is no whole number."""
        if self.sampling == "replacement":
            return int(self._entries.sum())
        return max(1, round(float((self._entries * self._weights).sum())))

    def groups(self, start: int, step: int) -> Iterator[tuple[Group, list[Slot]]]:
        """The slots at `start`, `start + step` … without end, those of one group at a time."""
        while True:
            group = self.group_at(start)
            numbers = range(start, group.stop, step)
            at = np.arange(start - group.start, len(group.shards), step)
            columns = (group.shards[at].tolist(), group.samples[at].tolist(), group.first[at].tolist())
            rows = zip(numbers, *columns, strict=True)
            yield group, [Slot(number, group.round, shard, sample, first) for number, shard, sample, first in rows]
            start += step * len(numbers)

    def slots(self, start: int = 0, step: int = 1) -> Iterator[Slot]:
        """The same, one at a time."""
        return (slot for _, slots in self.groups(start, step) for slot in slots)

    def group_at(self, slot: int) -> Group:
        """The group that a slot is in."""
        if self.sampling == "replacement":
            number = self._draw_up_to(slot)
            shards, start, key = self._drawn[number], self._starts[number], _key(self.seed, _GROUP, number)
        else:
            number = self._pass_of(slot)
            base = self._pass_start(number)
            order, starts, groups = self._pass(number)
            here = groups == groups[np.searchsorted(starts, slot - base, "right") - 1]
            shards, start = order[here], base + int(starts[here][0])
            key = _key(self.seed, _GROUP, start)
        parts = [self._of_shard(int(i), number) for i in shards]
        samples = np.concatenate([p[0] for p in parts])
        seen = np.concatenate([p[1] for p in parts])
        of = np.repeat(np.asarray(shards, np.int64), [len(p[0]) for p in parts])
        mixed = _permutation(len(samples), key)
        of, samples, seen = of[mixed], samples[mixed], seen[mixed]
        return Group(start, number, of, samples, _firsts(of, samples, seen))

    # Passes -------------------------------------------------------------------------------------------------------------

    def _pass_start(self, number: int) -> int:
        """The first slot of a pass."""
        return int((number * self._whole * self._entries).sum() + self._extras(number).sum())

    def _extras(self, number: int, shard: int | None = None) -> Ints:
        """(shards,) how many entries the fractions of the weights have brought before a pass; or of one shard, (1,)."""
        of = slice(None) if shard is None else slice(shard, shard + 1)
        return np.asarray(np.floor(number * self._fractions[of] + self._shifts[of]), np.int64)

    def _pass_of(self, slot: int) -> int:
        number = int(slot / float((self._entries * self._weights).sum()))
        while self._pass_start(number) > slot:
            number -= 1
        while self._pass_start(number + 1) <= slot:
            number += 1
        return number

    def _pass(self, number: int) -> tuple[Ints, Ints, Ints]:
        """Of a pass the shards in order, where in it each begins, and the group each is in."""
        if self._at == number:
            return self._this
        sizes = self._whole * self._entries + self._extras(number + 1) - self._extras(number)
        order = _permutation(len(self.shards), _key(self.seed, _PASS, number))
        order = order[sizes[order] > 0]
        ends = np.cumsum(sizes[order])
        groups = max(1, round(int(ends[-1]) / GROUP))
        self._at, self._this = number, (order, ends - sizes[order], np.asarray((ends - 1) * groups // ends[-1], np.int64))
        return self._this

    # With replacement ---------------------------------------------------------------------------------------------------

    def _draw_up_to(self, slot: int) -> int:
        """The number of the group that a slot is in."""
        enough = min(GROUP, max(self.length, _SMALL))
        ladder = np.cumsum(self._weights)
        while self._starts[-1] <= slot:
            number, key = len(self._drawn), _key(self.seed, _DRAW, len(self._drawn))
            draws = _uniform(-(-enough // int(self._entries.min())), key) * ladder[-1]
            drawn = np.minimum(np.searchsorted(ladder, draws, "right"), len(self.shards) - 1)
            ends = np.cumsum(self._entries[drawn])
            drawn = drawn[: int(np.searchsorted(ends, enough)) + 1]
            self._first_drawn[drawn] = np.minimum(self._first_drawn[drawn], number)
            self._drawn.append(drawn)
            self._starts.append(self._starts[-1] + int(self._entries[drawn].sum()))
        return int(np.searchsorted(self._starts, slot, "right")) - 1

    def _of_shard(self, shard: int, number: int) -> tuple[Ints, NDArray[np.bool_]]:
        """What a pass or group takes of a shard: numbers of samples, and whether each stood in one before."""
        found = self.shards[shard]
        base = np.arange(found.count) if found.picks is None else found.picks
        if self.sampling == "replacement":
            return base, np.full(len(base), bool(self._first_drawn[shard] < number))
        whole = int(self._whole[shard])
        begin, end = (int(self._extras(n, shard)[0]) for n in (number, number + 1))
        if begin == end:
            return np.tile(base, whole), np.full(whole * len(base), number > 0)
        # They go round in a fixed order, so that each sample has its turn.
        order = base[_permutation(len(base), _key(self.seed, _PART, shard))]
        extra = order[np.arange(begin, end) % len(base)]
        samples = np.concatenate([np.tile(base, whole), extra])
        if whole:
            return samples, np.full(len(samples), number > 0)
        return samples, np.isin(samples, order[:begin])


def _firsts(shards: Ints, samples: Ints, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[n] whether a sample stands here for the first time."""
    if seen.all():
        return np.zeros(len(seen), bool)
    first = np.zeros(len(seen), bool)
    first[np.unique(shards << 40 | samples, return_index=True)[1]] = True
    return first & ~seen


def _key(seed: int, *numbers: int) -> np.uint64:
    key = np.array([seed & (1 << 64) - 1], np.uint64)
    for n in numbers:
        key = hashes.join(key, np.array([n], np.uint64))
    return np.uint64(key[0])


def _hashes(n: int, key: np.uint64) -> hashes.Hashes:
    return hashes.join(np.broadcast_to(key, (1,)), np.arange(n, dtype=np.uint64))


def _permutation(n: int, key: np.uint64) -> Ints:
    """The same with every version of numpy, unlike its own."""
    return np.argsort(_hashes(n, key), kind="stable")


def _uniform(n: int, key: np.uint64) -> NDArray[np.float64]:
    """(n,) numbers from 0 to below 1."""
    return (_hashes(n, key) >> np.uint64(11)).astype(np.float64) * 2.0**-53
