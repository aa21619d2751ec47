"""WARC (or ARC) records of a file, damaged files included: plain or gzip, CRLF or LF, cut, spliced, with wrong lengths.

What cannot be read comes out as a `Damage` in its place, and reading goes on at the next record header or gzip member.
Nothing is unpacked to disk, and memory is bounded by the largest record that is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Literal

from pipeline.extract import arc
from pipeline.extract.gunzip import Stream
from pipeline.extract.members import Members

MAX_CONTENT = 64 << 20  # bytes of one record; longer ones are passed over
MAX_HEADER = 64 << 10
_BLOCK = 1 << 18
_VERSION = re.compile(rb"WARC/\d\.\d{1,2}[ \t]*\r?\n")
# A version line and the first field name: what reading goes on at after damage.
_NEXT = re.compile(rb"WARC/\d\.\d{1,2}[ \t]*\r?\n[A-Za-z][A-Za-z0-9-]*:")
_LENGTH = re.compile("[0-9]{1,18}")
# As nearly all writers spell them; other spellings are found more slowly.
_CONTENT_LENGTH, _TYPE, _TARGET = b"\r\nContent-Length: ", b"\r\nWARC-Type: ", b"\r\nWARC-Target-URI: "
_BLANK = re.compile(rb"\r?\n\r?\n")


@dataclass(slots=True)  # not frozen: that makes one three times slower, and there are millions
class Record:
    """One record, and where it lies: `skip` bytes into what the bytes from `offset` on inflate to (0 in a plain file).

    `data` begins with its header block, which ends at `start`, as does its content at `stop`.
    """

    data: bytes | bytearray
    start: int
    stop: int
    offset: int
    skip: int

    @property
    def content(self) -> bytes:
        return bytes(self.data[self.start : self.stop])

    @property
    def headers(self) -> dict[str, str]:
        """Its named fields: names in lower case, of repeated ones the first."""
        return _fields(bytes(self.data[: self.start]))

    @property
    def type(self) -> str:
        return self._field(_TYPE).lower()

    @property
    def target(self) -> str:
        """WARC-Target-URI, without the angle brackets that some writers put around it."""
        return self._field(_TARGET).removeprefix("<").removesuffix(">")

    def _field(self, name: bytes) -> str:
        at = self.data.find(name, 0, self.start) + len(name)
        end = self.data.find(b"\r\n", at, self.start)
        if at < len(name) or end < 0 or self.data[end + 2 : end + 3] in (b" ", b"\t"):  # absent, or folded
            return self.headers.get(name[2:-2].decode().lower(), "")
        return self.data[at:end].decode("utf-8", "replace").strip()


@dataclass(frozen=True)
class _Form:
    """How a format marks where a record begins and ends; its headers, translated, are those of WARC."""

    name: str
    header_size: Callable[[Stream], int | None]
    length: Callable[[bytes], str]
    translate: Callable[[bytes], bytes]
    ends_well: Callable[[bytes], bool]
    following: re.Pattern[bytes]
    longest: int  # bytes that `following` matches


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes from `offset` on that are no readable record.

    `record`: one record is lost. `gzip`: compressed data do not inflate, any number of records may be lost. `cut`: the
    file ends in the middle of a record. `size`: the record is larger than the limit.
    """

    offset: int
    kind: Literal["record", "gzip", "cut", "size"]
    why: str

    def __str__(self) -> str:
        return f"{self.why}, in the record or gzip member that begins at byte {self.offset}"


def read(file: IO[bytes], start: int = 0, *, limit: int = MAX_CONTENT) -> Iterator[Record | Damage]:
    """Records and damages of a seekable file, in its order, from a gzip member on. A cut is the last thing that comes.

    The records of an ARC file, which begins with `filedesc://`, have a WARC header block in place of their line.
    """
    file.seek(start)
    members = Members(file, limit)
    form = _WARC
    for data in members:
        record = whole(data, members.offset)
        if record is None and (form is _ARC or (members.offset == 0 and data.startswith(arc.BEGINS))):
            form = _ARC
            if (translated := arc.whole(data)) is not None:
                record = Record(*translated, members.offset, 0)
        if record is None:
            break
        yield record
    # Whatever is not one sound record a member is read with care from there on.
    stream = Stream(file, members.offset, gzipped=True if members.offset else None)
    if members.offset == 0 and stream.fill(len(arc.BEGINS)) and stream.peek(len(arc.BEGINS)) == arc.BEGINS:
        form = _ARC
    if form is _ARC:
        yield from _read_arc(file, stream, limit)
    else:
        yield from _read_on(stream, limit, form)


def _read_arc(file: IO[bytes], stream: Stream, limit: int) -> Iterator[Record | Damage]:
    while True:
        found: Record | Damage | None = None
        for found in _read_on(stream, limit, _ARC):
            yield found
        # Behind damage a stream goes on at members that hold WARC records, and there are none.
        if not isinstance(found, Damage) or found.kind != "gzip":
            return
        if (following := arc.next_member(file, found.offset + 1)) is None:
            return
        stream = Stream(file, following, gzipped=True)


def _read_on(stream: Stream, limit: int, form: _Form) -> Iterator[Record | Damage]:
    while True:
        stream.skip(b"\r\n")
        if stream.fill(1):
            found = _read_one(stream, limit, form)
        elif stream.stop is not None:
            found = _broken(stream, stream.stop.offset)
        else:
            return
        yield found
        if isinstance(found, Damage) and found.kind == "cut":
            return


