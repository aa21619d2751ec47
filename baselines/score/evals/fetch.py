"""Evaluation data from where they are published: every file whole and as the hub describes it, or not at all.

`fetched.json` says of each file where it came from, its size and its SHA-256. What was cut is gone on with. Nothing that is
fetched is run or unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from baselines.score.evals.sources import COUNT, HUB, WORDS, Source, Sources
from pipeline.download.fetching.addresses import is_public
from pipeline.models.fetch import Wanted, alone, download, hidden
from pipeline.progress import Progress
from pools import store
from pools.errors import DiskFull, InputError, WinnowError, WorkFailed

T = TypeVar("T")
R = TypeVar("R")
RECORD = "fetched.json"
MIB = 1 << 20
_ADVICE = "run the same again to go on"
_TAR = re.compile(r"(?:test|train)/(?:0|[1-9][0-9]{0,5})\.tar", re.ASCII)
_TABLE = re.compile(r"\w[\w.-]*/test/\w[\w.-]*\.parquet", re.ASCII)


@dataclass(frozen=True)
class File:
    """One file to fetch. `git` is the SHA-1 that git knows a small one by, where the hub states no SHA-256."""

    path: str  # below the folder of all data
    url: str
    size: int
    sha256: str = ""
    git: str = ""

    def wrong(self, found: Path) -> str:
        """What is wrong with a file that should be this one, empty if nothing is."""
        size = found.stat().st_size
        if size != self.size:
            return f"{size:,} bytes, not {self.size:,}"
        if self.sha256:
            sha = store.sha256(str(found))
            return "" if sha == self.sha256 else f"SHA-256 {sha}, not {self.sha256}"
        sha = hashlib.sha1(b"blob %d\0" % size + found.read_bytes(), usedforsecurity=False).hexdigest()
        return "" if sha == self.git else f"git's SHA-1 {sha}, not {self.git}"


@dataclass
class Fetched:
    """What came of it: files that are here, how many of them and how many bytes are new, what failed and why."""

    sources: str
    files: int = 0
    new: int = 0
    size: int = 0
    failed: list[str] = field(default_factory=list)
    by_hand: dict[str, str] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For machines."""
        counts = {"sources": self.sources, "files": self.files, "new": self.new, "bytes": self.size}
        return {"stage": "evals fetch", **counts, "failed": self.failed, "by_hand": self.by_hand}


def fetch(
    folder: str,
    *,
    suites: Sequence[str] = ("datacomp",),
    endpoint: str | None = None,
    dry_run: bool = False,
    at_once: int = 4,
    quiet: bool = False,
) -> Fetched:
    """Writes the list of sources for suites and, unless it is a dry run, fetches what is not here yet.

    `endpoint` is a mirror of the hub, which may be at a private address; redirects lead to such a one only from there. Of two
    at once in one folder the second waits. Raises InputError for a folder that is not on this machine and an endpoint that is
    none, DiskFull.
    """
    if not store.is_local(folder):
        raise InputError("data are fetched to this machine only", where=folder, expected="a local folder")
    root, hub = Path(store.local_path(folder)), (endpoint or HUB).rstrip("/")
    if urlsplit(hub).scheme not in ("http", "https") or not urlsplit(hub).hostname:
        raise InputError("not an address", where=hub, expected="http:// or https://")
    if at_once < 1:
        raise InputError(f"{at_once} at once", where="--at-once", expected="1 or more")
    wanted = Sources.of(suites)
    done = Fetched(wanted.write(folder, hub), by_hand=wanted.by_hand)
    if not dry_run:
        with alone(root / ".fetching", quiet):
            _Fetch(root, hub, done, at_once, quiet).run(wanted.fetched)
    return done


