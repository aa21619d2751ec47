"""What results come to: the average over the tasks that count, and over DataComp's groups of them.

Reads `eval_results.jsonl` as `winnow score`, DataComp's own code and others who publish in its form write it; lines of other
suites count for nothing. `eval_manifest.json` beside it, where there is one, says which version of the suite it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from baselines.score.tasks import Task, load_tasks
from pools import store
from pools.errors import InputError
from pools.outputs import TrainingRun

MANIFEST = "eval_manifest.json"
FIRST = "ImageNet"  # the group of one task
# DataComp's groups (Gadre et al. 2023), by what the tags of their tasks begin with; tasks of other tags count in none.
GROUPS = {"ImageNet dist. shifts": "imagenet_shift", "VTAB": "vtab", "Retrieval": "retrieval"}
AVERAGE = "Average"
COLUMNS = (FIRST, *GROUPS, AVERAGE)
_ROUNDING = 1e-6  # in which a file's main metric may differ from the metric that it is


@dataclass(frozen=True)
class Aggregate:
    """Means of main metrics, 0..1; None where a task is missing of those it is over."""

    groups: Mapping[str, float | None]
    average: float | None
    partial_mean: float | None  # over the tasks there are, if some are missing
    scored: int
    of: int
    missing: tuple[str, ...]  # keys

    def column(self, name: str) -> float | None:
        """One of COLUMNS."""
        return self.average if name == AVERAGE else self.groups[name]

    def lines(self) -> list[str]:
        """For people."""
        if self.average is None:
            some = f", partial mean {self.partial_mean:.4f}" if self.partial_mean is not None else ""
            lines = [f"{self.scored} of the {self.of} tasks that count: no average{some}"]
            return lines + ([f"missing: {', '.join(self.missing)}"] if self.scored else [])
        width = max(map(len, COLUMNS))
        head = [f"all {self.of} tasks that count"]
        return head + [f"{name:{width}}  {value:.4f}" for name in COLUMNS if (value := self.column(name)) is not None]

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        return {
            **self.groups,
            "average": self.average,
            "partial_mean": self.partial_mean,
            "scored": self.scored,
            "of": self.of,
            "missing": list(self.missing),
        }


def aggregate(
    scores: Mapping[str, float | None],
    *,
    allow_missing: bool = False,
    where: str | None = None,
    tasks: Sequence[Task] | None = None,
) -> Aggregate:
    """From main metrics by key, over `tasks` (those of the suite), of which the ones that count are taken.

    Raises InputError that names the tasks without a score, unless they may be missing: then there is no average, and a mean
    over the others.
    """
    counted = [t for t in (tasks or load_tasks().values()) if t.counted]
    found = {t.key: s for t in counted if (s := scores.get(t.key)) is not None}
    missing = tuple(t.key for t in counted if t.key not in found)
    if missing and not allow_missing:
        raise InputError(
            f"{len(missing)} of the {len(counted)} tasks that count have no score: {', '.join(missing)}",
            where=where,
            expected="a score for each",
            fix="`winnow score` them, or take a partial mean with --allow-missing",
        )
    groups = {FIRST: found.get("imagenet1k")}
    for name, tag in GROUPS.items():
        groups[name] = _mean([found.get(t.key) for t in counted if any(g.startswith(tag) for g in t.tags)])
    average = _mean([found.get(t.key) for t in counted])
    partial = fmean(found.values()) if missing and found else None
    return Aggregate(groups, average, partial, len(found), len(counted), missing)


def _mean(values: Sequence[float | None]) -> float | None:
    """None of nothing, and where one is None."""
    numbers = [v for v in values if v is not None]
    return fmean(numbers) if numbers and len(numbers) == len(values) else None


@dataclass(frozen=True)
class ResultsFile:
    """A results file: metrics by key of the task, and what is known of how they came to be."""

    path: str
    metrics: Mapping[str, Mapping[str, float | None]]
    suite_version: int | None = None
    weights_sha256: str | None = None

    @property
    def scores(self) -> dict[str, float | None]:
        """Main metrics by key."""
        return {key: metrics.get("main_metric") for key, metrics in self.metrics.items()}

    def aggregate(self, *, allow_missing: bool = False) -> Aggregate:
        return aggregate(self.scores, allow_missing=allow_missing, where=self.path)


def read(path: str) -> ResultsFile:
    """A results file, or that of a training run's folder.

    Raises InputError for what is not in DataComp's form, a task with two results, a main metric that is not the one of its
    task, a score that is no share.
    """
    path = TrainingRun(path).results if store.is_dir(path) else path
    if not store.exists(path):
        raise InputError("no results", where=path, expected="eval_results.jsonl, or a folder that holds it")
    metrics: dict[str, Mapping[str, float | None]] = {}
    for number, text in enumerate(store.read_lines(path), 1):
        if text.strip():
            where = f"{path}:{number}"
            key, found = _line(text, where)
            if metrics.setdefault(key, found) != found:
                raise InputError(f"a second result of {key}, and another one", where=where, expected="one a task")
    manifest = store.join(path.rpartition("/")[0] or ".", MANIFEST)
    held = store.read_json(manifest) if store.exists(manifest) else {}
    return ResultsFile(path, metrics, held.get("suite_version"), held.get("weights_sha256"))


def same_suite(files: Sequence[ResultsFile]) -> int | None:
    """The version of the suite that files have, None if none says. Raises InputError if they have several."""
    versions = {f.suite_version: f.path for f in files if f.suite_version is not None}
    if len(versions) > 1:
        said = " and ".join(f"version {v} ({path})" for v, path in sorted(versions.items()))
        raise InputError(
            f"results of different suites: {said}",
            where="suite_version",
            expected="results of one version, since others are other numbers",
            fix="run `winnow score` anew for the older ones",
        )
    return next(iter(versions), None)


def _line(text: str, where: str) -> tuple[str, Mapping[str, float | None]]:
    try:
        line = json.loads(text)
        metrics = {name: _number(value) for name, value in line["metrics"].items()}
        key, main = _key(line), metrics["main_metric"]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        expected = '{"key": …, "dataset": …, "metrics": {…, "main_metric": …}}'
        raise InputError(f"not a result: {e!r}", where=where, expected=expected) from e
    task = load_tasks().get(key)
    if task is not None and task.counted and main is not None:
        if not 0 <= main <= 1:
            raise InputError(f"{key} has {main:g}", where=where, expected="a share, 0 to 1")
        own = metrics.get(task.main_metric or "")
        if own is not None and abs(own - main) > _ROUNDING:
            raise InputError(f"main_metric is {main:g}, {task.main_metric} {own:g}", where=where, expected="one and the same")
    return key, metrics


def _key(line: Mapping[str, Any]) -> str:
    """The key of a line's task; DataComp knows tasks by the name of the data set too."""
    if line.get("key") in load_tasks():
        return str(line["key"])
    return next((t.key for t in load_tasks().values() if t.name == line["dataset"]), str(line.get("key", line["dataset"])))


def _number(value: Any) -> float | None:
    """NaN, which DataComp writes for groups without images, is no number."""
    number = None if value is None else float(value)
    return None if number is None or math.isnan(number) else number
