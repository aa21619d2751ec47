"""What every filter must hold to, whoever writes it."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import filters.readme
from filters.combine import fit_rule
from filters.recipe import Recipe
from filters.registry import Filter, PoolFilter, build, registered
from pipeline.cli import RECIPES
from pools.schema import CANDIDATES, COMMONPOOL_EXTRA, METADATA
from tests.filters.scans import Rows, batch

# Options with which each filter drops some and keeps some of the rows below. A new filter must add its own.
EXAMPLES: dict[str, dict[str, Any]] = {
    "caption": {"min_words": 3, "min_chars": 6},
    "clip_score": {"model": "l14", "top_fraction": 0.3, "of": "pool"},
    "image_size": {"min_side": 200, "max_aspect": 3.0},
    "language": {"is": ["en"]},
    "random": {"count": 5, "of": "pool"},
    "score": {"column": "clip_l14_similarity_score", "min": 0.3},
}

ROWS = batch(
    text=["a dog runs in the park", "x", None, "", "ein Hund läuft durch den Garten", "photo of\na red house"] * 3,
    original_width=pa.array([200, 199, None, 0, 900, 640] * 3, pa.int32()),
    original_height=pa.array([200, 640, 480, 0, 200, 480] * 3, pa.int32()),
    clip_l14_similarity_score=pa.array([0.3, 0.1, None, 0.2, 0.25, 0.4] * 3, pa.float32()),
)

every_filter = pytest.mark.parametrize("name", list(registered()))


def fitted(name: str, rows: pa.RecordBatch = ROWS) -> Filter:
    return fit_rule(build(name, EXAMPLES[name]), Rows((rows,)), Rows((rows,)))


def test_every_filter_has_an_example() -> None:
    assert set(EXAMPLES) == set(registered())


@every_filter
def test_the_mask_is_boolean_and_one_a_row(name: str) -> None:
    rule = fitted(name)
    mask = rule.keep(ROWS)
    assert mask.type == pa.bool_()
    assert len(mask) == len(ROWS) == len(rule.measure(ROWS))
    assert {True, False} <= set(mask.to_pylist())
    empty = ROWS.slice(0, 0)
    assert len(rule.keep(empty)) == len(rule.measure(empty)) == 0
    assert rule.keep(empty).type == pa.bool_()


@every_filter
def test_cutting_or_slicing_a_batch_changes_nothing(name: str) -> None:
    rule = fitted(name)
    for cut in (1, 7):
        parts = rule.keep(ROWS.slice(0, cut)).to_pylist() + rule.keep(ROWS.slice(cut)).to_pylist()
        assert parts == rule.keep(ROWS).to_pylist()


@every_filter
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    order = np.random.default_rng(0).permutation(len(ROWS))
    shuffled = ROWS.take(pa.array(order))
    assert fitted(name, shuffled).keep(shuffled).to_pylist() == fitted(name).keep(ROWS).take(pa.array(order)).to_pylist()


@every_filter
def test_only_the_needed_columns_are_read(name: str) -> None:
    rule = fitted(name)
    narrow = ROWS.select(list(rule.needs))
    assert rule.keep(narrow).to_pylist() == rule.keep(ROWS).to_pylist()
    assert tuple(build(name, EXAMPLES[name]).needs) == tuple(rule.needs)


@every_filter
def test_it_travels_to_workers_unchanged(name: str) -> None:
    rule = pickle.loads(pickle.dumps(fitted(name)))  # noqa: S301  (our own object, as the engine sends it)
    assert rule.keep(ROWS).to_pylist() == fitted(name).keep(ROWS).to_pylist()


@every_filter
def test_it_is_a_frozen_dataclass_with_a_docstring(name: str) -> None:
    cls = registered()[name]
    assert cls.__dataclass_params__.frozen
    assert len(inspect.getdoc(cls) or "") > 40
    rule = build(name, EXAMPLES[name])
    assert isinstance(rule, Filter | PoolFilter)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(rule, dataclasses.fields(cls)[0].name, None)


def test_the_page_on_filters_is_up_to_date() -> None:
    assert filters.readme.PATH.read_text() == filters.readme.render(), "run `make docs`"


# A digest changes when a recipe means something else; then published results are no longer comparable.
DIGESTS = {
    "basic": "0ca032ea9ba4bae6",
    "clip_score_l14_30": "93188b407a2d0ed5",
    "no_filter": "4f53cda18c2baa0c",
    "random_1": "97162d2e0eca4919",
    "random_10": "fdf16d07db4f653a",
    "random_25": "3cf3dee610130eb4",
    "random_50": "43cd9f71fa2762a4",
    "random_75": "8f0ec6c896d55ec3",
}


def test_every_recipe_has_its_digest_pinned() -> None:
    assert {p.stem: Recipe.load(str(p)).digest[:16] for p in RECIPES.glob("*.yaml")} == DIGESTS


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_reads_columns_that_pools_have(path: Any) -> None:
    recipe = Recipe.load(str(path))
    assert recipe.name == path.stem
    assert recipe.description
    assert set(recipe.needs) <= {c.name for c in (*CANDIDATES.columns, *METADATA.columns, *COMMONPOOL_EXTRA)}


def test_the_filter_that_contributing_shows_is_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of CONTRIBUTING.md, as a module of its own."""
    import importlib
    import re
    from pathlib import Path

    from filters import registry

    page = (Path(__file__).resolve().parent.parent.parent / "CONTRIBUTING.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.S)
    assert found
    imports = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\nimport pyarrow as pa\nimport pyarrow.compute as pc\n"
        "from filters.registry import register\n"
    )
    (tmp_path / "min_width_example.py").write_text(imports + found[1])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    importlib.import_module("min_width_example")
    rule = build("min_width", {"pixels": 640})
    assert isinstance(rule, Filter)
    assert rule.keep(ROWS.slice(0, 6)).to_pylist() == [False, False, None, False, True, True]
    with pytest.raises(ValueError, match="pixels 0 is below 1"):
        build("min_width", {"pixels": 0})
