"""What was scored: a result a task, the table, and the two files that hold them.

`eval_results.jsonl` is in DataComp's form. `eval_manifest.json` beside it says what the numbers rest on: the weights'
SHA-256, and for each task its kind, the number of images and of classes or texts, and which images could not be read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from baselines.score.tasks import Task, counted, load_tasks, task_of
from pools import store
from pools.outputs import TrainingRun

if TYPE_CHECKING:
    from baselines.train.decode import Raw

MANIFEST = "eval_manifest.json"


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
        assert task.main_metric is not None
        line = {"key": task.key, "dataset": task.name, "metrics": {**values, "main_metric": values[task.main_metric]}}
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
    def main_metric(self) -> float:
        return float(self.line["metrics"]["main_metric"])


@dataclass(frozen=True)
class Scores:
    """The results of the tasks asked for; `unsupported` are tasks whose metric cannot be computed yet."""

    results: tuple[Result, ...]
    unsupported: tuple[str, ...] = ()

    def table(self) -> str:
        """A row a task: main metric beside what guessing would give."""
        width = max([4, *(len(r.line["dataset"]) for r in self.results)])
        rows = [f"{'task':{width}}  {'metric':21}  score   chance  images"]
        for r in self.results:
            chance, images, note = r.record["chance"], r.record["images"], ""
            if r.task.size not in (None, images):
                note = f" of {r.task.size}: not the whole test set"
            if r.record["unreadable"]:
                note += f" ({r.record['unreadable']} unreadable)"
            name, metric = r.line["dataset"], r.task.main_metric
            rows.append(f"{name:{width}}  {metric:21}  {r.main_metric:.4f}  {chance:.4f}  {images}{note}")
        scored = sum(r.task.counted for r in self.results)
        rows.append(f"{scored} of the {counted()} tasks that count: no average")
        rows += [f"not scored: {u}" for u in self.unsupported]
        return "\n".join(rows)

    def summary(self, output: str) -> dict[str, Any]:
        """The same for machines."""
        results = {
            r.line["key"]: {**r.line["metrics"], **{k: r.record[k] for k in ("chance", "images", "unreadable")}}
            for r in self.results
        }
        return {"stage": "score", "output": output, "results": results, "not_scored": list(self.unsupported)}


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
        text = "".join(json.dumps(r.line, ensure_ascii=False, allow_nan=False) + "\n" for r in self.results.values())
        store.write_bytes(TrainingRun(self.folder).results, text.encode())
        records = {k: r.record for k, r in self.results.items()}
        store.write_json(store.join(self.folder, MANIFEST), {**self.identity, "tasks": records})
