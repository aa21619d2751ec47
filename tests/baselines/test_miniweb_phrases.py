"""What a few drawn shapes are called in each language that inflects, written out by hand."""

from __future__ import annotations

import re

import pytest

from baselines.miniweb.languages import LANGUAGES
from baselines.miniweb.scenes import draw_lots, scene

BY_HAND = [
    ("en", "star", "red", 1, "a red star"),
    ("en", "ring", "orange", 1, "an orange ring"),
    ("en", "cross", "blue", 2, "two blue crosses"),
    ("es", "star", "red", 1, "una estrella roja"),
    ("es", "circle", "black", 1, "un círculo negro"),
    ("es", "cross", "blue", 2, "dos cruces azules"),
    ("de", "crescent", "green", 1, "eine grüne Mondsichel"),
    ("de", "heart", "brown", 1, "ein braunes Herz"),
    ("de", "arrow", "red", 1, "ein roter Pfeil"),
    ("de", "cross", "blue", 2, "zwei blaue Kreuze"),
    ("fr", "cross", "blue", 1, "une croix bleue"),
    ("fr", "ring", "purple", 1, "un anneau violet"),
    ("fr", "heart", "brown", 3, "trois cœurs marron"),  # brown is a noun (a chestnut), and so stays as it is
    ("ru", "star", "red", 1, "красная звезда"),
    ("ru", "cross", "blue", 2, "два синих креста"),
    ("hi", "triangle", "red", 1, "एक लाल त्रिभुज"),
    ("hi", "circle", "black", 2, "दो काले वृत्त"),
    ("sw", "arrow", "red", 1, "mshale mwekundu"),
    ("sw", "circle", "black", 1, "duara jeusi"),
    ("sw", "circle", "black", 2, "maduara meusi mawili"),
    ("sw", "cross", "blue", 2, "misalaba miwili ya rangi ya bluu"),
]


@pytest.mark.parametrize(("code", "concept", "colour", "count", "words"), BY_HAND)
def test_adjectives_and_numbers_agree_with_the_noun(code: str, concept: str, colour: str, count: int, words: str) -> None:
    assert LANGUAGES[code].counted(concept, colour, count) == words


def test_english_articles_agree_with_the_next_word() -> None:
    written = [LANGUAGES["en"].caption(scene(0, i), draw_lots(i)).lower() for i in range(400)]
    assert sum(" an " in f" {caption}" for caption in written) > 5
    assert not [caption for caption in written if re.search(r"\ba [aeio]|\ban [^aeio]", caption)]
