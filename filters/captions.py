"""Captions that take the place of a pool's own in the shards that are made of a selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from filters import tagging
from filters.registry import construct
from pools.errors import InputError

TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class Captions:
    """The captions of another column, with names of persons replaced by `<PERSON>`, or both.

    `from: NAME` takes those that the annotation of that name has written (the column `NAME_caption`), `column` those of any
    column; without either it is the pool's `text`. A row keeps its own caption where that column is null, or where nothing
    in its own was to be replaced. CC12M (section 2.2): `replace_persons`, as spaCy's en_core_web_sm finds them, after the
    filters.
    """

    from_: str | None = None
    column: str | None = None
    replace_persons: bool = False

    def __post_init__(self) -> None:
        if self.from_ is not None and self.column is not None:
            raise ValueError("takes one of from and column")
        if not (self.replace_persons or self.from_ or self.column):
            raise ValueError("says nothing; takes from, column, or replace_persons: true")

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.from_}_caption" if self.from_ else self.column or TEXT,)

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        """Raises InputError unless the column is one of texts."""
        (column,) = self.needs
        kind = types[column]
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {column!r} holds {kind}", expected="captions, as text")

    def write(self, batch: pa.RecordBatch) -> pa.StringArray:
        """(n,) the caption that each row is given, null where it keeps its own."""
        (column,) = self.needs
        given = batch[column].cast(pa.string())
        if not self.replace_persons:
            return given
        replaced = pa.array(tagging.replace_persons(given.to_pylist()), pa.string())
        if column != TEXT:
            return replaced
        return pc.if_else(pc.not_equal(replaced, given), replaced, pa.scalar(None, pa.string()))

    def described(self) -> str:
        """In words, for a plan."""
        return f"from {self.needs[0]}" + (f", names of persons as {tagging.PERSON}" if self.replace_persons else "")


def build(options: Mapping[str, Any]) -> Captions:
    """What a recipe says under `captions`. Raises ValueError in the words of its author."""
    return construct(Captions, "captions", options)
