"""Counts of values of a column in bounded memory, that can be merged: exact up to so many values, then with a stated error.

A value is known by its 64-bit hash (`pools.hashes`). Up to `limit` different values each is counted. Of more, two things are
kept. A *sample of the values*: those whose hash begins with `level` zero bits, each still counted exactly, so that how many
values there are, and how often they are repeated, is estimated as 2^level times what is seen of them (Gibbons 2001). And
the *most frequent*: `limit` counters, of which the smallest are given up; a count then lacks `error` at most (Misra and
Gries 1982, merged as Agarwal et al. 2013).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

LIMIT = 1 << 20
_WAITING = 1 << 17
Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]


@dataclass
class Tally:
    """How often values are seen in each of `groups` sets of rows, of which the first has all rows.

    `add` and `merge` give the same up to `limit` values in any order; beyond, in the same order.
    """

    groups: int
    limit: int = LIMIT
    level: int = 0
    error: int = 0  # what counts in `heavy` may lack
    rows: int = 0  # with a value
    sample: tuple[Hashes, Counts] = field(init=False)
    heavy: tuple[Hashes, Counts] = field(init=False)  # the same as `sample` as long as all is exact
    _waiting: list[tuple[Hashes, Counts]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sample = self.heavy = (np.empty(0, np.uint64), np.empty((0, self.groups), np.int64))

    @property
    def exact(self) -> bool:
        return self.level == 0

    def add(self, hashes: Hashes, counts: Counts) -> None:
        """(k,) hashes in any order, and (k, groups) how often each was seen."""
        self.rows += int(counts[:, 0].sum())
        self._wait(hashes, counts)

    def merge(self, other: Tally) -> None:
        """Adds what another has counted."""
        other.settle()
        self.rows += other.rows
        if other.exact:
            self._wait(*other.sample)
            return
        self.settle()
        heavy = _summed([self.heavy, other.heavy])
        self.level = max(self.level, other.level)
        self.sample = _summed([_sampled(self.sample, self.level), _sampled(other.sample, self.level)])
        self.heavy, self.error = heavy, self.error + other.error
        self._bound()

    def _wait(self, hashes: Hashes, counts: Counts) -> None:
        self._waiting.append((hashes, counts))
        # So seldom that sorting costs as much as there is to sort, a few times over.
        if sum(len(h) for h, _ in self._waiting) > max(_WAITING, len(self.sample[0]) // 2):
            self.settle()

    def settle(self) -> Tally:
        """Itself, with all that was added counted together."""
        if self._waiting:
            new, self._waiting = _summed(self._waiting), []
            if self.exact:
                self.sample = self.heavy = _summed([self.sample, new])
            else:
                self.sample = _summed([self.sample, _sampled(new, self.level)])
                self.heavy = _summed([self.heavy, new])
            self._bound()
        return self

    def _bound(self) -> None:
        if self.exact and len(self.sample[0]) <= self.limit:
            return
        while len(self.sample[0]) > self.limit:
            self.level += 1
            self.sample = _sampled(self.sample, self.level)
        if len(self.heavy[0]) > self.limit:
            hashes, counts = self.heavy
            first = counts[:, 0]
            # The largest count of those that are given up is taken from all that stay: what each may have been lacking.
            given_up = int(np.partition(first, len(first) - self.limit - 1)[len(first) - self.limit - 1])
            stay = first > given_up
            counts = np.maximum(counts[stay] - given_up, 0)
            self.heavy = hashes[stay], counts
            self.error += given_up

    def repeats(self) -> Repeats:
        """How many values there are and how often they are repeated, in each group; estimates unless `exact`."""
        self.settle()
        counts = self.sample[1]
        scale = 1 << self.level
        seen, twice = counts > 0, counts > 1
        return Repeats(
            self.exact,
            scale * seen.sum(0),
            scale * twice.sum(0),
            scale * np.where(twice, counts, 0).sum(0),
        )

    def top(self, number: int) -> tuple[Hashes, Counts]:
        """The most frequent values (by all rows; of equally frequent ones those with the smallest hashes), counts lacking
        `error` at most."""
        self.settle()
        hashes, counts = self.heavy
        order = np.lexsort((hashes, -counts[:, 0]))[:number]
        return hashes[order], counts[order]


@dataclass(frozen=True)
class Repeats:
    """For each group (g,): different values, those that more than one row has, and the rows that have such a value."""

    exact: bool
    values: Counts
    repeated: Counts
    rows: Counts


def _sampled(pair: tuple[Hashes, Counts], level: int) -> tuple[Hashes, Counts]:
    if level == 0:
        return pair
    stay = pair[0] >> np.uint64(64 - level) == 0
    return pair[0][stay], pair[1][stay]


def _summed(pairs: list[tuple[Hashes, Counts]]) -> tuple[Hashes, Counts]:
    """Counts of equal hashes added up, in the order of the hashes."""
    hashes = np.concatenate([h for h, _ in pairs])
    order = np.argsort(hashes, kind="stable")  # which finds the stretches that are sorted
    hashes = hashes[order]
    counts = np.concatenate([c for _, c in pairs])[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])[: len(hashes)])
    return hashes[starts], np.add.reduceat(counts, starts, axis=0) if len(starts) else counts
