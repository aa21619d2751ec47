"""What workers do with some shards of a download: make them, ask again, take placeholders out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from pipeline.download import revisit
from pipeline.download.fetching.fetch import fetcher
from pipeline.download.settings import DownloadSettings
from pipeline.download.shards import loop, placeholders
from pipeline.download.shards.flow import Getter
from pipeline.download.shards.live import tally
from pipeline.download.shards.write import write_shards
from pipeline.download.sources import rows
from pools import store
from pools.errors import WorkFailed
from pools.manifest import Outcome, Run

LOADED_LATE = ("pipeline.download.images.area", "simplejpeg", "PIL.Image")  # a second a process, which not all processes need


def download(units: loop.Units, *, run: Run, pool: str, settings: DownloadSettings, live: str) -> loop.Ended:
    # What archives do not have is no reason to stop.
    counts = tally(live, None if settings.archives else settings.max_failed, settings.max_failed_rows)
    get, found = _getter(settings)
    args = {unit.name: unit.args for unit in units}
    inputs = {unit.name: unit.inputs for unit in units}

    def marked() -> Iterator[tuple[str, Outcome]]:
        written = write_shards(
            pool,
            list(args),
            lambda name: rows.read(*args[name]),
            get,
            settings.threads,
            per_host=settings.policy.per_host,
            blur=settings.blur,
            seen=counts.seen,
        )
        with contextlib.closing(written):
            for name, outcome in written:
                run.mark(name, inputs[name], (outcome + found).check())
                yield name, outcome + found
        counts.finished()

    return _explained(pool, lambda: loop.attempt(marked()))


def retry(
    units: loop.Units, *, run: Run, pool: str, settings: DownloadSettings, reasons: frozenset[str], live: str
) -> loop.Ended:
    counts = tally(live, None, settings.max_failed_rows)

    get, _ = _getter(settings)

    def retried() -> Iterator[tuple[str, Outcome]]:
        names = [unit.name for unit in units]
        found = revisit.retry_shards(
            run,
            pool,
            names,
            get,
            settings.threads,
            reasons,
            per_host=settings.policy.per_host,
            blur=settings.blur,
            seen=counts.seen,
        )
        with contextlib.closing(found):
            yield from found
        counts.finished()

    return _explained(pool, lambda: loop.attempt(retried()))


def drop(units: loop.Units, *, run: Run, pool: str) -> loop.Ended:
    hashes = placeholders.read_report(pool)
    return _explained(pool, lambda: loop.attempt(revisit.drop_from_shards(run, pool, [u.name for u in units], hashes)))


@functools.cache
def _getter(settings: DownloadSettings) -> tuple[Getter, Outcome]:
    """The one of this process, with its open connections; and what is damaged of the archives it reads."""
    if not settings.archives:
        return Getter(fetcher(settings.policy).fetch, settings.images, settings.verify), Outcome()
    from pipeline.download.sources.archives import archive_fetcher

    archives = archive_fetcher(settings.archives, settings.policy)
    return Getter(archives.fetch, settings.images, settings.verify), Outcome({}, archives.problems)


def _explained(pool: str, work: Callable[[], loop.Ended]) -> loop.Ended:
    try:
        return work()
    except OSError as e:
        raise WorkFailed(f"{store.join(pool, 'shards')}: {e}") from e
