"""Swahili: adjectives, numbers and the connective -a agree with the class of the noun, which is another one in the plural."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, its class, plural.
_NOUNS = {
    "circle": ("duara", 5, "maduara"),
    "square": ("mraba", 3, "miraba"),
    "triangle": ("pembetatu", 9, "pembetatu"),
    "star": ("nyota", 9, "nyota"),
    "cross": ("msalaba", 3, "misalaba"),
    "ring": ("pete", 9, "pete"),
    "heart": ("moyo", 3, "mioyo"),
    "crescent": ("hilali", 9, "hilali"),
    "arrow": ("mshale", 3, "mishale"),
    "lightning bolt": ("radi", 9, "radi"),
    "spiral": ("msokoto", 3, "misokoto"),
    "lotus": ("yungiyungi", 5, "mayungiyungi"),
    "drum": ("ngoma", 9, "ngoma"),
    "kite": ("tiara", 9, "tiara"),
}
# The two that are adjectives; the others are nouns after "of the colour of".
_AGREEING = {"red": "ekundu", "black": "eusi"}
_OTHER = {
    "blue": "bluu",
    "green": "kijani",
    "orange": "machungwa",
    "purple": "zambarau",
    "pink": "waridi",
    "brown": "kahawia",
}
# By class (6, 4 and 10 are the plurals of 5, 3 and 9).
_ADJECTIVE = {3: "mw", 4: "my", 5: "j", 6: "m", 9: "ny", 10: "ny"}
_CONNECTIVE = {3: "wa", 4: "ya", 5: "la", 6: "ya", 9: "ya", 10: "za"}
_NUMBERS = {4: ("miwili", "mitatu"), 6: ("mawili", "matatu"), 10: ("mbili", "tatu")}


def phrase(concept: str, colour: str) -> str:
    noun, noun_class, _ = _NOUNS[concept]
    return f"{noun} {_colour(colour, noun_class)}"


def counted(concept: str, colour: str, count: int) -> str:
    if count == 1:
        return phrase(concept, colour)
    _, noun_class, plural = _NOUNS[concept]
    number = _NUMBERS[noun_class + 1][count - 2]
    quality = _colour(colour, noun_class + 1)
    # A number follows an adjective and goes before a phrase with -a.
    return f"{plural} {quality} {number}" if colour in _AGREEING else f"{plural} {number} {quality}"


def _colour(colour: str, noun_class: int) -> str:
    if colour in _AGREEING:
        return _ADJECTIVE[noun_class] + _AGREEING[colour]
    return f"{_CONNECTIVE[noun_class]} rangi ya {_OTHER[colour]}"


SWAHILI = Language(
    code="sw",
    name="Swahili",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, _, plural) in _NOUNS.items()},
    grounds={
        "plain": "ya rangi moja",
        "fading": "yenye rangi inayofifia",
        "striped": "yenye mistari",
        "dotted": "yenye madoadoa",
        "checked": "yenye miraba",
        "grainy": "yenye chembechembe",
    },
    templates=("hii ni picha ya {c}", "mchoro mzuri wa {c}", "bango lenye picha ya {c}"),
    frames=(
        "picha ya {thing}",
        "hii ni picha ya {thing}",
        "huu ni mchoro wa {thing}",
        "hapa kuna picha ya {thing}",
        "bango jipya lenye picha ya {thing}",
        "kadi yenye picha ya {thing}",
    ),
    grounded=(
        "{thing} kwenye mandharinyuma {ground}",
        "picha ya {thing} kwenye mandharinyuma {ground}",
        "mchoro wa {thing} kwenye mandharinyuma {ground}",
        "hapa kuna {thing} kwenye mandharinyuma {ground}",
    ),
    titles=("Michoro ya {plural} – matunzio", "{plural}: picha na mabango", "Picha za {plural}"),
)
