"""This machine's files, asked as fsspec's file systems are, as far as `pools.store` does.

fsspec takes a tenth of a second to import, with all that it needs for stores elsewhere.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_PROTOCOLS = ("file://", "local://")


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith(_PROTOCOLS)


def plain(path: str) -> str:
    """A path without protocol and last slash, from the root, as fsspec has it: `..` and links stay."""
    for protocol in _PROTOCOLS:
        path = path.removeprefix(protocol)
    if path.startswith("~"):
        path = os.path.expanduser(path)
    if not path.startswith("/"):
        path = f"{os.getcwd()}/{path.removeprefix('./')}" if path not in ("", ".") else os.getcwd()
    return path.rstrip("/") or "/"


def start_saving(f: IO[bytes], start: int, length: int) -> None:
    """Lets the system begin to bring bytes that were just written to the disk, so that the end need not wait for all of them.

    Nothing happens to a file that is not this machine's. Bytes on their way stay in the system's cache.
    """
    if isinstance(f, io.BufferedWriter) and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(f.fileno(), start, length, os.POSIX_FADV_DONTNEED)


class Files:
    """The file system. Paths are plain."""

    def open(self, path: str, mode: str) -> IO[bytes]:
        return Path(path).open(mode)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def isdir(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def info(self, path: str) -> dict[str, Any]:
        found = os.stat(path)
        kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
        return {"name": path, "size": found.st_size, "type": kind, "mtime": found.st_mtime}

    def makedirs(self, path: str, *, exist_ok: bool) -> None:
        os.makedirs(path, exist_ok=exist_ok)

    def rm_file(self, path: str) -> None:
        Path(path).unlink()

    def rm(self, path: str, *, recursive: bool) -> None:
        if recursive and os.path.isdir(path):
            shutil.rmtree(path)
        else:
            self.rm_file(path)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        with Path(path).open("rb") as f:
            f.seek(start or 0)
            return f.read() if end is None else f.read(end - f.tell())

    def below(self, folder: str) -> Iterator[str]:
        """All files below a folder; none if there is none. One that cannot be listed raises; links to folders are files."""
        try:
            entries = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):  # it may have gone meanwhile
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self.below(entry.path)
            else:
                yield entry.path


FILES = Files()
