"""Runs a filter many times, each time killed (SIGKILL) at another file, and once more after each kill.

`python -m tests.pipeline.kill RECIPE POOL FOLDER` leaves FOLDER/whole (never killed), FOLDER/<n> (killed at the n-th file that
was written, then rerun) and prints how many files a run writes. A process of its own forks the ones that die.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from pipeline.engine import Options
from pipeline.selection import select
from pools import store

_atomic, _remove_tree = store.atomic, store.remove_tree


class Killer:
    """`store` that kills this process at the n-th file that is written: before it gets its name (odd n) or after (even n).

    A folder that is removed counts as a file too, if `remove_tree` is put in place: it dies before that, or when half is gone.
    """

    def __init__(self, fatal: int) -> None:
        self.fatal, self.written = fatal, 0

    @contextlib.contextmanager
    def atomic(self, path: str) -> Iterator[IO[bytes]]:
        self.written += 1
        number = self.written  # others may be opened before this one is whole
        with _atomic(path) as f:
            yield f
            if number == self.fatal and self.fatal % 2:
                os.kill(os.getpid(), signal.SIGKILL)
        if number == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def remove_tree(self, path: str) -> None:
        if not store.exists(path):
            return
        self.written += 1
        if self.written == self.fatal:
            # By name from the end: marks of what is done go after the files.
            files = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
            for file in files[len(files) // 2 :] if self.fatal % 2 == 0 else []:
                Path(file).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        _remove_tree(path)

    def before(self, act: Callable[[str, str], None]) -> Callable[[str, str], None]:
        """A renaming, before which (odd n) or after which it dies."""

        def renaming(path: str, target: str) -> None:
            self.written += 1
            if self.written == self.fatal and self.fatal % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            act(path, target)
            if self.written == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)

        return renaming


def run(recipe: str, pool: str, output: str, fatal: int = 0) -> int:
    killer = Killer(fatal)
    store.atomic = killer.atomic
    select(recipe, pool, output, options=Options(workers=0, quiet=True))
    return killer.written


def main(recipe: str, pool: str, folder: str) -> None:
    files = run(recipe, pool, f"{folder}/whole")
    for n in range(1, files + 1):
        if (child := os.fork()) == 0:
            run(recipe, pool, f"{folder}/{n}", fatal=n)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        run(recipe, pool, f"{folder}/{n}")
    print(files)


if __name__ == "__main__":
    main(*sys.argv[1:])
