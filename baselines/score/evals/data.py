"""Evaluation data in DataComp's layout, checked before anything is scored.

`wds_<key with / as ->_test/` holds `test/nshards.txt` and `test/0.tar` … with `<sample>.{jpg,png,webp}` and, beside each
image, what it is judged by. `dataset_type.txt` names the kind of task (`classification`, `retrieval`); without it the
suite's table does, and a task outside the suite is one of classification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from baselines.score.encode import Encoder
from baselines.score.evals.tars import Pictures, samples
from baselines.score.results import Result
from baselines.score.suites import DATACOMP, suite_of
from baselines.score.tasks import Task, known_tasks, load_tasks, task_of
from pools import shards, store
from pools.errors import InputError


class TaskData(Protocol):
    """One task's data, complete and consistent, and how a model is scored on them."""

    @property
    def task(self) -> Task: ...

    @property
    def images(self) -> int:
        """How many there are to look at."""

    @property
    def digest(self) -> str:
        """Identity of all that the score depends on but the model."""

    def score(self, encoder: Encoder) -> Result: ...


@dataclass(frozen=True)
class Folder:
    """Where a task's data lie; `obstacle` says why they cannot be scored, empty if they can."""

    path: str
    task: Task
    obstacle: str = ""

    @classmethod
    def of(cls, name: str, path: str) -> Folder:
        """Raises InputError if the folder says one kind of task and the suite another."""
        place = store.join(path, "dataset_type.txt")
        told = text_lines(store.read_bytes(place), place)[0].strip().lower() if store.exists(place) else None
        task = task_of(name, told or "classification")
        if task.key not in {t.key for t in known_tasks()}:
            return cls(path, task, "" if task.kind else f"data of type {told!r} cannot be scored")
        if told not in (None, "classification" if task.kind == "faces" else task.kind):
            raise InputError(f"{told!r}, but {task.key} is measured by {task.main_metric}", where=place, expected=task.kind)
        return cls(path, task)


def find(evals: str) -> dict[str, str]:
    """Folders of tasks below `evals`: {name with `/` as `-`: path}. Raises InputError if there is none."""
    if not store.is_dir(evals):
        raise InputError("no such folder", where=evals, expected="a folder of wds_<task>_test folders")
    tops = sorted({p.split("/")[0] for p in store.list_files(evals)})
    found = {t.removeprefix("wds_").removesuffix("_test"): store.join(evals, t) for t in tops if t.startswith("wds_")}
    if not found:
        raise InputError("no task here", where=evals, expected="folders named wds_<task>_test")
    return found


def choose(evals: str, wanted: Sequence[str] | None, suite: str = DATACOMP) -> list[Folder]:
    """The folders of the tasks asked for, or of all, in the suite's order, then by name.

    Of DataComp's suite the folders that are there are taken, and those of other tasks as well; of another suite its own
    tasks alone, each with an obstacle where its data are not there. Raises InputError naming those asked for that are not
    there or cannot be scored, or if none is left to score.
    """
    found = find(evals)
    if suite != DATACOMP:
        return _of_suite(evals, found, wanted, suite)
    names = list(found)
    if wanted is not None:
        names = [asked.replace("/", "-").removeprefix("wds_").removesuffix("_test") for asked in wanted]
        for asked, name in zip(wanted, names, strict=True):
            if name not in found:
                raise InputError(f"no data for task {asked!r}", where=evals, expected=f"one of {', '.join(found)}")
    order = {key: i for i, key in enumerate(load_tasks())}
    folders = [Folder.of(name, found[name]) for name in dict.fromkeys(names)]
    folders.sort(key=lambda f: (order.get(f.task.key, len(order)), f.path))
    obstacles = [f"{f.task.key}: {f.obstacle}" for f in folders if f.obstacle]
    if obstacles and (wanted is not None or len(obstacles) == len(folders)):
        raise InputError("; ".join(obstacles), where=evals, expected="tasks of zero-shot classification or retrieval")
    return folders


