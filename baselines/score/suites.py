"""Suites of tasks, each with means of its own: DataComp's, and those of the papers that came after it.

`western`, `cultural`, `multilingual` and `fairness` are the evaluations of Wang et al. 2025 (Scaling pre-training to one
hundred billion data): zero-shot and 10-shot classification and retrieval; geo-localisation from ten images a place; retrieval
in the 36 languages of Crossmodal-3600, to which Multi30k is added as in ALIGN (Jia et al. 2021); bias and gaps between groups.
`linear_probe` is that of Cherti et al. 2023 (Reproducible scaling laws), `within` and `composed` are ALIGN's retrieval within
a modality and by an image with a text. The errors that the papers report are 1 minus what is here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import yaml

from baselines.score.tasks import KINDS, SUITES, Task, load_others, load_tasks
from pools.errors import InputError

DATACOMP = "datacomp"


@dataclass(frozen=True)
class Member:
    """A task and the metric that the suite takes of it; None where the task has none."""

    task: Task
    metric: str | None
    counted: bool

    @property
    def key(self) -> str:
        """The task's, and the metric unless it is the task's main one."""
        return self.task.key if self.metric == self.task.main_metric else f"{self.task.key} {self.metric}"


@dataclass(frozen=True)
class Means:
    """`mean` over the counted members, None if one is missing or the suite has none; `missing` are their keys."""

    values: Mapping[str, float]  # of all members that were scored, by key
    mean: float | None
    partial_mean: float | None  # over the members there are, if some are missing
    scored: int
    of: int
    missing: tuple[str, ...]

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        return {
            "values": dict(self.values),
            "mean": self.mean,
            "partial_mean": self.partial_mean,
            "scored": self.scored,
            "of": self.of,
            "missing": list(self.missing),
        }


@dataclass(frozen=True)
class Suite:
    """Tasks that belong together. `own` is the kind as which folders that it does not know are scored, if asked for."""

    name: str
    members: tuple[Member, ...]
    has_mean: bool = True
    own: str = ""

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Each once, in the suite's order."""
        return tuple({m.task.key: m.task for m in self.members}.values())

    def find(self, name: str) -> Task | None:
        """The task of that key, or of that name of a folder if it is the only one on those data."""
        by_key = [t for t in self.tasks if name in (t.key, t.key.replace("/", "-"))]
        by_folder = [t for t in self.tasks if name in (t.source, *t.folders)]
        if by_key:
            return by_key[0]
        return by_folder[0] if len(by_folder) == 1 else None

    def own_task(self, name: str) -> Task | None:
        """A task on the data of a folder that the suite does not know, None if it has no place for such."""
        if not self.own:
            return None
        main = KINDS[self.own][0]
        return Task(f"{self.own}/{name}", name, None, main, None, None, (), counted=False, data=name, how=self.own)

    def means(self, metrics: Mapping[str, Mapping[str, float | None]]) -> Means:
        """From the metrics of each task by its key: lines of `eval_results.jsonl`, whichever suite they were scored for."""
        values = {}
        for member in self.members:
            value = None if member.metric is None else metrics.get(member.task.key, {}).get(member.metric)
            if value is not None:
                values[member.key] = value
        counted = [m.key for m in self.members if m.counted]
        found = [values[key] for key in counted if key in values]
        missing = tuple(key for key in counted if key not in values)
        mean = fmean(found) if found and self.has_mean else None
        return Means(values, None if missing else mean, mean if missing else None, len(found), len(counted), missing)


@functools.cache
def load_suites() -> dict[str, Suite]:
    """All by name, DataComp's first."""
    tasks = {**load_tasks(), **load_others()}
    first = tuple(Member(t, t.main_metric, t.counted) for t in load_tasks().values())
    suites = {DATACOMP: Suite(DATACOMP, first)}
    for name, row in yaml.safe_load(SUITES.read_text(encoding="utf-8"))["suites"].items():
        members = []
        for told in row["members"]:
            task = tasks[told["task"]]
            members.append(Member(task, told.get("metric", task.main_metric), told.get("counted", True)))
        suites[name] = Suite(name, tuple(members), row.get("mean", True), row.get("own", ""))
    return suites


def suite_of(name: str) -> Suite:
    """Raises InputError naming the suites there are."""
    found = load_suites().get(name)
    if found is None:
        raise InputError(f"no suite {name!r}", where="--suite", expected=f"one of {', '.join(load_suites())}")
    return found
