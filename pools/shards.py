"""Tar shards of samples: read, write, copy without decoding.

A sample is the members that share a key: the path up to the first dot of its last part (`a/b.c/001.jpg` → `a/b.c/001`),
which is webdataset's rule; its members stand next to each other. Archives are read in place, nothing is ever unpacked.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from pools import local, store, tar_scan, uids
from pools.errors import InputError, WorkFailed
from pools.wanted import Taken, Wanted

IMAGE_EXTENSIONS = ("jpg", "jpeg", "png", "webp")
_SAVED_AT_ONCE = 32 << 20  # bytes
RECORD = 10_240  # bytes of which an archive has a whole number


@dataclass(frozen=True)
class Sample:
    """Where one sample's members lie in its shard: {extension: (offset, size)} in bytes."""

    shard: str
    key: str
    members: dict[str, tuple[int, int]]

    @property
    def image_extension(self) -> str | None:
        """The extension of the member that is the picture, None if there is none."""
        return next((e for e in self.members if e.lower() in IMAGE_EXTENSIONS), None)


def list_shards(root: str) -> list[str]:
    """Paths of the tars below a folder, sorted. Raises InputError if there is none."""
    if not store.is_dir(root):
        raise InputError("no such folder", where=root, expected="a folder of webdataset shards (.tar)")
    found = [store.join(root, p) for p in store.list_files(root, ".tar")]
    if not found:
        raise InputError("no .tar file here", where=root, expected="a folder of webdataset shards (.tar)")
    return found


def samples(path: str) -> Iterator[Sample]:
    """The samples of a shard in order; links, folders, hidden files and files without an extension are passed over.

    Raises InputError where a member is doubled or stands away from its sample, WorkFailed where the tar is cut or damaged.
    """
    ending = tar_scan.Ending()
    for key, members in grouped(path, tar_scan.scan(path, ending), ending):
        yield Sample(path, key, {extension: (offset, size) for extension, (_, offset, size, _) in members.items()})
    if ending.empty:
        raise no_tar(path)
    if ending.damage:
        raise WorkFailed(f"{path}: {ending.damage}")


# By extension, as in `tar_scan.Member`: start, offset, size and content.
Parts = dict[str, tuple[int, int, int, bytes | None]]


def grouped(
    path: str, batches: Iterable[list[tar_scan.Member]], ending: tar_scan.Ending, *, regroup: bool = False
) -> Iterator[tuple[str, Parts]]:
    """The members that share a key, in the order of the first of each; of a damaged tar not the last, which may lack some.

    Raises InputError where a member stands twice, or away from its sample unless these are to be regrouped: for that,
    places of all members are kept in memory.
    """
    seen: dict[bytes, Parts] = {}
    texts: dict[bytes, str] = {}  # of extensions
    key: bytes | None = None
    parts: Parts = {}
    passed = 0
    for batch in batches:
        for name, start, offset, size, content in batch:
            this, dot, extension = name.partition(b".")
            if b"/" in extension:
                this, dot, extension = _split(name)
            if not dot or this[-1:] in (b"", b"/"):
                passed += 1
                continue
            if this != key:
                if key is not None and not regroup:
                    yield _text(key), parts
                key = this
                if this in seen and not regroup:
                    raise _apart(path, this)
                parts = seen.setdefault(this, {}) if regroup else {}
                seen[this] = parts if regroup else _NONE
            if (text := texts.get(extension)) is None:
                text = texts[extension] = _text(extension)
            if text in parts:
                raise InputError(f"member {_text(name)!r} stands twice", where=path, expected="each name once")
            parts[text] = (start, offset, size, content)
    if passed:
        ending.notes.append(f"{passed} hidden files, or files without an extension, belong to no sample")
    if regroup:
        yield from ((_text(k), found) for k, found in seen.items())
    elif key is not None and not ending.damage:
        yield _text(key), parts


def split(member: bytes) -> tuple[bytes, bytes]:
    """`a/b.c/001.seg.png` → (`a/b.c/001`, `seg.png`)."""
    key, _, extension = member.partition(b".")
    if b"/" in extension:
        key, _, extension = _split(member)
    return key, extension


def _split(name: bytes) -> tuple[bytes, bytes, bytes]:
    folder, slash, base = name.rpartition(b"/")
    stem, dot, extension = base.partition(b".")
    return folder + slash + stem, dot, extension


_NONE: Parts = {}


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _apart(path: str, key: bytes) -> InputError:
    return InputError(
        f"members of {_text(key)!r} stand apart",
        where=path,
        expected="the files of a sample next to each other",
        fix="pack the tar again, sorted by name; or `winnow reshard --regroup`, which brings them together",
    )


