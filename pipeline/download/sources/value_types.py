"""The types of columns whose values nobody declared (CSV, TSV, JSON): one for all rows of a source, wherever it is cut.

A column is bool, int64, double or text. Numbers in CSV and TSV count as such if they are written as a machine writes them:
`007` stays text. Where kinds differ, integers and fractions become double, everything else text (of JSON values as JSON).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa

from pipeline.extract.text import repair

Kind = Literal["null", "bool", "int", "float", "text", "boxes"]
Kinds = dict[str, Kind]
TEXTS = frozenset({"url", "text", "uid", "sha256"})  # never numbers, whatever they look like
BOXES = "face_bboxes"
_TYPES: dict[Kind, pa.DataType] = {
    "null": pa.string(),
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "text": pa.string(),
    "boxes": pa.list_(pa.list_(pa.float32())),
}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?|-?(?:inf|nan)", re.I)


def kind_of(name: str, value: Any, *, parse: bool) -> Kind:
    """The kind of one value; `parse`: numbers come as text."""
    if name in TEXTS:
        return "text"
    if name == BOXES:
        return "boxes"
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int" if -(2**63) <= value < 2**63 else "text"
        case float():
            return "float"
        case str() if parse:
            if not value:
                return "null"
            return "int" if _INTEGER.fullmatch(value) else "float" if _NUMBER.fullmatch(value) else "text"
    return "text"


def merge(kinds: Kinds, more: Mapping[str, Kind]) -> None:
    """Widens `kinds` to hold `more` too; columns stay in the order in which they were first seen."""
    for name, kind in more.items():
        known = kinds.get(name, "null")
        if known in ("null", kind):
            kinds[name] = kind
        elif kind != "null":
            kinds[name] = "float" if {known, kind} == {"int", "float"} else "text"


def schema(kinds: Kinds) -> pa.Schema:
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in kinds.items()])


def column(name: str, kind: Kind, values: Iterable[Any], *, parse: bool) -> pa.Array:
    """Values as one column of a kind that holds them."""
    return pa.array([_value(name, kind, value, parse) for value in values], _TYPES[kind])


def _value(name: str, kind: Kind, value: Any, parse: bool) -> Any:
    if value is None or (parse and value == "" and name not in ("url", "text")):
        return None
    match kind:
        case "bool":
            return value
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "boxes":
            return boxes(value)
    return repair(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def boxes(value: Any) -> list[list[float]] | None:
    """Boxes as lists of numbers, also from their JSON. Raises ValueError for anything else."""
    found = json.loads(value) if isinstance(value, str) else value
    if found is None:
        return None
    if not isinstance(found, list) or not all(_is_box(box) for box in found):
        raise ValueError(f"boxes {str(found)[:80]}, expected [[x0, y0, x1, y1], …]")
    return [[float(x) for x in box] for box in found]


def _is_box(box: Any) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(isinstance(x, int | float) for x in box)
