"""A recipe: which rows of a pool to keep, and in what mix. YAML → rules → (fitted to a pool) filters → a verdict a row."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from filters import captions, document
from filters.captions import Captions
from filters.combine import COMBINATORS, Combinator, Rule, fit_rule
from filters.document import Node
from filters.fitted import Fitted as Fitted
from filters.mixture import MIXES, Mix
from filters.models import PACKAGED, file_digest
from filters.registry import FILTERS, Filter, Scan, option_names, options_of
from pools import store
from pools.errors import InputError
from pools.manifest import digest_of

KEYS = ("name", "description", "keep", "mix", "captions")


@dataclass(frozen=True)
class Recipe:
    """Rules in order; a row must pass all of them, so cheap ones go first. `mix` then weighs the rows that are kept.

    `captions` gives them other captions than their own.
    """

    name: str
    rules: tuple[Rule, ...]
    description: str = ""
    mix: Mix | None = None
    captions: Captions | None = None

    @classmethod
    def load(cls, path: str) -> Recipe:
        if not store.exists(path):
            raise InputError("no such recipe", where=path, expected="a YAML file, or a name that `winnow recipes` lists")
        try:
            content = store.read_bytes(path).decode("utf-8")
        except UnicodeDecodeError as e:
            raise InputError(f"not UTF-8 at byte {e.start}", where=path, expected="a YAML file") from e
        return cls.parse(content, path)

    @classmethod
    def parse(cls, content: str, where: str = "recipe") -> Recipe:
        """A recipe from YAML. Raises InputError with file and line."""
        root = document.parse(content, where)
        if not isinstance(root.value, dict):
            raise InputError("not a map", where=f"{where}:{root.line}", expected="name: … and keep: …")
        for key, node in root.value.items():
            if key not in KEYS:
                raise InputError(f"unknown key {key!r}", where=f"{where}:{node.line}", expected=f"one of {', '.join(KEYS)}")
        if "keep" not in root.value:
            raise InputError("key 'keep' is missing", where=where, expected="keep: a list of filters, [] for all rows")
        name = root.value.get("name", Node(store.name(where).removesuffix(".yaml"), 1))
        if not isinstance(name.value, str):
            raise InputError(f"name is {name.value!r}", where=f"{where}:{name.line}", expected="a word")
        description = root.value.get("description", Node("", 1)).value
        mix = _mix(root.value["mix"], where) if "mix" in root.value else None
        told = _captions(root.value["captions"], where) if "captions" in root.value else None
        return cls(name.value, tuple(_rules(root.value["keep"], where)), str(description), mix, told)

    @property
    def needs(self) -> tuple[str, ...]:
        """Columns that the rules, the mix and the captions read, each once."""
        return tuple(dict.fromkeys(c for reader in self._readers for c in reader.needs))

    @property
    def _readers(self) -> tuple[Any, ...]:
        return (*self.rules, *([self.mix] if self.mix else []), *([self.captions] if self.captions else []))

    @property
    def checked(self) -> tuple[str, ...]:
        """The columns whose types matter to `check`."""
        return tuple(dict.fromkeys(c for reader in self._checking() for c in reader.needs))

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        """Raises InputError where a column's type tells already that a rule cannot read it."""
        for reader in self._checking():
            reader.check(types)

    def _checking(self) -> Iterator[Any]:
        return (reader for reader in _with_parts(self._readers) if hasattr(reader, "check"))

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(_name(rule) for rule in self.rules)

    def resolved(self) -> dict[str, Any]:
        """The recipe with every default written out."""
        said = {"name": self.name, "description": self.description, "keep": [_spelled(r) for r in self.rules]}
        said |= {"mix": [_spelled_mix(self.mix)]} if self.mix else {}
        return said | ({"captions": options_of(self.captions)} if self.captions else {})

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.resolved(), sort_keys=False, allow_unicode=True)

    @functools.cached_property
    def spelled_by_content(self) -> tuple[dict[str, Any], ...]:
        """Each rule with all its options; a file, or a plugin that the rule is from, enters by its SHA-256."""
        return tuple(_spelled(r, files_by_hash=True) for r in self.rules)

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over what is resolved: two spellings of one recipe are one. A file enters by its own SHA-256."""
        rules = list(self.spelled_by_content)
        more = {"mix": _spelled_mix(self.mix, files_by_hash=True)} if self.mix else {}
        more |= {"captions": options_of(self.captions)} if self.captions else {}
        return digest_of({"keep": rules, **more} if more else rules)

    def fit(self, pool: Scan) -> Fitted:
        """Each rule fitted in order: to the pool, or to the rows that all rules before it keep."""
        stages: list[Filter] = []
        for rule in self.rules:
            stages.append(fit_rule(rule, pool, pool.through(tuple(stages))))
        return Fitted(self.stages, tuple(stages))


def _with_parts(readers: Iterable[Any]) -> Iterator[Any]:
    """Those that read columns, and of combinators the rules that they are made of."""
    for reader in readers:
        if isinstance(reader, Combinator):
            yield from _with_parts(reader.rules)
        else:
            yield reader


def _rules(node: Node, where: str) -> list[Rule]:
    if not isinstance(node.value, list):
        raise InputError(
            f"not a list: {node.plain()!r}", where=f"{where}:{node.line}", expected="a list of filters, one a line"
        )
    return [_rule(item, where) for item in node.value]


def _named(node: Node, where: str, what: str) -> tuple[str, Node]:
    """The name and the options of an item of a list: `name`, or `name: options`."""
    if isinstance(node.value, str):
        return node.value, Node({}, node.line)
    if isinstance(node.value, dict) and len(node.value) == 1:
        ((name, options),) = node.value.items()
        return name, options
    raise InputError(
        f"not a {what}: {node.plain()!r}", where=f"{where}:{node.line}", expected="a name, or one name with its options"
    )


def _mix(node: Node, where: str) -> Mix | None:
    if not isinstance(node.value, list) or len(node.value) > 1:
        raise InputError(f"mix is {node.plain()!r}", where=f"{where}:{node.line}", expected="a list of one mix")
    for item in node.value:
        name, options = _named(item, where, "mix")
        try:
            if not isinstance(options.value, dict):
                raise ValueError(f"{name}: not a map of options: {options.plain()!r}")
            return MIXES.build(name, options.plain())
        except ValueError as e:
            raise InputError(str(e), where=f"{where}:{item.line}") from None
    return None


def _captions(node: Node, where: str) -> Captions:
    try:
        if not isinstance(node.value, dict):
            raise ValueError(f"captions: not a map of options: {node.plain()!r}")
        return captions.build(node.plain())
    except ValueError as e:
        raise InputError(str(e), where=f"{where}:{node.line}") from None


def _spelled_mix(mix: Mix, *, files_by_hash: bool = False) -> dict[str, Any]:
    return {MIXES.name_of(mix): _options(mix, files_by_hash)}


def _rule(node: Node, where: str) -> Rule:
    place = f"{where}:{node.line}"
    name, options = _named(node, where, "filter")
    try:
        if name in COMBINATORS:
            children = options if isinstance(options.value, list) else Node([options] if options.value else [], options.line)
            return COMBINATORS[name](tuple(_rules(children, where)))
        if (cls := FILTERS.find(name)) is None:
            known = ", ".join([*FILTERS.all(), *COMBINATORS])
            raise ValueError(f"unknown filter {name!r}; known: {known}")
        if not isinstance(options.value, dict):
            raise ValueError(f"{name}: not a map of options: {options.plain()!r}; takes {', '.join(option_names(cls))}")
        return FILTERS.build(name, options.plain())
    except ValueError as e:
        raise InputError(str(e), where=place) from None


def _name(rule: Rule) -> str:
    return rule.name if isinstance(rule, Combinator) else FILTERS.name_of(rule)


def _spelled(rule: Rule, *, files_by_hash: bool = False) -> dict[str, Any]:
    """A rule as a recipe writes it, defaults included."""
    if isinstance(rule, Combinator):
        return {rule.name: [_spelled(r, files_by_hash=files_by_hash) for r in rule.rules]}
    return {FILTERS.name_of(rule): _options(rule, files_by_hash)}


def _options(rule: Any, files_by_hash: bool) -> dict[str, Any]:
    """All options of a rule or mix; with `files_by_hash`, files by their SHA-256, and that of the plugin it is from."""
    options = options_of(rule)
    if not files_by_hash:
        return options
    for option, field in option_names(type(rule)).items():
        if field.metadata.get("file") and option in options:
            given = options[option]
            options[option] = [_content(path) for path in given] if isinstance(given, list) else _content(given)
    if sha256 := getattr(type(rule), "plugin_sha256", None):
        options["plugin"] = {"sha256": sha256}
    return options


def _content(path: str) -> str | dict[str, str]:
    # A model that ships in a package stays a name: each machine finds its own.
    return path if path in PACKAGED else {"sha256": file_digest(path)}
