"""Tables of runs (.csv), as they are published: rows that meet conditions, and their numbers."""

from __future__ import annotations

import csv
import math
import operator
import re
from collections.abc import Callable, Sequence

from pools import store
from pools.errors import InputError

Row = dict[str, str]
_CONDITION = re.compile(r"([^=!<>]+?)\s*(!=|<=|>=|=|<|>)\s*(.*)")
_OF_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt
}  # fmt: skip


def read(path: str, conditions: Sequence[str] = ()) -> list[Row]:
    """The rows that meet all conditions (`column=value`, `!=`, `<`, `<=`, `>`, `>=`).

    Raises InputError for a file without rows, a condition on a column that it lacks, or one that nothing meets.
    """
    if not store.exists(path):
        raise InputError("no such file", where=path, expected="a table (.csv) with a row a run")
    lines = list(store.read_lines(path))
    rows = list(csv.DictReader(lines))
    if not rows:
        raise InputError("no rows", where=path, expected="a line of column names, and a row a run")
    for condition in conditions:
        column, how, value = parse(condition)
        need(rows, [column], path)
        rows = [row for row in rows if _meets(row[column], how, value)]
        if not rows:
            raise InputError(f"no row has {condition}", where=path)
    return rows


def parse(condition: str) -> tuple[str, str, str]:
    """Column, comparison and value."""
    if (found := _CONDITION.fullmatch(condition)) is None:
        raise InputError(f"{condition!r}", where="--where", expected="COLUMN=VALUE, COLUMN!=VALUE or COLUMN<=NUMBER")
    return found[1], found[2], found[3]


def need(rows: Sequence[Row], columns: Sequence[str], path: str) -> None:
    """Raises InputError for a column that the table lacks."""
    for column in columns:
        if column not in rows[0]:
            raise InputError(f"no column {column!r}", where=path, expected=f"one of {', '.join(map(str, rows[0]))}")


def numbers(rows: Sequence[Row], column: str, path: str) -> list[float]:
    """Raises InputError for a cell that is no number."""
    need(rows, [column], path)
    found = []
    for row in rows:
        value = _number(row[column])
        if value is None:
            raise InputError(
                f"{row[column]!r} in column {column!r}", where=path, expected="a number", fix="choose with --where"
            )
        found.append(value)
    return found


def _meets(cell: str, how: str, value: str) -> bool:
    if how in ("=", "!="):
        return (cell == value) == (how == "=")
    number, border = _number(cell), _number(value)
    if border is None:
        raise InputError(f"{value!r}", where="--where", expected=f"a number after {how}")
    return number is not None and _OF_NUMBERS[how](number, border)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
