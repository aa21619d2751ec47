"""Whether a disk has room for a made-up web: estimated before the first picture is drawn, and said when it runs full."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from pools import store
from pools.errors import DiskFull, InputError

# Measured on webs of 500 to 12,000 pictures, and rounded up: pages and pictures a link, and the evaluation sets.
BYTES_A_PICTURE = 21_000
BYTES_ANYWAY = 45_000_000


def estimate(pictures: int) -> int:
    """Bytes that a web of so many pictures takes, at most."""
    return BYTES_ANYWAY + BYTES_A_PICTURE * pictures


def need(folder: str, pictures: int) -> None:
    """Raises InputError if the disk of a local folder has less free than the web still takes."""
    if not store.is_local(folder):
        return
    place = Path(store.local_path(folder)).absolute()
    here = 0
    for file in place.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process that works on the same web has just renamed it
            here += file.stat().st_size if file.is_file() else 0
    free = shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free
    if free + here < estimate(pictures):
        raise _no_room(f"{_mb(free)} free", folder, pictures)


@contextlib.contextmanager
def room_for(folder: str, pictures: int) -> Iterator[None]:
    """Turns the error of a full disk into one that says what to do. Files that were begun are gone by then."""
    try:
        yield
    except DiskFull as e:
        raise _no_room("it ran full", folder, pictures) from e


def _no_room(what: str, folder: str, pictures: int) -> InputError:
    return InputError(
        f"no room for the made-up web ({what})",
        where=folder,
        expected=f"about {_mb(estimate(pictures))} for {pictures} pictures",
        fix="free some space and run the same again to go on, choose another folder, or fewer pictures",
    )


def _mb(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"
