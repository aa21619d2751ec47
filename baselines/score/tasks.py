"""The tasks: what is measured on which data set, and what chance would give. DataComp's are a suite; `suites` has others."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

# The kinds of task that can be scored: the metrics that a task of the kind may have as its main one, by default the first.
KINDS = {
    "classification": (
        *("acc1", "acc5", "mean_per_class_recall"),
        *("F1-macro_all", "acc_worst_region", "acc_top5_wg", "acc_wg"),  # `groups` computes them
    ),
    "retrieval": ("mean_recall@1",),
    "associations": ("jaccard_score_10-12",),
    "kshot": ("acc1", "mean_per_class_recall"),
    "linear_probe": ("acc1", "mean_per_class_recall"),
    "languages": ("mean_recall@1", "mean_recall"),
    "image_to_image": ("recall@1",),
    "text_to_text": ("recall@1",),
    "composed": ("recall@1",),
    "representation_bias": ("representation_bias",),
    "association_bias": ("association_bias",),
    "disparity": ("acc1_disparity", "acc5_disparity"),
}
FACES = ("fairness/fairface", "fairness/utkface")  # have no main metric


@dataclass(frozen=True)
class Task:
    """One row of `tasks.yaml`, or one of the tasks of `suites.yaml`."""

    key: str
    name: str
    size: int | None  # images of the test split
    main_metric: str | None
    classes: int | None
    chance: float | None  # expected main metric of a model that guesses
    tags: tuple[str, ...]
    counted: bool  # whether it enters DataComp's average
    data: str = ""  # key of the set it is measured on, if that is another's
    how: str = ""  # its kind, where the main metric does not tell it
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # what the kind leaves open

    @property
    def kind(self) -> str | None:
        """One of KINDS, or `faces`; None for data of a kind that cannot be scored."""
        if self.key in FACES:
            return "faces"
        if self.how:
            return self.how
        return next((kind for kind, metrics in KINDS.items() if self.main_metric in metrics), None)

    @property
    def source(self) -> str:
        """The key of the data set."""
        return self.data or self.key

    @property
    def needs(self) -> tuple[str, ...]:
        """Files that its folder must hold beyond those that the set is published with for zero-shot tasks."""
        learns = self.kind == "linear_probe" or self.options.get("gallery") == "train"
        return (*self.options.get("needs", ()), *(("train/nshards.txt",) if learns else ()))

    @property
    def folders(self) -> tuple[str, ...]:
        """The names that a folder of its data may have, between `wds_` and `_test`; the first is DataComp's."""
        # DataComp's folders of the fairness tasks leave that word out.
        return tuple(dict.fromkeys(name.replace("/", "-") for name in (self.source.removeprefix("fairness/"), self.source)))


PATH = Path(__file__).with_name("tasks.yaml")
SUITES = Path(__file__).with_name("suites.yaml")


@functools.cache
def load_tasks() -> dict[str, Task]:
    """DataComp's tasks by key, in the suite's order."""
    rows = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    return {row["key"]: Task(**{**row, "tags": tuple(row["tags"])}) for row in rows}


@functools.cache
def load_others() -> dict[str, Task]:
    """The tasks that only other suites have, by key."""
    rows = yaml.safe_load(SUITES.read_text(encoding="utf-8"))["tasks"]
    absent = {"size": None, "classes": None, "chance": None, "tags": (), "counted": False}
    return {row["key"]: Task(**{**absent, "main_metric": KINDS[row["how"]][0], **row}) for row in rows}


def known_tasks() -> Iterator[Task]:
    yield from load_tasks().values()
    yield from load_others().values()


def counted() -> int:
    """How many tasks the average needs."""
    return sum(t.counted for t in load_tasks().values())


def task_of(name: str, kind: str = "classification") -> Task:
    """The task that a folder's name (`/` written as `-`) or a key stands for.

    If no suite has such a one it is one of its own, with the main metric of its kind (none for a kind that is not known).
    """
    for task in known_tasks():
        if name in (task.key, task.key.replace("/", "-"), task.key.removeprefix("fairness/")):
            return task
    main = KINDS.get(kind, (None,))[0]
    return Task(name, name, None, main, None, None, (), counted=False, how=kind if main else "")
