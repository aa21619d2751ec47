"""Captions that a recipe gives to the rows it keeps."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from filters.captions import Captions
from filters.recipe import Recipe
from pools.errors import InputError
from tests.filters.scans import batch


def given(told: str, **columns: object) -> list[str | None]:
    captions = Recipe.parse(f"keep: []\ncaptions: {told}").captions
    assert captions
    captions = pickle.loads(pickle.dumps(captions))  # noqa: S301  (our own object, as the engine sends it)
    return list(captions.write(batch(**columns)).to_pylist())


def test_captions_are_those_of_an_annotation_or_of_any_column() -> None:
    assert given("{from: blip}", text=["a", "b", "c"], blip_caption=["x", None, ""]) == ["x", None, ""]
    large = pa.array(["x", None], pa.large_string())
    assert given("{column: page_title}", page_title=large) == ["x", None]
    assert given("{from: blip}", blip_caption=pa.nulls(2)) == [None, None]


def test_persons_are_replaced_and_a_caption_without_one_stays() -> None:
    pytest.importorskip("spacy")
    texts = ["Barack Obama and Angela Merkel at a summit in Berlin", "a dog on a beach", None, ""]
    replaced = "<PERSON> and <PERSON> at a summit in Berlin"
    assert given("{replace_persons: true}", text=texts) == [replaced, None, None, None]
    # Of another column every caption takes the place of the pool's.
    assert given("{from: blip, replace_persons: true}", text=["x"] * 4, blip_caption=texts) == [replaced, *texts[1:]]


def test_what_is_read_and_how_the_recipe_is_spelled() -> None:
    recipe = Recipe.parse("keep:\n  - caption: {min_words: 2}\ncaptions: {from: blip}")
    assert recipe.needs == ("text", "blip_caption")
    assert Recipe.parse(recipe.to_yaml()) == recipe
    others = {Recipe.parse(f"keep: []\ncaptions: {t}").digest for t in ("{from: a}", "{column: b}", "{replace_persons: true}")}
    assert len({*others, Recipe.parse("keep: []").digest}) == 4
    assert Recipe.parse("keep: []\ncaptions: {replace_persons: true}").needs == ("text",)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ("{}", "captions: says nothing; takes from, column, or replace_persons: true"),
        ("{replace_persons: false}", "captions: says nothing"),
        ("{from: a, column: b}", "captions: takes one of from and column"),
        ("blip", "captions: not a map of options: 'blip'"),
        ("[from: a]", "captions: not a map"),
        ("{frm: a}", "captions: unknown option 'frm'; takes from, column, replace_persons"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(told: str, message: str) -> None:
    with pytest.raises(InputError, match=f"r.yaml:2: {message.replace('[', '.')}"):
        Recipe.parse(f"keep: []\ncaptions: {told}", "r.yaml")


def test_a_column_without_text_is_refused_by_its_type() -> None:
    captions = Captions(column="s")
    for kind in (pa.string(), pa.large_string(), pa.null()):
        captions.check({"s": kind})
    with pytest.raises(InputError, match="column 's' holds float; expected captions, as text"):
        captions.check({"s": pa.float32()})
