"""What was scored: a result a task, the table, and the two files that hold them.

`eval_results.jsonl` is in DataComp's form. `eval_manifest.json` beside it says what the numbers rest on: the SHA-256 of the
results and of the weights, and for each task its kind, the number of images and of classes or texts, and which images could
not be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baselines.score.aggregate import MANIFEST as MANIFEST
from baselines.score.aggregate import Aggregate, aggregate
from baselines.score.suites import DATACOMP, Means, Suite
from baselines.score.tasks import Task, load_tasks, task_of
from pools import store
from pools.outputs import TrainingRun

if TYPE_CHECKING:
    from baselines.train.decode import Raw


@dataclass(frozen=True)
class Result:
    """One task's line of `eval_results.jsonl`, and what it rests on."""

    task: Task
    line: dict[str, Any]
    record: dict[str, Any]

    @classmethod
    def of(
        cls,
        task: Task,
        data: str,
        values: dict[str, float | None],
        lost: Sequence[Raw],
        *,
        images: int,
        chance: float,
        **more: Any,
    ) -> Result:
        """From the digest of the data, the metrics, the images that could not be read, and what else is to be recorded."""
        main = None if task.main_metric is None else values[task.main_metric]
        line = {"key": task.key, "dataset": task.name, "metrics": {**values, "main_metric": main}}
        record = {
            "data": data,
            "kind": task.kind,
            "split": "test",
            "images": images,
            "chance": chance,
            "counted": task.counted,
            "unreadable": len(lost),
            "unreadable_images": [f"{i.uid.rpartition('/')[2]}: {i.detail}" for i in lost[:20]],
            **more,
        }
        return cls(task, line, record)

    @property
    def main_metric(self) -> float | None:
        """None for a task that is reported and has none."""
        found: float | None = self.line["metrics"]["main_metric"]
        return found

    @property
    def note(self) -> str:
        """What a reader of the score should know besides it."""
        images, notes = self.record["images"], []
        if self.task.size not in (None, images):
            notes.append(f" of {self.task.size}: not the whole test set")
        if self.record["unreadable"]:
            notes.append(f" ({self.record['unreadable']} unreadable)")
        if worst := _worst_group(self.task.main_metric or "", self.line["metrics"]):
            notes.append(f" (the worst group, {worst[0]}: {worst[1]})")
        return "".join(notes)


@dataclass(frozen=True)
class Scores:
    """The results of the tasks asked for; `unsupported` are tasks that cannot be scored, `suites` those asked for by name."""

    results: tuple[Result, ...]
    unsupported: tuple[str, ...] = ()
    suites: tuple[Suite, ...] = ()

    @property
    def aggregate(self) -> Aggregate:
        return aggregate({r.task.key: r.main_metric for r in self.results}, allow_missing=True)

    @property
    def means(self) -> dict[str, Means]:
        """Of the suites asked for beside DataComp's, whose average is `aggregate`: they are never mixed."""
        metrics = {r.task.key: r.line["metrics"] for r in self.results}
        return {suite.name: suite.means(metrics) for suite in self.suites if suite.name != DATACOMP}

    def table(self) -> str:
        """A row a task: main metric beside what guessing would give."""
        width = max([4, *(len(r.line["dataset"]) for r in self.results)])
        rows = [f"{'task':{width}}  {'metric':21}  score   chance  images"]
        for r in self.results:
            chance, images = r.record["chance"], r.record["images"]
            name, metric = r.line["dataset"], r.task.main_metric
            score = "     –" if r.main_metric is None else f"{r.main_metric:.4f}"
            rows.append(f"{name:{width}}  {metric or 'reported only':21}  {score}  {chance:.4f}  {images}{r.note}")
        rows += self.aggregate.lines() if self._of_datacomp else []
        for suite in self.suites:
            rows += _mean_lines(suite, self.means[suite.name]) if suite.name != DATACOMP else []
        rows += [f"not scored: {u}" for u in self.unsupported]
        return "\n".join(rows)

    def summary(self, output: str) -> dict[str, Any]:
        """The same for machines."""
        results = {
            r.line["key"]: {**r.line["metrics"], **{k: r.record[k] for k in ("chance", "images", "unreadable")}}
            for r in self.results
        }
        told = {"stage": "score", "output": output, "results": results, "not_scored": list(self.unsupported)}
        told |= {"aggregate": self.aggregate.content()} if self.aggregate.scored and self._of_datacomp else {}
        return told | ({"suites": {name: m.content() for name, m in self.means.items()}} if self.means else {})

    @property
    def _of_datacomp(self) -> bool:
        """Whether DataComp's average is what one wants to know."""
        return not self.suites or any(suite.name == DATACOMP for suite in self.suites)


class Ledger:
    """The two result files of a folder, kept in step after every task."""

    def __init__(self, folder: str, identity: dict[str, Any], results: dict[str, Result]) -> None:
        self.folder, self.identity, self.results = folder, identity, results

    @classmethod
    def open(cls, folder: str, identity: dict[str, Any], *, overwrite: bool) -> Ledger:
        """What stands in the folder already, if it was made under the same identity; else nothing."""
        path, manifest = TrainingRun(folder).results, store.join(folder, MANIFEST)
        if overwrite or not (store.exists(path) and store.exists(manifest)):
            return cls(folder, identity, {})
        held = store.read_json(manifest)
        if {k: held.get(k) for k in identity} != identity:
            return cls(folder, identity, {})
        lines = {(line := json.loads(text))["key"]: line for text in store.read_lines(path)}
        known = {k: r for k, r in held["tasks"].items() if k in lines}
        return cls(folder, identity, {k: Result(task_of(k, r["kind"]), lines[k], r) for k, r in known.items()})

    def known(self, key: str, data: str) -> Result | None:
        """The result of a task if it was got from the data of that digest."""
        result = self.results.get(key)
        return result if result is not None and result.record["data"] == data else None

    def add(self, result: Result) -> None:
        self.results[result.task.key] = result
        order = {key: i for i, key in enumerate(load_tasks())}
        self.results = dict(sorted(self.results.items(), key=lambda kv: (order.get(kv[0], len(order)), kv[0])))
        lines = (json.dumps(r.line, ensure_ascii=False, allow_nan=False) + "\n" for r in self.results.values())
        content = "".join(lines).encode()
        store.write_bytes(TrainingRun(self.folder).results, content)
        records = {k: r.record for k, r in self.results.items()}
        told = {**self.identity, "results_sha256": hashlib.sha256(content).hexdigest(), "tasks": records}
        store.write_json(store.join(self.folder, MANIFEST), told)


def _mean_lines(suite: Suite, means: Means) -> list[str]:
    """What a suite came to, for people."""
    head = f"suite {suite.name}: {means.scored} of {means.of} scores"
    if means.missing:
        some = f", partial mean {means.partial_mean:.4f}" if means.partial_mean is not None else ""
        return [f"{head}: no mean{some}", f"missing: {', '.join(means.missing)}"]
    return [head + (f", mean {means.mean:.4f}" if means.mean is not None else "")]


def _worst_group(main: str, metrics: dict[str, float | None]) -> tuple[str, int] | None:
    """Label and size of the group whose share is the main metric, if that is the share of a group."""
    prefix, worst, field = main.partition("worst_" if "_worst_" in main else "wg")
    if not worst:
        return None
    for name, value in metrics.items():
        label = name.removeprefix(prefix)
        if label != name and label.startswith(f"{field}:" if field else "") and ":" in label and value == metrics[main]:
            return label, int(metrics.get(f"count_{label}") or 0)
    return None
