"""Weights from where they are published, or from a file at hand, into their folder: whole and checked, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pipeline.models.registry import Entry, Weights, find, locate, recorded, sidecar
from pipeline.models.streaming import TRANSIENT, Answer, get
from pipeline.progress import Progress
from pools import store
from pools.errors import DiskFull, InputError, Retry, WorkFailed

TRIES = 5  # in a row that bring nothing
WAIT = 1.0  # seconds before the second of them, doubled for each further one
MAX_BYTES = 64 << 30
BLOCK = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


@dataclass(frozen=True)
class Fetched:
    """A model that is here now; `new` if it was not before."""

    weights: Weights
    new: bool


def fetch(name: str, *, source: str | None = None, allow_private: bool = False, quiet: bool = False) -> Fetched:
    """Gets a model from where it is published, or from a mirror, and goes on where an earlier try stopped.

    A file whose hash no source states is taken as it is the first time; what comes later must be the same. Of two at once
    the second waits. Raises InputError, WorkFailed (nothing then lies under the model's name), DiskFull.
    """
    entry = find(name)
    if entry.embedded or entry.path.exists():
        return Fetched(_known(entry), False)
    if not (url := source or entry.url):
        raise InputError(
            f"it is not known where {name} can be fetched from",
            expected=f"{entry.what}: see {', '.join(entry.cited)}",
            fix=f"winnow models add {name} FILE, or winnow models fetch {name} --from URL",
        )
    entry.path.parent.mkdir(parents=True, exist_ok=True)
    with alone(hidden(entry.path, "partial"), quiet) as f:
        if entry.path.exists():
            _remove(Path(f.name))
            return Fetched(_known(entry), False)
        download(f, _wanted(entry, url, allow_private), quiet)
        return Fetched(_settle(entry, _unpacked(entry, Path(f.name)), url), True)


def _wanted(entry: Entry, url: str, allow_private: bool) -> Wanted:
    return Wanted(
        entry.name,
        url,
        bool(entry.sha256) and not entry.member,
        allow_private,
        f"run the same again to go on, or get the file elsewhere: winnow models add {entry.name} FILE",
        "free some space, or set WINNOW_WEIGHTS to a folder elsewhere",
    )


def add(name: str, path: str) -> Fetched:
    """Takes a copy of a file that is here already, if it holds what it should. Raises InputError, DiskFull."""
    entry = find(name)
    if entry.embedded:
        raise InputError(f"{name} comes with a package", fix=f"winnow models path {name}")
    if entry.path.exists():
        return Fetched(_known(entry), False)
    if not Path(path).is_file():
        raise InputError("no such file", where=path, expected=entry.what)
    copy = hidden(entry.path, "copy")
    copy.parent.mkdir(parents=True, exist_ok=True)
    with _room(copy):
        shutil.copyfile(path, copy)
    return Fetched(_settle(entry, copy, os.path.abspath(path)), True)


def _known(entry: Entry) -> Weights:
    """The weights that are here. Writes down what they hold, if that is stated nowhere."""
    found = locate(entry.name)
    if not recorded(entry):
        _record(entry, found.sha256, "")
    return found


def hidden(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{ending}")


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno not in _FULL:
            raise
        raise DiskFull(f"{path}: {os.strerror(e.errno)}\n  → free some space, then run the same again to go on") from e


@contextlib.contextmanager
def alone(path: Path, quiet: bool) -> Iterator[IO[bytes]]:
    """A file to append to, under a lock. One that was put in its place while this waited is waited for again."""
    while True:
        with path.open("ab") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                Progress.note(f"waiting for another fetch of {path.parent}", quiet=quiet)
                fcntl.flock(f, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(f.fileno())):
                yield f
                return


@dataclass(frozen=True)
class Wanted:
    """What is fetched: `trusted` if its hash is known, so that a wrong end is found out.

    `advice` is what to do when it cannot be had, `room` where else there may be some; `moved` is told of bytes that came.
    """

    name: str
    url: str
    trusted: bool
    allow_private: bool
    advice: str
    room: str = "free some space"
    moved: Callable[[int], None] = lambda _: None


def download(f: IO[bytes], wanted: Wanted, quiet: bool) -> None:
    """All of a file, in as many requests as it takes."""
    failures = 0
    while True:
        before = f.tell()
        try:
            _go_on(f, wanted, quiet)
            return
        except Retry as e:
            failures = failures + 1 if f.tell() <= before else 1
            if failures == TRIES:
                raise WorkFailed(f"{e}\n  → {wanted.advice}") from e
            time.sleep(WAIT * 2 ** (failures - 1))


def _go_on(f: IO[bytes], wanted: Wanted, quiet: bool) -> None:
    """One request for what is missing. Raises Retry where it ends too early."""
    note = hidden(Path(f.name), "json")  # which file the part is of
    known = _read_note(note) if f.tell() else {}
    if known.get("url") != wanted.url or not (known.get("validator") or wanted.trusted):
        f.truncate(0)
    start = f.seek(0, os.SEEK_END)
    headers = {"Range": f"bytes={start}-"} if start else {}
    if start and known.get("validator"):
        headers["If-Range"] = known["validator"]
    answer = get(wanted.url, headers, allow_private=wanted.allow_private, trusted=wanted.trusted)
    with contextlib.closing(answer.response):
        total = _begin(f, start, known.get("total"), answer)
        if total == -1:
            return
        f.seek(0, os.SEEK_END)
        store.write_json(str(note), {"url": wanted.url, "validator": _validator(answer), "total": total})
        _check_room(f, total, wanted.room)
        _receive(f, wanted, answer, total, quiet)


def _begin(f: IO[bytes], start: int, expected: int | None, answer: Answer) -> int | None:
    """Makes the part ready for the answer's body, and says how long the whole is: None if unknown, -1 if it is here."""
    status = answer.status
    if status == 200:  # all of it: nothing was asked for in part, it has changed, or the server knows no parts
        f.truncate(0)
        length = answer.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else None
    if status in (206, 416) and start:
        match = _RANGE.fullmatch(answer.headers.get("content-range", "").strip())
        first, total = (match[1], match[2]) if match else (None, None)
        whole = int(total) if total and total != "*" else None
        if status == 416 and whole == start:
            return -1
        if status == 206 and first is not None and int(first) == start and expected in (None, whole):
            return whole
        f.truncate(0)
        raise Retry(f"{answer.url}: it has changed since the first part was fetched")
    if status in TRANSIENT:
        raise Retry(f"{answer.url}: HTTP {status}")
    raise WorkFailed(f"{answer.url}: HTTP {status}")


def _receive(f: IO[bytes], wanted: Wanted, answer: Answer, total: int | None, quiet: bool) -> None:
    from urllib3.exceptions import HTTPError

    with Progress(wanted.name, -(-(total or 0) // BLOCK), quiet=quiet, unit="MiB") as progress, _room(Path(f.name)):
        progress.advance(f.tell() // BLOCK)
        try:
            for block in answer.response.stream(BLOCK, decode_content=False):
                f.write(block)
                wanted.moved(len(block))
                if f.tell() > MAX_BYTES:
                    raise WorkFailed(f"{answer.url}: more than {MAX_BYTES >> 30} GiB")
                progress.advance(f.tell() // BLOCK - progress.done)
        except HTTPError as e:
            raise Retry(f"{answer.url}: the answer broke off after {f.tell():,} bytes: {e}") from e
        finally:
            f.flush()
    if total is not None and f.tell() != total:
        raise Retry(f"{answer.url}: {f.tell():,} bytes of {total:,}")


def _check_room(f: IO[bytes], total: int | None, room: str) -> None:
    free = shutil.disk_usage(Path(f.name).parent).free
    if total is not None and total - f.tell() > free:
        raise DiskFull(
            f"{f.name}: {total - f.tell():,} bytes are to come, {free:,} are free\n  → {room}, then run the same again"
        )


def _validator(answer: Answer) -> str:
    """What tells this state of a file from another (RFC 9110, 13.1.5): a strong ETag, else its time of change."""
    etag = answer.headers.get("etag", "")
    return etag if etag and not etag.startswith("W/") else answer.headers.get("last-modified", "")


def _read_note(path: Path) -> dict[str, Any]:
    try:
        note = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _unpacked(entry: Entry, partial: Path) -> Path:
    """The file itself, out of the archive that was fetched, if it is published in one."""
    if not entry.member:
        return partial
    unpacked = hidden(entry.path, "member")
    try:
        with zipfile.ZipFile(partial) as archive, _room(unpacked):
            (inside,) = (n for n in archive.namelist() if Path(n).name == entry.member)
            with archive.open(inside) as source, unpacked.open("wb") as target:
                shutil.copyfileobj(source, target, BLOCK)
    except (zipfile.BadZipFile, ValueError) as e:
        _remove(partial, hidden(partial, "json"))
        raise WorkFailed(f"{entry.name}: not a zip archive with one {entry.member}: {e}") from e
    _remove(partial)
    return unpacked


def _settle(entry: Entry, file: Path, source: str) -> Weights:
    """Gives a whole file its name if it holds what it should, else removes it. Raises WorkFailed."""
    found, expected = store.sha256(str(file)), recorded(entry)
    _remove(hidden(hidden(entry.path, "partial"), "json"))
    if expected and found != expected:
        _remove(file)
        stated = (
            "" if entry.sha256 else f"\n  → if the new one is right, remove {sidecar(entry.path)}, where the first was recorded"
        )
        raise WorkFailed(f"{source}: not the file that was expected: SHA-256 {found}, not {expected}{stated}")
    if not expected:
        _record(entry, found, source)  # first: a file that is here has been recorded
    with file.open("rb") as f:
        os.fsync(f.fileno())
    os.replace(file, entry.path)
    return Weights(str(entry.path), found, entry.name)


def _record(entry: Entry, sha256: str, source: str) -> None:
    note = {
        "name": entry.name,
        "sha256": sha256,
        "source": source,
        "recorded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    store.write_json(str(sidecar(entry.path)), note)
