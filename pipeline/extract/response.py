"""A record's HTTP response: status, headers and body, as it was recorded or unpacked."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from pipeline.extract import warc

Headers = Sequence[tuple[str, str]]
Answer = tuple[int, Headers, bytes]  # status, headers, body
MAX_BODY = 64 << 20  # bytes of an unpacked body
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})")
_BLANK = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
_PIECE = 1 << 16


def answer_of(record: warc.Record) -> Answer | None:
    """Status, headers and body of a record; None if it is no answer to an http(s) request.

    Chunked bodies are joined; a Content-Encoding stays as recorded.
    """
    if not record.target.lower().startswith(("http://", "https://")):
        return None
    content = record.content
    if record.type == "resource":
        return 200, (("Content-Type", record.headers.get("content-type", "application/octet-stream")),), content
    status, blank = _STATUS.match(content), _BLANK.search(content)
    if status is None:
        return None
    head = content[: blank.start()] if blank else content
    body = content[blank.end() :] if blank else b""
    headers = []
    for line in head.decode("latin-1").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.strip() == name and name:
            headers.append((name, value.strip()))
    fields = {name.lower(): value.lower() for name, value in headers}
    if "chunked" in fields.get("transfer-encoding", ""):
        body = join_chunks(body)
    if "gzip" in fields.get("content-encoding", "") and not body.startswith(b"\x1f\x8b"):
        # Some crawlers store bodies decoded and headers as they came.
        headers = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
    return int(status[1]), tuple(headers), body


def join_chunks(body: bytes) -> bytes:
    """The body of a chunked transfer; what is not chunked after all is given back as it is, a cut one up to the cut."""
    parts: list[bytes] = []
    at = 0
    while (size := _CHUNK.match(body, at)) is not None:
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts)
        at = size.end() + length
        parts.append(body[size.end() : at])
        at += 2 if body[at : at + 2] == b"\r\n" else 1 if body[at : at + 1] == b"\n" else 0
    return b"".join(parts) if parts and at >= len(body) else body


def values(headers: Headers, name: str) -> list[str]:
    """All values of a header, whose name is given in lower case."""
    return [value for key, value in headers if key.lower() == name]


def unpack(headers: Headers, body: bytes, limit: int = MAX_BODY) -> bytes:
    """A body without its Content-Encoding, at most `limit` bytes of it.

    Of a damaged or cut one what can be unpacked; what is not packed after all, or in an unknown way, is given back as it is.
    """
    codings = [coding.strip().lower() for value in values(headers, "content-encoding") for coding in value.split(",")]
    for coding in reversed(codings):
        for pieces in _UNPACKERS.get(coding, ()):
            data, whole = _collect(pieces(body), limit)
            # Some crawlers store bodies decoded and headers as they came.
            if data and (whole or not body.lstrip().startswith(b"<")):
                body = data
                break
    return body


def _collect(pieces: Iterator[bytes], limit: int) -> tuple[bytes, bool]:
    """What comes before an error or the limit, and whether no error came."""
    parts: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size >= limit:
                break
    except (zlib.error, OSError):
        return b"".join(parts), False
    return b"".join(parts)[:limit], True


def _inflate(window: int) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(body: bytes) -> Iterator[bytes]:
        stream = zlib.decompressobj(window)
        for at in range(0, len(body), _PIECE):
            data = body[at : at + _PIECE]
            while data and not stream.eof:
                yield stream.decompress(data, _PIECE)
                data = stream.unconsumed_tail

    return pieces


def _arrow(codec: str) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(body: bytes) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(_PIECE >> 4):  # an error costs a whole piece
                yield piece

    return pieces


_GZIP, _ZLIB, _RAW = 31, 15, -15  # window bits of zlib
_UNPACKERS = {
    "gzip": (_inflate(_GZIP),),
    "x-gzip": (_inflate(_GZIP),),
    "deflate": (_inflate(_ZLIB), _inflate(_RAW)),  # the second is wrong and was common
    "br": (_arrow("brotli"),),
    "zstd": (_arrow("zstd"),),
}
