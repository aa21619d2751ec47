"""Progress that works on a terminal and in a log file."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

LOG_EVERY = 10.0  # seconds between two lines of a log


class Progress:
    """Counts units on standard error: a bar on a terminal, else a line now and then and one at the end."""

    def __init__(self, label: str, total: int, *, quiet: bool = False, unit: str = "units") -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self.detail = ""
        self._silent = quiet or total == 0
        self._live = not self._silent and sys.stderr.isatty()
        self._start = self._last = time.monotonic()

    @staticmethod
    def note(text: str, *, quiet: bool = False) -> None:
        if not quiet:
            print(text, file=sys.stderr)

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.total)
        return self

    def advance(self, n: int = 1, *, failed: int = 0, detail: str = "") -> None:
        self.done += n
        self.detail = detail or (f"{failed} failed" if failed else "")
        if self._live:
            self._bar.update(self._task, advance=n, description=f"{self.label} {self.detail}".strip())
        elif not self._silent and time.monotonic() - self._last > LOG_EVERY and self.done < self.total:
            self._line()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._bar.stop()
        elif not self._silent:
            self._line()

    def _line(self) -> None:
        self._last = time.monotonic()
        seconds = self._last - self._start
        detail = f", {self.detail}" if self.detail else ""
        print(f"{self.label}: {self.done} of {self.total} {self.unit} in {seconds:.0f} s{detail}", file=sys.stderr)
