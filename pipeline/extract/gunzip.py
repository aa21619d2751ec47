"""A file's bytes, inflated if it is gzip, read ahead as far as needed; damaged gzip members are stepped over."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Literal

_READ = 1 << 18
_INFLATE = 1 << 20  # bytes that one call may give: the bound against data that inflate a thousandfold
_MAGIC = b"\x1f\x8b\x08"


@dataclass(frozen=True, slots=True)
class Break:
    """Where the data of a stream break off: at byte `offset` of the file begins the member that is damaged or cut."""

    offset: int
    kind: Literal["gzip", "cut"]
    why: str


class Stream:
    """Look-ahead over a seekable file, from `offset` on, which must be the start of a gzip member if the file is gzip.

    `gzipped` says whether it is; left out, the first bytes do.

    `stop` is set while the data break off right behind what is buffered; `resume` goes on after the gap.
    """

    def __init__(self, file: IO[bytes], offset: int = 0, *, gzipped: bool | None = None) -> None:
        if gzipped is None:
            file.seek(offset)
            head = file.read(2)
            gzipped = bool(head) and _MAGIC.startswith(head)
        file.seek(offset)
        self._gzip = gzipped
        self._file = file
        self._pieces = _inflate(file) if self._gzip else _plain(file)
        self._buffer, self._at = b"", 0
        self._base = 0 if self._gzip else offset  # position in the stream of the first buffered byte
        # (position in the stream, offset in the file) of the gzip members in and behind the buffer.
        self._members = deque([(0, offset)])
        self._ended = False
        self.stop: Break | None = None

    def fill(self, n: int) -> int:
        """Reads on until `n` bytes are buffered or the data end; the number of bytes buffered."""
        have = len(self._buffer) - self._at
        if have >= n or self._ended or self.stop is not None:
            return have
        parts = [self._buffer[self._at :]]
        self._base += self._at
        while have < n:
            piece = next(self._pieces, None)
            if piece is None:
                self._ended = True
                break
            if isinstance(piece, Break):
                self.stop = piece
                break
            member, data = piece
            if self._members[-1][1] != member:
                self._members.append((self._base + have, member))
            parts.append(data)
            have += len(data)
        self._buffer, self._at = b"".join(parts), 0
        return have

    def peek(self, n: int) -> bytes:
        """The next `n` buffered bytes."""
        return self._buffer[self._at : self._at + n]

    def find(self, pattern: re.Pattern[bytes], start: int = 0) -> int | None:
        """Where the pattern first matches in what is buffered, from `start` on; None if it does not."""
        found = pattern.search(self._buffer, self._at + start)
        return None if found is None else found.start() - self._at

    def advance(self, n: int) -> int:
        """Steps over `n` bytes, buffered or not; how many there were."""
        left = n
        while left and (have := self.fill(min(left, _READ))):
            step = min(have, left)
            self._at += step
            left -= step
        return n - left

    def skip(self, characters: bytes) -> None:
        """Steps over any of these bytes."""
        while self.fill(1) and self._buffer[self._at] in characters:
            self._at += 1

    def resume(self) -> None:
        """Drops what is buffered and goes on behind the break."""
        self._base += len(self._buffer)
        self._buffer, self._at, self.stop = b"", 0, None

    def broken(self, offset: int) -> Break:
        """Why there is no more to `fill`: the data break off, or the file ends within what begins at byte `offset`."""
        return self.stop or _cut(self._file, offset)

    def place(self) -> tuple[int, int]:
        """Where the next byte lies: (offset in the file, bytes to skip of what inflates from there)."""
        at = self._base + self._at
        if not self._gzip:
            return at, 0
        while len(self._members) > 1 and self._members[1][0] <= at:
            self._members.popleft()
        return self._members[0][1], at - self._members[0][0]


def _cut(file: IO[bytes], offset: int) -> Break:
    return Break(offset, "cut", f"truncated at byte {file.tell()}")


Piece = tuple[int, bytes] | Break


def _plain(file: IO[bytes]) -> Iterator[Piece]:
    start = file.tell()
    while data := file.read(_READ):
        yield start, data


def _inflate(file: IO[bytes]) -> Iterator[Piece]:
    """(offset of its member, data), piece by piece; a Break for each damage."""
    at, data = file.tell(), b""
    while True:
        if not (data := data or file.read(_READ)):
            return
        if not data[0]:  # members may be padded with zeros
            rest = data.lstrip(b"\0")
            at, data = at + len(data) - len(rest), rest
            continue
        member, stream = at, zlib.decompressobj(31)
        while not stream.eof:
            data = data or file.read(_READ)
            try:
                out = stream.decompress(data, _INFLATE)
            except zlib.error as e:
                why = f"damaged gzip data ({str(e).removeprefix('Error ')})"
                break
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
            if not data and not out and not stream.eof:
                yield _cut(file, member)
                return
            at, data = at + len(data) - len(rest), rest
            if out:
                yield member, out
        if stream.eof:
            continue
        yield Break(member, "gzip", why)
        if (following := _next_member(file, member + 1)) is None:
            return
        at, data = following, b""
        file.seek(at)


def _next_member(file: IO[bytes], start: int) -> int | None:
    """Offset of the next gzip member that holds the start of a WARC record."""
    overlap = len(_MAGIC) - 1
    while True:
        file.seek(start)
        window = file.read(_READ)
        found = window.find(_MAGIC)
        while found >= 0:
            file.seek(start + found)
            if _opens_record(file.read(1 << 10)):
                return start + found
            found = window.find(_MAGIC, found + 1)
        if len(window) <= overlap:
            return None
        start += len(window) - overlap


def _opens_record(data: bytes) -> bool:
    try:
        return zlib.decompressobj(31).decompress(data, 5) == b"WARC/"
    except zlib.error:
        return False
