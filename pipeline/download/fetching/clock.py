"""The time that one url may take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Clock:
    """Counts a url's seconds, from now on. What it waits for in this process's own queues is not counted."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._end = self._start + seconds

    @property
    def passed(self) -> float:
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        return self._end - time.monotonic()

    def remaining(self) -> float:
        """Seconds left. Raises TimeoutError where none are."""
        if (left := self.left) <= 0:
            raise TimeoutError("the url's time is over")
        return left

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Time inside the block is not the url's."""
        stop = time.monotonic()
        try:
            yield
        finally:
            queued = time.monotonic() - stop
            self._start += queued
            self._end += queued