def read_at(file: IO[bytes], offset: int, skip: int, *, limit: int = MAX_CONTENT) -> Record | Damage:
    """The record at a place that `read` gave."""
    stream = Stream(file, offset)
    stream.advance(skip)
    form = _WARC if stream.fill(5) < 5 or stream.peek(5) == b"WARC/" else _ARC
    return _read_one(stream, limit, form)


def whole(data: bytes | bytearray, offset: int) -> Record | None:
    """The record that these bytes are, a gzip member at this offset, none of them left over; None if they are anything else."""
    start, stop = data.find(b"\r\n\r\n") + 4, len(data) - 4
    length = data.find(_CONTENT_LENGTH, 0, start)
    if (
        length > 0
        and data[length + len(_CONTENT_LENGTH) : start].split(b"\r\n", 1)[0] == b"%d" % (stop - start)
        and data.endswith(b"\r\n\r\n")
        and data.startswith((b"WARC/1.0\r\n", b"WARC/1.1\r\n"))
    ):
        return Record(data, start, stop, offset, 0)
    return None


def _read_one(stream: Stream, limit: int, form: _Form) -> Record | Damage:
    offset, skip = stream.place()
    size = form.header_size(stream)
    if size is None:
        return _broken(stream, offset)
    head = stream.peek(size)
    length = form.length(head) if size else ""
    if not _LENGTH.fullmatch(length):
        # 1: the search must not find this very header again.
        _resync(stream, 1, form)
        return Damage(offset, "record", f"no {form.name} header" if size == 0 else f"Content-Length {length[:40]!r}")
    if int(length) > limit:
        return _pass_over(stream, offset, size, int(length), form)
    end = size + int(length)
    # 9: the four bytes after a record and the start of the next, which shows gzip damage behind the content.
    have = stream.fill(end + 9)
    if have < end:
        if stream.find(form.following, size) is not None:
            _resync(stream, size, form)
            return Damage(offset, "record", f"Content-Length {length}, the next record begins before that")
        return _broken(stream, offset)
    after = stream.peek(min(have, end + 9))[end:]
    if stream.stop is not None and stream.stop.kind == "gzip" and stream.stop.offset == offset and not after.strip(b"\r\n"):
        # All of the content came, yet its member fails its checksum.
        return _broken(stream, offset)
    if not form.ends_well(after):
        _resync(stream, size, form)
        return Damage(offset, "record", f"Content-Length {length} is not where the record ends")
    data, header = stream.peek(end), form.translate(head)
    if header is not head:
        data = header + data[size:]
    stream.advance(end)
    return Record(data, len(header), len(data), offset, skip)


def _header_size(stream: Stream) -> int | None:
    """Bytes up to the end of the header's blank line; 0 if there is no header; None if the data end within it."""
    want = 1 << 10
    while True:
        have = stream.fill(want)
        block = stream.peek(min(have, want))
        if have >= 12 and not _VERSION.match(block):
            return 0
        if (blank := _BLANK.search(block)) is not None:
            return blank.end()
        if have < want:
            # Too short to tell: the start of a version line is a header that was cut.
            return None if have >= 12 or b"WARC/1.0\r\n".startswith(block[:5]) else 0
        if want >= MAX_HEADER:
            return 0
        want *= 4


def _fields(block: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in block.decode("utf-8", "replace").split("\n")[1:]:
        line = line.rstrip("\r")
        if line[:1] in (" ", "\t") and name:
            fields[name] += " " + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields.setdefault(name, value.strip())
    return fields


def _ends_well(after: bytes) -> bool:
    """Whether these bytes may follow a record: two line ends, or (as sloppy writers have it) at once the next record."""
    if after.startswith((b"\r\n\r\n", b"\n\n")):
        return True
    rest = after.lstrip(b"\r\n")
    return not rest or rest.startswith(b"WARC/") or b"WARC/".startswith(rest)


def _pass_over(stream: Stream, offset: int, size: int, length: int, form: _Form) -> Damage:
    # Its length may be wrong, so the next header is looked for, not jumped to.
    stream.advance(size)
    passed = _resync(stream, 0, form)
    if passed < length:
        if not stream.fill(1):
            return _broken(stream, offset)
        return Damage(offset, "record", f"Content-Length {length}, the next record begins before that")
    return Damage(offset, "size", f"a record of {length} bytes")


def _broken(stream: Stream, offset: int) -> Damage:
    """The data end here, for good or up to where inflating starts again."""
    stop = stream.broken(offset)
    stream.resume()
    return Damage(offset, stop.kind, stop.why)


def _resync(stream: Stream, skip: int, form: _Form) -> int:
    """Goes to the next record header behind `skip` bytes, or to where the data end; how many bytes that were."""
    passed = stream.advance(skip)
    while True:
        have = stream.fill(_BLOCK)
        found = stream.find(form.following)
        # A header may lie across the border of two blocks.
        step = found if found is not None else have if have < _BLOCK else have - form.longest
        passed += stream.advance(step)
        if found is not None or have < _BLOCK:
            return passed


def _length(head: bytes) -> str:
    return _fields(head).get("content-length", "")


_WARC = _Form("WARC", _header_size, _length, lambda head: head, _ends_well, _NEXT, 256)
_ARC = _Form("ARC", arc.header_size, arc.length, arc.translate, arc.ends_well, arc.NEXT, arc.LONGEST)
