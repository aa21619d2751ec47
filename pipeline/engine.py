"""Runs a job's units (files, shards) over processes or on Spark: resume, error budget, progress, one summary.

A job is a `pools.manifest.Run`, a list of `Unit`s and a picklable function that does one unit: it reads, calls pure
functions, writes its files atomically and returns an `Outcome`. The engine marks the unit as done after that, so a
killed run redoes only what has no mark.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from pipeline.extras import missing
from pipeline.progress import Progress
from pools.errors import InputError, WinnowError, WorkFailed
from pools.manifest import Outcome, Run, digest_of

T = TypeVar("T")
R = TypeVar("R")
EngineName = Literal["local", "spark"]


@dataclass(frozen=True)
class Unit:
    """One piece of work: `name` is its stem, `inputs` the digest of what it reads, `args` what its function takes."""

    name: str
    inputs: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Failed:
    """A task that raised: the error in one line, with a traceback if it was not one of ours."""

    message: str
    input_error: InputError | None = None  # the user's mistake: ends the job, where other failures are counted


Results: TypeAlias = Generator[tuple[int, R | Failed], None, None]


class Engine(Protocol):
    """Applies a picklable function to each task; results come as they are ready, with the task's index.

    Whoever may stop before the last result closes the generator, which ends the processes behind it.
    """

    def map(self, work: Callable[[T], R], tasks: Sequence[T]) -> Results[R]: ...


def default_workers() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Local:
    """Processes on this machine; `workers=0` works in this process. At most twice as many tasks wait as there are workers."""

    workers: int

    def map(self, work: Callable[[T], R], tasks: Sequence[T]) -> Results[R]:
        one = functools.partial(attempt, work)
        if self.workers == 0 or len(tasks) < 2:
            yield from ((i, one(task)) for i, task in enumerate(tasks))
            return
        # forkserver: workers do not inherit threads, locks or open connections of this process. It imports for all of them
        # what they will need, pandas too, which pyarrow looks for as soon as it makes an array.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["pandas", *sorted(_modules(work)), "pipeline.settled"])
        number = min(self.workers, len(tasks))
        with ProcessPoolExecutor(number, mp_context=context, initializer=_end_on_interrupt) as pool:
            waiting: dict[Future[R | Failed], int] = {}
            upcoming = iter(enumerate(tasks))
            try:
                while True:
                    while len(waiting) < 2 * self.workers and (following := next(upcoming, None)) is not None:
                        waiting[pool.submit(one, following[1])] = following[0]
                    if not waiting:
                        return
                    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                        yield waiting.pop(future), future.result()
            except BrokenProcessPool as e:
                names = sorted(getattr(tasks[i], "name", str(i)) for i in waiting.values())
                raise WorkFailed(
                    f"a worker process was killed (out of memory?) while working on {', '.join(names[:4])}\n"
                    "  → run again to go on; use fewer --workers if memory was the reason"
                ) from e
            except BaseException:
                # Waits for what runs (after Ctrl-C the workers end by themselves): the interpreter's end would otherwise close
                # pipes that the pool's thread still writes to and, in a child process, the queue before the workers are told
                # to stop, which it would then wait for for ever.
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _modules(work: Any) -> set[str]:
    """Where the functions are defined that some work is put together from, and what these say that workers load late."""
    if isinstance(work, functools.partial):
        return {name for part in (work.func, *work.args) if callable(part) for name in _modules(part)}
    return {work.__module__, *getattr(sys.modules.get(work.__module__), "LOADED_LATE", ())}


def _end_on_interrupt() -> None:
    """Ctrl-C reaches the workers too: they end at once and without a word; their units have no mark yet."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def attempt(work: Callable[[T], R], task: T) -> R | Failed:
    try:
        return work(task)
    except InputError as e:
        return Failed(str(e), e)
    except WinnowError as e:
        return Failed(str(e))
    except ModuleNotFoundError as e:
        return Failed(str(e), missing(e))
    except Exception as e:
        return Failed(f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-4)}")


def make_engine(name: EngineName, workers: int | None) -> Engine:
    """`local` with so many processes (default: one a core), or `spark` on the session there is or a local one."""
    if name == "local":
        return Local(default_workers() if workers is None else workers)
    if name == "spark":
        from pipeline.spark import Spark

        return Spark(workers)
    raise InputError(f"unknown engine {name!r}", where="--engine", expected="local or spark")


@dataclass(frozen=True)
class Options:
    """How to run, nothing of which changes a result."""

    engine: EngineName = "local"
    workers: int | None = None
    overwrite: bool = False
    quiet: bool = False
    max_failed: int = 10  # failed units after which the job gives up
    part: tuple[int, int] = (0, 1)  # index and number of parts: this call does every n-th unit, from the index on

    def __post_init__(self) -> None:
        if self.overwrite and self.part[1] > 1:
            raise InputError(
                "each part would remove what the others have done",
                where="--overwrite, --part",
                expected="one of the two",
                fix="remove the output first, then start the parts",
            )


