"""What a uid list holds, what is wrong with it, and how two of them differ; at any length."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pools import store, uid_files, uids
from pools.errors import InputError
from pools.uids import sets, streams
from pools.uids.words import records_of, unpack

EXAMPLES = 5  # uids that a difference shows


@dataclass(frozen=True)
class Info:
    """A list in numbers; `first_unsorted` is the row that is smaller than the one before it."""

    path: str
    kind: str
    recipe: str | None
    tally: streams.Tally
    first_unsorted: int | None
    bytes: int
    ends: tuple[str, ...]  # the smallest and the greatest uid

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "uids": self.tally.entries,
            "distinct": self.tally.distinct,
            "repeated": self.tally.repeated,
            "most_repeats": self.tally.most,
            "sorted": self.first_unsorted is None,
            "bytes": self.bytes,
            "smallest": self.ends[0] if self.ends else None,
            "greatest": self.ends[-1] if self.ends else None,
            "recipe": self.recipe,
        }


def info(path: str, *, column: str | None = None) -> Info:
    """Reads a list of any form. Raises InputError for what is none."""
    unsorted = streams.first_unsorted(uid_files.blocks(path, column=column))
    side = uids.read_info(path)
    with tempfile.TemporaryDirectory() as scratch:
        stored = uid_files.open_sorted(path, store.join(scratch, "sorted"), column=column)
        tally = streams.tally(stored.reader())
        rows = (0, stored.rows - 1) if stored.rows else ()
        ends = (replace(stored, rows=1, start=stored.start + 16 * row) for row in rows)
        texts = [uid for end in ends for uid in unpack(end.reader().read(1)).to_pylist()]
    return Info(path, side.kind, side.recipe, tally, unsorted, store.size(path), tuple(texts))


@dataclass(frozen=True)
class Checked:
    """A list's uids, and what is wrong with it, each with the way to mend it."""

    entries: int
    is_sorted: bool
    problems: tuple[InputError, ...]


def verify(path: str, *, column: str | None = None) -> Checked:
    """Looks for all that keeps the field's tools from reading a list: its dtype, order, length and sidecar; of other forms than
    `.npy` and raw maps, that every row is a uid."""
    problems: list[InputError] = []
    mend = f"winnow uids convert {path} --output SORTED.npy"
    array = uid_files.form_of(path) in ("npy", "u16")
    if array and store.exists(path) and not uid_files.is_plain(path):
        problems.append(
            InputError("uids as text, or as other words", where=path, expected="dtype u8,u8 (high and low half)", fix=mend)
        )
    entries, row, descents, last = 0, None, 0, np.empty(0, uids.UID)
    for block in uid_files.blocks(path, column=column):
        chained = records_of(sets.joined([last, block]))
        if (found := sets.descents(chained)) is not None:
            row = entries - len(last) + found[0] if row is None else row
            descents += found[1]
        entries, last = entries + len(block), block[-1:]
    if array and row is not None:
        again = f", and {descents - 1:,} more rows likewise" if descents > 1 else ""
        problems.append(
            InputError(f"row {row} is smaller than row {row - 1}{again}", where=path, expected="uids in sorted order", fix=mend)
        )
    problems += _sidecar(path, entries)
    return Checked(entries, row is None, tuple(problems))


def _sidecar(path: str, entries: int) -> list[InputError]:
    side, where = uids.read_info(path), path + ".json"
    problems = []
    if side.kind not in ("keep", "remove"):
        problems.append(
            InputError(f"kind {side.kind!r}", where=where, expected="keep or remove", fix="write the right one there")
        )
    if side.count not in (None, entries):
        fix = f"make the list again, or remove {where} if the list is right"
        problems.append(InputError(f"{entries} uids", where=path, expected=f"{side.count}, as its sidecar says", fix=fix))
    return problems


@dataclass(frozen=True)
class Difference:
    """How many different uids stand in one of two lists alone, in both, and in both but unequally often."""

    only: tuple[int, int]
    both: int
    unequally_often: int
    examples: tuple[tuple[str, ...], tuple[str, ...]]  # of those in one alone

    @property
    def same(self) -> bool:
        return not (any(self.only) or self.unequally_often)


def difference(a: str, b: str) -> Difference:
    """Compares two lists of any forms."""
    only, both, unequal = [0, 0], 0, 0
    examples: list[list[str]] = [[], []]
    with tempfile.TemporaryDirectory() as scratch:
        readers = [uid_files.open_sorted(p, store.join(scratch, f"{i}")).reader() for i, p in enumerate((a, b))]
        for x, y in streams.aligned(readers):
            for i, alone in enumerate((sets.combine("minus", x, y), sets.combine("minus", y, x))):
                only[i] += len(alone)
                examples[i] += unpack(alone[: EXAMPLES - len(examples[i])]).to_pylist()
            common = sets.combine("intersect", x, y)
            both += len(common)
            unequal += int((sets.count(x, common) != sets.count(y, common)).sum())
    return Difference((only[0], only[1]), both, unequal, (tuple(examples[0]), tuple(examples[1])))
