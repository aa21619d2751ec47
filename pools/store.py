"""Files wherever they are: open, list, write whole or not at all (fsspec: http, s3, gs, hdfs, memory …; local ones without).

Stores beyond this machine are asked patiently: see `pools.patience`. What they need is imported when a path asks for it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import posixpath
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

from pools import local
from pools.errors import DiskFull, InputError
from pools.patience import patiently

T = TypeVar("T")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_local(path: str) -> bool:
    return local.is_local(path)


def local_path(path: str) -> str:
    """A plain path on this machine. The path must be local."""
    return local.plain(path)


def join(root: str, *parts: str) -> str:
    """`root/part/…` without doubled slashes, for local paths and urls alike."""
    return posixpath.join(root.rstrip("/") or "/", *(p.strip("/") for p in parts))


def name(path: str) -> str:
    return posixpath.basename(path.rstrip("/"))


def open_input(path: str) -> IO[bytes]:
    """A seekable binary file to read. Raises WorkFailed if a store goes on failing, then or at a later read."""
    fs, inner = _fs(path)
    if is_local(path):
        file: IO[bytes] = fs.open(inner, "rb")
        return file
    from pools import remote

    return remote.open_input(fs, inner, path)


def exists(path: str) -> bool:
    if is_local(path):
        return _ask(path, lambda fs, inner: bool(fs.exists(inner)))
    try:
        # Not `fs.exists`, to which every error is an answer.
        return bool(_ask(path, lambda fs, inner: fs.info(inner)))
    except FileNotFoundError:
        return False
    except PermissionError:
        # Over http that is how many stores answer for files that they do not have.
        if _is_http(path):
            return False
        raise


def is_dir(path: str) -> bool:
    if is_local(path) or _is_http(path):
        return _ask(path, lambda fs, inner: bool(fs.isdir(inner)))
    try:
        return _ask(path, lambda fs, inner: bool(fs.info(inner)["type"] == "directory"))
    except FileNotFoundError:
        return False


def size(path: str) -> int:
    return _ask(path, lambda fs, inner: int(fs.size(inner)))


def list_files(root: str, suffix: str = "") -> list[str]:
    """Paths relative to `root` of all files below it that end in `suffix`, sorted.

    Names that start with `.` or `_`, and all below such a folder, are not data and are left out.
    """
    fs, inner = _fs(root)
    base = inner.rstrip("/")
    found = []
    for path in _files_below(fs, base, root):
        relative = path[len(base) :].lstrip("/")
        if relative.endswith(suffix) and not any(part[:1] in "._" for part in relative.split("/")):
            found.append(relative)
    return sorted(found)


def _files_below(fs: Any, folder: str, root: str) -> Iterator[str]:
    if is_local(root):
        return local.FILES.below(folder)
    from pools import remote

    return remote.files_below(fs, folder, _asking(root))


def find_glob(pattern: str) -> list[str]:
    """The files a pattern or plain path names, sorted; empty if none."""
    fs, inner = _fs(pattern)
    if exists(pattern):  # a name may hold brackets
        return [inner if is_local(pattern) else pattern]
    from pools import remote

    fs, inner = remote.file_system(pattern)
    matches = remote.glob(fs, inner, _asking(pattern))
    return sorted(matches if is_local(pattern) else [fs.unstrip_protocol(m) for m in matches])


@contextlib.contextmanager
def atomic(path: str) -> Iterator[IO[bytes]]:
    """A binary file to write that appears at `path` when the block ends well, and not at all when it fails.

    The temporary name is the same each time (`.<name>.partial`): what a killed process left is overwritten by its rerun.
    Raises DiskFull where there is no room for it.
    """
    fs, inner = _fs(path)
    folder, base = posixpath.split(inner)
    _ask(path, lambda fs, _: fs.makedirs(folder, exist_ok=True))
    partial = posixpath.join(folder, f".{base}.partial")
    try:
        with fs.open(partial, "wb") as f:
            yield f
            if is_local(path):
                f.flush()
                os.fsync(f.fileno())
    except BaseException as e:
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(partial)
        if isinstance(e, OSError) and e.errno in _FULL:
            fix = "free some space, then run the same again to go on"
            raise DiskFull(f"{path}: {os.strerror(e.errno)}\n  → {fix}") from e
        raise
    if is_local(path):
        os.replace(partial, inner)
    else:
        patiently(lambda: _move(fs, partial, inner), path)


def _move(fs: Any, partial: str, inner: str) -> None:
    from fsspec import AbstractFileSystem

    try:
        if type(fs).mv is AbstractFileSystem.mv:
            # Which would take a name with brackets for a pattern.
            fs.cp_file(partial, inner)
            fs.rm_file(partial)
        else:
            fs.mv(partial, inner)
    except FileNotFoundError:
        fs.info(inner)  # is there if an earlier try moved it and only the answer got lost


def write_bytes(path: str, data: bytes) -> None:
    with atomic(path) as f:
        f.write(data)


def read_bytes(path: str) -> bytes:
    with open_input(path) as f:
        return f.read()


def write_json(path: str, value: Any) -> None:
    """One JSON document, keys in the order given, as a person can read it."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: str) -> Any:
    try:
        return json.loads(read_bytes(path))
    except ValueError as e:
        raise InputError(f"not JSON: {e}", where=path) from e


def read_lines(path: str) -> Iterator[str]:
    with open_input(path) as f:
        yield from (line.rstrip("\r\n") for line in io.TextIOWrapper(f, encoding="utf-8"))


def remove_tree(path: str) -> None:
    """Removes a folder and all in it; nothing happens if there is none."""
    if exists(path):
        _ask(path, lambda fs, inner: fs.rm(inner, recursive=True))


def sha256(path: str) -> str:
    """SHA-256 of what a file holds, 64 hex digits."""
    sha = hashlib.sha256()
    with open_input(path) as f:
        while block := f.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def relative(path: str, root: str) -> str:
    """The path of a file as seen from a folder above it."""
    return _fs(path)[1][len(_fs(root)[1].rstrip("/")) :].lstrip("/")


def read_range(path: str, start: int, length: int) -> bytes:
    """Some bytes of a file, in one request to a store; fewer if it ends before."""
    return _ask(path, lambda fs, inner: bytes(fs.cat_file(inner, start=start, end=start + length)))


def digest(path: str, root: str | None = None) -> str:
    """An input's identity without reading it: path relative to `root`, size, and etag or time of change."""
    info = _ask(path, lambda fs, inner: fs.info(inner))
    changed = next((info[k] for k in ("ETag", "etag", "mtime", "LastModified", "Last-Modified", "created") if info.get(k)), "")
    return f"{name(path) if root is None else relative(path, root)}:{info['size']}:{changed}"


def _ask(path: str, question: Callable[[Any, str], T]) -> T:
    """What the file system of a path answers; patiently, if it is not this machine's."""
    fs, inner = _fs(path)
    return _asking(path)(lambda: question(fs, inner))


def _asking(path: str) -> Callable[[Callable[[], T]], T]:
    return (lambda act: act()) if is_local(path) else (lambda act: patiently(act, path))


def _is_http(path: str) -> bool:
    from pools import remote

    return remote.is_http(path)


def _fs(path: str) -> tuple[Any, str]:
    path = os.fspath(path)
    if is_local(path) and "::" not in path:
        return local.FILES, local.plain(path)
    from pools import remote

    return remote.file_system(path)