def parse_part(text: str | None) -> tuple[int, int]:
    """`2/8` → (2, 8)."""
    index, _, number = (text or "0/1").partition("/")
    if not (index.isdecimal() and number.isdecimal() and int(index) < int(number)):
        raise InputError(f"{text!r}", where="--part", expected="I/N with 0 ≤ I < N, for instance 0/8")
    return int(index), int(number)


def recall(run_: Run, options: Options, units: str | None = None) -> Outcome | None:
    """The outcome of this very run if it is done, which is said; else None.

    A manifest speaks of the units there were: with another digest of `units` (new ones, or changed input) it is not done.
    Left out, the run's own inputs are enough to tell.
    """
    manifest = None if options.overwrite else run_.finished()
    if manifest is None or units not in (None, manifest.get("units")):
        return None
    Progress.note(f"{run_.stage}: done before, nothing to do ({run_.output})", quiet=options.quiet)
    return Outcome(manifest["counts"], tuple(manifest["problems"]))


@dataclass(frozen=True)
class Done:
    """What became of the units of a run, in their order; what other parts (`Options.part`) have not done is in neither."""

    outcomes: dict[str, Outcome]
    failed: dict[str, Failed]

    @property
    def total(self) -> Outcome:
        return sum(self.outcomes.values(), Outcome())


def do(
    run_: Run,
    units: Sequence[Unit],
    work: Callable[[Unit], Outcome],
    options: Options,
    *,
    lenient: bool = False,
    label: str = "",
) -> Done:
    """Does every unit that is not done, up to the error budget; `label` names the work in what is shown (default: the stage).

    The user's mistake in a unit is raised as InputError, unless `lenient`: then it is a failure as any other.
    """
    run_.claim(overwrite=options.overwrite)
    label = label or run_.stage
    outcomes = {u.name: o for u in units if (o := run_.done(u.name, u.inputs)) is not None}
    index, number = options.part
    todo = [u for u in units[index::number] if u.name not in outcomes]
    if outcomes:
        Progress.note(f"{label}: {len(outcomes)} of {len(units)} units done before, {len(todo)} to do", quiet=options.quiet)
    failed: dict[str, Failed] = {}
    budget = max(options.max_failed, len(units) // 20 if lenient else 0)
    engine = make_engine(options.engine, options.workers)
    with (
        Progress(label, len(todo), quiet=options.quiet) as progress,
        contextlib.closing(engine.map(functools.partial(_do_unit, run_, work), todo)) as results,
    ):
        for i, result in results:
            if isinstance(result, Failed):
                if result.input_error is not None and not lenient:
                    raise result.input_error
                failed[todo[i].name] = result
                if len(failed) > budget:
                    break
            else:
                outcomes[todo[i].name] = result
            progress.advance(failed=len(failed))
    if len(failed) > budget:
        raise given_up(label, units, outcomes, failed)
    # In the units' order, so that totals do not depend on which was ready first.
    return Done(
        {u.name: outcomes[u.name] for u in units if u.name in outcomes},
        {u.name: failed[u.name] for u in units if u.name in failed},
    )


def given_up(label: str, units: Sequence[Unit], outcomes: dict[str, Outcome], failed: dict[str, Failed]) -> WorkFailed:
    lines = "\n".join(f"  {name}: {failure.message}" for name, failure in sorted(failed.items()))
    return WorkFailed(
        f"{label}: {len(failed)} of {len(units)} units failed, {len(outcomes)} done\n{lines}\n  → run again to retry them"
    )


def run(
    run_: Run,
    units: Sequence[Unit],
    work: Callable[[Unit], Outcome],
    options: Options,
    finish: Callable[[Outcome], Outcome] | None = None,
    **more: Any,
) -> Outcome:
    """Does every unit that is not done, then `finish` (for files over all units), then the manifest, with `more` in it.

    Raises InputError if the output is another run's, WorkFailed if a unit failed: all others are done by then (up to the
    error budget), and a rerun tries the failed ones again.
    """
    work_digest = digest_of([[u.name, u.inputs] for u in units])
    if (before := recall(run_, options, work_digest)) is not None:
        return before
    done = do(run_, units, work, options)
    if done.failed:
        raise given_up(run_.stage, units, done.outcomes, done.failed)
    total = done.total
    if len(done.outcomes) < len(units):
        index, number = options.part
        Progress.note(f"{run_.stage}: part {index}/{number} is done, other parts are not yet", quiet=options.quiet)
        return total.check()
    if finish is not None:
        total = finish(total)
    run_.finish(total.check(), units=work_digest, **more)
    return total


def _do_unit(run_: Run, work: Callable[[Unit], Outcome], unit: Unit) -> Outcome:
    outcome = work(unit).check()
    run_.mark(unit.name, unit.inputs, outcome)
    return outcome
