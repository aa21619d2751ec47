"""A uid list applied to shards: new shards of just those samples, members copied without decoding.

DataComp's conventions: key and `uid` field as many times as the list names a uid (`<uid>-0`, `<uid>-1`, …), beside the
shards `sample_ids.npy` (what was written, sorted), `meta.json` (counts), and `<shard>_stats.json`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipeline import engine
from pipeline.engine import Engine, Options
from pipeline.progress import Progress
from pipeline.reshard import faces
from pipeline.reshard.changes import Change
from pipeline.reshard.copying import Copy, read_failed
from pipeline.reshard.locate import Locate
from pipeline.reshard.plan import LISTED, Plan, make_plan
from pipeline.reshard.settings import Settings
from pools import shard_index, shards, store, uids
from pools.errors import WorkFailed
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection
from pools.wanted import Wanted

VERSION = 2
# What another process costs, two thirds of a second of a core, in bytes: those that one process copies, or looks over, in it.
COPIED, LOOKED_OVER = 1 << 30, 4 << 30


def reshard(shards_root: str, list_path: str, output: str, *, options: Options, settings: Settings | None = None) -> Outcome:
    """Writes `<index>.tar`, in the order of the source shards unless it is to be shuffled.

    The list is a `.npy` or a selection, whose captions are then written too. A uid that stands in several places is taken from
    the first. Counts: in (entries asked for), kept, `dropped:missing` (in no shard; `missing.npy`), `dropped:no_boxes`.
    Raises InputError for a bad list or shards, WorkFailed for entries that are not written if `strict`.
    """
    settings = settings or Settings()
    list_path, settings = opened(list_path, settings)
    wanted = Wanted.open(list_path)
    summary = wanted.summary()
    sources = shards.list_shards(shards_root)
    run = Run(output, "reshard", VERSION, _identity(summary.digest, settings), (_digest(sources, shards_root),))
    outcome = engine.recall(run, options)
    if outcome is None:
        run.claim(overwrite=options.overwrite)
        options = replace(options, overwrite=False)  # the plan is in the output by now
        plan = Plan.load(output)
        if plan is None:
            index = settings.index or default_index(output, shards_root)
            work = Locate(list_path, shards_root, index, settings.regroup)
            chosen = _engine(options, _unread(sources, shards_root, index) // LOOKED_OVER)
            plan = make_plan(wanted, summary, sources, output, work, settings, chosen)
        options, threads = _shared(options, plan)
        finish = functools.partial(_finish, plan, output, options.quiet)
        outcome = engine.run(run, plan.todo(output), Copy(_change(settings), threads), options, finish)
    lost = outcome.counts["in"] - outcome.counts["kept"]
    if settings.strict and lost:
        raise WorkFailed(f"{lost} of {outcome.counts['in']} entries of the list are not written (uids in {output}/missing.npy)")
    return outcome


def opened(list_path: str, settings: Settings) -> tuple[str, Settings]:
    """A selection is its list, with its captions if it has any and no others are asked for."""
    if not store.is_dir(list_path):
        return list_path, settings
    selection = Selection(list_path)
    folder = store.join(list_path, "captions")
    if settings.captions is None and store.is_dir(folder) and store.list_files(folder, ".parquet"):
        settings = replace(settings, captions=folder)
    return selection.uids, settings


def default_index(output: str, shards_root: str) -> str:
    """The folder of index files beside an output: other lists that are resharded to its neighbours find it."""
    beside = store.join(output.rstrip("/").rpartition("/")[0] or ".", ".winnow-index")
    root = str(Path(store.local_path(shards_root)).resolve()) if store.is_local(shards_root) else shards_root.rstrip("/")
    return store.join(beside, digest_of(root)[:12])


def _identity(digest: str, settings: Settings) -> dict[str, object]:
    said: dict[str, object] = {"uids": digest, **settings.identity()}
    if settings.captions or settings.boxes:
        from pipeline.reshard import sides

        said |= {"captions": digest_of(sides.digest(*sides.split_column(settings.captions)))} if settings.captions else {}
        said |= {"boxes": digest_of(sides.digest(settings.boxes, faces.BOXES))} if settings.boxes else {}
    return said


def _digest(sources: Sequence[str], root: str) -> str:
    return digest_of([store.digest(s, root) for s in sources])


def _change(settings: Settings) -> Change:
    return Change(settings.captions is not None, settings.inject is not None, settings.encoding if settings.blur else None)


def _unread(sources: Sequence[str], root: str, index: str) -> int:
    """Bytes of the shards that have to be looked over."""
    return sum(store.size(s) for s in sources if not store.exists(shard_index.index_path(s, root, index)))


def _worth(options: Options, most: int) -> Options:
    """With no more processes than are worth their start."""
    if options.engine != "local":
        return options
    workers = engine.default_workers() if options.workers is None else options.workers
    return replace(options, workers=min(workers, most) if most > 1 else 0)


def _engine(options: Options, most: int) -> Engine:
    fewer = _worth(options, most)
    return engine.make_engine(fewer.engine, fewer.workers)


def _shared(options: Options, plan: Plan) -> tuple[Options, int]:
    """How many processes copy, and in how many threads each decodes pictures: where there are few shards, threads share one."""
    if options.engine != "local":
        return options, 1
    workers = engine.default_workers() if options.workers is None else options.workers
    fewer = _worth(options, min(len(plan.units), sum(weight for *_, weight in plan.units) // COPIED))
    return fewer, max(1, workers // max(1, fewer.workers or 1))


def _finish(plan: Plan, output: str, quiet: bool, total: Outcome) -> Outcome:
    counts = {name: n for name, n in plan.counts.items() if name == "in" or name.startswith("dropped:")}
    counts |= {"kept": total.counts.get("kept", 0)}
    counts |= {name: n for name, n in total.counts.items() if name.startswith("failed:")}
    failed = read_failed([Plan.path(output, name + ".table") for name, *_ in plan.units])
    _write_ids(output, failed)
    for name in ("repeats", "twins", "nameless"):
        counts |= {name: plan.counts[name]} if plan.counts[name] else {}
    counts |= {"damaged_shards": len(plan.damaged)} if plan.damaged else {}
    about = {**counts, "samples": plan.counts["samples"], "shards": len(plan.units)}
    store.write_json(store.join(output, "meta.json"), about)
    if total.counts.get("kept", 0) + len(failed) != plan.counts["planned"]:
        raise WorkFailed(f"{output}: {total.counts} written, {plan.counts['planned']} planned")
    for line in (*_lost(output, "missing.npy", "in no shard"), *_lost(output, "no_boxes.npy", "not looked at for faces")):
        Progress.note(f"reshard: {line}", quiet=quiet)
    for line in plan.notes:
        Progress.note(f"reshard: {line}", quiet=quiet)
    return Outcome(counts, (*plan.damaged[:LISTED], *total.problems[:LISTED]))


def _lost(output: str, name: str, why: str) -> list[str]:
    """The first uids of a list of what is not written, in words."""
    path = store.join(output, name)
    if not store.exists(path) or not len(listed := uids.stored(path).reader().read(10 * LISTED)):
        return []
    first = uids.texts(uids.unique(listed))
    rest = [f"… and more in {path}"] if len(first) > LISTED else []
    return [*(f"{why}: {uid}" for uid in first[:LISTED]), *rest]


def _write_ids(output: str, failed: Sequence[str]) -> None:
    """`sample_ids.npy`: what was planned without an entry for each that failed."""
    stored = uids.stored(Plan.path(output, "sample_ids.npy"))
    if not failed:
        uids.write_stream(store.join(output, "sample_ids.npy"), stored.blocks())
        return
    planned = Wanted(stored)
    each = Counter(failed)
    places, _ = planned.find(uids.pack(each))
    gone = np.sort(np.concatenate([np.arange(p, p + n) for p, n in zip(places, each.values(), strict=True)]))

    def left() -> Iterator[uids.Uids]:
        for start, piece in planned.pieces():
            here = gone[(gone >= start) & (gone < start + len(piece))] - start
            yield np.delete(piece, here) if len(here) else piece

    uids.write_stream(store.join(output, "sample_ids.npy"), left())
