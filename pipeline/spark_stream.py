"""One Spark job whose results reach the driver as its tasks end, in any order."""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from pyspark import InheritableThread, SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from pools.errors import WorkFailed

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Ended:
    """Stands behind the last result: the job is over, by an error or not."""

    error: Exception | None


class Arrivals(AccumulatorParam[Any]):
    """A list in a task, a queue on the driver, to which Spark adds the list of each task that ended well, at once and once."""

    def zero(self, value: object) -> list[Any]:
        return []

    def addInPlace(self, value1: Any, value2: list[Any]) -> Any:  # noqa: N802
        if isinstance(value1, list):
            return value1 + value2
        for item in value2:
            value1.put(item)
        return value1


def stream(context: SparkContext, work: Callable[[T], R], tasks: Sequence[T]) -> Generator[tuple[int, R], None, None]:
    """`work` of each task, with the task's index; closing it cancels the job.

    A single job, so that it has all cores of a cluster, also those that come later. Spark's own ways to hand results to
    Python wait for the last one (`collect`), or run two tasks at a time (`toLocalIterator`).
    Raises WorkFailed, with the task's name if it has one, if Spark gives up.
    """
    arrivals: SimpleQueue[Any] = SimpleQueue()
    accumulator = context.accumulator(arrivals, Arrivals())
    numbered = context.parallelize(list(enumerate(tasks)), len(tasks))
    group = f"winnow-{uuid.uuid4().hex}"

    def job() -> None:
        try:
            context.setJobGroup(group, f"{len(tasks)} units")
            numbered.foreach(functools.partial(_report, accumulator, work))
        except Exception as e:
            arrivals.put(Ended(e))
        else:
            arrivals.put(Ended(None))

    thread = InheritableThread(job, daemon=True)
    thread.start()
    missing = set(range(len(tasks)))
    try:
        while not isinstance(item := arrivals.get(), Ended):
            missing.discard(item[0])
            yield item
        if item.error is not None:
            raise _gave_up(item.error, tasks) from item.error
        if missing:  # Spark only logs what goes wrong while it hands over a task's results
            raise WorkFailed(f"Spark lost the results of {', '.join(_name(tasks, i) for i in sorted(missing)[:4])}")
    finally:
        # Again and again, as a job that has not quite begun cannot be cancelled.
        while thread.is_alive():
            context.cancelJobGroup(group)
            thread.join(0.1)


def _report(accumulator: Accumulator[Any], work: Callable[[T], R], numbered: tuple[int, T]) -> None:
    index, task = numbered
    accumulator.add([(index, work(task))])


def _name(tasks: Sequence[object], index: int) -> str:
    return getattr(tasks[index], "name", f"task {index}")


def _gave_up(error: Exception, tasks: Sequence[object]) -> WorkFailed:
    """A task is one partition, so that Spark's number of it is the task's index."""
    said = str(error).partition("\n\tat ")[0].removesuffix("\nDriver stacktrace:")
    failed = re.search(r"Task (\d+) in stage \S+ failed (\d+) times?, .*?: Lost task .*?\(TID \d+\) \((.*?)\): ", said)
    where = f" on {_name(tasks, int(failed[1]))} (tries: {failed[2]}; the last on {failed[3]})" if failed else ""
    lines = said[failed.end() if failed else 0 :].strip().splitlines() or [repr(error)]
    reason = re.sub(r"^(: )?(org\.apache\.spark\.\S+: )?", "", lines[-1])
    return WorkFailed(f"Spark gave up{where}: {reason}\n  → the executors' logs have more; run again to go on")
