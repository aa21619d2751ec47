"""Filipino: no agreement; an adjective is tied to its noun by the linker, -ng after a vowel and na after a consonant."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

_NOUNS = {
    "circle": "bilog",
    "square": "parisukat",
    "triangle": "tatsulok",
    "star": "bituin",
    "cross": "krus",
    "ring": "singsing",
    "heart": "puso",
    "crescent": "gasuklay",
    "arrow": "palaso",
    "lightning bolt": "kidlat",
    "spiral": "espiral",
    "lotus": "lotus",
    "drum": "tambol",
    "kite": "saranggola",
}
# With the linker.
_COLOURS = {
    "red": "pulang",
    "blue": "asul na",
    "green": "berdeng",
    "orange": "kahel na",
    "purple": "lilang",
    "pink": "rosas na",
    "brown": "kayumangging",
    "black": "itim na",
}


def phrase(concept: str, colour: str) -> str:
    return f"{_COLOURS[colour]} {_NOUNS[concept]}"


def counted(concept: str, colour: str, count: int) -> str:
    return f"{ {1: 'isang', 2: 'dalawang', 3: 'tatlong'}[count] } {phrase(concept, colour)}"


FILIPINO = Language(
    code="fil",
    name="Filipino",
    phrase=phrase,
    counted=counted,
    plurals={concept: f"mga {noun}" for concept, noun in _NOUNS.items()},
    # With the linker.
    grounds={
        "plain": "payak na",
        "fading": "kumukupas na",
        "striped": "guhit-guhit na",
        "dotted": "batik-batik na",
        "checked": "kuwadradong",
        "grainy": "butil-butil na",
    },
    templates=("larawan ng isang {c}", "guhit-kamay ng {c}", "poster na may isang {c}"),
    frames=(
        "larawan ng {thing}",
        "makikita rito ang {thing}",
        "may {thing} sa larawang ito",
        "iginuhit ko ang {thing}",
        "ang bagong poster namin ay may {thing}",
    ),
    grounded=(
        "{thing} sa {ground} likuran",
        "guhit ng {c} sa {ground} likuran",
        "larawan ng {thing} sa {ground} likuran",
        "may {thing} sa {ground} likuran",
    ),
    titles=("Mga guhit ng {plural} – galerya", "{plural}: larawan at poster", "Mga larawan ng {plural}"),
)
