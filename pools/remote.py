"""Stores beyond this machine: how they are opened, and files that go on reading where a connection broke."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import glob_translate

from pools.errors import InputError, Retry
from pools.patience import patiently

_BUFFER = 1 << 18
_SKIP = 1 << 20
_WALK = AsyncFileSystem._find
Ask = Callable[[Callable[[], Any]], Any]
# Their listings are kept for good by default: a process would never see what others write.
_LISTINGS_KEPT = ("s3://", "s3a://", "gs://", "gcs://")


def is_http(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def file_system(path: str) -> tuple[Any, str]:
    """The fsspec file system of a path, and the path within it. Raises InputError if there is none for its protocol."""
    if "://" not in path and "::" not in path:
        return _local(), LocalFileSystem._strip_protocol(path)
    try:
        return url_to_fs(path, **_options(path))  # type: ignore[no-any-return]
    except ImportError as e:
        raise InputError(str(e), where=path, fix="install what such urls need: aiohttp for http, s3fs for s3") from e
    except ValueError as e:
        raise InputError(str(e), where=path, expected="a path, or a url that fsspec can open") from e


@functools.cache
def _local() -> LocalFileSystem:
    return LocalFileSystem()


def _options(path: str) -> dict[str, Any]:
    if is_http(path):
        import aiohttp

        # A file that a server calls compressed is read as it lies there. Streams may last, silence may not.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=60)
        headers = {"Accept-Encoding": "identity"}
        return {"client_kwargs": {"auto_decompress": False, "headers": headers, "timeout": timeout}}
    return {"use_listings_cache": False} if path.startswith(_LISTINGS_KEPT) else {}


def files_below(fs: Any, folder: str, ask: Ask, depth: int | None = None) -> Iterator[str]:
    """All files below a folder, or those at most `depth` levels below; none if there is no such folder.

    A folder that cannot be listed raises, whereas fsspec's own walk leaves it out. `ask` makes each request.
    """
    if _lists_itself(fs):
        yield from ask(lambda: fs.find(folder, maxdepth=depth))
        return
    try:
        entries = ask(lambda: fs.ls(folder, detail=True))
    except FileNotFoundError:  # it may have gone meanwhile
        return
    for entry in entries:
        name = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            yield entry["name"]
        elif name != folder and depth != 1:
            yield from files_below(fs, name, ask, None if depth is None else depth - 1)


def glob(fs: Any, pattern: str, ask: Ask) -> list[str]:
    """The files that match a pattern, in which `**` stands for any number of folders. Raises as `files_below` does."""
    if _lists_itself(fs):
        return list(ask(lambda: fs.glob(pattern)))
    plain = re.split(r"[*?\[]", pattern)[0].rpartition("/")[0]
    depth = None if "**" in pattern else pattern.count("/", len(plain))
    matches = re.compile(glob_translate(pattern)).match
    return [path for path in files_below(fs, plain, ask, depth) if matches(path)]


def _lists_itself(fs: Any) -> bool:
    """Whether a store has its own way to list all below a folder, and with it to match patterns."""
    return type(fs).find is not AbstractFileSystem.find or getattr(type(fs), "_find", _WALK) is not _WALK


def open_input(fs: Any, inner: str, path: str) -> io.BufferedReader:
    """A seekable binary file to read, patient (see `pools.patience`) in opening and in reading."""
    return io.BufferedReader(_File(fs, inner, path), _BUFFER)


class _File(io.RawIOBase):
    """Keeps the offset, and opens the store's file anew at it after each failure.

    Servers that know no ranges are read through from the start.
    """

    def __init__(self, fs: Any, inner: str, path: str) -> None:
        self._fs, self._inner, self._path = fs, inner, path
        self._at = 0
        self._file: Any = None
        self._mode: dict[str, Any] = {}
        size = getattr(patiently(self._ready, path), "size", None)
        self._size: int | None = size() if callable(size) else size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size is None:
            raise io.UnsupportedOperation(f"{self._path}: the store does not say how long the file is")
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        if start + offset < 0:
            raise ValueError(f"seek to byte {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = patiently(lambda: self._read(len(buffer)), f"{self._path}, byte {self._at}")
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        self._drop()
        super().close()

    def _read(self, n: int) -> bytes:
        try:
            data: bytes = self._ready().read(n)
            if n and not data and self._at < (self._size or 0):
                raise Retry(f"the file ended at byte {self._at} of {self._size}")
            return data
        except ValueError:  # fsspec's word for: no ranges
            self._drop()
            if self._mode or not is_http(self._path):
                raise
            self._mode = {"block_size": 0, "size": self._size}
            return self._read(n)
        except Exception:
            self._drop()
            raise

    def _ready(self) -> Any:
        """The store's file, at the offset."""
        if self._file is None:
            self._file = self._fs.open(self._inner, "rb", **self._mode)
        if self._file.tell() != self._at:
            try:
                self._file.seek(self._at)
            except ValueError:  # a stream
                self._read_on_to(self._at)
        return self._file

    def _read_on_to(self, offset: int) -> None:
        if self._file.tell() > offset:
            self._drop()
            self._file = self._fs.open(self._inner, "rb", **self._mode)
        while (left := offset - self._file.tell()) and self._file.read(min(left, _SKIP)):
            pass

    def _drop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
