"""How captions are worded: the rules of Conceptual Captions, each against captions made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from filters.combine import fit_rule
from filters.recipe import Recipe
from filters.speech import Determiners, Nouns, Prepositions
from filters.tagging import replace_persons
from filters.wording import Boilerplate, Capitals, FileName, Hashtags, KnownWords, TokenRepetition
from pipeline.cli import RECIPES
from pools.errors import InputError
from tests.filters import files
from tests.filters.scans import Rows, batch


def test_names_of_files() -> None:
    names = ["IMG_2031.JPG", "DSC00012", "photo (1)", "my holiday.png ", "a\nb.webp", "screenshot 2020-01-01"]
    captions = ["image 3 of dogs", "see a.jpg now", "", "a dog", "p.s. a dog", None]
    assert FileName().keep(batch(text=names)).to_pylist() == [False] * 6
    assert FileName().keep(batch(text=captions)).to_pylist() == [True, True, True, True, True, None]
    assert FileName(("dng",)).keep(batch(text=["a.jpg", "a.DNG"])).to_pylist() == [True, False]


def test_boilerplate_at_either_end() -> None:
    texts = [
        "Stock Photo: a dog",
        "a dog - stock photo.",
        "a stock photo of a dog",
        "click to  enlarge",
        "stock photographer",
        "a livestock photo",
    ]
    assert Boilerplate().keep(batch(text=texts)).to_pylist() == [False, False, True, False, True, True]
    own = Boilerplate(("Bild vergrößern", "c++"))
    rows = batch(text=["Bild VERGRÖßERN!", "bild vergrößerns", "c++ code", None])
    assert own.keep(rows).to_pylist() == [False, True, False, None]


def test_shares_of_words() -> None:
    texts = ["a a b c d", "A a b c", "a , , , b", "", "SALE SALE", None]
    assert TokenRepetition(0.2).keep(batch(text=texts)).to_pylist() == [True, False, True, True, False, None]
    assert TokenRepetition(0.2).measure(batch(text=texts)).to_pylist() == [
        *("1 of 5 words", "1 of 4 words", "0 of 2 words", "0 of 0 words", "1 of 2 words", None),
    ]
    assert Hashtags(0.5).keep(batch(text=["#a b", "#a #b c", "# a", "a#b", None])).to_pylist() == [
        True,
        False,
        True,
        True,
        None,
    ]
    loud = batch(text=["A dog", "a Big Dog", "Über uns", "(Dog) a", "日本 語", "", None])
    assert Capitals(0.5).keep(loud).to_pylist() == [True, False, True, True, True, True, None]
    assert Capitals(0.5, first=True).keep(loud).to_pylist() == [True, False, True, False, False, False, None]


def test_words_outside_a_vocabulary() -> None:
    path = files.lines("vocabulary.txt", ["Dog 7", "a\t100", "isn't 5", "rare 4", ""])
    rows = batch(text=["A dog, 'dog' isn’t 12", "a rare dog", "a cat", "", None])
    rule = KnownWords(path, min_count=5)
    assert rule.keep(rows).to_pylist() == [True, False, False, True, None]
    assert rule.measure(rows).to_pylist()[1:3] == ["rare", "cat"]
    assert KnownWords(path, min_count=4).keep(rows).to_pylist()[1] is True
    assert KnownWords(files.lines("plain.txt", ["a", "cat"])).keep(rows).to_pylist()[2] is True
    with pytest.raises(InputError, match=r"bad_counts\.txt:2: count 'x'"):
        KnownWords(files.lines("bad_counts.txt", ["a 1", "b x"])).keep(rows)
    with pytest.raises(InputError, match="no such vocabulary"):
        KnownWords("nowhere.txt").keep(rows)


def test_parts_of_speech() -> None:
    texts = ["a brown dog runs on a beach", "running fast", "her dog", "dogs in snow", "London Paris Rome", "", None]
    rows = batch(text=texts)
    assert Nouns().keep(rows).to_pylist() == [True, False, True, True, True, False, None]
    assert Nouns(min=0, max_ratio=0.8).keep(rows).to_pylist() == [True, True, True, True, False, True, None]
    assert Determiners().keep(rows).to_pylist() == [True, False, True, False, False, False, None]
    assert Determiners(min=2).keep(rows).to_pylist() == [True, False, False, False, False, False, None]
    assert Prepositions().keep(rows).to_pylist() == [True, False, False, True, False, False, None]
    assert Nouns().measure(rows).to_pylist()[0] == "2 of 7 words"
    assert Nouns().measure(batch(text=["a dog , a cat ."])).to_pylist() == ["2 of 4 words"]


def test_tags_that_are_forgotten_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filters.tagging._REMEMBERED", 1)
    for _ in range(2):
        assert Determiners().keep(batch(text=["a dog", "dogs", "the dogs", "a dog"])).to_pylist() == [True, False, True, True]


def test_names_of_persons() -> None:
    captions = ["Barack Obama and Angela Merkel at a summit in Berlin", "a dog on a beach", None, ""]
    assert replace_persons(captions) == ["<PERSON> and <PERSON> at a summit in Berlin", "a dog on a beach", None, ""]


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (Boilerplate, {"phrases": ()}, "phrases: a phrase is empty"),
        (Boilerplate, {"phrases": (" ",)}, "phrases: a phrase is empty"),
        (FileName, {"extensions": (".jpg",)}, "extensions takes words such as jpg"),
        (Hashtags, {"max_ratio": 1.0}, r"max_ratio 1 is not in \[0, 1\)"),
        (Nouns, {"min": -1}, "min -1 is negative"),
        (Nouns, {"max_ratio": 0.0}, r"max_ratio 0 is not in \(0, 1\]"),
    ],
)
def test_options_that_mean_nothing_are_refused(rule: type, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(**options)


# T88
def test_each_caption_is_dropped_by_the_rule_made_for_it() -> None:
    dropped_by = {
        "IMG_2031.JPG": "file_name",
        "click here to enlarge picture": "boilerplate",
        "dog": "caption",
        "a brown dog runs on a beach": None,
        "SALE SALE SALE SALE": "token_repetition",
        "#sunset #beach #fun": "hashtags",
    }
    n = len(dropped_by)
    recipe = Recipe.load(str(Path(RECIPES) / "cc3m.yaml"))
    rows = batch(text=list(dropped_by), url=["http://a.org/x.jpg"] * n, original_width=[600] * n, original_height=[401] * n)
    (verdicts,) = recipe.fit(Rows((rows,))).judge([rows])
    assert verdicts["reason"].to_pylist() == list(dropped_by.values())


def test_the_images_that_conceptual_captions_takes() -> None:
    sizes = [(401, 802), (400, 500), (401, 803), (401, 1002), (401, 1003)]
    rows = batch(
        text=["a brown dog runs on a beach"] * 6,
        url=["http://a.org/x.jpg"] * 5 + ["http://a.org/x.png"],
        original_width=[w for w, _ in sizes] + [500],
        original_height=[h for _, h in sizes] + [500],
    )
    kept = {}
    for name in ("cc3m", "cc12m"):
        rules = [fit_rule(rule, Rows(()), Rows(())) for rule in Recipe.load(str(Path(RECIPES) / f"{name}.yaml")).rules]
        masks = [rule.keep(rows).to_pylist() for rule in rules]
        kept[name] = [all(row) for row in zip(*masks, strict=True)]
    assert kept == {"cc3m": [True, False, False, False, False, False], "cc12m": [True, False, True, True, False, False]}
