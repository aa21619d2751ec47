"""What can go wrong, and what the command line does about it.

WinnowError
├── InputError   the user's input: one message says what, where, what was expected, what to do   (exit 2)
└── WorkFailed   the work: a file, a shard, a process; part-failed work counts too               (exit 1)
    ├── DiskFull no space for a file: what was done stands, and a rerun goes on
    └── Retry    may heal by itself: the caller waits and tries again, then gives up as WorkFailed
"""

from __future__ import annotations

import os
from typing import ClassVar


class WinnowError(Exception):
    """Any failure that Winnow explains itself; `exit_code` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class InputError(WinnowError):
    """Something the user gave is wrong.

    `where` is a file with its line or row, or an option; `expected` what would have been right; `fix` what to do.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self,
        what: str,
        *,
        where: str | os.PathLike[str] | None = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.what, self.where, self.expected, self.fix = what, where, expected, fix
        place = f"{os.fspath(where)}: " if where is not None else ""
        wanted = f"; expected {expected}" if expected else ""
        advice = f"\n  → {fix}" if fix else ""
        super().__init__(f"{place}{what}{wanted}{advice}")

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword arguments are lost by the default pickling of exceptions, and errors cross process borders.
        return (_input_error, (self.what, self.where, self.expected, self.fix))


def _input_error(what: str, where: str | None, expected: str | None, fix: str | None) -> InputError:
    return InputError(what, where=where, expected=expected, fix=fix)


class WorkFailed(WinnowError):
    """Work that was asked for could not be done, wholly or in part."""


class DiskFull(WorkFailed):
    """A file did not fit on its disk, or into a quota."""


class Retry(WorkFailed):
    """A failure that may be gone at the next try (a busy store, a reset connection)."""
