"""Download: a source of urls to a pool's shards and metadata. A killed run goes on; one that is done can be changed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from pipeline import engine
from pipeline.download import changes, extend
from pipeline.download.settings import DownloadSettings as DownloadSettings
from pipeline.download.shards import rewrite
from pipeline.download.sources import rows
from pipeline.download.whole import STAGE, VERSION, Whole, before
from pipeline.lease import Lease, held
from pools import store
from pools.errors import InputError
from pools.manifest import Outcome, Run, digest_of, owner_of

_TURN = 60.0  # seconds to wait for other parts that begin at the same time


def download(candidates: str, output: str, *, settings: DownloadSettings, options: engine.Options) -> Outcome:
    """Downloads every row of a source to `output`, which is POOL/shards; metadata goes to POOL/metadata.

    Counts: in, kept, failed:<reason>, dropped:placeholder; for information http_<status>, other_sha256, placeholders.
    With `DownloadSettings.retry_failed` a run that is done is gone through again, and the source is not read; with `extend`
    those rows of the source are added to it whose uids it has not. Raises InputError for another form of output, unusable
    input, or an output that another process works on; WorkFailed where shards failed or nearly all urls do.
    """
    whole = Whole(pool_of(output), settings, options)
    if settings.retry_failed or settings.extend:
        if options.overwrite or options.part != (0, 1):
            what = "a download that is done is changed as a whole"
            raise InputError(what, where="--retry-failed, --extend", expected="neither --part nor --overwrite")
        return changes.retry(whole) if settings.retry_failed else changes.extend_by(whole, whole.open(candidates))
    return _new(whole, whole.open(candidates))


def _new(whole: Whole, source: rows.Source) -> Outcome:
    """A run from the start, or one that was killed, from where it was."""
    output, options = whole.output, whole.options
    run = Run(output, STAGE, VERSION, whole.settings.identity(), whole.inputs(source))
    whole.add(source, 0)
    digest = digest_of([[u.name, u.inputs] for u in whole.units])
    with contextlib.ExitStack() as stack:
        with _turn(output, options.part[1]):
            if (done := _done(whole, run, digest)) is not None:
                return done
            _claim(whole, run, stack)
        generations = extend.generations(output)
        for number, generation in enumerate(generations, 1):
            whole.add_generation(number, generation)
        index, parts = options.part
        if parts == 1:
            rewrite.recover(run, whole.pool)
        if not whole.do(run):
            whole.note(f"part {index}/{parts} is done, other parts are not yet")
            return whole.so_far
        if parts > 1:
            try:
                stack.enter_context(held(Lease(output, (parts, parts))))
            except InputError:
                whole.note(f"part {index}/{parts} is done, another one writes the end")
                return whole.so_far
            rewrite.recover(run, whole.pool)
        return whole.finish(run, sum((g.found for g in generations), source.found), digest)


@contextlib.contextmanager
def _turn(output: str, parts: int) -> Iterator[None]:
    """One part after the other: those that begin together would write the same file."""
    if parts == 1:
        yield
        return
    end = time.monotonic() + _TURN
    while True:
        lease = Lease(output, (parts + 1, parts))
        try:
            lease.take()
            break
        except InputError:
            if time.monotonic() > end:
                raise
        time.sleep(0.1)
    try:
        yield
    finally:
        lease.release()


def _claim(whole: Whole, run: Run, stack: contextlib.ExitStack) -> None:
    """Makes the folder this run's, and keeps other processes out of it."""
    lease = Lease(whole.output, whole.options.part)
    if _check_metadata(whole) and whole.options.overwrite:
        # Nobody's work is removed under his hands.
        stack.enter_context(held(lease))
        run.claim(overwrite=True)
        store.remove_tree(store.join(whole.pool, "metadata"))
        lease.renew()
    else:
        run.claim(overwrite=whole.options.overwrite)
        stack.enter_context(held(lease))


def _done(whole: Whole, run: Run, digest: str) -> Outcome | None:
    """The outcome of this very run if it is done, and its placeholders as they are wanted now."""
    manifest = None if whole.options.overwrite else run.finished()
    if manifest is None or manifest["units"] != digest:
        return None
    told, chosen = manifest["placeholders"], whole.settings
    if told["least_urls"] != chosen.placeholder_urls or (chosen.drop_placeholders and not told["dropped"]):
        return None
    store.remove_tree(before(whole.output))  # should the run have been killed before it could
    return engine.recall(run, whole.options)


def _check_metadata(whole: Whole) -> bool:
    """Whether the folder is a download's; keeps the files of two pools apart: metadata that no download wrote stays."""
    metadata = store.join(whole.pool, "metadata")
    ours = owner_of(whole.output) is not None
    if not ours and store.exists(metadata) and store.list_files(metadata):
        raise InputError(
            "there is metadata here that no download wrote",
            where=metadata,
            expected="a new pool: a download's shards and metadata have their own rows",
            fix="choose another folder: --output NEWPOOL/shards",
        )
    return ours


def pool_of(output: str) -> str:
    """The pool's folder. Raises InputError if the output is not POOL/shards."""
    pool, slash, last = output.rstrip("/").rpartition("/")
    if last == "shards":
        return pool or slash or "."
    raise InputError(
        f"the output is {output!r}",
        where="--output",
        expected="a folder named `shards`, beside which the metadata is written",
        fix=f"--output {store.join(output, 'shards')}",
    )
