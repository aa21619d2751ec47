"""Rows of text files, one after the other: a url a line, CSV, TSV, JSON arrays, JSON lines; plain or gzip.

What cannot be read as a row becomes a `Bad` with its place and the reason: nothing is left out but blank lines. A text is
UTF-8, with or without a byte order mark. A first line that holds an address is a row, any other the header of a table.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import IO, Any

from pipeline.download.sources.files import Form, Named
from pools import store
from pools.errors import InputError

BLOCK = 1 << 28  # bytes of a plain file of lines that are one unit of work
MAX_ROW = 1 << 20  # bytes; what is longer is no row but a file of another kind, or a quote that is never closed
_PIECE = 1 << 16
_BOM = b"\xef\xbb\xbf"
_ADDRESS = re.compile(r"\s*https?://", re.I)
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True)
class Block:
    """The rows of a file that start in bytes `start` to `stop` (None: its end). `names`: the columns, where it is a table."""

    path: str
    form: Form
    gzip: bool
    names: tuple[str, ...] = ()
    header: bool = False  # whether the first line is one
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True)
class Bad:
    """What stands where a row should be: its bytes, and why it is none. `ends`: the rest of the file is not read either."""

    raw: bytes
    why: str
    ends: bool = False


def blocks(file: Named) -> list[Block]:
    """A file cut into pieces that can be read each by itself, if its lines are rows and it is not packed."""
    names, header = head(file) if file.form in ("csv", "tsv") else ((), False)
    whole = Block(file.path, file.form, file.gzip, names, header)
    if file.gzip or file.form in ("csv", "json"):
        return [whole]
    size = store.size(file.path)
    starts = range(0, max(size, 1), BLOCK)
    return [Block(file.path, file.form, False, names, header, s, s + BLOCK if s + BLOCK < size else None) for s in starts]


def head(file: Named) -> tuple[tuple[str, ...], bool]:
    """The columns of a CSV or TSV, and whether its first line names them.

    Else that line is a row: the column with the address is `url`, the other of two is `text`, of more they are `column_0`, ….
    """
    block = Block(file.path, file.form, file.gzip)
    with contextlib.closing(_rows(block)) as rows:
        first = next((row for _, row in rows if not isinstance(row, Bad)), None)
    if first is None:
        raise InputError("no row that could be a header", where=file.path, expected=f"a {file.form.upper()} in UTF-8")
    address = next((i for i, value in enumerate(first) if _ADDRESS.match(value)), None)
    if address is None:
        return _distinct([name.strip() or f"column_{i}" for i, name in enumerate(first)], file.path), True
    other = "text" if len(first) == 2 else None
    return tuple("url" if i == address else other or f"column_{i}" for i in range(len(first))), False


def _distinct(names: list[str], where: str) -> tuple[str, ...]:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"column {twice[0]!r} stands twice in the header", where=where, expected="each name once")
    return tuple(names)


def read(block: Block) -> Iterator[dict[str, Any] | Bad]:
    """The rows of a block, in order."""
    with contextlib.closing(_json(block) if block.form in ("json", "jsonl") else _table(block)) as rows:
        yield from rows


def _table(block: Block) -> Generator[dict[str, Any] | Bad, None, None]:
    names = block.names or ("url",)
    header = block.header and not block.start
    with contextlib.closing(_rows(block)) as rows:
        for at, values in rows:
            if isinstance(values, Bad):
                yield values
            elif header:
                header = False
            elif len(values) > len(names):
                why = f"{place(block, at)}: {len(values)} values for {len(names)} columns"
                yield Bad("\t".join(values).encode("utf-8", "surrogateescape"), why)
            else:
                yield dict(zip(names, values, strict=False))


def _rows(block: Block) -> Generator[tuple[int, list[str] | Bad], None, None]:
    """(number of the line, or of its first byte in a later block; the values) of each row."""
    with _opened(block) as f:
        match block.form:
            case "csv":
                yield from _csv(block, f)
            case "tsv":
                yield from ((at, line if isinstance(line, Bad) else line.split("\t")) for at, line in _lines(block, f))
            case _:
                # Whatever is on the line, commas too, is the address.
                yield from ((at, line if isinstance(line, Bad) else [line.strip()]) for at, line in _lines(block, f))


def place(block: Block, at: int) -> str:
    """Where a row stands: its line, or in a later block of a large file its first byte."""
    return f"byte {at}" if block.start else f"line {at + 1}"


@contextlib.contextmanager
def _opened(block: Block) -> Iterator[IO[bytes]]:
    with store.open_input(block.path) as f:
        if block.gzip:
            with gzip.GzipFile(fileobj=f) as unpacked:
                yield unpacked  # type: ignore[misc]
            return
        if block.start:
            f.seek(block.start - 1)
            _skip_line(f)
        yield f


def _skip_line(f: IO[bytes]) -> None:
    while (piece := f.readline(_PIECE)) and not piece.endswith(b"\n"):
        pass


def _lines(block: Block, f: IO[bytes]) -> Iterator[tuple[int, str | Bad]]:
    """Lines without their ends, blank ones left out, each with its place. An undecodable one is bad."""
    for at, raw in _raw_lines(block, f):
        if isinstance(raw, Bad):
            yield at, raw
        elif raw.strip(b" \r\n"):
            line = raw.rstrip(b"\r\n")
            try:
                yield at, line.decode()
            except UnicodeDecodeError:
                yield at, _not_utf8(block, at, line)


def _raw_lines(block: Block, f: IO[bytes]) -> Iterator[tuple[int, bytes | Bad]]:
    offset = f.tell() if block.start else 0
    number = 0
    readline = f.readline  # once: an fsspec file looks it up anew each time
    while block.stop is None or offset < block.stop:
        at = offset if block.start else number
        try:
            raw = readline(MAX_ROW + 1)
        except (EOFError, OSError, zlib.error) as e:
            if not block.gzip:
                raise
            yield at, Bad(b"", f"{place(block, at)}: broken gzip data ({e}); nothing behind it can be read", ends=True)
            return
        if not raw:
            return
        offset, number = offset + len(raw), number + 1
        if len(raw) > MAX_ROW:
            if not raw.endswith(b"\n"):
                _skip_line(f)
                offset = f.tell() if not block.gzip else offset
            yield at, Bad(raw[:_PIECE], f"{place(block, at)}: longer than {MAX_ROW} bytes")
            continue
        yield at, raw.removeprefix(_BOM) if at == 0 else raw


def _not_utf8(block: Block, at: int, raw: bytes) -> Bad:
    return Bad(raw, f"{place(block, at)}: not text in UTF-8")


class _Feed:
    """Lines for the csv module, which takes as many as a record has; those of a broken record can be put back."""

    def __init__(self, lines: Iterator[tuple[int, bytes | Bad]]) -> None:
        self._lines = lines
        self._back: list[tuple[int, bytes | Bad]] = []
        self.taken: list[tuple[int, bytes | Bad]] = []
        self._size = 0
        self.undecoded = False

    def start(self) -> None:
        """A new record begins."""
        self.taken, self._size, self.undecoded = [], 0, False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._size > MAX_ROW or (self.taken and isinstance(self.taken[-1][1], Bad)):
            raise StopIteration
        line = self._back.pop() if self._back else next(self._lines)
        self.taken.append(line)
        if isinstance(line[1], Bad):
            raise StopIteration
        self._size += len(line[1])
        try:
            return line[1].decode()
        except UnicodeDecodeError:
            self.undecoded = True
            return line[1].decode("utf-8", "replace")

    def put_back(self) -> None:
        """All lines taken but the first."""
        self._back += reversed(self.taken[1:])


def _csv(block: Block, f: IO[bytes]) -> Iterator[tuple[int, list[str] | Bad]]:
    """Records with quoted values, which may hold line ends and doubled quotes (RFC 4180).

    Of a record with a quote that is never closed, or closed in the middle of a value, the first line is bad and the
    others are read anew: it swallows no further row.
    """
    csv.field_size_limit(2 * MAX_ROW)
    feed = _Feed(_raw_lines(block, f))
    while True:
        # strict: an open quote at the end is an error, not a value. After an error a reader is of no use.
        reader = csv.reader(feed, strict=True)
        why = "a quote that is never closed"
        try:
            while True:
                feed.start()
                values = next(reader)
                at = feed.taken[0][0]
                if feed.undecoded:
                    yield at, _not_utf8(block, at, b"".join(raw for _, raw in feed.taken if isinstance(raw, bytes)))
                elif len(values) > 1 or any(raw.strip() for _, raw in feed.taken if isinstance(raw, bytes)):
                    yield at, values
        except StopIteration:
            if not feed.taken:
                return
        except csv.Error as e:
            if "unexpected end" not in str(e):
                why = f"not CSV ({e})"
        at, first = feed.taken[0]
        yield at, first if isinstance(first, Bad) else Bad(first, f"{place(block, at)}: {why}")
        feed.put_back()


def _json(block: Block) -> Generator[dict[str, Any] | Bad, None, None]:
    with _opened(block) as f:
        if block.form == "jsonl":
            for at, line in _lines(block, f):
                yield line if isinstance(line, Bad) else _object(line, block, at)
        else:
            yield from _array(f)


def _object(text: str, block: Block, at: int) -> dict[str, Any] | Bad:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as e:
        return Bad(text.encode(), f"{place(block, at)}: not JSON ({e})")
    return value if isinstance(value, dict) else _checked(value, place(block, at))


def _checked(value: Any, where: str) -> dict[str, Any] | Bad:
    if isinstance(value, dict):
        return value
    return Bad(json.dumps(value).encode(), f"{where}: a {type(value).__name__}, not an object")


def _array(f: IO[bytes]) -> Iterator[dict[str, Any] | Bad]:
    """The objects of `[{…}, {…}]`, or of objects one behind the other, MAX_ROW characters of them in memory at most.

    Where one is no JSON, nobody knows where the next begins: that is the last row, and a bad one.
    """
    text = io.TextIOWrapper(f, "utf-8-sig", "surrogateescape")
    decode = json.JSONDecoder().raw_decode
    buffer, at, number, opened, ended = "", 0, 0, False, False
    while True:
        at = _BETWEEN.match(buffer, at).end()  # type: ignore[union-attr]  # it matches the empty string too
        if number == 0 and not opened and buffer[at : at + 1] == "[":
            opened, at = True, at + 1
            continue
        if opened and buffer[at : at + 1] == "]":
            return
        try:
            value, end = decode(buffer, at) if at < len(buffer) else (None, -1)
        except (ValueError, RecursionError) as e:
            value, end = str(e), -1
        if end >= 0 and (end < len(buffer) or ended):
            number += 1
            yield _checked(value, f"row {number}")
            at = end
        elif ended and at >= len(buffer) and not opened:
            return
        elif ended or len(buffer) - at > MAX_ROW:
            why = f"row {number + 1}: not JSON ({value or 'the file ends within the array'}); nothing behind it can be read"
            yield Bad(buffer[at : at + _PIECE].encode("utf-8", "surrogateescape"), why, ends=True)
            return
        else:
            try:
                piece = text.read(_PIECE)
            except (EOFError, OSError, zlib.error) as e:
                yield Bad(b"", f"row {number + 1}: broken gzip data ({e}); nothing behind it can be read", ends=True)
                return
            buffer, at, ended = buffer[at:] + piece, 0, not piece
