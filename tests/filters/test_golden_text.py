"""The lists that the reference code makes by the words and the language of captions, against ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.cli import recipe_path
from pipeline.engine import Options
from pipeline.selection import select
from pools import uids
from tests.conftest import SHARED
from tests.e2e.goldens import generate, two_files
from tests.filters import wordnets

pytestmark = pytest.mark.shared

COUNTS = {"laion2b": 10_764, "text_based": 34_731}


@pytest.fixture(scope="module", params=[2, pytest.param(10, marks=pytest.mark.slow)])
def pool(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """The first two, or all ten, files of 10,000 rows of the pool that the golden lists are of."""
    if request.param == 2:
        return two_files(tmp_path_factory)
    folder = tmp_path_factory.mktemp("pool")
    generate("gen_pool.py", str(folder), "--files", str(request.param), "--rows", "10000", "--seed", "0")
    return folder


def selected(recipe: str, pool: Path, output: Path) -> uids.Uids:
    select(recipe, str(pool), str(output), options=Options(workers=0, quiet=True))
    ours: uids.Uids = np.load(output / "uids.npy")
    return ours


def golden(name: str, pool: Path) -> uids.Uids:
    """The reference's list, as far as it names rows of this pool."""
    rows = [uids.pack(pq.read_table(path, columns=["uid"])["uid"]) for path in pool.glob("*.parquet")]
    theirs = uids.intersect(np.load(SHARED / "golden" / f"pool10_{name}.npy"), uids.sort(np.concatenate(rows)))
    assert (len(theirs) == COUNTS[name]) == (len(rows) == 10)
    return theirs


def with_debians_wordnet(folder: Path) -> str:
    """Path of `text_based` for the WordNet that the reference ran with: verbs and adjectives have other offsets there."""
    recipe = Path(recipe_path("text_based")).read_text()
    assert "- text_entity\n" in recipe
    path = folder / "text_based.yaml"
    path.write_text(recipe.replace("- text_entity\n", f"- text_entity: {{wordnet: {wordnets.debian(folder / 'wordnet')}}}\n"))
    return str(path)


def test_english_by_cld3_is_what_the_reference_keeps(tmp_path: Path, pool: Path) -> None:
    ours = selected(recipe_path("laion2b"), pool, tmp_path / "out")
    assert ours.tobytes() == golden("laion2b", pool).tobytes()


def test_captions_that_name_something_are_those_of_the_reference(tmp_path: Path, pool: Path) -> None:
    theirs = golden("text_based", pool)
    assert selected(with_debians_wordnet(tmp_path), pool, tmp_path / "out").tobytes() == theirs.tobytes()
    # With Princeton's offsets, which are the default, other verbs and adjectives share one with a noun: in 1 row, and not in 1.
    ours = selected(recipe_path("text_based"), pool, tmp_path / "default")
    assert max(len(uids.minus(ours, theirs)), len(uids.minus(theirs, ours))) <= 1
