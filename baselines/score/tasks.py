"""The tasks of the suite: what is measured on which data set, and what chance would give."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import yaml

# The kinds of task that can be scored: the metrics that a task of the kind may have as its main one, by default the first.
KINDS = {
    "classification": (
        *("acc1", "acc5", "mean_per_class_recall"),
        *("F1-macro_all", "acc_worst_region", "acc_top5_wg", "acc_wg"),  # `groups` computes them
    ),
    "retrieval": ("mean_recall@1",),
    "associations": ("jaccard_score_10-12",),
}
FACES = ("fairness/fairface", "fairness/utkface")  # have no main metric


@dataclass(frozen=True)
class Task:
    """One row of `tasks.yaml`."""

    key: str
    name: str
    size: int | None  # images of the test split
    main_metric: str | None
    classes: int | None
    chance: float | None  # expected main metric of a model that guesses
    tags: tuple[str, ...]
    counted: bool  # whether it enters the average

    @property
    def kind(self) -> str | None:
        """One of KINDS, or `faces`; None for data of a kind that cannot be scored."""
        if self.key in FACES:
            return "faces"
        return next((kind for kind, metrics in KINDS.items() if self.main_metric in metrics), None)


PATH = Path(__file__).with_name("tasks.yaml")


@functools.cache
def load_tasks() -> dict[str, Task]:
    """All tasks by key, in the suite's order."""
    rows = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return {row["key"]: Task(**{**row, "tags": tuple(row["tags"])}) for row in rows}


def counted() -> int:
    """How many tasks the average needs."""
    return sum(t.counted for t in load_tasks().values())


def task_of(name: str, kind: str = "classification") -> Task:
    """The task that a folder's name (`/` written as `-`) or a key stands for.

    If the suite has none such it is one of its own, with the main metric of its kind (none for a kind that is not known).
    """
    for task in load_tasks().values():
        # DataComp's folders of the fairness tasks leave that word out.
        if name in (task.key, task.key.replace("/", "-"), task.key.removeprefix("fairness/")):
            return task
    return Task(name, name, None, KINDS.get(kind, (None,))[0], None, None, (), counted=False)
