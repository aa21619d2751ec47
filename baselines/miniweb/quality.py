"""How good a recipe's choice is, by the truth: precision and recall, what it kept of each flaw, and of each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from baselines.miniweb.flaws import Flaw
from baselines.miniweb.judged import Facts, Judged, Mask
from baselines.miniweb.languages import HIGH, LOW
from baselines.miniweb.tables import percent, ratio, table


@dataclass(frozen=True)
class Quality:
    """Counts of rows: of the pool, kept, kept with an alt that describes its picture, and of the pool's such rows."""

    recipe: str
    pool: int
    kept: int
    right: int
    describing: int

    @property
    def precision(self) -> float | None:
        """Share of the kept rows whose alt describes the picture."""
        return ratio(self.right, self.kept)

    @property
    def recall(self) -> float | None:
        """Share of the describing rows that were kept."""
        return ratio(self.right, self.describing)

    @property
    def f1(self) -> float | None:
        return ratio(2 * self.right, self.kept + self.describing)


def quality(judged: Judged) -> Quality:
    kept, describes = judged.kept, judged.facts.describes
    return Quality(judged.recipe, len(kept), int(kept.sum()), int((kept & describes).sum()), int(describes.sum()))


def quality_lines(judged: Sequence[Judged]) -> list[str]:
    """A row a recipe; of no filter at all the precision is the share of the pool that is good."""
    found = [quality(j) for j in judged]
    rows = [[q.recipe, f"{q.kept:,}", *map(percent, (ratio(q.kept, q.pool), q.precision, q.recall, q.f1))] for q in found]
    return [
        "What each recipe kept: is it right (precision), and is it all that is right (recall)? In %",
        *table([["recipe", "kept", "of the pool", "precision", "recall", "F1"]], rows),
    ]


def flaw_lines(judged: Sequence[Judged]) -> list[str]:
    """A row for each flaw that came into the pool: how many rows have it, and how many of them each recipe kept."""
    facts = judged[0].facts
    rows = _rows(
        judged, [(flaw.replace("_", " ") or "none", facts.flaw == flaw) for flaw in ("", *Flaw)], lambda kept, _: f"{kept:,}"
    )
    return ["Rows kept of those with each flaw", *table([["flaw", "in pool", *(j.recipe for j in judged)]], rows)]


def group_lines(judged: Sequence[Judged]) -> list[str]:
    """A row for each group of the pool's rows: how many there are, and the share of them that each recipe kept."""
    rows = _rows(judged, list(groups(judged[0].facts).items()), lambda kept, size: percent(kept / size))
    return ["Share kept of each group, in %", *table([["alt text in", "in pool", *(j.recipe for j in judged)]], rows)]


def groups(facts: Facts) -> dict[str, Mask]:
    """The rows of each group. The first four share out the pool by the language of the alt."""
    return {
        "English": facts.language == "en",
        "other high-resource": np.isin(facts.language, [code for code in HIGH if code != "en"]),
        "low-resource": np.isin(facts.language, LOW),
        "no language": facts.language == "",
        "(cultural pictures)": facts.cultural,
    }


def _rows(judged: Sequence[Judged], named: Sequence[tuple[str, Mask]], shown: Callable[[int, int], str]) -> list[list[str]]:
    """Of each set of rows that is not empty its size, and `shown(kept, size)` for each recipe."""
    return [
        [name, f"{rows.sum():,}", *(shown(int((rows & j.kept).sum()), int(rows.sum())) for j in judged)]
        for name, rows in named
        if rows.any()
    ]
