"""Rows past models: inputs are made in threads some batches ahead of the models that work on them."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pipeline.annotate.annotator import Model, Unscored
from pipeline.annotate.answers import Answers
from pipeline.annotate.rows import Row

_AHEAD = 3  # batches whose inputs are being made while a model works
# Rows to a task: handing over each by itself takes as long as a small picture does, or ten texts.
PICTURES, TEXTS = 4, 32


@dataclass
class Pass:
    """One annotator on the rows of one file. Seconds to prepare are those of all threads, without decoding."""

    answers: Answers
    prepare_seconds: float = 0.0
    annotate_seconds: float = 0.0
    error: Exception | None = None  # ends this one's work on the file, not that of others


@dataclass(frozen=True)
class _Prepared:
    """A row and each model's input, the reason why it gets none, or the error that making it was."""

    number: int
    inputs: Mapping[str, Any]
    seconds: Mapping[str, float]
    decode_seconds: float


@dataclass(frozen=True)
class _Failure:
    error: Exception


def pass_rows(
    rows: Iterator[Row],
    models: Mapping[str, Model],
    passes: Mapping[str, Pass],
    threads: ThreadPoolExecutor,
    *,
    batch_size: int,
    together: int,
) -> float:
    """Each row past each model, in batches of `batch_size` rows as they come; seconds spent on decoding, of all threads.

    A thread prepares `together` rows at a time. What a model gets in one batch does not depend on which other models there
    are. Memory: the inputs of a few batches.
    """
    decoding = 0.0
    waiting: deque[list[Future[list[_Prepared]]]] = deque()
    batches = _batched(rows, batch_size)
    try:
        while True:
            while len(waiting) < _AHEAD and (batch := next(batches, None)) is not None:
                waiting.append([threads.submit(_prepare, few, models) for few in _batched(iter(batch), together)])
            if not waiting:
                return decoding
            prepared = [p for future in waiting.popleft() for p in future.result()]
            decoding += sum(p.decode_seconds for p in prepared)
            for name, one in passes.items():
                if one.error is None:
                    _annotate(name, models[name], one, prepared)
    finally:
        for future in itertools.chain.from_iterable(waiting):
            future.cancel()


def _batched(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch


def _prepare(rows: Sequence[Row], models: Mapping[str, Model]) -> list[_Prepared]:
    done = []
    for row in rows:
        inputs: dict[str, Any] = {}
        seconds: dict[str, float] = defaultdict(float)
        for name, model in models.items():
            start, before = time.perf_counter(), _decoding(row)
            try:
                inputs[name] = model.prepare(row)
            except Unscored as e:
                inputs[name] = e
            except Exception as e:  # whatever an annotator raises is told of its file; other annotators go on
                inputs[name] = _Failure(e)
            seconds[name] = time.perf_counter() - start - (_decoding(row) - before)
        done.append(_Prepared(row.number, inputs, seconds, _decoding(row)))
    return done


def _decoding(row: Row) -> float:
    return 0.0 if isinstance(row.picture, str) else row.picture.seconds


def _annotate(name: str, model: Model, one: Pass, prepared: Sequence[_Prepared]) -> None:
    """One model's answers for the rows of a batch that it can judge."""
    numbers: list[int] = []
    inputs: list[Any] = []
    for p in prepared:
        given = p.inputs[name]
        one.prepare_seconds += p.seconds[name]
        if isinstance(given, _Failure):
            one.error = given.error
            return
        if isinstance(given, Unscored):
            one.answers.refuse(p.number, given.reason)
        else:
            numbers.append(p.number)
            inputs.append(given)
    if not numbers:
        return
    start = time.perf_counter()
    try:
        one.answers.fill(numbers, model.annotate(inputs))
    except Exception as e:  # as above
        one.error = e
    one.annotate_seconds += time.perf_counter() - start
