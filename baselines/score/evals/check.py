"""Which tasks of a folder of evaluation data could be scored, found out before any model is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from baselines.score.evals.data import Folder, find
from baselines.score.kinds.opening import open_task
from baselines.score.suites import DATACOMP, Suite, suite_of
from baselines.score.tasks import Task, load_tasks
from pools.errors import InputError, WorkFailed


@dataclass(frozen=True)
class Checked:
    """One task: `obstacle` says why it cannot be scored, empty if it can; `note` what else there is to know."""

    task: Task
    images: int | None
    obstacle: str = ""
    note: str = ""
    counted: bool = False  # in the suite's mean

    @property
    def missing(self) -> bool:
        """Whether the average cannot be had for this task's lack."""
        return bool(self.obstacle) and self.counted

    def line(self, width: int) -> str:
        mark = "ok     " if not self.obstacle else "MISSING" if self.missing else "no     "
        images = "" if self.images is None else f"{self.images:,} images"
        return f"{mark}  {self.task.key:{width}}  {'; '.join(filter(None, [images, self.note, self.obstacle]))}"


def check(evals: str, suite: str = DATACOMP) -> Iterator[Checked]:
    """Every task of a suite in its order, then (for DataComp's) what else is in the folder.

    Tars are read through, pictures not decoded. Raises InputError if there is no such folder, or no task in it.
    """
    counted = {m.task.key for m in suite_of(suite).members if m.counted}
    tasks = _datacomp(evals) if suite == DATACOMP else _of_suite(evals, suite_of(suite))
    return (replace(found, counted=found.task.key in counted) for found in tasks)


def _of_suite(evals: str, suite: Suite) -> Iterator[Checked]:
    found = find(evals)
    for task in suite.tasks:
        path = next((found[name] for name in task.folders if name in found), None)
        yield _opened(Folder(path, task)) if path else Checked(task, None, "no such folder")


def _datacomp(evals: str) -> Iterator[Checked]:
    found = find(evals)
    folders: dict[str, Folder] = {}
    broken: dict[str, str] = {}
    for name, path in found.items():
        try:
            folder = Folder.of(name, path)
            folders[folder.task.key] = folder
        except InputError as e:
            broken[name] = e.what
    for task in load_tasks().values():
        if task.key in folders:
            yield _opened(folders.pop(task.key))
        else:
            names = (task.key.replace("/", "-"), task.key.removeprefix("fairness/"))
            yield Checked(task, None, next((broken[n] for n in names if n in broken), "no such folder"))
    yield from map(_opened, folders.values())


def _opened(folder: Folder) -> Checked:
    task = folder.task
    if folder.obstacle:
        return Checked(task, None, folder.obstacle)
    try:
        images = open_task(folder).images
    except (InputError, WorkFailed) as e:
        return Checked(task, None, str(e).splitlines()[0])
    note = "" if task.size in (None, images) else f"the whole test set has {task.size:,}"
    return Checked(task, images, "", note)
