"""ARC, the format before WARC (Internet Archive, 1996): before each document one line in place of a header block.

In version 1 it is `URL IP-address date type length`; version 2 has a status, a checksum, a location, an offset and a file name
before the length. The first record, `filedesc://…`, tells of the file. A URL or a type may hold spaces.
"""

from __future__ import annotations

import re
import zlib
from typing import IO

from pipeline.extract.gunzip import Stream

BEGINS = b"filedesc://"
# Nothing in it is tried twice, as the input may be hostile.
_LINE = (
    rb"(?P<url>[A-Za-z][A-Za-z0-9+.-]{0,30}+:[^\r\n]{0,8192}?) (?P<ip>[0-9A-Fa-f.:]{2,45}+|-) (?P<date>[0-9]{8,20}+)"
    rb"(?P<rest>(?: [^ \r\n]{0,255}+){1,16}+)\r?\n"
)
_HEADER = re.compile(_LINE)
# The same at the start of a line: what reading goes on at after damage.
NEXT = re.compile(rb"(?<![^\n])" + _LINE)
LONGEST = 14 << 10  # bytes of such a line, and some
_DATE = re.compile(rb"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)")
_VERSION_2 = 5  # words between the type and the length
_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_CUT_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*(?::|\Z)")
_MAGIC = re.compile(rb"\x1f\x8b\x08")
_READ = 1 << 18


def header_size(stream: Stream) -> int | None:
    """Bytes of the line that the stream is at, with its end; 0 if it is no header; None if the data end within it."""
    want = 1 << 10
    while True:
        have = stream.fill(want)
        line, end, _ = stream.peek(min(have, want)).partition(b"\n")
        if end:
            return len(line) + 1 if _HEADER.fullmatch(line + end) else 0
        if have < want:
            return None if _CUT_URL.match(line) else 0
        if want >= LONGEST:
            return 0
        want *= 4


def length(line: bytes) -> str:
    """What a header line says of the length of its document, which need not be a number."""
    found = _HEADER.fullmatch(line)
    return found["rest"].split()[-1].decode("latin-1") if found and found["rest"].strip() else ""


def translate(line: bytes) -> bytes:
    """A header line as a WARC header block: of type `response`, `warcinfo` for that of the file itself."""
    found = _HEADER.fullmatch(line)
    if found is None:
        raise ValueError(f"no header line of an ARC record: {line[:100]!r}")
    *words, size = found["rest"].split()
    fields = (
        (b"WARC-Type", b"warcinfo" if found["url"].startswith(BEGINS) else b"response"),
        (b"WARC-Target-URI", found["url"]),
        (b"WARC-IP-Address", found["ip"]),
        (b"WARC-Date", _DATE.sub(rb"\1-\2-\3T\4:\5:\6Z", found["date"])),
        (b"Content-Type", b" ".join(words[:-_VERSION_2] if len(words) > _VERSION_2 else words)),
        (b"Content-Length", size),
    )
    return b"ARC\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in fields) + b"\r\n"


def ends_well(after: bytes) -> bool:
    """Whether these bytes may follow a document: a line end, or (as sloppy writers have it) at once the next record."""
    return not after or after[:1] in b"\r\n" or _URL.match(after) is not None


def whole(data: bytes | bytearray) -> tuple[bytes, int, int] | None:
    """The record that these bytes are, its line translated, and where its content begins and ends; None if they are none."""
    found = _HEADER.match(data)
    if found is None or not (size := length(found[0])).isascii() or not size.isdigit():
        return None
    start, stop = found.end(), found.end() + int(size)
    if stop > len(data) or data[stop:].strip(b"\r\n"):
        return None
    header = translate(found[0])
    return header + data[start:stop], len(header), len(header) + stop - start


def next_member(file: IO[bytes], start: int) -> int | None:
    """Offset of the next gzip member from byte `start` on that holds the start of an ARC record."""
    while True:
        file.seek(start)
        window = file.read(_READ)
        for magic in _MAGIC.finditer(window):
            file.seek(start + magic.start())
            if _opens_record(file.read(1 << 12)):
                return start + magic.start()
        if len(window) < _READ:
            return None
        start += len(window) - 2  # a magic number may lie across the border


def _opens_record(data: bytes) -> bool:
    try:
        return NEXT.match(zlib.decompressobj(31).decompress(data, 8 << 10)) is not None
    except zlib.error:
        return False
