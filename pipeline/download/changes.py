"""A download that is done, changed: what failed asked for again, new rows added."""

from __future__ import annotations

import functools
from typing import Any

from pipeline.download import extend, revisit
from pipeline.download.shards import loop, rewrite, work
from pipeline.download.shards.live import Line
from pipeline.download.sources import rows
from pipeline.download.whole import STAGE, VERSION, Whole, before, mark, told
from pipeline.lease import Lease, held
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST, Outcome, Run, digest_of, owner_of
from pools.shards import shard_name


def retry(whole: Whole) -> Outcome:
    """Makes the requests again that failed and may heal; all other samples stay as they are, byte for byte."""
    run = _owned(whole)
    theirs, ours = run.options, whole.settings.stored()
    if different := [name for name in ours if theirs.get(name) != ours[name]]:
        raise InputError(
            f"the run was made with {different[0]} {theirs.get(different[0])!r}, here it is {ours[different[0]]!r}",
            where=whole.output,
            expected="images of one form",
            fix="give the options that the run was made with",
        )
    with held(Lease(whole.output)):
        manifest = _reopen(whole, run)
        rewrite.recover(run, whole.pool)
        whole.add_all(manifest["shards"])
        reasons = revisit.may_heal(whole.settings.policy)
        names = {f"failed:{reason}" for reason in reasons}
        failures = {u.name: sum(n for name, n in mark(run, u.name).counts.items() if name in names) for u in whole.units}
        todo = [unit for unit in whole.units if failures[unit.name]]
        count = sum(failures.values())
        whole.note(f"{count:,} urls in {len(todo)} of {len(whole.units)} shards are asked for again")
        with Line("download", count, quiet=whole.options.quiet) as line:
            do = functools.partial(
                work.retry, run=run, pool=whole.pool, settings=whole.settings, reasons=reasons, live=line.folder
            )
            loop.do(todo, do, whole.options, line, lambda unit: None)
        return whole.finish(run, told(manifest["source"]), manifest["units"])


def extend_by(whole: Whole, source: rows.Source) -> Outcome:
    """Adds the rows of a source whose uids the pool has not, as new shards; the others stay as they are."""
    run = _owned(whole)
    Run(whole.output, STAGE, VERSION, whole.settings.identity(), run.inputs).claim()
    with held(Lease(whole.output)):
        done = run.finished()
        manifest = done or store.read_json(_need(whole, before(whole.output)))
        begun, mine = extend.generations(whole.output), digest_of(list(whole.inputs(source)))
        ended = len(manifest["generations"]) == len(begun)
        if done and ended and begun and begun[-1].inputs == mine:
            store.remove_tree(before(whole.output))
            whole.note(f"was extended by this before, nothing to do ({whole.output})")
            return told(done)
        if not ended and begun[-1].inputs != mine:
            fix = "give that source again first"
            raise InputError("an extension by another source has not ended", where=whole.output, fix=fix)
        if ended:
            names = [shard_name(i) for i in range(manifest["shards"])]
            begun.append(extend.begin(whole.pool, whole.output, source, mine, whole.settings.shard_size, names))
            whole.note(f"{begun[-1].rows:,} rows are new, {begun[-1].known:,} are in the pool already")
        _reopen(whole, run)
        rewrite.recover(run, whole.pool)
        whole.add_all(manifest["shards"])
        whole.add_generation(len(begun), begun[-1])
        whole.do(run)
        return whole.finish(run, told(manifest["source"]) + begun[-1].found, manifest["units"])


def _owned(whole: Whole) -> Run:
    """The run that made the pool."""
    owner = owner_of(whole.output)
    if owner is None or owner.get("stage") != STAGE or owner.get("stage_version") != VERSION:
        raise InputError("no download of this version was made here", where=whole.output, expected="POOL/shards")
    return Run(whole.output, STAGE, VERSION, owner["options"], tuple(owner["inputs"]))


def _need(whole: Whole, path: str) -> str:
    if not store.exists(path):
        fix = "run it to its end first, without --retry-failed or --extend"
        raise InputError("the download has not ended", where=whole.output, expected="one that is done", fix=fix)
    return path


def _reopen(whole: Whole, run: Run) -> dict[str, Any]:
    """The manifest, put aside: until the change is done, so is not the run."""
    path = before(whole.output)
    if (manifest := run.finished()) is not None:
        store.write_json(path, manifest)
        store.remove_tree(store.join(whole.output, MANIFEST))
    aside: dict[str, Any] = store.read_json(_need(whole, path))
    return aside