def _of_suite(evals: str, found: dict[str, str], wanted: Sequence[str] | None, name: str) -> list[Folder]:
    """`choose` of a suite beside DataComp's."""
    suite = suite_of(name)
    tasks = list(suite.tasks)
    if wanted is not None:
        tasks = []
        for asked in wanted:
            bare = asked.removeprefix("wds_").removesuffix("_test")
            task = suite.find(bare) or (suite.own_task(bare) if bare in found else None)
            if task is None:
                keys = ", ".join(t.key for t in suite.tasks)
                more = ", or a folder's name" if suite.own else ""
                raise InputError(f"no task {asked!r} in suite {name}", where="--task", expected=f"one of {keys}{more}")
            tasks.append(task)
    folders = []
    for task in {t.key: t for t in tasks}.values():
        path = next((found[n] for n in task.folders if n in found), None)
        if path is None:
            folders.append(Folder(evals, task, f"no data: wds_{task.folders[-1]}_test"))
            continue
        lacks = [file for file in task.needs if not store.exists(store.join(path, file))]
        folders.append(Folder(path, task, f"no {' and '.join(lacks)} in {store.name(path)}" if lacks else ""))
    missing = [f"{f.task.key}: {f.obstacle}" for f in folders if f.obstacle]
    if missing and (wanted is not None or len(missing) == len(folders)):
        raise InputError("; ".join(missing), where=evals, expected=f"the data of suite {name}")
    return folders


def open_tars(folder: str) -> tuple[str, ...]:
    """The tars of a test split, as many as `nshards.txt` says. Raises InputError if there are others."""
    path = store.join(folder, "nshards.txt")
    if not store.exists(path):
        raise InputError("missing", where=path, expected="the number of tars", fix="fetch the task's data again")
    text = store.read_bytes(path).decode("utf-8", "replace").strip()
    if not is_count(text):
        raise InputError(f"{text[:40]!r} is no number", where=path, expected="the number of tars")
    have = {p for p in store.list_files(folder, ".tar") if "/" not in p}
    wanted = {f"{i}.tar" for i in range(min(int(text), len(have) + 5))}  # enough to name some that are missing
    if wanted != have:
        missing, extra = sorted(wanted - have), sorted(have - wanted)
        told = [f"{len(have)} tars, {path.rpartition('/')[2]} says {text}"]
        told += [f"missing {', '.join(missing[:5])}"] if missing else []
        told += [f"not counted {', '.join(extra[:5])}"] if extra else []
        raise InputError("; ".join(told), where=folder, expected="0.tar to the last", fix="fetch the task's data again")
    return tuple(store.join(folder, f"{i}.tar") for i in range(len(wanted)))


def check_names(names: Sequence[str], highest: int, where: str) -> None:
    """Raises InputError if there are not enough names of classes for the highest label."""
    if highest >= len(names):
        raise InputError(
            f"{len(names)} lines, the labels go up to {highest}",
            where=where,
            expected=f"{highest + 1} names or more, the first line for label 0",
        )


def is_count(text: str) -> bool:
    """Whether a text is a whole number that people would write."""
    return text.isdecimal() and len(text) < 10


def companions(tars: Sequence[str], extension: str) -> Iterator[tuple[str, str, bytes]]:
    """(tar, sample's key, content of its member `extension`) in order.

    Raises InputError where a sample lacks it, or has no image.
    """
    for path in tars:
        with store.open_input(path) as f:
            for sample in samples(path):
                if sample.image_extension is None or extension not in sample.members:
                    raise InputError(
                        f"sample {sample.key!r} has {', '.join('.' + e for e in sample.members)}",
                        where=path,
                        expected=f"an image (.jpg, .png, .webp) and its .{extension}",
                    )
                yield path, sample.key, shards.read(f, sample, extension)


def images(tars: Sequence[str], targets: Iterable[int]) -> Pictures:
    """The images in order, undecoded, each with its target."""
    return Pictures(tuple(tars), targets if isinstance(targets, Sequence) else tuple(targets))


def digest(tars: Sequence[str], words: Sequence[str]) -> str:
    """Identity of files, by name, size and time of change, and of words."""
    files = " ".join(store.digest(t) for t in tars)
    return sha256([*words, files])


def sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_lines(path: str) -> list[str]:
    """The lines of a file. Raises InputError if it is missing, and as `text_lines` does."""
    if not store.exists(path):
        raise InputError("missing", where=path, expected="a text file, a line each")
    return text_lines(store.read_bytes(path), path)


def text_lines(data: bytes, where: str) -> list[str]:
    """Lines of UTF-8. Raises InputError, naming `where`, if there is none, if one is blank, or if it is no UTF-8."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as e:
        raise InputError(f"not UTF-8: {e}", where=where) from e
    lines = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if not lines:
        raise InputError("empty", where=where, expected="one line or more")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"line {number} of {len(lines)} is blank", where=where, expected="a text in every line")
    return lines
