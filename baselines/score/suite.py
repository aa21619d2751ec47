"""Scores a model on the tasks of a folder. A task that was scored before, with the same weights on the same data, is not
scored again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import torch

from baselines.score.encode import Encoder, Unreadable
from baselines.score.evaldata import choose
from baselines.score.kinds import open_task
from baselines.score.results import Ledger, Scores
from baselines.train.model import Loaded, load_model
from pipeline.device import Device, choose_device
from pipeline.engine import default_workers
from pipeline.progress import Progress
from pools.errors import InputError
from pools.manifest import unfinished

VERSION = 2  # of the suite: raised when a score would change


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
    table: bool = True,
) -> Scores:
    """Scores a training run, or `model` (an architecture) with the weights file `pretrained`, on all tasks in `evals`.

    Files go to `output`, by default the run's folder; `table` prints the results. All tasks are checked before the first
    is scored. Raises InputError for data that are incomplete or contradict themselves and, unless `unreadable` says
    otherwise, WorkFailed for an image that cannot be read.
    """
    source, weights, target = _what(run, model, pretrained, output)
    if unreadable not in get_args(Unreadable):
        raise InputError(f"unreadable is {unreadable!r}", where="--unreadable", expected="error, wrong or exclude")
    if batch_size < 1:
        raise InputError(f"batch size {batch_size}", where="--batch-size", expected="1 or more")
    place = choose_device(device, cuda=torch.cuda.is_available())
    chosen = choose(evals, tasks)
    data = [open_task(f) for f in chosen if not f.obstacle]
    other = tuple(f"{f.task.key} ({f.obstacle})" for f in chosen if f.obstacle)
    loaded = load_model(source, weights, place)
    ledger = Ledger.open(target, _identity(loaded, unreadable), overwrite=overwrite)
    todo = [d for d in data if ledger.known(d.task.key, d.digest) is None]
    if len(todo) < len(data):
        Progress.note(f"score: {len(data) - len(todo)} of {len(data)} tasks scored before ({target})", quiet=quiet)
    count = (0 if place == "cpu" else min(8, default_workers())) if workers is None else workers
    loaded.model.eval()
    encoder = Encoder(loaded, place, batch_size, count, unreadable)
    with Progress("score", len(todo), quiet=quiet, unit="tasks") as progress:
        for d in todo:
            ledger.add(d.score(encoder))
            progress.advance(detail=d.task.key)
    scores = Scores(tuple(r for d in data if (r := ledger.known(d.task.key, d.digest)) is not None), other)
    if table and not quiet:
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