def no_tar(path: str) -> InputError:
    """What to say of a file that has no tar header at its start."""
    with store.open_input(path) as f:
        packed = f.read(2) == b"\x1f\x8b"
    return InputError(
        "not a tar" + (": packed with gzip" if packed else ""),
        where=path,
        expected="an uncompressed tar (webdataset shard)",
        fix="unpack it with gunzip" if packed else None,
    )


def read(f: IO[bytes], sample: Sample, extension: str) -> bytes:
    """The bytes of one member, from the opened shard. Raises WorkFailed if the tar ends before them."""
    offset, size = sample.members[extension]
    f.seek(offset)
    data = f.read(size)
    if len(data) < size:
        raise WorkFailed(f"{sample.shard}: cut within {sample.key}.{extension} at byte {offset + len(data)}")
    return data


def sidecar(f: IO[bytes], sample: Sample) -> dict[str, Any]:
    """The sample's `.json`; empty if it has none, or one that is no JSON object."""
    return (fields_of(read(f, sample, "json")) or {}) if "json" in sample.members else {}


def fields_of(body: bytes) -> dict[str, Any] | None:
    """A JSON object; None if it is none."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def listed(f: IO[bytes], samples: Iterable[Sample], wanted: Wanted, taken: Taken) -> Iterator[tuple[Sample, int]]:
    """The samples of an opened shard that a list names, and how often: training on the shards as they are.

    Of samples that share a uid the first counts, as in resharding; `taken` remembers those of earlier shards. Samples without
    a uid are passed over.
    """
    known = [(s, u) for s in samples if (u := uid_of(s.key, sidecar(f, s)))]
    places, copies = wanted.find(uids.pack([u for _, u in known]))
    there = np.flatnonzero(copies)
    for i in there[taken.take(places[there])].tolist():
        yield known[i][0], int(copies[i])


def uid_of(key: str, fields: Mapping[str, Any] | None) -> str | None:
    """The uid that a sample's json states; where it states none, the key's if that is one, as we and DataComp name samples."""
    uid = None if fields is None else fields.get("uid")
    if uid is None:
        match = _UID_KEY.fullmatch(key.rpartition("/")[2])
        return match[1] if match else None
    return uid.lower() if isinstance(uid, str) and _UID.fullmatch(uid) else None


_UID = re.compile("[0-9a-fA-F]{32}")
_UID_KEY = re.compile("([0-9a-f]{32})(?:-[0-9]+)?")


def read_all(path: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """(key, {extension: bytes}) of each sample of a shard, one sample in memory at a time."""
    with store.open_input(path) as f:
        for sample in samples(path):
            yield sample.key, {e: read(f, sample, e) for e in sample.members}


class Writer:
    """Appends samples to an open binary file as a tar; the same samples give the same bytes."""

    def __init__(self, f: IO[bytes]) -> None:
        self._file, self._size = f, 0
        self._saved = 0  # bytes that are on their way to the disk

    def add(self, key: str, members: Mapping[str, bytes]) -> None:
        """Members are written in the mapping's order. The key's last part must not hold a dot, which starts the extension."""
        if "." in key.rpartition("/")[2]:
            raise ValueError(f"key {key!r} has a dot in its last part")
        parts = []
        for extension, data in members.items():
            name = f"{key}.{extension}".encode("utf-8", "surrogateescape")
            parts += [tar_scan.header(name, len(data)), data, bytes(-len(data) % tar_scan.BLOCK)]
        self.add_raw(b"".join(parts))  # at once: `tarfile` asks the system for each 16 KB

    def add_raw(self, data: bytes | memoryview) -> None:
        """Headers, bytes and padding of whole members as they are to stand in the tar."""
        self._file.write(data)
        self._size += len(data)
        if self._size - self._saved >= _SAVED_AT_ONCE:
            local.start_saving(self._file, self._saved, self._size - self._saved)
            self._saved = self._size

    def close(self) -> None:
        """The archive's end: two empty blocks, then zeros up to a whole record."""
        end = 2 * tar_scan.BLOCK
        self.add_raw(bytes(end + -(self._size + end) % RECORD))


@contextlib.contextmanager
def write(path: str) -> Iterator[Writer]:
    """A shard to write; it appears at `path` when the block ends well."""
    with store.atomic(path) as f:
        writer = Writer(f)
        yield writer
        writer.close()


def shard_name(index: int, suffix: str = "") -> str:
    """`00000012` + suffix, as img2dataset and DataComp name shards."""
    return f"{index:08d}{suffix}"
