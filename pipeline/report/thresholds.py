"""What the stages of a selection compare numbers with, as its files say: the fitted rules first, else the recipe."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from filters import document
from pools import store
from pools.errors import InputError
from pools.outputs import Selection
from pools.schema import score_column

Bound = Literal["min", "max", "above", "below"]
BOUNDS: tuple[Bound, ...] = ("min", "max", "above", "below")
SIDE, RATIO, WORDS, CHARACTERS = "shorter side", "aspect ratio", "words", "characters"
# Options of rules that compare what is worked out of columns.
_MEASURED: dict[str, dict[str, tuple[str, Bound]]] = {
    "image_size": {"min_side": (SIDE, "min"), "max_aspect": (RATIO, "max")},
    "caption": {
        "min_words": (WORDS, "min"),
        "max_words": (WORDS, "max"),
        "min_chars": (CHARACTERS, "min"),
        "max_chars": (CHARACTERS, "max"),
    },
}
_SCORES = {"nsfw": "nsfw_image", "toxicity": "toxicity", "eval_similarity": "eval_similarity"}  # columns if none is named


@dataclass(frozen=True)
class Threshold:
    """A stage keeps rows whose `column` is at least `min`, at most `max`, above or below a value.

    `column` is a column of the pool, or one of `SIDE`, `RATIO`, `WORDS`, `CHARACTERS`. Where the rule stands inside a
    combinator, rows that it would drop may be kept.
    """

    stage: int
    column: str
    bound: Bound
    value: float

    def __str__(self) -> str:
        sign = {"min": "≥", "max": "≤", "above": ">", "below": "<"}[self.bound]
        return f"{sign} {self.value:.6g}"


@dataclass(frozen=True)
class Rules:
    """The name of a selection's recipe, its stages by name, what they compare, and whether its list is weighted by a mix."""

    name: str
    stages: tuple[str, ...]
    thresholds: tuple[Threshold, ...]
    mix: bool


def read_rules(selection: Selection) -> Rules:
    """From `recipe.yaml` and `fitted.json`, of filters that are known here or not. Raises InputError for what is neither."""
    path = selection.recipe
    if not store.exists(path):
        raise InputError("no selection", where=selection.root, expected="the output of `winnow filter`")
    recipe = document.parse(store.read_bytes(path).decode("utf-8", "replace"), path).plain()
    keep = recipe.get("keep") if isinstance(recipe, dict) else None
    if not isinstance(keep, list) or not all(isinstance(rule, dict) and len(rule) == 1 for rule in keep):
        raise InputError("not a resolved recipe", where=path, expected="the recipe.yaml of a selection")
    fitted = store.read_json(selection.fitted) if store.exists(selection.fitted) else []
    found: list[Threshold] = []
    for stage, rule in enumerate(keep):
        said = list(_of_rule(stage, rule))
        learnt = list(_of_fitted(stage, fitted[stage].get("fitted", ""))) if stage < len(fitted) else []
        named = {(t.column, t.bound) for t in said}
        found += [*said, *(t for t in learnt if (t.column, t.bound) not in named)]
    stages = tuple(next(iter(rule)) for rule in keep)
    return Rules(str(recipe.get("name") or store.name(selection.root)), stages, tuple(found), bool(recipe.get("mix")))


def read_thresholds(selection: Selection) -> list[Threshold]:
    """The thresholds alone."""
    return list(read_rules(selection).thresholds)


def _of_rule(stage: int, rule: Any) -> Iterator[Threshold]:
    """What a rule as the recipe spells it names itself; of a combinator that of its rules."""
    if not isinstance(rule, dict):
        return
    for name, options in rule.items():
        if isinstance(options, list):
            if name != "not":
                for inner in options:
                    yield from _of_rule(stage, inner)
        elif isinstance(options, dict):
            for option, (column, bound) in _MEASURED.get(name, {}).items():
                if isinstance(value := options.get(option), int | float):
                    yield Threshold(stage, column, bound, float(value))
            scored = options.get("column") or _scored(name, options)
            if isinstance(scored, str):
                yield from _bounds(stage, scored, options)


def _bounds(stage: int, column: str, options: dict[str, Any]) -> Iterator[Threshold]:
    for bound in BOUNDS:
        if isinstance(value := options.get(bound), int | float):
            yield Threshold(stage, column, bound, float(value))


def _scored(name: str, options: dict[str, Any]) -> str | None:
    if name == "clip_score" and "model" in options:
        return score_column(str(options["model"]))
    return _SCORES.get(name)


def _of_fitted(stage: int, said: str) -> Iterator[Threshold]:
    """What was learnt from the pool: `Threshold(column=…, min=…)` and `Top(column=…, last=…)`, anywhere in a repr."""
    try:
        tree = ast.parse(said, mode="eval")
    except SyntaxError:  # of arrays, say, which cannot be read back
        return
    for node in _outside_of_not(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Threshold", "Top"):
            options = {k.arg: k.value for k in node.keywords}
            column = options.get("column")
            if not isinstance(column, ast.Constant) or not isinstance(column.value, str):
                continue
            for name, bound in (*((b, b) for b in BOUNDS), ("last", "min")):
                value = _number(options.get(name))
                if value is not None and math.isfinite(value):
                    yield Threshold(stage, column.value, bound, value)


def _outside_of_not(node: ast.AST) -> Iterator[ast.AST]:
    """A tree's nodes, without those of rules that are turned round."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Not":
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from _outside_of_not(inner)


def _number(node: ast.expr | None) -> float | None:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1.0
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return sign * node.value
    return None
