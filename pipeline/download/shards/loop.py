"""Shards over processes or Spark: several in a row to one worker, each marked as soon as it is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipeline import engine
from pipeline.download.shards.live import Line, Stopped
from pools.errors import DiskFull, WorkFailed
from pools.manifest import Outcome

SHARDS_IN_A_ROW = 8  # of one worker, at most: their images in waiting are on disk meanwhile
Units = tuple[engine.Unit, ...]


@dataclass(frozen=True)
class Ended:
    """What came of some shards: outcomes of those that are done and marked; `stop` is why the run is to end."""

    outcomes: dict[str, Outcome]
    stop: WorkFailed | None = None


def attempt(work: Iterator[tuple[str, Outcome]]) -> Ended:
    """Shards until one asks for the end of the run. Other errors are raised."""
    outcomes: dict[str, Outcome] = {}
    try:
        for name, outcome in work:
            outcomes[name] = outcome
    except (DiskFull, Stopped) as e:
        return Ended(outcomes, e)
    return Ended(outcomes)


def do(
    units: Sequence[engine.Unit],
    work: Callable[[Units], Ended],
    options: engine.Options,
    line: Line,
    done: Callable[[engine.Unit], Outcome | None],
) -> dict[str, Outcome]:
    """The outcomes of the units by name. `done` gives that of a unit that is marked.

    Raises WorkFailed if some failed: all others are done by then, up to `Options.max_failed`; at once where a disk is
    full, or nearly everything fails.
    """
    outcomes: dict[str, Outcome] = {}
    failed: dict[str, str] = {}
    bundles = _bundles(units, options)
    engine_ = engine.make_engine(options.engine, options.workers)
    with contextlib.closing(engine_.map(work, bundles)) as results:
        for i, result in results:
            if isinstance(result, engine.Failed):
                if result.input_error is not None:
                    line.stop()
                    raise result.input_error
                marked = {u.name: done(u) for u in bundles[i]}
                failed |= {name: result.message for name, outcome in marked.items() if outcome is None}
                result = Ended({name: outcome for name, outcome in marked.items() if outcome is not None})
            outcomes |= result.outcomes
            for outcome in result.outcomes.values():
                line.finished(outcome.counts)
            if result.stop is not None or len(failed) > options.max_failed:
                line.stop()
                if result.stop is not None:
                    raise result.stop
                break
    if failed:
        # Shards that one worker does in a row fail together, by one message.
        lines = "\n".join(f"  {name}: {message}" for name, message in sorted(failed.items()))
        raise WorkFailed(
            f"download: {len(failed)} of {len(units)} shards failed, {len(outcomes)} done\n{lines}\n  → run again to retry them"
        )
    return outcomes


def _bundles(units: Sequence[engine.Unit], options: engine.Options) -> list[Units]:
    """As many in a row as leave each process several turns; on Spark, which may be large, one."""
    workers = engine.default_workers() if options.workers is None else options.workers
    size = len(units) if workers == 0 else len(units) // (4 * workers)
    size = 1 if options.engine == "spark" else max(1, min(SHARDS_IN_A_ROW, size))
    return [tuple(units[i : i + size]) for i in range(0, len(units), size)]
