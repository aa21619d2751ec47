"""Combinators: `all`, `any`, `not` over filters, in three-valued (Kleene) logic.

`not null` is null, `any(null, true)` is true, `all(null, false)` is false.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from filters import arrays
from filters.registry import FILTERS, Filter, PoolFilter, Scan

Rule = Filter | PoolFilter


def fit_rule(rule: Rule, pool: Scan, reached: Scan) -> Filter:
    """The fitted filter; `reached` are the rows that come to it, which is what `of: input` means."""
    if isinstance(rule, Combinator):
        return rule.fitted(pool, reached)
    if isinstance(rule, PoolFilter):
        return rule.fit(pool if rule.of == "pool" else reached)
    return rule


@dataclass(frozen=True)
class Combinator:
    """Several rules as one."""

    rules: tuple[Rule, ...]
    name: ClassVar[str]
    join: ClassVar[Callable[[pa.Array, pa.Array], pa.Array]]

    def __post_init__(self) -> None:
        if not self.rules:
            raise ValueError("a list of filters is missing")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c for rule in self.rules for c in rule.needs))

    def fitted(self, pool: Scan, reached: Scan) -> Combinator:
        return type(self)(tuple(fit_rule(rule, pool, reached) for rule in self.rules))

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return functools.reduce(type(self).join, (_filter(rule).keep(batch) for rule in self.rules))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """What each rule compared, as `value; value`, those that could not judge left out."""
        # Not Arrow's own join: skipping nulls, it leaves out rows in which all are null.
        values = zip(*(_filter(rule).measure(batch).cast(pa.string()).to_pylist() for rule in self.rules), strict=True)
        return arrays.strings(["; ".join(v for v in row if v is not None) for row in values])


def _filter(rule: Rule) -> Filter:
    if not isinstance(rule, Filter):
        raise TypeError(f"{FILTERS.name_of(rule)} has not been fitted")
    return rule


@dataclass(frozen=True)
class All(Combinator):
    """Keeps what every rule keeps."""

    name: ClassVar = "all"
    join: ClassVar = staticmethod(pc.and_kleene)


@dataclass(frozen=True)
class Any(Combinator):
    """Keeps what one rule or more keeps."""

    name: ClassVar = "any"
    join: ClassVar = staticmethod(pc.or_kleene)


@dataclass(frozen=True)
class Not(Combinator):
    """Keeps what its one rule drops."""

    name: ClassVar = "not"

    def __post_init__(self) -> None:
        if len(self.rules) != 1:
            raise ValueError("takes exactly one filter")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.invert(_filter(self.rules[0]).keep(batch))


COMBINATORS: dict[str, type[Combinator]] = {c.name: c for c in (All, Any, Not)}
