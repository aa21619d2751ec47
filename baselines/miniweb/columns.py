"""The columns of the demo's leaderboard, each a mean over tasks, and how they are got from a run's results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from baselines.miniweb.languages import HIGH, LOW
from baselines.score.results import MANIFEST
from pools import store
from pools.errors import InputError
from pools.outputs import TrainingRun


@dataclass(frozen=True)
class Column:
    """The mean of some metrics over the tasks `miniweb-<kind>-<language>`."""

    key: str
    title: tuple[str, str]  # what, and in which languages
    kind: str
    languages: tuple[str, ...]
    metrics: tuple[str, ...]
    guesses: int = 1  # how many guesses the metrics allow, which multiplies the chance of one

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(f"miniweb-{self.kind}-{language}" for language in self.languages)


OTHER_HIGH = tuple(code for code in HIGH if code != "en")
_TOP1, _R1, _R5 = ("acc1",), ("mean_recall@1",), ("image_retrieval_recall@5", "text_retrieval_recall@5")
COLUMNS = (
    Column("objects_en", ("objects", "en"), "objects", ("en",), _TOP1),
    Column("objects_high", ("objects", "high"), "objects", OTHER_HIGH, _TOP1),
    Column("objects_low", ("objects", "low"), "objects", LOW, _TOP1),
    Column("cultural_low", ("cultural", "low"), "cultural", LOW, _TOP1),
    Column("recall_1_en", ("R@1", "en"), "retrieval", ("en",), _R1),
    Column("recall_5_en", ("R@5", "en"), "retrieval", ("en",), _R5, 5),
    Column("recall_5_high", ("R@5", "high"), "retrieval", OTHER_HIGH, _R5, 5),
    Column("recall_5_low", ("R@5", "low"), "retrieval", LOW, _R5, 5),
)
FIRST = COLUMNS[0].key


@dataclass(frozen=True)
class Results:
    """What a run was scored on: {task: {metric: 0..1}}, and {task: main metric of a model that guesses}."""

    metrics: Mapping[str, Mapping[str, float | None]]
    chances: Mapping[str, float]

    def score(self, column: Column) -> float | None:
        """None unless every task of the column was scored: the mean over fewer languages is another number."""
        return _mean([self.metrics.get(task, {}).get(metric) for task in column.tasks for metric in column.metrics])

    def chance(self, column: Column) -> float | None:
        """Of `guesses` tries at one of n: guesses / n."""
        one = _mean([self.chances.get(task) for task in column.tasks])
        return None if one is None else min(1.0, column.guesses * one)


def read_results(run: str) -> Results:
    """Of a training run's folder; nothing if it was not scored. Raises InputError for files that are damaged."""
    lines, manifest = TrainingRun(run).results, store.join(run, MANIFEST)
    if not (store.exists(lines) and store.exists(manifest)):
        return Results({}, {})
    try:
        metrics = {s["key"]: _numbers(s["metrics"]) for s in map(json.loads, store.read_lines(lines))}
        chances = {key: float(record["chance"]) for key, record in store.read_json(manifest)["tasks"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InputError(f"not results: {e!r}", where=lines, expected="what `winnow score` writes") from e
    return Results(metrics, chances)


def _numbers(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else float(value) for name, value in metrics.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [v for v in values if v is not None]
    return fmean(numbers) if len(numbers) == len(values) else None
