"""Each filter of a recipe as a detector of the flaws it is for: what it dropped, and what it should have dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baselines.miniweb.flaws import Flaw
from baselines.miniweb.judged import Facts, Judged, Mask
from baselines.miniweb.tables import NONE, percent, ratio, table
from filters.mixture import language_of
from pools.schema import score_column


@dataclass(frozen=True)
class Target:
    """The rows (n,) that a filter should drop, and those that count at all."""

    name: str
    rows: Mask
    counted: Mask


@dataclass(frozen=True)
class Detection:
    """One stage of a recipe. The last four are None where it is not known what the filter is for."""

    recipe: str
    stage: str
    reached: int  # rows that no stage before dropped
    dropped: int
    target: str | None = None
    precision: float | None = None  # of the dropped rows, the share that is of the target
    recall: float | None = None  # of the target's rows that reached the stage, the share that was dropped
    base: float | None = None  # of the rows that reached it, the share that is of the target: a blind filter's precision


def detections(judged: Judged) -> list[Detection]:
    """A recipe's stages in order, from its verdicts alone."""
    found = []
    for i, stage in enumerate(judged.stages):
        reached, dropped = judged.reached(i), judged.dropped(i)
        target_of = TARGETS.get(stage.name)
        target = target_of(stage.options, judged.facts) if target_of else None
        sizes = (judged.recipe, stage.name, int(reached.sum()), int(dropped.sum()))
        found.append(Detection(*sizes) if target is None else Detection(*sizes, *_measured(target, reached, dropped)))
    return found


def detector_lines(judged: Sequence[Judged]) -> list[str]:
    """A row a stage of each recipe."""
    rows = []
    for j in judged:
        for i, d in enumerate(detections(j)):
            numbers = [f"{d.reached:,}", f"{d.dropped:,}", *map(percent, (d.precision, d.recall, d.base))]
            rows.append(["" if i else d.recipe, d.stage, d.target or NONE, *numbers])
    head = ["recipe", "filter", "is to drop", "reached", "dropped", "precision", "recall", "base rate"]
    return [
        "Each filter as a detector, in % (one that drops blindly has the base rate as its precision)",
        *(table([head], rows, left=3) if rows else ["  no recipe has a filter"]),
    ]


def _measured(target: Target, reached: Mask, dropped: Mask) -> tuple[str, float | None, float | None, float | None]:
    counted = reached & target.counted
    wanted, gone = counted & target.rows, counted & dropped
    right, all_wanted, all_gone = (int(rows.sum()) for rows in (wanted & gone, wanted, gone))
    return target.name, ratio(right, all_gone), ratio(right, all_wanted), ratio(all_wanted, int(counted.sum()))


def _size(options: Any, facts: Facts) -> Target:
    # A copy of a held-out picture may be small without that being its flaw.
    return Target("too small, banner", np.isin(facts.flaw, [Flaw.TOO_SMALL, Flaw.BANNER]), facts.flaw != Flaw.EVAL_COPY)


def _caption(options: Any, facts: Facts) -> Target:
    return Target("file name, one word", np.isin(facts.flaw, [Flaw.FILE_NAME, Flaw.ONE_WORD]), _all(facts))


def _language(options: Any, facts: Facts) -> Target:
    """Alts in other languages than the recipe's, and those that speak of no scene."""
    wanted = [language_of(code) for code in options["is"]]
    return Target(f"not {', '.join(wanted)}", ~np.isin(facts.language, wanted), _all(facts))


def _not_describing(options: Any, facts: Facts) -> Target:
    return Target("not describing", ~facts.describes, _all(facts))


def _score(options: Any, facts: Facts) -> Target | None:
    """The same of an image-text similarity; what other columns say is not known."""
    before, after = score_column("\0").split("\0")
    column = str(options["column"])
    return _not_describing(options, facts) if column.startswith(before) and column.endswith(after) else None


def _all(facts: Facts) -> Mask:
    return np.ones(len(facts), bool)


# `random` is the control: it can be no better than the base rate.
TARGETS: dict[str, Callable[[Any, Facts], Target | None]] = {
    "image_size": _size,
    "caption": _caption,
    "language": _language,
    "clip_score": _not_describing,
    "score": _score,
    "random": _not_describing,
}
