"""Kept rows with their labels → the weighted uid list of a mix.

Besides a few million uids at a time, 12 bytes are held a kept row (label and hash), and 16 more where the store is remote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from filters.mixture import MIXES, Group, Mix
from pools import store, uids
from pools.uids import Uids

Labels = NDArray[np.int32]


def write_part(uids_path: str, labels_path: str, kept: Sequence[Uids], labels: Sequence[Labels]) -> None:
    """Writes the kept uids of one unit, sorted, and the label of each in the same order."""
    found = np.concatenate([np.empty(0, uids.UID), *kept])
    order = uids.order(found)
    uids.write_part(uids_path, [found[order]])
    with store.atomic(labels_path) as f:
        f.write(np.concatenate([np.empty(0, np.int32), *labels])[order].astype("<i4").tobytes())


def mix_parts(
    mix: Mix, parts: Sequence[tuple[str, str]], path: str, *, recipe: str, rows_in_memory: int = uids.ROWS_IN_MEMORY
) -> dict[str, Any]:
    """Merges what `write_part` wrote into the mix's list; returns the rows and entries of each group.

    Raises ValueError if the mix cannot be made of these rows.
    """
    lists = [uids.load(kept) for kept, _ in parts]
    labels = [np.frombuffer(store.read_bytes(said), "<i4") for _, said in parts]
    if not mix.labels:
        return {"mix": MIXES.name_of(mix), "groups": [_repeat(lists, labels, path, recipe, rows_in_memory)]}
    rows = sum((np.bincount(said, minlength=len(mix.labels)) for said in labels), np.zeros(len(mix.labels), np.int64))
    plan = mix.plan(dict(zip(mix.labels, rows.tolist(), strict=True)))
    place = {label: i for i, group in enumerate(plan) for label in group.labels}
    groups = np.array([place[label] for label in mix.labels], np.int32)
    draw = Draw(plan, np.bincount(groups, rows, len(plan)).astype(np.int64), mix.seed)
    draw.fit(lists, (groups[said] for said in labels))
    pieces = (draw.repeated(found, groups[label]) for found, label in _merged(lists, labels, rows_in_memory))
    uids.write_pieces(path, pieces, sum(group.entries for group in plan), recipe=recipe)
    report = [
        {"labels": list(group.labels), "rows": n, "entries": group.entries}
        for group, n in zip(plan, draw.rows.tolist(), strict=True)
    ]
    return {"mix": MIXES.name_of(mix), "groups": report}


def _repeat(lists: Sequence[Uids], copies: Sequence[Labels], path: str, recipe: str, rows_in_memory: int) -> dict[str, Any]:
    """Writes each row as often as its label says."""
    pieces = (uids.sort(np.repeat(found, often)) for found, often in _merged(lists, copies, rows_in_memory))
    total = sum(int(often.sum(dtype=np.int64)) for often in copies)
    uids.write_pieces(path, pieces, total, recipe=recipe)
    return {"labels": [], "rows": sum(map(len, lists)), "entries": total}


def _merged(lists: Sequence[Uids], labels: Sequence[Labels], rows: int) -> Iterator[tuple[Uids, Labels]]:
    """The rows of all lists with their labels, about so many at a time, in ranges of uids one after the other."""
    for slices in uids.intervals(lists, rows):
        found = np.concatenate([np.empty(0, uids.UID), *(a[s] for a, s in zip(lists, slices, strict=True))])
        yield found, np.concatenate([np.empty(0, np.int32), *(a[s] for a, s in zip(labels, slices, strict=True))])


class Draw:
    """How often each row of a group stands in the list: see `filters.mixture.Group`."""

    def __init__(self, plan: Sequence[Group], rows: NDArray[np.int64], seed: int) -> None:
        self.rows, self.seed = rows, seed
        entries = np.array([group.entries for group in plan], np.int64)
        self.copies = entries // np.maximum(rows, 1)
        self.extra = entries - self.copies * rows  # rows of each group that stand once more
        # Those are the ones whose hash is below the limit, and the first so many, in the uids' order, that have it.
        self.limits = np.zeros(len(plan), np.uint64)
        self.ties = np.zeros(len(plan), np.int64)

    def fit(self, lists: Sequence[Uids], groups: Iterable[NDArray[np.int32]]) -> None:
        """Finds the limits from all rows: 8 bytes a row, the hashes of each group in one stretch."""
        ends = np.cumsum(self.rows)
        hashes = np.empty(int(self.rows.sum()), np.uint64)
        free = ends - self.rows
        for found, group in zip(lists, groups, strict=True):
            order = np.argsort(group, kind="stable")
            counts = np.bincount(group, minlength=len(free))
            ordered = group[order]
            within = np.arange(len(group)) - (np.cumsum(counts) - counts)[ordered]
            hashes[free[ordered] + within] = uids.hash64(found, self.seed)[order]
            free += counts
        for i in np.flatnonzero(self.extra):
            own = hashes[ends[i] - self.rows[i] : ends[i]]
            last = int(self.extra[i]) - 1
            own.partition(last)
            self.limits[i] = own[last]
            self.ties[i] = (own[: last + 1] == own[last]).sum()

    def repeated(self, found: Uids, groups: NDArray[np.int32]) -> Uids:
        """Uids with their groups → sorted, each as often as it stands in the list. To be called in the uids' order."""
        order = uids.order(found)
        found, groups = found[order], groups[order]
        hashes = uids.hash64(found, self.seed)
        copies = self.copies[groups] + (hashes < self.limits[groups])
        for i in np.flatnonzero((hashes == self.limits[groups]) & (self.ties[groups] > 0)):
            if self.ties[groups[i]]:
                self.ties[groups[i]] -= 1
                copies[i] += 1
        repeated: Uids = np.repeat(found, copies)
        return repeated
