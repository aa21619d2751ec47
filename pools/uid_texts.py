"""Uids in text: one a line, or a column of a CSV. They are text from end to end, never numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pools import store
from pools.errors import InputError
from pools.uids.words import Uids, bad_uid, from_digits, pack, spell

_BLOCK = 1 << 22  # bytes
_LINE = 33  # of 32 digits and the line's end
_HEX = re.compile(r"[0-9a-fA-F]{32}")
_DELIMITERS = ",\t;|"


def lines(path: str) -> Iterator[Uids]:
    """The uids of a file with one a line; blank lines, lines that begin with #, quotes and a heading `uid` are passed over."""
    with store.open_input(path) as f:
        number, rest = 1, b""
        while block := f.read(_BLOCK):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                yield _packed(whole + newline, number, path)
                number += (whole + newline).count(b"\n")
        if rest:
            yield _packed(rest + b"\n", number, path)


def _packed(text: bytes, first: int, path: str) -> Uids:
    """The uids of whole lines, of which `first` is the number of the first."""
    if len(text) % _LINE == 0:
        grid = np.frombuffer(text, np.uint8).reshape(-1, _LINE)
        if (grid[:, -1] == ord("\n")).all():
            packed = from_digits(np.ascontiguousarray(grid[:, :-1]).reshape(-1))
            if packed is not None:
                return packed
    found = text.splitlines()
    if first == 1:
        found[0] = found[0].removeprefix(b"\xef\xbb\xbf")
    stripped = [line.strip(b" \t\"',;\0") for line in found]
    if first == 1 and stripped[0].lower() == b"uid":
        stripped[0] = b""
    wanted = [uid for uid in stripped if uid and not uid.startswith(b"#")]
    packed = from_digits(np.frombuffer(b"".join(wanted), np.uint8)) if all(len(uid) == 32 for uid in wanted) else None
    if packed is None:
        for number, uid in enumerate(stripped, first):
            if uid and not uid.startswith(b"#") and not re.fullmatch(rb"[0-9a-fA-F]{32}", uid):
                raise bad_uid(uid, f"line {number}", path)
    assert packed is not None
    return packed


def rows(path: str, column: str | None = None) -> Iterator[Uids]:
    """The uids of a CSV (or with tabs, semicolons, bars): of the column `uid`, of another one, or without a heading of the
    only column that holds uids."""
    name, parse, read = _columns(path, column)
    convert = pyarrow.csv.ConvertOptions(column_types={name: pa.string()}, include_columns=[name])
    first = 0
    try:
        with store.open_input(path) as f, pyarrow.csv.open_csv(f, read, parse, convert) as reader:
            for batch in reader:
                yield pack(batch[name], where=path, first=first)
                first += len(batch)
    except (pa.ArrowInvalid, KeyError) as e:
        raise InputError(f"unreadable: {e}", where=path, expected="a CSV with a header and a column uid") from e


def _columns(path: str, column: str | None) -> tuple[str, pyarrow.csv.ParseOptions, pyarrow.csv.ReadOptions]:
    """The name of the column with the uids, and how to read the file."""
    with store.open_input(path) as f:
        top = f.readline().decode("utf-8-sig", "replace").rstrip("\r\n")
    delimiter = max(_DELIMITERS, key=top.count)
    names = next(csv.reader([top], delimiter=delimiter), [])
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    if column is None and not any(map(_HEX.fullmatch, names)):
        column = next((name for name in names if name.strip().lower() == "uid"), None)
    elif column is None:
        places = [i for i, value in enumerate(names) if _HEX.fullmatch(value)]
        if len(places) == 1:
            return f"f{places[0]}", parse, pyarrow.csv.ReadOptions(autogenerate_column_names=True, block_size=_BLOCK)
    if column not in names or column is None:
        raise no_column(column, names, path)
    return column, parse, pyarrow.csv.ReadOptions(block_size=_BLOCK)


def no_column(column: str | None, names: list[str], path: str) -> InputError:
    """The error of a table that has not the column, or none by the name of uid."""
    return InputError(
        f"no column {column or 'uid'!r}",
        where=path,
        expected=f"one of its columns {names} to be uid",
        fix="name the column with --column",
    )


def write(f: IO[bytes], piece: Uids) -> None:
    """Appends uids, one a line."""
    grid = np.empty((len(piece), _LINE), np.uint8)
    grid[:, -1] = ord("\n")
    spell(piece, grid)
    f.write(grid.data)
