"""Scores a model on the tasks of a folder. A task that was scored before, with the same weights on the same data, is not
scored again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.evaldata import TaskData, choose, open_task
from baselines.score.results import Ledger, Result, Scores
from baselines.score.tasks import load_tasks, task_of
from baselines.score.zeroshot import class_vectors, classify
from baselines.train.decode import Decoder, decoded
from baselines.train.model import Loaded, load_model
from pipeline.device import Device, choose_device
from pipeline.engine import default_workers
from pipeline.progress import Progress
from pools.errors import InputError, WorkFailed
from pools.manifest import unfinished

VERSION = 1  # of the suite: raised when a score would change
Unreadable = Literal["error", "wrong", "exclude"]


def score(
    run: str | None,
    evals: str,
    *,
    model: str | None = None,
    pretrained: str | None = None,
    tasks: Sequence[str] | None = None,
    output: str | None = None,
    device: Device = "auto",
    batch_size: int = 256,
    workers: int | None = None,
    unreadable: Unreadable = "error",
    overwrite: bool = False,
    quiet: bool = False,
) -> Scores:
    """Scores a training run, or `model` (an architecture) with the weights file `pretrained`, on all tasks in `evals`.

    Files go to `output`, by default the run's folder. All tasks are checked before the first is scored. Raises InputError
    for data that are incomplete or contradict themselves and, unless `unreadable` says otherwise, WorkFailed for an image
    that cannot be read.
    """
    source, weights, target = _what(run, model, pretrained, output)
    if unreadable not in get_args(Unreadable):
        raise InputError(f"unreadable is {unreadable!r}", where="--unreadable", expected="error, wrong or exclude")
    if batch_size < 1:
        raise InputError(f"batch size {batch_size}", where="--batch-size", expected="1 or more")
    place = choose_device(device, cuda=torch.cuda.is_available())
    chosen = choose(evals, tasks)
    data, other = _open_all(chosen)
    loaded = load_model(source, weights, place)
    ledger = Ledger.open(target, _identity(loaded, unreadable), overwrite=overwrite)
    todo = [d for d in data if ledger.known(d.task.key, d.digest) is None]
    if len(todo) < len(data):
        Progress.note(f"score: {len(data) - len(todo)} of {len(data)} tasks scored before ({target})", quiet=quiet)
    count = (0 if place == "cpu" else min(8, default_workers())) if workers is None else workers
    loaded.model.eval()
    with Progress("score", len(todo), quiet=quiet, unit="tasks") as progress:
        for d in todo:
            ledger.add(_score_task(d, loaded, place, batch_size, count, unreadable))
            progress.advance(detail=d.task.key)
    scores = Scores(tuple(r for d in data if (r := ledger.known(d.task.key, d.digest)) is not None), other)
    if not quiet:
        print(scores.table())
    return scores


def _what(run: str | None, model: str | None, pretrained: str | None, output: str | None) -> tuple[str, str | None, str]:
    """Where the model comes from, its weights file if it is named, and the folder to write to."""
    if (run is None) == (model is None):
        raise InputError(
            "no model, or two of them", where="RUN, --model", expected="either a run folder, or --model with --pretrained"
        )
    if run is not None:
        if pretrained is None and unfinished(run):
            raise InputError(
                "the training has not finished",
                where=run,
                expected="a finished run",
                fix="run the same `winnow train` again, or name a checkpoint with --pretrained",
            )
        return run, pretrained, output or run
    assert model is not None
    if output is None:
        raise InputError("no place for the results", where="--output", expected="a folder, since there is no run folder")
    return model, pretrained, output


def _identity(loaded: Loaded, unreadable: Unreadable) -> dict[str, Any]:
    """What results of one folder have in common, whatever their task."""
    return {
        "suite_version": VERSION,
        "model": loaded.config,
        "weights_sha256": loaded.weights_sha256,
        "unreadable": unreadable,
    }


def _open_all(chosen: dict[str, str]) -> tuple[list[TaskData], tuple[str, ...]]:
    """The data of all classification tasks in the suite's order (then by name), and a line for every other one."""
    order = {key: i for i, key in enumerate(load_tasks())}
    named = sorted((order.get(task_of(n).key, len(order)), n) for n in chosen)
    supported = [n for _, n in named if task_of(n).is_classification]
    other = [task_of(n) for _, n in named if n not in supported]
    lines = tuple(f"{t.key} ({t.main_metric or 'no main metric'} cannot be computed yet)" for t in other)
    if not supported:
        raise InputError(f"no task that can be scored: {'; '.join(lines)}", expected="a task of zero-shot classification")
    return [open_task(n, chosen[n]) for n in supported], lines


def _score_task(data: TaskData, loaded: Loaded, device: str, batch_size: int, workers: int, unreadable: Unreadable) -> Result:
    classes = len(data.classnames)
    vectors = class_vectors(loaded.model.encode_text, loaded.tokenizer, data.classnames, data.templates, device)
    chunks = decoded(data.raws(), Decoder(loaded.transform, torch.tensor), workers)
    labels, ranks, lost = [], [], []
    for item, rank in classify(loaded.model, chunks, vectors, device=device, batch_size=batch_size):
        if rank is None:
            lost.append(item)
            if unreadable == "error":
                raise WorkFailed(
                    f"{data.task.key}: {item.uid} cannot be read: {item.detail}\n"
                    "  → fetch the data again; or count it with --unreadable wrong, or leave it out with --unreadable exclude"
                )
            if unreadable == "exclude":
                continue
        labels.append(item.target)
        ranks.append(classes if rank is None else rank)
    if not labels:
        raise WorkFailed(f"{data.task.key}: none of {len(lost)} images can be read")
    truth = np.array(labels, np.int64)
    values = metrics.classification(truth, np.array(ranks, np.int64), classes)
    main = values[data.task.main_metric or "acc1"]
    line = {"key": data.task.key, "dataset": data.task.name, "metrics": {**values, "main_metric": main}}
    record = {
        "data": data.digest,
        "split": "test",
        "images": len(labels),
        "classes": classes,
        "chance": 1 / classes if data.task.chance is None else data.task.chance,
        "counted": data.task.counted,
        "absent_classes": metrics.absent(truth, classes),
        "unreadable": len(lost),
        "unreadable_images": [f"{i.uid.rpartition('/')[2]}: {i.detail}" for i in lost[:20]],
        "classnames_sha256": _sha256(data.classnames),
        "templates_sha256": _sha256(data.templates),
    }
    return Result(data.task, line, record)


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
