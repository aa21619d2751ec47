"""Runs `winnow` commands as a person would: each in a process of its own, shown before it starts, its summary read back."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pools.errors import InputError, WinnowError, WorkFailed

# Several processes of one thread each: two that wait for each other's threads take many times as long.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_READY = "--proxy "  # ends the line in which `winnow replay` names its address


@dataclass
class Verbs:
    """The commands of one demo, and how many seconds each took."""

    overwrite: bool = False
    quiet: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    _running: set[subprocess.Popen[str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, label: str, *arguments: str, alone: bool = True) -> dict[str, Any]:
        """Runs `winnow ARGUMENTS`, and returns the summary that it prints as JSON.

        `alone` shows the command and its progress as it works; else nothing is shown unless it fails. Raises InputError or
        WorkFailed as the command's exit status says.
        """
        if alone:
            self.say(f"\n== {label}: {shown(arguments)}")
        start = time.monotonic()
        options = ["--json", *(["--overwrite"] if self.overwrite else []), *(["--quiet"] if self.quiet or not alone else [])]
        status, out, told = self._finish(self._start(arguments, options, capture=not alone), capture=not alone)
        self.seconds[label] = time.monotonic() - start
        if status == 130:
            raise KeyboardInterrupt
        if status:
            raise _failure(status, f"{shown(arguments)}\n  ended with exit status {status}" + (f": {told}" if told else ""))
        summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        return summary

    @contextlib.contextmanager
    def proxy(self, *arguments: str) -> Iterator[str]:
        """The address of a `winnow replay ARGUMENTS` that runs while the block does."""
        self.say(f"\n== replay: {shown(arguments)}")
        process = self._start(arguments, [], capture=True)
        assert process.stderr is not None
        told = []
        try:
            for line in process.stderr:
                told.append(line)
                if _READY in line:
                    break
            else:
                status = process.wait()
                raise _failure(status, f"{shown(arguments)}\n  ended with exit status {status}: {''.join(told).strip()}")
            # What it says later must be read, or it would wait for ever once the pipe is full.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield told[-1].partition(_READY)[2].split()[0]
        finally:
            self._end(process)

    def together(self, chains: Sequence[Callable[[], None]]) -> None:
        """Runs chains of commands side by side, one a core; the first failure ends all."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
            try:
                for done in [workers.submit(chain) for chain in chains]:
                    done.result()
            except BaseException:
                workers.shutdown(wait=False, cancel_futures=True)
                self.end()
                raise

    def end(self) -> None:
        """Ends what still runs."""
        with self._lock:
            running = list(self._running)
        for process in running:
            self._end(process)

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    def _start(self, arguments: Sequence[str], options: Sequence[str], *, capture: bool) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pipeline.cli", *arguments, *options]
        environment = {**os.environ, **_ONE_THREAD}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if capture else None, text=True, env=environment
        )
        with self._lock:
            self._running.add(process)
        return process

    def _finish(self, process: subprocess.Popen[str], *, capture: bool) -> tuple[int, str, str]:
        try:
            out, told = process.communicate()
        finally:
            self._end(process)
        return process.returncode, out, (told or "").strip() if capture else ""

    def _end(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is None:
            process.terminate()
            process.wait()
        with self._lock:
            self._running.discard(process)


def shown(arguments: Sequence[str]) -> str:
    """The command as it is typed."""
    return f"winnow {shlex.join(arguments)}"


def _failure(status: int, what: str) -> WinnowError:
    return InputError(what) if status == 2 else WorkFailed(what)
