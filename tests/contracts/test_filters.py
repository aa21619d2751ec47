"""What every filter must hold to, whoever writes it."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import filters.readme
from filters import homes
from filters.combine import fit_rule
from filters.mixture import MIXES
from filters.recipe import Recipe
from filters.registry import FILTERS, Filter, PoolFilter
from pipeline.cli import RECIPES
from pools.schema import CANDIDATES, COMMONPOOL_EXTRA, METADATA
from tests.filters import files
from tests.filters.scans import Rows, batch, uids

ROOT = Path(__file__).resolve().parent.parent.parent
# Options with which each filter drops some and keeps some of the rows below. A new filter must add its own.
EXAMPLES: dict[str, dict[str, Any]] = {
    "boilerplate": {"phrases": ["photo of"]},
    "capitals": {"max_ratio": 0.2},
    "caption": {"min_words": 3, "min_chars": 6},
    "clip_score": {"model": "l14", "top_fraction": 0.3, "of": "pool"},
    "determiners": {"min": 1},
    "domain_list": {"not_in": files.lines("domains.txt", ["b.org"])},
    "eval_phash": {"index": files.array("evals.npy", np.array([0], np.uint64)), "max_distance": 2},
    "eval_similarity": {"below": 0.604169},
    "exact_duplicates": {},
    "feature_duplicates": {
        "features": "l14_img",
        "centroids": files.array("centres.npy", np.eye(2, dtype=np.float32)),
        "min_similarity": 0.95,
        "rule": "component",
    },
    "file_name": {},
    "hashtags": {"max_ratio": 0.1},
    "image_format": {"is": "jpeg"},
    "image_size": {"min_side": 200, "max_aspect": 3.0},
    "images_per_text": {"max": 2, "text": "alt"},
    "known_words": {"vocabulary": files.lines("words.txt", ["a", "dog", "in", "park", "runs", "the"])},
    "label_overlap": {"column": "labels"},
    "language": {"is": ["en"]},
    "nearest_cluster": {
        "features": "l14_img",
        "centroids": files.array("centroids.npy", np.eye(2, dtype=np.float32)),
        "targets": files.array("targets.npy", np.array([0])),
    },
    "nouns": {"min": 1},
    "nsfw": {},
    "opt_out": {},
    "phash_duplicates": {"max_distance": 2, "rule": "component"},
    "prepositions": {"min": 1},
    "random": {"count": 5, "of": "pool"},
    "rare_tokens": {"top": 3},
    "score": {"column": "clip_l14_similarity_score", "min": 0.3},
    "stated_language": {"is": ["en"]},
    "text_entity": {},
    "texts_per_image": {"max": 1, "text": "alt"},
    "token_repetition": {"max_ratio": 0.0},
    "toxicity": {},
    "uid_list": {"in": files.uid_list("some.npy", uids(3))},
    "url_list": {"in": files.lines("urls.txt", ["http://b.org/1.png"])},
}

ROWS = batch(
    text=[
        *("a dog runs in the park", "img_1.jpg", None, "", "ein Hund läuft durch den Garten", "photo of\na red house, a #home"),
    ]
    * 3,
    url=[
        url
        for i in range(3)
        for url in (f"http://a.org/{i}.jpg", "http://b.org/1.png", None, "", "http://c.b.org/x.jpeg?w=1", "http://b.org/1.png")
    ],
    content_language=["en", "de", None, "", "en-GB", "*"] * 3,
    opt_out=[None, "noai", None, "", "noindex,noai", None] * 3,
    labels=[["park", "sky"], ["cat"], ["dog"], None, [], ["house"]] * 3,
    alt=["one"] * 17 + ["another"],
    sha256=["a", "b", None, "c", "d", "e"] * 3,
    phash=pa.array([1, 3, None, 255, 1 << 40, 1 << 63] * 3, pa.uint64()),
    eval_similarity=pa.array([0.1, 0.604169, None, 0.7, 0.5, 0.2] * 3, pa.float32()),
    nsfw_image=pa.array([0.1, 0.9, None, 0.2, 0.21, 0.0] * 3, pa.float32()),
    toxicity=pa.array([0.1, 0.9, None, 0.2, 0.05, 0.0] * 3, pa.float32()),
    l14_img=pa.array([[1, 0], [0, 1], None, [0.6, 0.8], [0.8, 0.6], [float("nan"), 0]] * 3, pa.list_(pa.float32(), 2)),
    original_width=pa.array([200, 199, None, 0, 900, 640] * 3, pa.int32()),
    original_height=pa.array([200, 640, 480, 0, 200, 480] * 3, pa.int32()),
    clip_l14_similarity_score=pa.array([0.3, 0.1, None, 0.2, 0.25, 0.4] * 3, pa.float32()),
)

every_filter = pytest.mark.parametrize("name", list(FILTERS.all()))


def fitted(name: str, rows: pa.RecordBatch = ROWS) -> Filter:
    return fit_rule(FILTERS.build(name, EXAMPLES[name]), Rows((rows,)), Rows((rows,)))


def test_every_filter_has_an_example() -> None:
    assert set(EXAMPLES) == set(FILTERS.all())


def test_every_filter_and_mix_is_where_recipes_look_for_it() -> None:
    for homes_, classes in ((homes.FILTERS, FILTERS.all()), (homes.MIXES, MIXES.all())):
        assert homes_ == {name: cls.__module__.removeprefix("filters.") for name, cls in classes.items()}
    for path in Path(homes.__file__).parent.glob("*.py"):
        if re.search(r"^@register(_mix)?\(", path.read_text(), re.M):
            assert path.stem in {*homes.FILTERS.values(), *homes.MIXES.values()}, path


def test_a_recipe_imports_the_filters_that_it_names() -> None:
    """And neither pandas, which pyarrow imports on many occasions, nor what stores elsewhere need."""
    code = (
        "import sys\nfrom pipeline.selection import Recipe\nfrom pipeline.cli import recipe_path\n"
        "Recipe.load(recipe_path('clip_score_l14_30'))\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert {"filters.score", "pyarrow"} <= loaded
    assert not loaded & {"filters.entity", "filters.frequency", "filters.lists", "pandas", "fsspec", "torch", "spacy", "numba"}


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
    assert tuple(FILTERS.build(name, EXAMPLES[name]).needs) == tuple(rule.needs)


@every_filter
def test_it_travels_to_workers_unchanged(name: str) -> None:
    rule = pickle.loads(pickle.dumps(fitted(name)))  # noqa: S301  (our own object, as the engine sends it)
    assert rule.keep(ROWS).to_pylist() == fitted(name).keep(ROWS).to_pylist()


@every_filter
def test_it_is_a_frozen_dataclass_with_a_docstring(name: str) -> None:
    cls = FILTERS.all()[name]
    assert cls.__dataclass_params__.frozen
    assert len(inspect.getdoc(cls) or "") > 40
    rule = FILTERS.build(name, EXAMPLES[name])
    assert isinstance(rule, Filter | PoolFilter)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(rule, dataclasses.fields(cls)[0].name, None)


def test_the_page_on_filters_is_up_to_date() -> None:
    assert filters.readme.PATH.read_text() == filters.readme.render(), "run `make docs`"


# A digest changes when a recipe means something else; then published results are no longer comparable.
DIGESTS = {
    "align": "c45b8679b18d1738",
    "basic": "0ca032ea9ba4bae6",
    "cc12m": "beab48d5b594ee33",
    "cc3m": "c307876554ffeacb",
    "clip_score_l14_30": "93188b407a2d0ed5",
    "datacomp_1b": "0ea44ab229ae9f0c",
    "image_based": "7266a76cb3c60b77",
    "image_based_x_clip_score": "0ea44ab229ae9f0c",
    "image_based_x_clip_score_b32_028": "7560e893bd985e51",
    "laion2b": "f87b1a8ee0a1c8a8",
    "no_filter": "4f53cda18c2baa0c",
    "random_1": "97162d2e0eca4919",
    "random_10": "fdf16d07db4f653a",
    "random_25": "3cf3dee610130eb4",
    "random_50": "43cd9f71fa2762a4",
    "random_75": "8f0ec6c896d55ec3",
    "text_based": "da111b2891bda84c",
    "webli_clip": "3611ea28ebe24d43",
    "webli_english": "c3815e9c824ae52b",
    "webli_rebalanced": "1ffc6703b1fb28a2",
}


def test_every_recipe_has_its_digest_pinned(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files that a user brings stand in the working folder.
    np.save(tmp_path / "centroids.npy", np.eye(2, dtype=np.float32))
    np.save(tmp_path / "targets.npy", np.array([0]))
    monkeypatch.chdir(tmp_path)
    assert {p.stem: Recipe.load(str(p)).digest[:16] for p in RECIPES.glob("*.yaml")} == DIGESTS


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_reads_columns_that_pools_have(path: Any) -> None:
    recipe = Recipe.load(str(path))
    assert recipe.name == path.stem
    assert recipe.description
    features = {"b32_img", "b32_txt", "l14_img", "l14_txt"}  # in CommonPool's .npz
    assert set(recipe.needs) <= {c.name for c in (*CANDIDATES.columns, *METADATA.columns, *COMMONPOOL_EXTRA)} | features


def test_the_filter_that_contributing_shows_is_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of CONTRIBUTING.md, as a module of its own."""
    import importlib

    from filters import registry

    page = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.S)
    assert found
    imports = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\nimport pyarrow as pa\nimport pyarrow.compute as pc\n"
        "from filters.registry import register\n"
    )
    (tmp_path / "min_width_example.py").write_text(imports + found[1])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry.FILTERS, "classes", dict(registry.FILTERS.all()))
    importlib.import_module("min_width_example")
    rule = FILTERS.build("min_width", {"pixels": 640})
    assert isinstance(rule, Filter)
    assert rule.keep(ROWS.slice(0, 6)).to_pylist() == [False, False, None, False, True, True]
    with pytest.raises(ValueError, match="pixels 0 is below 1"):
        FILTERS.build("min_width", {"pixels": 0})
