"""Rules on how often images, texts and words are seen in the pool."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from filters.combine import fit_rule
from filters.frequency import split
from filters.recipe import Recipe
from filters.registry import FILTERS
from pipeline.cli import recipe_path
from pools.errors import InputError
from tests.filters.scans import Rows, batch


def keep(name: str, options: dict[str, Any], *batches: pa.RecordBatch) -> list[bool | None]:
    scan = Rows(batches)
    rule = fit_rule(FILTERS.build(name, options), scan, scan)
    return [kept for rows in batches for kept in rule.keep(rows).to_pylist()]


PAIRS = batch(
    url=["a", "a", "a", "a", "b", "b", "c", None, "d"],
    text=["one", "two", "two", "one", "one", "one", "one", "one", None],
)


def test_an_image_goes_with_more_different_texts_than_allowed() -> None:
    # a has two texts, each seen twice; b has one, seen twice
    assert keep("texts_per_image", {"max": 1}, PAIRS) == [False] * 4 + [True, True, True, None, None]
    assert keep("texts_per_image", {"max": 2}, PAIRS) == [True] * 7 + [None, None]


def test_a_text_goes_that_more_different_images_have_than_allowed() -> None:
    # "one" is of a, b and c; "two" of a alone; the image without an address is none
    assert keep("images_per_text", {"max": 2}, PAIRS) == [False, True, True, False, False, False, False, None, None]
    assert keep("images_per_text", {"max": 3}, PAIRS) == [True] * 7 + [None, None]


def test_pairs_are_counted_over_all_batches_of_the_pool() -> None:
    halves = (PAIRS.slice(0, 1), PAIRS.slice(1))
    assert keep("texts_per_image", {"max": 1}, *halves) == keep("texts_per_image", {"max": 1}, PAIRS)


def test_the_limits_of_align_themselves_are_allowed() -> None:
    rows = batch(url=["x"] * 1000 + ["y"] * 1001, text=[str(i) for i in (*range(1000), *range(1001))])
    assert keep("texts_per_image", {"max": 1000}, rows) == [True] * 1000 + [False] * 1001
    rows = batch(text=["x"] * 10 + ["y"] * 11, url=[str(i) for i in (*range(10), *range(11))])
    assert keep("images_per_text", {"max": 10}, rows) == [True] * 10 + [False] * 11


def test_the_frequencies_are_of_the_pool_or_of_what_reaches_the_rule() -> None:
    rows = batch(url=["a", "a"], text=["long enough", "x"])
    for of, kept in (("pool", [False, False]), ("input", [True, False])):
        keep_ = f"keep:\n  - caption: {{min_words: 2}}\n  - texts_per_image: {{max: 1, of: {of}}}\n"
        verdicts = next(Recipe.parse(keep_).fit(Rows((rows,))).judge([rows]))
        assert verdicts["dropped_by"].is_null().to_pylist() == kept


def test_another_column_may_hold_the_texts() -> None:
    rows = batch(url=["a", "a"], alt=["x", "y"])
    assert keep("texts_per_image", {"max": 1, "text": "alt"}, rows) == [False, False]


# Counts: a 4, b 3, "a b" 2, and 1 each of c, "a c", "b a"
WORDS = batch(text=["a b", "a  b", "a c", "b a", None, ""])


def test_a_text_goes_with_one_unigram_or_bigram_that_is_rare() -> None:
    assert keep("rare_tokens", {"top": 3}, WORDS) == [True, True, False, False, None, True]
    assert keep("rare_tokens", {"top": 2}, WORDS) == [False, False, False, False, None, True]
    assert keep("rare_tokens", {"top": 6}, WORDS) == [True] * 4 + [None, True]
    assert keep("rare_tokens", {"top": 100}, WORDS) == [True] * 4 + [None, True]


def test_what_is_rare_is_told() -> None:
    scan = Rows((WORDS,))
    rule = fit_rule(FILTERS.build("rare_tokens", {"top": 3}), scan, scan)
    assert rule.measure(WORDS).to_pylist() == [None, None, "c", "b a", None, None]
    rule = fit_rule(FILTERS.build("texts_per_image", {"max": 1}), Rows((PAIRS,)), Rows((PAIRS,)))
    assert rule.measure(PAIRS).to_pylist()[0] == "a"


def test_words_are_those_of_python() -> None:
    texts = ["", " ", "a", " a  b ", None, "\x1c", "a\x1fb\n", "é\u3000ü", "a\u200bb", "x" * 5000]
    expected = [(t or "").split() for t in texts]
    assert split(pa.array(texts)).to_pylist() == expected
    assert split(pa.array(texts).slice(3, 5)).to_pylist() == expected[3:8]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("texts_per_image", {}, "option 'max' is missing"),
        ("images_per_text", {"max": 0}, "max 0 is below 1"),
        ("rare_tokens", {"top": 0}, "top 0 is below 1"),
        ("rare_tokens", {"top": 5, "of": "all"}, "of is 'all', expected pool or input"),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FILTERS.build(name, options)


def test_a_column_of_another_kind_is_named() -> None:
    with pytest.raises(InputError, match="column 'url' holds double"):
        keep("texts_per_image", {"max": 1}, batch(url=[0.5], text=["x"]))


def test_the_recipe_of_align_applies_its_numbers() -> None:
    """One row for each rule that drops it, and one at each of the bounds that stays."""
    fitting = {"original_width": 201, "original_height": 602, "text": "a b c", "url": "u"}
    rows = [
        fitting,
        fitting | {"text": " ".join("abc" * 6 + "ab")},  # 20 words
        fitting | {"original_width": 200, "original_height": 300},
        fitting | {"original_height": 603},  # 603 / 201 = 3
        fitting | {"text": "a b"},
        fitting | {"text": " ".join("abc" * 7)},
        *({**fitting, "text": "d e f", "url": str(i)} for i in range(11)),
    ]
    table = batch(**{name: [row[name] for row in rows] for name in fitting})
    verdicts = next(Recipe.load(recipe_path("align")).fit(Rows((table,))).judge([table]))
    expected = [None, None, "image_size", "image_size", "caption", "caption", *["images_per_text"] * 11]
    assert verdicts["reason"].to_pylist() == expected
