"""Whether two families of runs differ: Wilcoxon's signed-rank test over pairs of scores.

A pair is one task, scored for one run of each family; runs are paired in the order given, by model size say (Wang et al. 2025
test 10B against 100B examples so, over metrics and model sizes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from baselines.score.aggregate import ResultsFile, same_suite
from baselines.score.tasks import load_tasks
from pools.errors import InputError


@dataclass(frozen=True)
class Comparison:
    """How often the second family is better or worse, the median of its gains, and the two-sided p of no difference."""

    pairs: int
    better: int
    worse: int
    equal: int
    median_gain: float
    statistic: float
    p: float

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        return asdict(self)


def wilcoxon(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Two-sided, pairs without a difference left out; exact for up to 50 pairs without ties (SciPy's choice).

    Raises InputError without pairs.
    """
    from scipy import stats

    if not first or len(first) != len(second):
        raise InputError(f"{len(first)} and {len(second)} scores", where="families", expected="pairs")
    gains = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    if better + worse:
        found = stats.wilcoxon(gains, zero_method="wilcox")
        statistic, p = float(found.statistic), float(found.pvalue)
    else:
        statistic, p = 0.0, 1.0
    return Comparison(len(gains), better, worse, len(gains) - better - worse, float(np.median(gains)), statistic, p)


def pairs(
    first: Sequence[ResultsFile], second: Sequence[ResultsFile], tasks: Sequence[str] = ()
) -> tuple[list[float], list[float]]:
    """Main metrics of tasks that both runs of a pair have, over all pairs of runs.

    `tasks` are keys or tags; without them all tasks that have a main metric. Raises InputError for families of different
    numbers of runs, results of different suites, a name that no task has, or no pair.
    """
    if not first or len(first) != len(second):
        raise InputError(
            f"{len(first)} and {len(second)} runs", where="--first, --second", expected="as many of each, in pairs"
        )
    same_suite([*first, *second])
    found: tuple[list[float], list[float]] = ([], [])
    known = {key for file in (*first, *second) for key in file.scores}
    chosen = {key for name in tasks for key in _named(name, known)} if tasks else known
    for a, b in zip(first, second, strict=True):
        for key in sorted(chosen):
            one, other = a.scores.get(key), b.scores.get(key)
            if one is not None and other is not None:
                found[0].append(one)
                found[1].append(other)
    if not found[0]:
        raise InputError("no task has a score in both runs of a pair", where="--first, --second")
    return found


def _named(name: str, known: set[str]) -> set[str]:
    found = {key for key in known if key == name or (key in load_tasks() and name in load_tasks()[key].tags)}
    if not found:
        tags = sorted({tag for task in load_tasks().values() for tag in task.tags})
        raise InputError(f"no result of {name!r}", where="--task", expected=f"a task's key, or a tag: {', '.join(tags)}")
    return found
