"""Whether recipes keep their order from one scale to another: Spearman's and Kendall's rank correlation.

Recipes with one and the same score share a rank (Spearman on mean ranks, Kendall's τ-b).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from baselines.studies import rows
from pools.errors import InputError

Scores = Mapping[str, float]  # by recipe


@dataclass(frozen=True)
class Correlation:
    """Over the recipes of both scales; `ties` are pairs of recipes that share a score at the first, or at the second."""

    recipes: tuple[str, ...]  # the best of the first scale first
    spearman: float
    kendall: float
    p_spearman: float
    p_kendall: float
    ties: tuple[int, int]

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        return {**asdict(self), "recipes": list(self.recipes), "ties": list(self.ties)}


def correlate(first: Scores, second: Scores) -> Correlation:
    """Raises InputError for fewer than three recipes in common, or where all have one score."""
    from scipy import stats

    common = sorted(first.keys() & second.keys(), key=lambda r: (-first[r], r))
    x, y = [first[r] for r in common], [second[r] for r in common]
    if len(common) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        raise InputError(f"{len(common)} recipes with scores at both scales", expected="three or more, not all equal")
    spearman, kendall = stats.spearmanr(x, y), stats.kendalltau(x, y, variant="b")
    return Correlation(
        tuple(common),
        float(spearman.statistic),
        float(kendall.statistic),
        float(spearman.pvalue),
        float(kendall.pvalue),
        (_ties(x), _ties(y)),
    )


def by_scale(
    path: str, conditions: Sequence[str], *, recipe: str, scale: str, score: str, pattern: str | None = None
) -> dict[str, Scores]:
    """{scale: {recipe: mean score of its rows}} of a table.

    With a pattern, a regular expression with a group `scale`, both are found in the column `recipe`: what the other groups
    hold, joined by `_`, is the recipe. Rows that it does not match are left out. Raises InputError for a column that is not
    there, a pattern without its groups or that matches nothing.
    """
    chosen = rows.read(path, conditions)
    rows.need(chosen, [recipe] if pattern else [recipe, scale], path)
    places: list[tuple[str, str]] = []
    kept = []
    for row in chosen:
        place = (row[scale], row[recipe]) if pattern is None else _match(pattern, row[recipe])
        if place is not None:
            places.append(place)
            kept.append(row)
    if not kept:
        raise InputError(f"no {recipe} matches {pattern}", where=path)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (size, name), value in zip(places, rows.numbers(kept, score, path), strict=True):
        found[size][name].append(value)
    return {size: {name: fmean(values) for name, values in scores.items()} for size, scores in found.items()}


def _match(pattern: str, text: str) -> tuple[str, str] | None:
    try:
        compiled = re.compile(pattern)
    except re.error as e:
        raise InputError(f"{pattern!r}: {e}", where="--pattern", expected="a regular expression") from e
    if "scale" not in compiled.groupindex or compiled.groups < 2:
        raise InputError(f"{pattern!r}", where="--pattern", expected="a group (?P<scale>…), and others for the recipe")
    if (found := compiled.fullmatch(text)) is None:
        return None
    others = [part for i, part in enumerate(found.groups(), 1) if i != compiled.groupindex["scale"] and part]
    return found["scale"], "_".join(others)


def _ties(values: Sequence[float]) -> int:
    return sum(n * (n - 1) // 2 for n in Counter(values).values())
