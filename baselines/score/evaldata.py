"""Evaluation data in DataComp's layout, checked before anything is scored.

`wds_<key with / as ->_test/` holds `classnames.txt`, `zeroshot_classification_templates.txt` (`{c}` is the class),
`test/nshards.txt` and `test/0.tar` … with `<sample>.{jpg,png,webp}` and `<sample>.cls`, the class's number in text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from baselines.score.metrics import Ints
from baselines.score.tasks import Task, task_of
from baselines.train.decode import Raw
from pools import shards, store
from pools.errors import InputError

PLACEHOLDER = "{c}"


@dataclass(frozen=True)
class TaskData:
    """One task's data, complete and consistent."""

    task: Task
    tars: tuple[str, ...]
    classnames: tuple[str, ...]
    templates: tuple[str, ...]
    labels: Ints  # of every image, in the order of the tars

    @property
    def digest(self) -> str:
        """Identity of all files, by name, size and time of change, and of the words."""
        words = "\n".join([*self.classnames, "", *self.templates])
        files = " ".join(store.digest(t) for t in self.tars)
        return hashlib.sha256(f"{words}\n{files}".encode()).hexdigest()

    def raws(self) -> Iterator[Raw]:
        """The images in order, undecoded; the target is the label."""
        labels = iter(self.labels)
        for path in self.tars:
            with store.open_input(path) as f:
                for sample in shards.samples(path):
                    extension = sample.image_extension
                    assert extension is not None  # checked when the data were opened
                    yield Raw(f"{path}: {sample.key}", shards.read(f, sample, extension), int(next(labels)))


def find(evals: str) -> dict[str, str]:
    """Folders of tasks below `evals`: {name with `/` as `-`: path}. Raises InputError if there is none."""
    if not store.is_dir(evals):
        raise InputError("no such folder", where=evals, expected="a folder of wds_<task>_test folders")
    tops = sorted({p.split("/")[0] for p in store.list_files(evals)})
    found = {t.removeprefix("wds_").removesuffix("_test"): store.join(evals, t) for t in tops if t.startswith("wds_")}
    if not found:
        raise InputError("no task here", where=evals, expected="folders named wds_<task>_test")
    return found


def choose(evals: str, wanted: Sequence[str] | None) -> dict[str, str]:
    """The folders of the tasks asked for, or of all. Raises InputError naming those that are not there."""
    found = find(evals)
    if wanted is None:
        return found
    chosen = {}
    for asked in wanted:
        name = asked.replace("/", "-").removeprefix("wds_").removesuffix("_test")
        if name not in found:
            raise InputError(f"no data for task {asked!r}", where=evals, expected=f"one of {', '.join(found)}")
        if not (task := task_of(name)).is_classification:
            raise InputError(
                f"task {task.key} is measured by {task.main_metric}, which cannot be computed yet",
                where="--tasks",
                expected="a task of zero-shot classification",
            )
        chosen[name] = found[name]
    return chosen


def open_task(name: str, folder: str) -> TaskData:
    """Reads names, templates and labels of one task. Raises InputError where a file is missing or contradicts another."""
    classnames = _lines(store.join(folder, "classnames.txt"))
    place = store.join(folder, "zeroshot_classification_templates.txt")
    templates = _lines(place)
    for number, template in enumerate(templates, 1):
        if PLACEHOLDER not in template:
            raise InputError(
                f"line {number}: no {PLACEHOLDER} in {template!r}", where=place, expected=f"a photo of a {PLACEHOLDER}"
            )
    tars = _tars(store.join(folder, "test"))
    labels = np.fromiter((n for tar in tars for n in _labels(tar)), np.int64)
    if len(labels) == 0:
        raise InputError("no image", where=store.join(folder, "test"), expected="one image or more")
    if labels.max() >= len(classnames):
        raise InputError(
            f"{len(classnames)} lines, the labels go up to {labels.max()}",
            where=store.join(folder, "classnames.txt"),
            expected=f"{labels.max() + 1} names or more, the first line for label 0",
        )
    return TaskData(task_of(name), tuple(tars), tuple(classnames), tuple(templates), labels)


def _lines(path: str) -> list[str]:
    if not store.exists(path):
        raise InputError("missing", where=path, expected="a text file, a line each")
    try:
        lines = store.read_bytes(path).decode("utf-8").split("\n")
    except UnicodeDecodeError as e:
        raise InputError(f"not UTF-8: {e}", where=path) from e
    lines = [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    if not lines:
        raise InputError("empty", where=path, expected="one line or more")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise InputError(f"line {number} of {len(lines)} is blank", where=path, expected="a name or template in every line")
    return lines


def _tars(folder: str) -> list[str]:
    path = store.join(folder, "nshards.txt")
    if not store.exists(path):
        raise InputError("missing", where=path, expected="the number of tars", fix="fetch the task's data again")
    text = store.read_bytes(path).decode("utf-8", "replace").strip()
    if not text.isdecimal():
        raise InputError(f"{text[:40]!r} is no number", where=path, expected="the number of tars")
    wanted = {f"{i}.tar" for i in range(int(text))}
    have = {p for p in store.list_files(folder, ".tar") if "/" not in p}
    if wanted != have:
        missing, extra = sorted(wanted - have), sorted(have - wanted)
        told = [f"{len(have)} tars, {path.rpartition('/')[2]} says {text}"]
        told += [f"missing {', '.join(missing[:5])}"] if missing else []
        told += [f"not counted {', '.join(extra[:5])}"] if extra else []
        raise InputError("; ".join(told), where=folder, expected="0.tar to the last", fix="fetch the task's data again")
    return [store.join(folder, f"{i}.tar") for i in range(len(wanted))]


def _labels(path: str) -> Iterator[int]:
    with store.open_input(path) as f:
        for sample in shards.samples(path):
            if sample.image_extension is None or "cls" not in sample.members:
                raise InputError(
                    f"sample {sample.key!r} has {', '.join('.' + e for e in sample.members)}",
                    where=path,
                    expected="an image (.jpg, .png, .webp) and its .cls",
                )
            text = shards.read(f, sample, "cls").decode("utf-8", "replace").strip()
            if not text.isdecimal():
                raise InputError(f"sample {sample.key!r}: label {text[:40]!r}", where=path, expected="a class's number")
            yield int(text)
