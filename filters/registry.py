"""What a filter is, and the table of those that recipes can name."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import homes
from pools.tables import Records, Table

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Filter(Protocol):
    """Judges each row by itself. Picklable, no I/O, the same answer on every machine."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns it reads: metadata, annotations and embeddings alike."""
        ...

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """(n,) True = KEEP; null = could not be judged, which drops the row and counts it as unscored."""
        ...

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """(n,) what was compared, for the verdicts."""
        ...


class Key(Protocol):
    """What is counted of a batch: picklable, each row by itself."""

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def paired(self) -> bool:
        """Whether keys come with a second hash, of which the different ones count, however often a pair is seen."""
        ...

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        """(k,) the hash of a key for each time it is seen; (k, 2) if they are paired."""
        ...


class Grouping(Protocol):
    """Rows brought together by the 64-bit hash in `group`, the first field of their records. Picklable."""

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def result(self) -> np.dtype[Any]:
        """What the records of `finish` are."""
        ...

    def records(self, batch: pa.RecordBatch) -> Records:
        """Records of some rows of the batch, in any order."""
        ...

    def combine(self, records: Records) -> Records:
        """Sorted by group, and as few as say the same of their groups: some or all rows of each, of any batches."""
        ...

    def finish(self, records: Records) -> Records:
        """The result for whole groups, combined: sorted, if they are."""
        ...


class Scan(Protocol):
    """What a filter may learn about the whole pool, at any size and on any engine."""

    def reduce(
        self, columns: Sequence[str], summarise: Callable[[pa.RecordBatch], S], merge: Callable[[S, S], S], start: S
    ) -> S:
        """`merge` of the summaries of all batches, in any order; `start` is neutral (zeros), as it may be merged in often."""
        ...

    def frequent(self, key: Key, more_than: int) -> Table:
        """The sorted hashes of the keys that are seen more often than that."""
        ...

    def top(self, key: Key, k: int) -> Table:
        """The sorted hashes of the `k` keys that are seen most often; of equally frequent ones those with the smallest."""
        ...

    def grouped(self, grouping: Grouping) -> Table:
        """The results for all groups, one behind the other in the order of the groups."""
        ...

    def hold(self, records: Records) -> Table:
        """A table of what the filter has worked out itself."""
        ...

    def through(self, stages: Sequence[Filter]) -> Scan:
        """The scan of the rows that all these filters keep."""
        ...


Of = Literal["pool", "input"]


@runtime_checkable
class PoolFilter(Protocol):
    """Must see rows before it can judge one (a top fraction, a frequency, centroids); `fit` gives the filter.

    It may have, as a filter may, `check(types)`: what is known of the types of its columns before any row is read, {name:
    type}. It raises InputError if it cannot read them.
    """

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def of(self) -> Of | None:
        """Which rows `fit` sees: all of the pool, or only those that reach this stage; None if it asks for none."""
        ...

    def fit(self, scan: Scan) -> Filter: ...


class Registry(Generic[R]):
    """Classes that recipes can name, of one kind; the module of each is imported when it is asked for."""

    def __init__(self, kind: str, modules: dict[str, str]) -> None:
        self.kind, self._modules, self.classes = kind, modules, dict[str, type[Any]]()

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Makes a frozen dataclass known to recipes under `name`; its fields are the recipe's options."""

        def add(cls: type[T]) -> type[T]:
            homes.visit(self._modules, name, cls.__module__)
            if name in self.classes:
                raise ValueError(f"{self.kind} {name!r} is {self.classes[name].__name__} already")
            if not dataclasses.is_dataclass(cls):
                raise TypeError(f"{cls.__name__} is not a dataclass")
            self.classes[name] = cls
            return cls

        return add

    def all(self) -> Mapping[str, type[Any]]:
        """All that are known by name, in alphabetical order."""
        homes.visit_all(self._modules)
        return dict(sorted(self.classes.items()))

    def find(self, name: str) -> type[Any] | None:
        homes.visit(self._modules, name)
        return self.classes.get(name)

    def name_of(self, rule: R) -> str:
        """The name a rule's class is registered under."""
        return next(name for name, cls in self.classes.items() if cls is type(rule))

    def build(self, name: str, options: Mapping[str, Any]) -> R:
        """The one of a name with these options. Raises ValueError in the words of a recipe's author."""
        if (cls := self.find(name)) is None:
            raise ValueError(f"unknown {self.kind} {name!r}; known: {', '.join(self.all())}")
        built: R = construct(cls, name, options)
        return built


FILTERS = Registry[Filter | PoolFilter]("filter", homes.FILTERS)
register = FILTERS.register


def option_names(cls: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    """{option as recipes write it: field}. A field named like a Python keyword has an underscore after it (`is_`)."""
    return {f.name.rstrip("_"): f for f in dataclasses.fields(cls) if f.init}


def construct(cls: type[T], name: str, options: Mapping[str, Any]) -> T:
    """A dataclass that recipes know as `name`, of options as they write them. Raises ValueError in their author's words."""
    known = option_names(cls)
    if unknown := [o for o in options if o not in known]:
        raise ValueError(f"{name}: unknown option {unknown[0]!r}; takes {', '.join(known)}")
    required = [o for o, f in known.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]
    if missing := [o for o in required if o not in options]:
        raise ValueError(f"{name}: option {missing[0]!r} is missing")
    hints = typing.get_type_hints(cls)
    values = {known[o].name: _fitting(name, o, v, hints[known[o].name]) for o, v in options.items()}
    try:
        return cls(**values)
    except ValueError as e:
        raise ValueError(f"{name}: {e}") from None


def options_of(rule: Any) -> dict[str, Any]:
    """All options of a filter or mix as a recipe would write them, defaults included, those that are None left out."""
    values = {o: getattr(rule, f.name) for o, f in option_names(type(rule)).items()}
    return {o: list(v) if isinstance(v, tuple) else v for o, v in values.items() if v is not None}


def _fitting(name: str, option: str, value: Any, hint: Any) -> Any:
    """The value as the field's type has it: 3 for a float is 3.0, one word for a list of words is a list of one."""
    for candidate in _alternatives(hint):
        origin, args = typing.get_origin(candidate), typing.get_args(candidate)
        if candidate is type(None) and value is None:
            return None
        if origin is Literal and value in args:
            return value
        if candidate is float and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        if candidate in (int, str, bool) and type(value) is candidate:
            return value
        if origin is tuple:
            items = value if isinstance(value, list) else [value]
            if all(type(i) is args[0] for i in items):
                return tuple(items)
        if origin is dict and isinstance(value, dict):
            return {key: _fitting(name, f"{option} of {key}", v, args[1]) for key, v in value.items()}
    raise ValueError(f"{name}: {option} is {value!r}, expected {_in_words(hint)}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)


def _in_words(hint: Any) -> str:
    words = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
    shown = []
    for candidate in _alternatives(hint):
        if typing.get_origin(candidate) is Literal:
            shown.append(" or ".join(str(a) for a in typing.get_args(candidate)))
        elif typing.get_origin(candidate) is tuple:
            shown.append(f"{words[typing.get_args(candidate)[0]]} or a list of them")
        elif typing.get_origin(candidate) is dict:
            shown.append(f"a map to {words[typing.get_args(candidate)[1]]} each")
        elif candidate is not type(None):
            shown.append(words[candidate])
    return " or ".join(shown)
