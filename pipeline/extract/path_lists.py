"""List files: text, plain or gzip, with a path or url a line → full paths."""

from __future__ import annotations

import gzip
import posixpath
import re
import zlib
from collections.abc import Iterator
from typing import IO
from urllib.parse import urlsplit

from pools import remote, store
from pools.errors import InputError

_SUFFIXES = (".paths", ".paths.gz", ".txt", ".txt.gz", ".lst")
_MAX_CHARACTERS = 4096
_MAX_BYTES = 4 * _MAX_CHARACTERS
_GZIP = b"\x1f\x8b"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EXPECTED = "one path or url a line, in UTF-8, plain or gzip"


def is_list(path: str) -> bool:
    """Whether a file is a list, by its name."""
    return location(path).endswith(_SUFFIXES)


def location(path: str) -> str:
    """A path or url without scheme, query and fragment."""
    if remote.is_http(path):
        parts = urlsplit(path)
        return parts.netloc + parts.path
    return path.partition("://")[2] if "://" in path else path


def read(path: str) -> list[str]:
    """The files that a list names, in its order, repeats kept; blank lines and those that start with `#` name none.

    Absolute paths and urls stand as they are, others are relative to the list's folder; in a list below a folder
    `crawl-data`, lines that start with that name are relative to the folder above it, as Common Crawl has them.
    Raises InputError for a list without a line, what is no text or broken gzip, and a line that is no path.
    """
    lines = list(_lines(path))
    if not lines:
        raise InputError("a list that names no file", where=path, expected=_EXPECTED)
    place = _place(path)
    return [_full(line, *place) for line in lines]


def _lines(path: str) -> Iterator[str]:
    with store.open_input(path) as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        text: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        number = 0
        while True:
            number += 1
            try:
                raw = text.readline(_MAX_BYTES + 2)
            except (EOFError, gzip.BadGzipFile, zlib.error) as e:
                raise InputError(f"line {number}: broken gzip data ({e})", where=path, expected=_EXPECTED) from e
            if not raw:
                return
            line = _checked(raw, number, path)
            if line and not line.startswith("#"):
                yield line


def _checked(raw: bytes, number: int, path: str) -> str:
    """A line without the white space around it. Raises InputError if it can be no path."""
    try:
        line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
    except UnicodeDecodeError as e:
        # What is cut within a character is too long, which says more.
        if len(raw) <= _MAX_BYTES:
            raise InputError(f"line {number}: not text in UTF-8 ({e.reason})", where=path, expected=_EXPECTED) from e
        line = raw.decode("utf-8", "replace")
    if len(line) > _MAX_CHARACTERS:
        raise InputError(f"line {number}: longer than {_MAX_CHARACTERS:,} characters", where=path, expected=_EXPECTED)
    if (found := _CONTROL.search(line)) is not None:
        raise InputError(f"line {number}: a control character ({found[0]!r})", where=path, expected=_EXPECTED)
    if line.endswith("/"):
        raise InputError(f"line {number}: a folder", where=path, expected="the path or url of a file a line")
    return line


def _place(path: str) -> tuple[str, str]:
    """What a list's path begins with (`s3://`, or nothing on this machine), and its folder behind that."""
    if store.is_local(path):
        return "", posixpath.dirname(store.local_path(path))
    scheme, separator, _ = path.partition("://")
    return scheme + separator, posixpath.dirname(location(path))


def _full(line: str, scheme: str, folder: str) -> str:
    if "://" in line:
        return store.local_path(line) if store.is_local(line) else line
    if line.startswith("/"):
        return line
    above, crawls, _ = f"/{folder}/".rpartition("/crawl-data/")
    root = above[1:] if crawls and line.startswith("crawl-data/") else folder
    place = f"{root}/{line}" if root or not scheme else line
    return scheme + (posixpath.normpath(place) if {".", ".."} & set(line.split("/")) else place)
