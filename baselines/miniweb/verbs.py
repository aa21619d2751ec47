"""Runs `winnow` commands as a person would: each in a process of its own, shown before it starts, its summary read back.

The processes are forked from one that has imported what models need, so that the seconds this takes are spent once.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from pipeline.progress import Progress
from pools.errors import InputError, WinnowError, WorkFailed

# Several processes of one thread each: two that wait for each other's threads take many times as long.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PRELOADED = ["baselines.score.suite", "baselines.train.loop"]
_READY = "--proxy "  # ends the line in which `winnow replay` names its address
_INTERRUPTED = 130
_PATIENCE = 10.0  # seconds for an interrupted command to end


@dataclass
class Verbs:
    """The commands of one demo, and how many seconds each took."""

    overwrite: bool = False
    quiet: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    _running: list[_Command] = field(default_factory=list)

    def run(self, label: str, *arguments: str, alone: bool = True, anew: bool = False) -> dict[str, Any]:
        """Runs `winnow ARGUMENTS`, and returns the summary that it prints as JSON.

        `alone` shows the command and its progress as it works; else nothing is shown. `anew` replaces what it made before.
        Raises the command's own error.
        """
        if alone:
            self.say(f"\n== {label}: {shown(arguments)}")
        start = time.monotonic()
        options = [
            "--json",
            *(["--overwrite"] if self.overwrite or anew else []),
            *(["--quiet"] if self.quiet or not alone else []),
        ]
        with self._start(arguments, options) as command:
            out = command.result()
        self.seconds[label] = time.monotonic() - start
        summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        return summary

    @contextlib.contextmanager
    def proxy(self, *arguments: str) -> Iterator[str]:
        """The address of a `winnow replay ARGUMENTS` that runs while the block does."""
        self.say(f"\n== replay: {shown(arguments)}")
        with self._start(arguments, [], tell=True) as command:
            yield command.told(_READY).partition(_READY)[2].split()[0]

    def together(self, label: str, chains: Sequence[Callable[[], None]]) -> None:
        """Runs chains of commands side by side, one a core; the first failure ends all."""
        with (
            Progress(label, len(chains), quiet=self.quiet, unit="models") as progress,
            ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers,
        ):
            try:
                for done in as_completed([workers.submit(chain) for chain in chains]):
                    done.result()
                    progress.advance()
            except BaseException:
                workers.shutdown(wait=False, cancel_futures=True)
                for command in list(self._running):
                    command.end()
                raise

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)

    @contextlib.contextmanager
    def _start(self, arguments: Sequence[str], options: Sequence[str], *, tell: bool = False) -> Iterator[_Command]:
        command = _Command(arguments, options, tell=tell)
        self._running.append(command)
        try:
            yield command
        finally:
            command.end()
            self._running.remove(command)


class _Command:
    """A command that runs. Its process sends what it says on standard error (if it is to `tell`), then how it ended."""

    def __init__(self, arguments: Sequence[str], options: Sequence[str], *, tell: bool) -> None:
        self.shown = shown(arguments)
        self._ending: tuple[WinnowError | None, int, str] | None = None
        self._here, there = multiprocessing.Pipe(duplex=False)
        self._process = _start([*arguments, *options], there, tell)
        there.close()

    def result(self) -> str:
        """What it printed, once it has ended. Raises its error."""
        self._receive(lambda _: False)
        self._process.join()
        error, status, out = self._ending or (None, self._process.exitcode or 1, "")
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        if error is not None:
            raise error
        if status < 0:
            raise WorkFailed(f"{self.shown}\n  was killed (out of memory?)\n  → run again to go on")
        if status:
            raise (InputError if status == 2 else WorkFailed)(f"{self.shown}\n  ended with exit status {status}")
        return out

    def told(self, words: str) -> str:
        """The first that it says with these words in it. Raises its error if it ends before."""
        found = self._receive(lambda text: words in text)
        if found is None:
            self.result()
            raise WorkFailed(f"{self.shown}\n  ended before it was ready")
        # What it says later must be taken, or it would wait for ever once the pipe is full.
        threading.Thread(target=self._receive, args=(lambda _: False,), daemon=True).start()
        return found

    def end(self) -> None:
        """Interrupts it if it still runs."""
        if self._process.is_alive() and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGINT)
            self._process.join(_PATIENCE)
            self._process.kill()
            self._process.join()

    def _receive(self, wanted: Callable[[str], bool]) -> str | None:
        """Takes what it sends until a text is wanted or it has ended."""
        with contextlib.suppress(EOFError, OSError):
            while self._ending is None:
                sent = self._here.recv()
                if not isinstance(sent, str):
                    self._ending = sent
                elif wanted(sent):
                    return sent
        return None


def _start(arguments: list[str], there: Connection, tell: bool) -> ForkServerProcess:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)  # the server takes the environment of its start, and hands it on
    try:
        process = context.Process(target=_work, args=(arguments, there, tell))
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    return process


def _work(arguments: list[str], there: Connection, tell: bool) -> None:
    """The command, in its own process."""
    import typer

    from pipeline.cli import app

    signal.signal(signal.SIGINT, _interrupt)
    if tell:
        sys.stderr = _Told(there)
    out, error, status = io.StringIO(), None, 0
    try:
        with contextlib.redirect_stdout(out):
            status = app(arguments, prog_name="winnow", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        os._exit(_INTERRUPTED)
    except WinnowError as e:
        error, status = e.with_traceback(None), e.exit_code
    there.send((error, status, out.getvalue()))


def _interrupt(*_: object) -> None:
    """What threads and the end of the process say from now on is of no use to anyone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    raise KeyboardInterrupt


class _Told(io.TextIOBase):
    """A standard error whose every text is sent."""

    def __init__(self, there: Connection) -> None:
        self._there = there

    def write(self, text: str) -> int:
        self._there.send(text)
        return len(text)


def shown(arguments: Sequence[str]) -> str:
    """The command as it is typed."""
    return f"winnow {shlex.join(arguments)}"
