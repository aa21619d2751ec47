"""Annotate a pool: column families beside its metadata, made by models from its shards; one metadata file a unit.

Several annotators share one reading of the shards and one decoding of the pictures, and nothing else: each family has a
folder, a manifest and done marks of its own, and holds what it would hold if it had been made alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from pipeline import engine
from pipeline.annotate.annotator import Annotator
from pipeline.annotate.families import Family, Speed, Together, apart
from pipeline.annotate.plan import Plan
from pipeline.annotate.unit import Settings as Settings
from pipeline.annotate.unit import annotate_unit, load
from pipeline.device import choose_device, has_cuda
from pipeline.progress import Progress
from pools.errors import InputError
from pools.manifest import Outcome, owner_of

_NAMED = 8  # files that a dry run names


@dataclass(frozen=True)
class Annotated:
    """One family of a run: where it lies, what became of the rows, and how long it took (None if it was done before)."""

    kind: str
    output: str
    outcome: Outcome
    speed: Speed | None = None


def annotate(
    pool: str,
    annotators: Sequence[tuple[str, Annotator]],
    *,
    settings: Settings | None = None,
    options: engine.Options,
) -> dict[str, Annotated]:
    """Writes `annotations/<name>/<stem>.parquet` (and `.npz`) for each metadata file, by (kind, annotator); {name: family}.

    A row that cannot be judged has nulls, zero features and a reason. Without a number of workers all is done in this process,
    whose models use every core. Raises InputError for columns that exist already, files that are missing, or a device that the
    machine has not; WorkFailed if a file failed.
    """
    plan = Plan.of(pool, annotators)
    settings, options = _settled(settings or Settings(), options)
    found: dict[str, Annotated] = {}
    for family in plan.families:
        before = engine.recall(family.run, options, plan.digest(family))
        if before is not None:
            found[family.name] = Annotated(family.kind, family.output, before)
    todo = [f for f in plan.families if f.name not in found]
    if todo:
        found |= _do(plan, todo, settings, options)
    return {f.name: found[f.name] for f in plan.families}


def _settled(settings: Settings, options: engine.Options) -> tuple[Settings, engine.Options]:
    if settings.batch_size is not None and settings.batch_size < 1:
        raise InputError(f"batch size {settings.batch_size}", where="--batch-size", expected="1 or more")
    if options.engine == "local":
        options = replace(options, workers=options.workers or 0)
        settings = replace(settings, device=choose_device(settings.device, cuda=settings.device != "cpu" and has_cuda()))
    else:
        choose_device(settings.device, cuda=True)  # which devices there are is for the executors to see
    # Spark counts on one core a task.
    threads = max(1, engine.default_workers() // max(1, options.workers or 0)) if options.engine == "local" else 1
    return replace(settings, threads=threads), options


def _do(plan: Plan, families: Sequence[Family], settings: Settings, options: engine.Options) -> dict[str, Annotated]:
    if options.engine == "local":  # weights that do not fit are found before the folder is claimed for them
        for family in families:
            load(cast(Hashable, family.annotator), settings.device, settings.threads)
        if options.workers:
            load.cache_clear()  # workers have their own
    run = Together.of(families)
    units = plan.units(families)
    start = time.monotonic()
    try:
        done = engine.do(run, units, functools.partial(annotate_unit, run=run, settings=settings), options)
    finally:
        load.cache_clear()
    elapsed = time.monotonic() - start
    found = {}
    for family in families:
        outcome, speed = _finished(plan, family, units, done, elapsed)
        found[family.name] = Annotated(family.kind, family.output, outcome, speed)
    if done.failed:
        raise engine.given_up(run.stage, units, done.outcomes, done.failed)
    if len(done.outcomes) < len(units):
        index, number = options.part
        Progress.note(f"{run.stage}: part {index}/{number} is done, other parts are not yet", quiet=options.quiet)
    return found


def _finished(
    plan: Plan, family: Family, units: Sequence[engine.Unit], done: engine.Done, elapsed: float
) -> tuple[Outcome, Speed]:
    """One family's part in what was done; its manifest is written if it is whole, also where another family's is not."""
    outcome, speed = apart(done.total, family.name, elapsed)
    digests = plan.digests[family.name]
    kept = {name: family.run.done(name, digests[name]) for name in done.failed}
    outcome = sum((o for o in kept.values() if o is not None), outcome).check()
    if None in kept.values() or len(kept) + len(done.outcomes) < len(units):
        return outcome, speed
    if outcome.counts.get("in") and not outcome.counts["kept"]:
        reasons = ", ".join(name.removeprefix("failed:") for name in outcome.counts if name.startswith("failed:"))
        outcome = replace(outcome, problems=(f"none of {outcome.counts['in']:,} rows could be judged: {reasons}",))
    family.run.finish(outcome, units=plan.digest(family), speed=speed.as_json())
    return outcome, speed


def dry_run(pool: str, annotators: Sequence[tuple[str, Annotator]], options: engine.Options) -> list[str]:
    """What a run would do, for people: for each family the files and rows to do, what is written, and what by."""
    plan = Plan.of(pool, annotators)
    lines = []
    index, number = options.part
    for family in plan.families:
        digests = plan.digests[family.name]
        redo = options.overwrite or owner_of(family.output) is None
        parts = [p for p in plan.pool.parts[index::number] if redo or family.run.done(p.stem, digests[p.stem]) is None]
        lines += [
            f"{family.run.stage}: {len(parts)} of {len(plan.pool.parts)} files to do, {sum(p.rows for p in parts):,} rows",
            f"  reads {', '.join([*family.annotator.reads, *(['the pictures'] if family.annotator.wants_image else [])])}",
            f"  writes {', '.join(family.columns)} → {family.output}",
            *(f"  {key}: {value}" for key, value in family.header.items()),
        ]
        more = " …" if len(parts) > _NAMED else ""
        lines += [f"  files: {', '.join(p.stem for p in parts[:_NAMED])}{more}"] * bool(parts)
    return lines
