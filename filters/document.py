"""YAML as recipes use it: plain maps, lists and scalars that know their line, without YAML's traps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from pools.errors import InputError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32  # a filter within combinators takes two levels each
_TAG = "tag:yaml.org,2002:"
_PLAIN_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_UID = re.compile(r"[0-9a-fA-F]{32}")


@dataclass(frozen=True)
class Node:
    """A value and its line (from 1). Maps hold nodes by key, lists hold nodes."""

    value: Any
    line: int

    def plain(self) -> Any:
        """The value without lines."""
        if isinstance(self.value, dict):
            return {k: n.plain() for k, n in self.value.items()}
        if isinstance(self.value, list):
            return [n.plain() for n in self.value]
        return self.value


def parse(text: str, where: str) -> Node:
    """One YAML document. Raises InputError with file and line."""
    if len(text) > MAX_BYTES:
        raise InputError(f"{len(text)} characters", where=where, expected=f"at most {MAX_BYTES}")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError("nested too deeply", where=where, expected=f"at most {MAX_DEPTH} levels")
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise InputError(
                    "aliases (`*name`) are not allowed", where=f"{where}:{line}", expected="every value written out"
                )
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            raise InputError("the file is empty", where=where, expected="a recipe")
        return _convert(root, where)
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else 1
        raise InputError(f"not YAML: {e.problem}", where=f"{where}:{line}") from e
    except yaml.YAMLError as e:
        raise InputError(f"not YAML: {e}", where=where) from e


def _convert(node: yaml.Node, where: str) -> Node:
    line = node.start_mark.line + 1
    kind = node.tag.removeprefix(_TAG)
    if kind not in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value"):
        raise InputError(f"tag {node.tag}", where=f"{where}:{line}", expected="plain maps, lists, words and numbers")
    if isinstance(node, yaml.MappingNode):
        return Node(_mapping(node, where), line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_convert(n, where) for n in node.value], line)
    return Node(_scalar(node, f"{where}:{line}"), line)


def _mapping(node: yaml.MappingNode, where: str) -> dict[str, Node]:
    result: dict[str, Node] = {}
    for key_node, value_node in node.value:
        place = f"{where}:{key_node.start_mark.line + 1}"
        key = _scalar(key_node, place) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            raise InputError(f"key {key!r}", where=place, expected="a word as key")
        if key in result:
            raise InputError(
                f"key {key!r} stands twice (first in line {result[key].line})", where=place, expected="each key once"
            )
        result[key] = _convert(value_node, where)
    return result


def _scalar(node: yaml.Node, place: str) -> Any:
    text = str(node.value)
    kind = node.tag.removeprefix(_TAG)
    quoted = getattr(node, "style", None) in ("'", '"', "|", ">")
    if kind == "str" or quoted or _UID.fullmatch(text):
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and _PLAIN_INT.fullmatch(text):
        return int(text)
    if kind == "float" and ":" not in text:
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    meaning = {"bool": f"the truth value {text.lower() in ('yes', 'on', 'y')}", "timestamp": "a date", "int": "another number"}
    raise InputError(
        f"{text} without quotes means {meaning.get(kind, kind)} in YAML",
        where=place,
        expected="plain words and numbers",
        fix=f'write "{text}" for the word, or true and false for truth values',
    )