class _Fetch:
    """One run. Its methods are called by several threads, except `run`."""

    def __init__(self, root: Path, hub: str, done: Fetched, at_once: int, quiet: bool) -> None:
        self._root, self._hub, self._done, self._at_once, self._quiet = root, hub, done, at_once, quiet
        self._private = endpoint_is_private(hub)
        record = root / RECORD
        self._record: dict[str, Any] = store.read_json(str(record)) if record.exists() else {}
        self._lock = threading.Lock()

    def run(self, sources: Sequence[Source]) -> None:
        files: list[File] = []
        with Progress("look up", len(sources), quiet=self._quiet, unit="repositories") as progress:
            for source, found in _together(self._list, sources, self._at_once):
                if isinstance(found, WinnowError):
                    self._failed(source.folder, found)
                else:
                    files += found
                progress.advance(failed=len(self._done.failed))
        files.sort(key=lambda f: f.path)
        total = sum(f.size for f in files)
        with Progress("fetch", -(-total // MIB), quiet=self._quiet, unit="MiB") as progress:
            for file, came in _together(self._bring, files, self._at_once):
                if isinstance(came, WinnowError):
                    self._failed(file.path, came)
                else:
                    self._done.files += 1
                    self._done.new += came
                    self._done.size += came * file.size
                progress.advance(file.size // MIB, failed=len(self._done.failed))

    def _failed(self, name: str, error: WinnowError) -> None:
        if isinstance(error, DiskFull):
            raise error
        self._done.failed.append(f"{name}: {error}".partition("\n")[0])

    def _list(self, source: Source) -> list[File]:
        """The files of a repository that a task needs. Raises WorkFailed if it lacks one."""
        path = self._root / f".{source.repository.replace('/', '+')}.json"
        self._download(path, source.listing(self._hub), trusted=False)
        try:
            found = {file.path: file for file in _listed(source, self._hub, json.loads(path.read_bytes()))}
        except (ValueError, KeyError, TypeError) as e:
            raise WorkFailed(f"{source.listing(self._hub)}: not a list of files: {e!r}") from e
        finally:
            path.unlink(missing_ok=True)
        needed = [] if source.tables else [p for p in source.patterns if "{n}" not in p]
        lacking = [name for name in needed if f"{source.folder}/{name}" not in found]
        if lacking or not any(path.endswith((".tar", ".parquet")) for path in found):
            missing = ", ".join(lacking) or ("test/*.parquet" if source.tables else f"{source.splits[0]}/0.tar")
            raise WorkFailed(f"{source.repository} has no {missing}")
        return list(found.values())

    def _bring(self, file: File) -> bool:
        """Whether a file had to be fetched. Raises WorkFailed if it is another one than before, or than it should be."""
        path = self._root / file.path
        known = self._record.get(file.path)
        if path.exists():
            if known is not None and path.stat().st_size == known["size"]:
                if file.size != known["size"] or (file.sha256 != known["sha256"] if file.sha256 else file.wrong(path)):
                    raise WorkFailed(f"the hub has another file now (remove {path} to take it)")
                return False
            if not file.wrong(path):
                self._note(file, store.sha256(str(path)))
                return False
        self._download(path, file.url, trusted=True, check=file.wrong)
        self._note(file, store.sha256(str(path)))
        return True

    def _note(self, file: File, sha256: str) -> None:
        with self._lock:
            self._record[file.path] = {"url": file.url, "size": file.size, "sha256": sha256}
            store.write_json(str(self._root / RECORD), dict(sorted(self._record.items())))

    def _download(self, path: Path, url: str, *, trusted: bool, check: Callable[[Path], str] = lambda _: "") -> None:
        """Brings a file to its place, if nothing is wrong with it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = hidden(path, "partial")
        with alone(partial, True) as f:
            try:
                download(f, Wanted(path.name, url, trusted, self._private, _ADVICE), True)
            except WinnowError:
                if not f.tell():
                    partial.unlink()
                raise
            if wrong := check(partial):
                partial.unlink()
            else:
                os.fsync(f.fileno())
                os.replace(partial, path)
        hidden(partial, "json").unlink(missing_ok=True)
        if wrong:
            raise WorkFailed(f"{url}: not the file that was expected: {wrong}")


def endpoint_is_private(url: str) -> bool:
    """Whether a host is at a private address: by name, so that its redirects may lead to others there."""
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return any(not is_public(str(address[4][0])) for address in found)


def _listed(source: Source, hub: str, tree: Any) -> Iterator[File]:
    """The files of a listing that are wanted. Raises ValueError, KeyError or TypeError for what is none."""
    words = {*(WORDS if "test" in source.splits else ()), *(f"{split}/{COUNT}" for split in source.splits)}
    for entry in tree:
        name = str(entry["path"])
        if source.tables:  # the forms of names lead out of no folder
            wanted = bool(_TABLE.fullmatch(name))
        else:
            wanted = name in words or (bool(_TAR.fullmatch(name)) and name.partition("/")[0] in source.splits)
        if wanted and entry["type"] == "file":
            large = entry.get("lfs") or {}
            path, size = f"{source.folder}/{name}", int(large.get("size", entry["size"]))
            yield File(path, source.url(hub, name), size, str(large.get("oid", "")), str(entry["oid"]))


def _together(work: Callable[[T], R], items: Sequence[T], at_once: int) -> Iterable[tuple[T, R | WinnowError]]:
    """Each item with what became of it, as they are done. Threads end with the process, whatever they wait for."""
    waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[T, R | BaseException]] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)

    def go() -> None:
        while True:
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((item, work(item)))
            except BaseException as e:  # told to the one who waits
                done.put((item, e))

    for _ in range(min(at_once, len(items))):
        threading.Thread(target=go, daemon=True).start()
    try:
        for _ in items:
            item, result = done.get()
            if isinstance(result, BaseException) and not isinstance(result, WinnowError):
                raise result
            yield item, result
    finally:
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
