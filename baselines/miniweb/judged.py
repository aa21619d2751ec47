"""A recipe's verdicts beside the truth of the rows they are about. Memory grows by about 150 bytes a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from filters import document
from pools import store
from pools.errors import InputError
from pools.outputs import Selection

Mask = NDArray[np.bool_]
KEPT = -1


@dataclass(frozen=True)
class Facts:
    """What is true of each row of a pool, in the pool's order: arrays (n,)."""

    flaw: NDArray[np.str_]  # empty = none
    language: NDArray[np.str_]  # of the alt; empty = it speaks of no scene
    cultural: Mask
    describes: Mask

    @classmethod
    def of(cls, truth: pa.Table, uids: pa.ChunkedArray, where: str) -> Facts:
        """The rows of `truth` (`truth.TRUTH`) with these uids, in their order. Raises InputError for another uid."""
        places = pc.index_in(uids, value_set=truth["uid"].combine_chunks())
        if places.null_count:
            unknown = uids.filter(places.is_null())[0]
            raise InputError(f"uid {unknown} is not in the truth", where=where, expected="verdicts on what this web serves")
        rows = truth.select(["flaw", "language", "family", "describes"]).take(places)
        return cls(
            _words(rows["flaw"]),
            _words(rows["language"]),
            pc.equal(rows["family"], "cultural").to_numpy(),
            rows["describes"].to_numpy(),
        )

    def __len__(self) -> int:
        return len(self.flaw)


@dataclass(frozen=True)
class Stage:
    """One rule of a recipe, as its resolved form spells it; of a combinator the options are a list of rules."""

    name: str
    options: Any


@dataclass(frozen=True)
class Judged:
    """A recipe, and which of its stages dropped each row: (n,), KEPT if none did."""

    recipe: str
    stages: tuple[Stage, ...]
    dropped_by: NDArray[np.int16]
    facts: Facts

    @property
    def kept(self) -> Mask:
        kept: Mask = self.dropped_by == KEPT
        return kept

    def reached(self, stage: int) -> Mask:
        """The rows that no stage before dropped."""
        return self.kept | (self.dropped_by >= stage)

    def dropped(self, stage: int) -> Mask:
        dropped: Mask = self.dropped_by == stage
        return dropped


def read_judged(truth: str, selections: Mapping[str, str]) -> list[Judged]:
    """From the truth's file and {recipe: folder of its selection}.

    Raises InputError if two recipes did not judge the same rows, or for verdicts that do not belong to their recipe.
    """
    table = _read(truth, ["uid", "flaw", "language", "family", "describes"])
    first: pa.ChunkedArray | None = None
    judged: list[Judged] = []
    for recipe, folder in selections.items():
        uids, dropped_by = _read_verdicts(folder)
        stages = read_stages(Selection(folder).recipe)
        if first is None:
            first, facts = uids, Facts.of(table, uids, folder)
        elif not uids.equals(first):
            raise InputError(
                f"verdicts on other rows than those of {next(iter(selections))}",
                where=folder,
                expected="selections from one pool",
                fix="run `winnow filter` again for both",
            )
        if dropped_by.max(initial=KEPT) >= len(stages):
            raise InputError(
                f"a row was dropped by stage {dropped_by.max()}", where=folder, expected=f"stages below {len(stages)}"
            )
        judged.append(Judged(recipe, stages, dropped_by, facts))
    return judged


def read_stages(path: str) -> tuple[Stage, ...]:
    """The rules of a resolved recipe, of filters that are known here or not."""
    recipe = document.parse(store.read_bytes(path).decode("utf-8", "replace"), path).plain()
    keep = recipe.get("keep") if isinstance(recipe, dict) else None
    if not isinstance(keep, list) or not all(isinstance(rule, dict) and len(rule) == 1 for rule in keep):
        raise InputError("not a resolved recipe", where=path, expected="the recipe.yaml of a selection")
    return tuple(Stage(name, options) for rule in keep for name, options in rule.items())


def _read_verdicts(folder: str) -> tuple[pa.ChunkedArray, NDArray[np.int16]]:
    """Uids, and the stage that dropped each, of all files in the order of their names."""
    root = store.join(folder, "verdicts")
    names = store.list_files(root, ".parquet") if store.is_dir(root) else []
    if not names:
        raise InputError("no verdicts", where=root, expected="the output of `winnow filter`")
    table = pa.concat_tables([_read(store.join(root, name), ["uid", "dropped_by"]) for name in names])
    return table["uid"], table["dropped_by"].fill_null(KEPT).to_numpy()


def _read(path: str, columns: list[str]) -> pa.Table:
    try:
        with store.open_input(path) as f:
            file = pq.ParquetFile(f)
            if missing := [c for c in columns if c not in file.schema_arrow.names]:
                raise InputError(f"no column {missing[0]!r}", where=path, expected=f"columns {', '.join(columns)}")
            return file.read(columns=columns)
    except pa.ArrowInvalid as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a parquet file") from e


def _words(column: pa.ChunkedArray) -> NDArray[np.str_]:
    words: NDArray[np.str_] = column.fill_null("").to_numpy().astype(np.str_)
    return words
