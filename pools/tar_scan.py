"""The members of a tar by its headers alone: the bytes between them are neither read nor unpacked.

ustar, old tar, GNU and pax archives. Every header's checksum is verified. What is not a regular file is passed over and said.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

from pools import store, tar_headers
from pools.tar_headers import BLOCK as BLOCK
from pools.tar_headers import ZERO
from pools.tar_headers import header as header

WINDOW = 8192  # bytes read at a header: a picture's end, a caption and some json stand in one
CONTENT_BYTES = 1 << 26  # of a member that is wanted with its content; a longer one comes without
_AHEAD = 8 << 20  # bytes that the system is asked to read before they are needed
_FIRST, _BATCH = 64, 512  # headers that are verified at once
_ENDLESS = 1 << 62
_REGULAR = (ord("0"), 0, ord("7"))
_LINKS = {ord("1"): "a hard link", ord("2"): "a symbolic link"}
_SLASH = ord("/")
_WITHOUT_DATA = b"123456"  # links, devices, folders, pipes
_FILE = ord("0")
_PAX, _PAX_SOLARIS, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK, _SPARSE = (ord(c) for c in "xXgLKS")
_EXTRA = (_PAX, _PAX_SOLARIS, _LONG_NAME, _LONG_LINK, _PAX_GLOBAL)
_TELLING = re.compile(rb" (?:path|size|GNU\.sparse[^=]*)=")  # the pax records that matter to a reader

Read = Callable[[int, int], bytes]


# A regular file: its name, where it begins with all that its name and size need, where its bytes begin, how many they are,
# and they themselves if its name ends as asked for. Plain tuples: there are tens of thousands in a shard.
Member = tuple[bytes, int, int, int, bytes | None]


@dataclass
class Ending:
    """What there is to say once a tar is read."""

    damage: str = ""  # why reading stopped before the end; empty if it did not
    empty: bool = False  # whether the damage is in the very first header: this is no tar
    at: int = 0  # byte where reading stopped
    notes: list[str] = field(default_factory=list)  # members that are no regular files, bytes behind the archive


@contextlib.contextmanager
def reading(path: str) -> Iterator[tuple[Read, int | None]]:
    """`read(offset, length)` of a file, which may give less, and the file's size if it is known."""
    if not store.is_local(path):
        with store.open_input(path) as f:
            yield _reader(f), store.size(path) if not path.startswith(("http://", "https://")) else None
        return
    fd = os.open(store.local_path(path), os.O_RDONLY)
    try:
        yield lambda offset, length: os.pread(fd, length, offset), _advised(fd)
    finally:
        os.close(fd)


def _reader(f: IO[bytes]) -> Read:
    def read(offset: int, length: int) -> bytes:
        f.seek(offset)
        return f.read(length)

    return read


