"""Content-Encoding: gzip, deflate, br and zstd, unpacked up to a limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator

import pyarrow as pa

from pipeline.download.fetching.http1 import TooLong

_PIECE = 1 << 16
_GZIP, _ZLIB, _RAW = 31, 15, -15  # window bits of zlib
_LAYERS = 4


class BadEncoding(Exception):
    """A body that is not what its Content-Encoding says, or a cut one."""


def unpack(body: bytes, codings: str, limit: int) -> bytes:
    """A body without its codings, of which unknown ones are none. Raises BadEncoding; TooLong for more than `limit` bytes."""
    known = [name for coding in codings.lower().split(",") if (name := coding.strip()) in _UNPACKERS]
    if len(known) > _LAYERS:
        raise BadEncoding(f"{len(known)} codings around each other")
    for name in reversed(known):
        pieces, size = [], 0
        try:
            for piece in _UNPACKERS[name](body) if body else ():
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    raise TooLong
        except (zlib.error, OSError):  # pyarrow's are OSErrors
            raise BadEncoding(f"not the {name} that it is said to be, or cut") from None
        body = b"".join(pieces)
    return body


def _gzip(body: bytes) -> Iterator[bytes]:
    """All members; what follows them and is none is left out, as browsers do."""
    at = 0
    while at == 0 or body.startswith(b"\x1f\x8b", at):
        at += yield from _inflated(body, at, _GZIP)


def _deflate(body: bytes) -> Iterator[bytes]:
    """With zlib's header, as it should be, or without, as many send it."""
    zlib_header = body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    yield from _inflated(body, 0, _ZLIB if zlib_header else _RAW)


def _inflated(body: bytes, start: int, window: int) -> Generator[bytes, None, int]:
    """One stream, in pieces; returns its length as packed."""
    stream = zlib.decompressobj(window)
    for at in range(start, len(body), _PIECE):
        data = body[at : at + _PIECE]
        while data and not stream.eof:
            yield stream.decompress(data, _PIECE)
            data = stream.unconsumed_tail
        if stream.eof:
            return min(at + _PIECE, len(body)) - len(stream.unused_data) - start
    raise zlib.error("cut")


def _arrow(codec: str) -> Callable[[bytes], Iterator[bytes]]:
    def pieces(body: bytes) -> Iterator[bytes]:
        with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
            while piece := stream.read(_PIECE):
                yield piece

    return pieces


_UNPACKERS = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _arrow("brotli"), "zstd": _arrow("zstd")}
