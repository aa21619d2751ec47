"""What workers have met so far, told through small files: the live line, an early stop, the budget of failures.

Each process keeps its counts in a file of its own, written anew twice a second in a folder that the parent made on this
machine. On machines that do not see the folder nothing is written, and the parent knows of finished units only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Self

from pipeline.download.shards.flow import Got
from pipeline.progress import Progress
from pools.errors import WorkFailed
from pools.schema import Reason

EVERY = 0.5  # seconds between two writes of a process's counts, and two looks at them
_RATE_OVER = 10.0  # seconds
_STOP = "stop"


class Stopped(WorkFailed):
    """The run ends here, all of it: going on would only fail again."""


class Tally:
    """The counts of this process in one run; `seen` is for one thread at a time."""

    def __init__(self, folder: str, max_failed: float | None, max_failed_rows: int) -> None:
        self._folder, self._max_failed, self._rows = Path(folder), max_failed, max_failed_rows
        self._counts: Counter[str] = Counter()
        self._recent: Counter[str] = Counter()
        self._next = 0.0

    def seen(self, got: Got | None) -> None:
        """Counts a result (None: none has come in for a while). Raises Stopped where the run is to end."""
        if got is not None:
            reason = str(got.reason or "kept")
            self._counts.update({"rows": 1, "bytes": got.size, reason: 1})
            self._recent[reason] += 1
        if (now := time.monotonic()) >= self._next:
            self._next = now + EVERY
            self._tell()
        if self._recent.total() >= self._rows:
            recent, self._recent = self._recent, Counter()
            self._check(recent)

    def finished(self) -> None:
        """Tells the last counts at once, as their files are in place."""
        self._tell()

    def _tell(self) -> None:
        path = self._folder / f"{os.getpid()}.json"
        with contextlib.suppress(FileNotFoundError):  # a machine without the folder
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(self._counts))
            partial.replace(path)
        if (self._folder / _STOP).exists():
            raise Stopped("another worker ended the run")

    def _check(self, recent: Counter[str]) -> None:
        rows, failed = recent.total(), recent.total() - recent["kept"]
        if self._max_failed is None or failed < self._max_failed * rows:
            return
        del recent["kept"]
        reasons = ", ".join(f"{reason} {100 * n / rows:.0f} %" for reason, n in recent.most_common(3))
        raise Stopped(
            f"{failed:,} of {rows:,} urls in a row failed: {reasons}\n"
            "  → run again to go on, once the cause is gone; if the urls are as bad as that, raise or lift --max-failed"
        )


@functools.cache
def tally(folder: str, max_failed: float | None, max_failed_rows: int) -> Tally:
    """The one tally of this process in a run, which has its own folder."""
    return Tally(folder, max_failed, max_failed_rows)


class Line:
    """One line that moves within shards: rows, images/s, MB/s, the share of successes, the reasons that lead."""

    def __init__(self, label: str, rows: int, *, quiet: bool = False) -> None:
        self.folder = tempfile.mkdtemp(prefix="winnow-download-")
        self._progress = Progress(label, rows, quiet=quiet, unit="rows")
        self._units: Counter[str] = Counter()  # of finished units, for workers whose files are not seen
        self._history: deque[tuple[float, Counter[str]]] = deque([(time.monotonic(), Counter())])
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._progress.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
        self._show()
        self._progress.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def finished(self, counts: dict[str, int]) -> None:
        """A unit is done."""
        self._units.update({"rows": counts.get("in", 0), "kept": counts.get("kept", 0)})
        self._units.update({name.partition(":")[2]: n for name, n in counts.items() if ":" in name})

    def stop(self) -> None:
        """Has all workers end within a second."""
        (Path(self.folder) / _STOP).touch()

    def counts(self) -> Counter[str]:
        told: Counter[str] = Counter()
        for path in Path(self.folder).glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                told.update(json.loads(path.read_text()))
        return max(told, self._units.copy(), key=lambda counts: counts["rows"])

    def _watch(self) -> None:
        while not self._end.wait(EVERY):
            self._show()

    def _show(self) -> None:
        counts, now = self.counts(), time.monotonic()
        self._history.append((now, counts))
        while len(self._history) > 2 and self._history[0][0] < now - _RATE_OVER:
            self._history.popleft()
        then, before = self._history[0]
        self._progress.advance(counts["rows"] - self._progress.done, detail=describe(counts, before, now - then))


def describe(counts: Counter[str], before: Counter[str], seconds: float) -> str:
    """`95 images/s, 8.1 MB/s, 71 % ok, http_status 20 %, connection 6 %`; rates since `before`, shares of all."""
    rows, seconds = counts["rows"], max(seconds, 1e-9)
    if not rows:
        return ""
    rates = [
        f"{(counts['kept'] - before['kept']) / seconds:.0f} images/s",
        f"{(counts['bytes'] - before['bytes']) / seconds / 1e6:.1f} MB/s",
        f"{100 * counts['kept'] / rows:.0f} % ok",
    ]
    failures = Counter({name: n for name, n in counts.items() if name in set(Reason)})
    return ", ".join([*rates, *(f"{name} {100 * n / rows:.0f} %" for name, n in failures.most_common(3))])
