"""Files wherever they are: open, list, write whole or not at all (fsspec: local, s3, gs, hdfs, memory …)."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import posixpath
from collections.abc import Iterator
from typing import IO, Any

import fsspec
from fsspec.core import url_to_fs

from pools.errors import DiskFull, InputError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith(("file://", "local://"))


def local_path(path: str) -> str:
    """A plain path on this machine. The path must be local."""
    return str(fsspec.core.strip_protocol(path))


def join(root: str, *parts: str) -> str:
    """`root/part/…` without doubled slashes, for local paths and urls alike."""
    return posixpath.join(root.rstrip("/") or "/", *(p.strip("/") for p in parts))


def name(path: str) -> str:
    return posixpath.basename(path.rstrip("/"))


def open_input(path: str) -> IO[bytes]:
    """A seekable binary file to read."""
    fs, inner = _fs(path)
    return fs.open(inner, "rb")  # type: ignore[no-any-return]


def exists(path: str) -> bool:
    fs, inner = _fs(path)
    return bool(fs.exists(inner))


def is_dir(path: str) -> bool:
    fs, inner = _fs(path)
    return bool(fs.isdir(inner))


def size(path: str) -> int:
    fs, inner = _fs(path)
    return int(fs.size(inner))


def list_files(root: str, suffix: str = "") -> list[str]:
    """Paths relative to `root` of all files below it that end in `suffix`, sorted.

    Names that start with `.` or `_`, and all below such a folder, are not data and are left out.
    """
    fs, inner = _fs(root)
    base = inner.rstrip("/")
    found = []
    for path in fs.find(base):
        relative = path[len(base) :].lstrip("/")
        if relative.endswith(suffix) and not any(part[:1] in "._" for part in relative.split("/")):
            found.append(relative)
    return sorted(found)


def find_glob(pattern: str) -> list[str]:
    """The files a pattern or plain path names, sorted; empty if none."""
    fs, inner = _fs(pattern)
    matches = [inner] if fs.exists(inner) else fs.glob(inner)  # a name may hold brackets
    return sorted(matches if is_local(pattern) else [fs.unstrip_protocol(m) for m in matches])


@contextlib.contextmanager
def atomic(path: str) -> Iterator[IO[bytes]]:
    """A binary file to write that appears at `path` when the block ends well, and not at all when it fails.

    The temporary name is the same each time (`.<name>.partial`): what a killed process left is overwritten by its rerun.
    Raises DiskFull where there is no room for it.
    """
    fs, inner = _fs(path)
    folder, base = posixpath.split(inner)
    fs.makedirs(folder, exist_ok=True)
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
        fs.mv(partial, inner)


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
    fs, inner = _fs(path)
    if fs.exists(inner):
        fs.rm(inner, recursive=True)


def sha256(path: str) -> str:
    """SHA-256 of what a file holds, 64 hex digits."""
    sha = hashlib.sha256()
    with open_input(path) as f:
        while block := f.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def digest(path: str, root: str | None = None) -> str:
    """An input's identity without reading it: path relative to `root`, size, and etag or time of change."""
    fs, inner = _fs(path)
    info = fs.info(inner)
    changed = next((info[k] for k in ("ETag", "etag", "mtime", "LastModified", "created") if info.get(k)), "")
    relative = name(path) if root is None else inner[len(_fs(root)[1].rstrip("/")) :].lstrip("/")
    return f"{relative}:{info['size']}:{changed}"


def _fs(path: str) -> tuple[fsspec.AbstractFileSystem, str]:
    fs, inner = url_to_fs(os.fspath(path))
    return fs, inner
