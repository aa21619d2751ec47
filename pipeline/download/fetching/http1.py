"""HTTP/1.1 as far as fetching needs it: GET, and an answer with a length, in chunks, or up to the connection's end.

urllib3 and http.client need 1.4 ms of CPU for an answer of 80 KB on loopback, most of it for headers parsed as e-mail and
for layers that fetching has no use for; this needs 0.35. Every read waits no longer than the url's clock allows.
"""

from __future__ import annotations

import contextlib
import io
import re
import select
import socket
from dataclasses import dataclass
from typing import Any

from pipeline.download.fetching.clock import Clock

HEAD_BYTES = 1 << 16  # of status line and headers together
_BUFFER = 1 << 14
_PIECE = 1 << 16
_LINE = 1 << 12  # of a chunk's size
_DRAIN_BYTES, _DRAIN_SECONDS = 1 << 15, 0.5
_STATUS = re.compile(rb"HTTP/1\.([01])[ \t]+([1-9]\d\d)(?:[ \t].*)?")
_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class BadAnswer(Exception):
    """What came is no HTTP, or, if it is `cut`, less than was announced."""

    def __init__(self, message: str, *, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


class TooLong(Exception):
    """The body is longer than the limit."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer, names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    persistent: bool  # whether the connection stays open after a body whose end can be told

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]

    def get(self, name: str) -> str:
        """A header's value, of several all of them comma-separated, empty if there is none."""
        return ", ".join(self.all(name))

    def merged(self) -> dict[str, str]:
        """All headers, several values of one comma-separated."""
        values: dict[str, list[str]] = {}
        for name, value in self.headers:
            values.setdefault(name, []).append(value)
        return {name: ", ".join(several) for name, several in values.items()}


class _Reads(io.RawIOBase):
    """A socket's reads, as far as the clock allows; none at all while `paused`."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self.socket = sock
        self.clock = clock
        self.paused = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.paused:
            return None
        self.socket.settimeout(self.clock.remaining())
        return self.socket.recv_into(buffer)


class Connection:
    """A connection on which one request follows the other, each under the clock of its url."""

    def __init__(self, sock: socket.socket, origin: tuple[str, str, int], clock: Clock) -> None:
        self.origin = origin
        self.free = False  # whether the last answer was read to its end, and another request may follow
        self._reads = _Reads(sock, clock)
        self._file = io.BufferedReader(self._reads, _BUFFER)

    def close(self) -> None:
        self._reads.socket.close()

    def is_quiet(self) -> bool:
        """Whether it is open still, and nothing came unasked."""
        self._reads.paused = True
        left_over = self._file.peek()
        self._reads.paused = False
        if left_over:
            return False
        incoming = select.poll()
        incoming.register(self._reads.socket, select.POLLIN)
        return not incoming.poll(0)

    def send(self, request: bytes, clock: Clock) -> None:
        self.free = False
        self._reads.clock = clock
        self._reads.socket.settimeout(clock.remaining())
        self._reads.socket.sendall(request)

    def head(self) -> Head:
        """The next answer's head. Raises BadAnswer; ConnectionError where the other side closed without a word."""
        left = HEAD_BYTES
        while True:
            line = self._file.readline(left)
            if not line:
                raise ConnectionResetError("closed without an answer")
            status = _STATUS.fullmatch(line.rstrip(b"\r\n"))
            if status is None:
                raise BadAnswer("no HTTP")
            headers, left = self._headers(left - len(line))
            code = int(status[2])
            if code >= 200:
                break
            if code == 101:
                raise BadAnswer("another protocol")
        said = [token.strip().lower() for name, value in headers if name == "connection" for token in value.split(",")]
        return Head(code, headers, "close" not in said if status[1] == b"1" else "keep-alive" in said)

    def _headers(self, left: int) -> tuple[list[tuple[str, str]], int]:
        """Headers up to the empty line, and what they leave of `left` bytes. A line that is none is passed over."""
        headers: list[tuple[str, str]] = []
        while True:
            line = self._file.readline(left)
            left -= len(line)
            if not line.endswith(b"\n"):
                raise BadAnswer("too many headers") if left <= 0 else BadAnswer("cut in its headers", cut=True)
            text = line.decode("latin-1").rstrip("\r\n")
            if not text:
                return headers, left
            name, colon, value = text.partition(":")
            if text[0] in " \t":
                if headers:  # the line before goes on
                    headers[-1] = headers[-1][0], f"{headers[-1][1]} {text.strip()}"
            elif colon:
                headers.append((name.rstrip().lower(), value.strip()))

    def body(self, head: Head, limit: int) -> bytes:
        """The body as it is sent. Raises TooLong, BadAnswer."""
        lengths = {value.strip() for value in head.get("content-length").split(",")}
        framed = True
        if head.status in (204, 304):
            body, framed = b"", lengths <= {"", "0"}  # no body may follow, which not all know
        elif "chunked" in head.get("transfer-encoding").lower():
            body = self._chunks(limit)
        elif not all(length.isascii() and length.isdigit() for length in lengths):
            body, framed = self._rest(limit), False
        elif len(lengths) > 1:
            raise BadAnswer("two lengths")
        else:
            body = self._exactly(int(lengths.pop()[:18]), limit)
        self.free = framed and head.persistent
        return body

    def drain(self, head: Head) -> None:
        """Reads a body that is not wanted, if its end is near: the connection may then be used again."""
        self._reads.clock = Clock(min(max(self._reads.clock.left, 0.0), _DRAIN_SECONDS))
        with contextlib.suppress(TooLong, BadAnswer, OSError):
            self.body(head, _DRAIN_BYTES)

    def _exactly(self, size: int, limit: int) -> bytes:
        if size > limit:
            raise TooLong
        data = self._file.read(size)
        if len(data) < size:
            raise BadAnswer("less than it announced", cut=True)
        return data

    def _rest(self, limit: int) -> bytes:
        pieces, size = [], 0
        while piece := self._file.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise TooLong
        return b"".join(pieces)

    def _chunks(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        left = limit
        while True:
            line = self._file.readline(_LINE)
            size = _SIZE.fullmatch(line.rstrip(b"\r\n")) if line.endswith(b"\n") else None
            if size is None:
                raise BadAnswer("a broken chunk", cut=not line.endswith(b"\n"))
            length = int(size[1], 16)
            if length == 0:
                self._headers(HEAD_BYTES)  # trailers
                return b"".join(pieces)
            pieces.append(self._exactly(length, left))
            left -= length
            if (end := self._file.readline(2)) not in (b"\r\n", b"\n"):
                raise BadAnswer("a broken chunk", cut=not end)
