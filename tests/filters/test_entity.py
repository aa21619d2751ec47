"""Words that WordNet knows: base forms, first synsets, and the captions that name something."""

from __future__ import annotations

from pathlib import Path

import pytest

from filters import models, wordnet
from filters.entity import TextEntity
from filters.labels import LabelOverlap
from pools.errors import InputError
from tests.filters import files, wordnets
from tests.filters.scans import batch


@pytest.fixture
def small(tmp_path: Path) -> str:
    return wordnets.small(tmp_path / "wordnet")


@pytest.mark.parametrize(
    ("word", "synset"),
    [
        ("dog", ("n", 10)),  # the first of two
        ("Dogs", ("n", 10)),
        ("dog,", None),
        ("hot_dog", ("n", 15)),
        ("churches", ("n", 12)),
        ("lasses", ("n", 16)),
        ("workmen", None),
        ("men", ("n", 13)),
        ("running", None),  # endings are taken off, letters that were doubled are not
        ("runs", ("v", 20)),
        ("baked", ("v", 22)),
        ("ran", ("v", 20)),
        ("saw", ("n", 14)),  # nouns come first
        ("geese", None),  # irregular, and its base form is not in the index
        ("bigger", ("a", 10)),
        ("paler", ("a", 30)),
        ("fast", ("r", 40)),
        ("dogss", ("n", 10)),  # endings are taken off again while nothing is found
        ("straße", None),
        ("", None),
    ],
)
def test_the_first_synset_of_a_word(small: str, word: str, synset: tuple[str, int] | None) -> None:
    assert wordnet.load(small).first_synset(word) == synset


def test_the_base_forms_of_a_word(small: str) -> None:
    known = wordnet.load(small)
    assert known.base_forms("saw", "v") == ["saw", "see"]
    assert known.base_forms("axes", "n") == []
    assert known.base_forms("men", "n") == ["man"]
    assert known.base_forms("dog", "v") == []
    assert known.base_forms("dog", "n") == ["dog"]


def test_captions_that_name_something(small: str) -> None:
    wanted = files.lines("wanted.txt", ["n00000010", "", "v00000020"])
    rows = batch(text=["the dog sleeps", "he runs", "a church", "so big", "dog, cat", "", None, "a\u00a0dog\nruns"])
    rule = TextEntity(synsets=wanted, wordnet=small)
    # `big` has the offset of a wanted noun, which counts as it does in DataComp's code.
    assert rule.keep(rows).to_pylist() == [True, True, False, True, False, False, None, True]
    same = TextEntity(synsets=wanted, wordnet=small, same_pos=True).keep(rows).to_pylist()
    assert same == [True, True, False, False, False, False, None, True]
    said = rule.measure(rows).to_pylist()
    assert [said[0], said[2], said[6], said[7]] == ["dog n00000010", "", None, "dog n00000010, runs v00000020"]


def test_words_that_are_forgotten_are_looked_up_again(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filters.entity._WORDS_REMEMBERED", 2)
    rule = TextEntity(synsets=files.lines("few.txt", ["n00000010"]), wordnet=small)
    assert rule.keep(batch(text=["one two three dog", "dog", "three four", "the dogs"])).to_pylist() == [
        True,
        True,
        False,
        True,
    ]


def test_imagenet_21k_in_princetons_wordnet() -> None:
    """Synsets of https://image-net.org's list and of WordNet's own search, by hand."""
    known = wordnet.load(models.WORDNET_30)
    assert known.first_synset("goldfish") == ("n", 1443537)
    assert known.first_synset("tench") == ("n", 1440764)
    assert known.first_synset("abandon") == ("n", 4885398)
    assert known.first_synset("geese") == ("n", 1855672)
    rows = batch(text=["two goldfish in a bowl", "freedom and justice", "I know nothing about it", "Two Geese"])
    assert TextEntity().keep(rows).to_pylist() == [True, False, False, True]


def test_lists_of_synsets_and_wordnets_that_are_none(small: str, tmp_path: Path) -> None:
    rows = batch(text=["x"])
    with pytest.raises(InputError, match=r"bad\.txt:2: 'dog'(.|\n)*a synset such as n02084071"):
        TextEntity(synsets=files.lines("bad.txt", ["n00000010", "dog"]), wordnet=small).keep(rows)
    with pytest.raises(InputError, match="no such file of synsets"):
        TextEntity(synsets="nowhere.txt", wordnet=small).keep(rows)
    with pytest.raises(InputError, match=r"no file index\.noun"):
        TextEntity(wordnet=str(tmp_path)).keep(rows)
    broken = Path(wordnets.small(tmp_path / "broken"))
    (broken / "index.verb").write_text("run v one\n")
    with pytest.raises(InputError, match="broken: unreadable"):
        TextEntity(wordnet=str(broken)).keep(rows)


def test_a_folder_enters_the_digest_by_what_it_holds(tmp_path: Path) -> None:
    a, b, c = (Path(wordnets.small(tmp_path / name)) for name in "abc")
    (c / "noun.exc").write_text("geese goose\n")
    assert models.file_digest(str(a)) == models.file_digest(str(b)) != models.file_digest(str(c))


def test_captions_that_share_a_word_with_a_label(small: str) -> None:
    texts = ["two dogs, sleeping", "a Church", "he ran", "nothing", None, "dog"]
    rows = batch(text=texts, labels=[["hot dog"], ["churches", None], ["run"], ["dog", "man"], ["dog"], None])
    rule = LabelOverlap(wordnet=small)
    assert rule.keep(rows).to_pylist() == [True, True, True, False, None, None]
    assert rule.measure(rows).to_pylist()[:4] == ["dog", "church", "run", "not dog, man"]
    assert LabelOverlap("said", wordnet=small).keep(batch(text=["a dog"], said=["cat, dogs"])).to_pylist() == [True]
