"""Scores a model on the tasks of a folder. A task that was scored before, with the same weights on the same data, is not
scored again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch

from baselines.score.cache import GIB, DiskCache, identity
from baselines.score.encode import Encoder, Unreadable
from baselines.score.evals.data import Folder, choose
from baselines.score.kinds.opening import open_task
from baselines.score.results import Ledger, Scores
from baselines.score.suites import Suite, suite_of
from baselines.train.model import Loaded, load_model
from pipeline.device import Device, choose_device
from pipeline.engine import default_workers
from pipeline.progress import Progress
from pools import store
from pools.errors import InputError
from pools.manifest import unfinished

CPU_BATCH, GPU_BATCH = 64, 256  # images, or texts
VERSION = 2  # of the suite: raised when a score would change


@dataclass(frozen=True)
class Caching:
    """Where what a model made of images and prompts is kept between runs: by default in the folder of the results."""

    folder: str | None = None
    gib: float = 4.0  # at most; 0 keeps nothing


def score(
    run: str | None,
    evals: str,
    *,
    model: str | None = None,
    pretrained: str | None = None,
    suites: Sequence[str] = (),
    tasks: Sequence[str] | None = None,
    allow_missing: bool = False,
    output: str | None = None,
    caching: Caching = Caching(),
    device: Device = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    unreadable: Unreadable = "error",
    overwrite: bool = False,
    quiet: bool = False,
    table: bool = True,
) -> Scores:
    """Scores a training run, or `model` (an architecture) with the weights file `pretrained`, on the tasks in `evals`.

    Without `suites` what is there is scored. A suite that is named is asked for as a whole: tasks of it that are not there are
    an error, unless they may be missing or `tasks` names some. Files go to `output`, by default the run's folder; `table`
    prints the results. All tasks are checked before the first is scored. Raises InputError for data that are missing,
    incomplete or contradict themselves and, unless `unreadable` says otherwise, WorkFailed for an image that cannot be read.
    """
    source, weights, target = _what(run, model, pretrained, output)
    if unreadable not in get_args(Unreadable):
        raise InputError(f"unreadable is {unreadable!r}", where="--unreadable", expected="error, wrong or exclude")
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch size {batch_size}", where="--batch-size", expected="1 or more")
    if caching.gib < 0:
        raise InputError(f"{caching.gib:g} GiB", where="--cache-gib", expected="0 or more")
    place = choose_device(device, cuda=torch.cuda.is_available())
    wanted = tuple(suite_of(name) for name in dict.fromkeys(suites))
    chosen = _chosen(evals, wanted, tasks, allow_missing=allow_missing)
    data = [open_task(f) for f in chosen if not f.obstacle]
    other = tuple(f"{f.task.key} ({f.obstacle})" for f in chosen if f.obstacle)
    loaded = load_model(source, weights, place)
    ledger = Ledger.open(target, _identity(loaded, unreadable), overwrite=overwrite)
    todo = [d for d in data if ledger.known(d.task.key, d.digest) is None]
    if len(todo) < len(data):
        Progress.note(f"score: {len(data) - len(todo)} of {len(data)} tasks scored before ({target})", quiet=quiet)
    count = (0 if place == "cpu" else min(8, default_workers())) if workers is None else workers
    batch = batch_size or (CPU_BATCH if place == "cpu" else GPU_BATCH)
    loaded.model.eval()
    with contextlib.ExitStack() as stack:
        disk = _cache(caching, target, loaded, place, quiet=quiet) if todo else None
        encoder = Encoder(loaded, place, batch, count, unreadable, disk=stack.enter_context(disk) if disk else None)
        progress = stack.enter_context(Progress("score", len(todo), quiet=quiet, unit="tasks"))
        for d in todo:
            ledger.add(d.score(encoder))
            progress.advance(detail=d.task.key)
    scores = Scores(tuple(r for d in data if (r := ledger.known(d.task.key, d.digest)) is not None), other, wanted)
    if table and not quiet:
        print(scores.table())
    return scores


def _chosen(evals: str, suites: Sequence[Suite], tasks: Sequence[str] | None, *, allow_missing: bool) -> list[Folder]:
    """The folders of the suites asked for, each task once. Raises InputError naming all tasks of theirs that are missing."""
    if not suites:
        return choose(evals, tasks)
    found: dict[str, Folder] = {}
    lacking = []
    for suite in suites:
        here = {f.task.key: f for f in choose(evals, tasks, suite.name)}
        if tasks is None:
            keys = [t.key for t in suite.tasks]
            here = {key: f for key, f in here.items() if key in keys}
            counted = dict.fromkeys(m.task.key for m in suite.members if m.counted)
            if missing := [key for key in counted if key not in here or here[key].obstacle]:
                lacking.append(f"{len(missing)} of the {len(counted)} tasks of suite {suite.name}: {', '.join(missing)}")
        found |= {key: f for key, f in here.items() if key not in found}
    if lacking and not allow_missing:
        raise InputError(
            f"no data for {'; and for '.join(lacking)}",
            where=evals,
            expected="the data of every task",
            fix="`winnow evals fetch` them; or score what is there with --allow-missing, which gives no average",
        )
    return list(found.values())


def _cache(caching: Caching, target: str, loaded: Loaded, place: str, *, quiet: bool) -> DiskCache | None:
    """Raises InputError if there can be none where it was asked for."""
    folder = caching.folder or target
    if not caching.gib or loaded.weights_sha256 is None:
        return None
    if not store.is_local(folder):
        if caching.folder:
            raise InputError("not on this machine", where=folder, expected="a folder of this machine for --cache")
        return None
    return DiskCache(store.local_path(folder), identity(loaded, place), limit=int(caching.gib * GIB), quiet=quiet)


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