def _advised(fd: int) -> int:
    """The size of a file that the system is asked to read from start to end."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, _AHEAD, os.POSIX_FADV_WILLNEED)
    return os.fstat(fd).st_size


def scan(path: str, ending: Ending, *, content: bytes = b"") -> Iterator[list[Member]]:
    """The members of a tar in order, verified, a batch after the other; `ending` is filled in by the time of the last.

    Members whose name ends in `content` (lower case, compared without regard to case) come with their bytes.
    """
    with reading(path) as (read, size):
        yield from walk(read, ending, size=size, content=content)


def walk(
    read: Read, ending: Ending, *, start: int = 0, stop: int | None = None, size: int | None = None, content: bytes = b""
) -> Iterator[list[Member]]:
    """The members from byte `start` on, to the end of the archive or to byte `stop`. One that is cut is not given."""
    found: list[Member] = []
    blocks: list[bytes] = []  # headers not verified yet
    places: list[int] = []
    limit = _FIRST
    buffer, base, at = b"", start, start
    begin = -1  # of the extra headers that stand before a member
    long_name: bytes | None = None
    long_size: int | None = None
    last_end = start
    stop = _ENDLESS if stop is None else stop
    size = _ENDLESS if size is None else size
    tail, last = -len(content), (content[-1:] + content[-1:].upper())
    while at < stop:
        if len(blocks) >= limit:
            good = _verified(blocks, places, found, ending)
            yield found
            if not good:
                return
            found, blocks, places, limit = [], [], [], _BATCH
        i = at - base
        if i + 1536 > len(buffer):
            buffer, base, i = read(at, WINDOW), at, 0
            if len(buffer) < BLOCK:
                break
        if buffer[i + 156] == _PAX and (skip := _time_only(buffer, i)):
            at += skip
            i += skip
            if i + BLOCK > len(buffer):
                continue
        block = buffer[i : i + BLOCK]
        try:
            n = int(block[124:135], 8)
        except ValueError:
            known = tar_headers.size(block)
            if known is None:
                ending.at = at
                if block != ZERO:
                    ending.damage = f"damaged at byte {at}: no tar header"
                break
            n = known
        if n < 0:  # by which one would go back for ever
            ending.at, ending.damage = at, f"damaged at byte {at}: no tar header"
            break
        blocks.append(block)
        places.append(at)
        flag = block[156]
        if flag != _FILE and flag in _EXTRA:
            if i + BLOCK + n > len(buffer):
                buffer, base, i = read(at, max(WINDOW, BLOCK + n if n < CONTENT_BYTES else 0)), at, 0
            payload = buffer[i + BLOCK : i + BLOCK + n]
            if flag == _LONG_NAME:
                begin = at if begin < 0 else begin
                long_name = payload.rstrip(b"\0")
            elif flag in (_PAX, _PAX_SOLARIS) and _TELLING.search(payload):
                begin = at if begin < 0 else begin
                records = tar_headers.pax_records(payload)
                long_name = records.get(b"path", long_name)
                long_size = int(records[b"size"]) if records.get(b"size", b"").isdigit() else long_size
                if any(r.startswith(b"GNU.sparse") for r in records):
                    flag = _SPARSE
                    ending.notes.append(f"a sparse file at byte {at} is passed over")
                    long_name = b""
            at += BLOCK + (n + 511 & ~511)
            continue
        first = at
        if begin < 0:
            stop_of_name = block.find(b"\0", 0, 100)
            name = block[:stop_of_name] if stop_of_name >= 0 else block[:100]
        else:
            first, name = begin, long_name if long_name is not None else block[:100].split(b"\0")[0]
            n = n if long_size is None else long_size
        if long_name is None and block[345] and block[257:263] == b"ustar\0":
            name = block[345:500].split(b"\0")[0] + b"/" + name
        begin, long_name, long_size = -1, None, None
        if not name or name[-1] == _SLASH or (flag != _FILE and flag not in _REGULAR):
            at = _pass_over(block, flag, name, at, n, read, ending)
            continue
        offset = at + BLOCK
        end = offset + n
        if end > size:
            ending.at, ending.damage = size, f"cut within {name.decode('utf-8', 'replace')} at byte {size}"
            break  # unless the header's checksum says that its size is not to be believed
        data: bytes | None = None
        if tail and name[-1] in last and name[tail:].lower() == content and n <= CONTENT_BYTES:
            j = offset - base
            if j + n > len(buffer):
                buffer, base, j = read(offset, max(WINDOW, n)), offset, 0
            data = buffer[j : j + n]
        found.append((name, first, offset, n, data))
        at = offset + (n + 511 & ~511)
        last_end = end
    else:
        ending.at = at
        _verified(blocks, places, found, ending)
        yield found
        return
    if len(buffer) < BLOCK and not ending.damage:
        _cut(read, last_end, at, found, ending)
    elif not ending.damage:
        _look_behind(read, at, ending)
    _verified(blocks, places, found, ending)
    ending.empty = bool(ending.damage) and ending.at == start and not found
    yield found


def plain_members(data: bytes | bytearray, at: int, end: int) -> list[tuple[bytes, int, int]] | None:
    """(name, offset, size) of the regular files between two bytes of whole members that were verified before.

    None if one of them has more than a plain header, and the time of change in pax: that is for `walk`.
    """
    found: list[tuple[bytes, int, int]] = []
    while at + BLOCK <= end:
        if data[at + 156] == _PAX:
            if not (skip := _time_only(data, at)):
                return None
            at += skip
            if at + BLOCK > end:
                return None
        try:
            n = int(data[at + 124 : at + 135], 8)
        except ValueError:
            return None
        flag = data[at + 156]
        if n < 0:
            return None
        stop = data.find(b"\0", at, at + 100)
        if flag not in _REGULAR or stop <= at or data[stop - 1] == _SLASH or data[at + 345]:
            return None
        found.append((bytes(data[at:stop]), at + BLOCK, n))
        at += BLOCK + (n + 511 & ~511)
    return found if at == end else None


def _time_only(data: bytes | bytearray, i: int) -> int:
    """Bytes of a pax header at `i` that says the time of change and no more, as webdataset's writer puts before each file.

    0 if it is another. Its checksum is not verified: what it is taken for shows in what it says.
    """
    if not data.startswith(b" mtime=", i + BLOCK + 2):
        return 0
    n = (
        int(data[i + 132 : i + 135], 8)
        if data[i + 132 : i + 135].isdigit() and data[i + 124 : i + 132] == b"00000000"
        else BLOCK
    )
    end = i + BLOCK + n
    return 1024 if n < BLOCK and data.find(b"\n", i + BLOCK, end) == end - 1 and end <= len(data) else 0


def _cut(read: Read, last_end: int, at: int, found: list[Member], ending: Ending) -> None:
    """The file ends where a header was expected, in the bytes of the last member if these are not all there."""
    ending.at = at
    ending.damage = f"cut at byte {at}: no end-of-archive block"
    if found and last_end and len(read(last_end - 1, 1)) < 1:
        name = found.pop()[0].decode("utf-8", "replace")
        ending.damage = f"cut within {name}, before byte {last_end}"


def _look_behind(read: Read, at: int, ending: Ending) -> None:
    """Notes what stands behind the first empty block, where every reader stops: archives that were strung together, say."""
    start = at
    while piece := read(at, 1 << 20):
        if piece.count(0) != len(piece):
            where = at + next(i for i, byte in enumerate(piece) if byte)
            ending.notes.append(f"bytes behind the archive's end (byte {start}) are not read: the first at {where}")
            return
        at += len(piece)


def _pass_over(block: bytes, flag: int, name: bytes, at: int, size: int, read: Read, ending: Ending) -> int:
    """Where the header after a member that is no regular file stands."""
    shown = name.decode("utf-8", "replace")
    if flag in _LINKS:
        ending.notes.append(f"{shown!r} is {_LINKS[flag]}, which is not followed")
    elif flag == _SPARSE:
        ending.notes.append(f"{shown!r} is a sparse file, which is passed over")
    elif name[-1:] != b"/" and flag != ord("5") and name:
        ending.notes.append(f"{shown!r} is a special file (type {chr(flag)!r}), which is passed over")
    at += BLOCK
    if flag == _SPARSE:
        more = block[482]
        while more:
            more = (read(at, BLOCK) or ZERO)[504]
            at += BLOCK
    return at if flag in _WITHOUT_DATA else at + (size + 511 & ~511)


def _verified(blocks: list[bytes], places: list[int], found: list[Member], ending: Ending) -> bool:
    """Whether all headers have their checksums; if not, `found` loses what stands behind the first bad one."""
    bad = tar_headers.first_bad(blocks)
    if bad is None:
        return True
    ending.at = places[bad]
    ending.damage = f"damaged at byte {places[bad]}: the header's checksum is wrong"
    found[:] = [member for member in found if member[2] <= places[bad]]
    return False
