"""Tar shards of samples: read, write, copy without decoding.

A sample is the members that share a key: the path up to the first dot of its last part (`a/b.c/001.jpg` → `a/b.c/001`),
which is webdataset's rule; its members stand next to each other. Archives are read in place, nothing is ever unpacked.
"""

from __future__ import annotations

import contextlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from pools import store
from pools.errors import InputError, WorkFailed

IMAGE_EXTENSIONS = ("jpg", "jpeg", "png", "webp")


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


def split_key(member: str) -> tuple[str, str]:
    """`a/b.c/001.seg.png` → (`a/b.c/001`, `seg.png`)."""
    folder, slash, base = member.rpartition("/")
    stem, _, extension = base.partition(".")
    return folder + slash + stem, extension


def samples(path: str) -> Iterator[Sample]:
    """The samples of a shard in order.

    Raises InputError where a member is doubled or stands away from its sample, WorkFailed where the tar is cut or damaged.
    """
    seen: set[str] = set()
    key: str | None = None
    members: dict[str, tuple[int, int]] = {}
    with store.open_input(path) as f, contextlib.closing(_open_tar(f, path)) as tar:
        for info in _members(tar, path):
            this, extension = split_key(info.name)
            if this != key:
                if key is not None:
                    yield Sample(path, key, members)
                if this in seen:
                    raise InputError(
                        f"members of {this!r} stand apart",
                        where=path,
                        expected="the files of a sample next to each other",
                        fix="pack the tar again, sorted by name",
                    )
                seen.add(this)
                key, members = this, {}
            if extension in members:
                raise InputError(f"member {info.name!r} stands twice", where=path, expected="each name once")
            members[extension] = (info.offset_data, info.size)
    if key is not None:
        yield Sample(path, key, members)


def _open_tar(f: IO[bytes], path: str) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=f, mode="r:")
    except tarfile.TarError as e:
        raise InputError(f"not a tar: {e}", where=path, expected="an uncompressed tar (webdataset shard)") from e


def _members(tar: tarfile.TarFile, path: str) -> Iterator[tarfile.TarInfo]:
    try:
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # otherwise every header is kept in memory
            if info.isreg():
                yield info
        # tarfile takes a file that ends between two members for a whole one.
        f = tar.fileobj
        assert f is not None
        f.seek(tar.offset)
        if len(f.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
            raise WorkFailed(f"{path}: cut at byte {tar.offset}: no end-of-archive block")
    except tarfile.TarError as e:
        raise WorkFailed(f"{path}: damaged at byte {tar.offset}: {e}") from e


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
    if "json" not in sample.members:
        return {}
    try:
        fields = json.loads(read(f, sample, "json"))
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def read_all(path: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """(key, {extension: bytes}) of each sample of a shard, one sample in memory at a time."""
    with store.open_input(path) as f:
        for sample in samples(path):
            yield sample.key, {e: read(f, sample, e) for e in sample.members}


class Writer:
    """Appends samples to an open binary file as a tar; the same samples give the same bytes."""

    def __init__(self, f: IO[bytes]) -> None:
        self._file, self._size = f, 0

    def add(self, key: str, members: Mapping[str, bytes]) -> None:
        """Members are written in the mapping's order. The key's last part must not hold a dot, which starts the extension."""
        if "." in key.rpartition("/")[2]:
            raise ValueError(f"key {key!r} has a dot in its last part")
        parts = []
        for extension, data in members.items():
            info = tarfile.TarInfo(f"{key}.{extension}")
            info.size, info.mode = len(data), 0o644
            header = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
            parts += [header, data, bytes(-len(data) % tarfile.BLOCKSIZE)]
        self._write(b"".join(parts))  # at once: `tarfile` asks the system for each 16 KB

    def close(self) -> None:
        """The archive's end: two empty blocks, then zeros up to a whole record."""
        end = 2 * tarfile.BLOCKSIZE
        self._write(bytes(end + -(self._size + end) % tarfile.RECORDSIZE))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._size += len(data)


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
