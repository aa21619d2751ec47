"""Maori: no agreement; the colour follows the noun, and the article or the number goes before it.

Lotuses do not grow there: the flower is called by what it is, a flower of the water.
"""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

_NOUNS = {
    "circle": "porohita",
    "square": "tapawhā rite",
    "triangle": "tapatoru",
    "star": "whetū",
    "cross": "rīpeka",
    "ring": "mōwhiti",
    "heart": "manawa",
    "crescent": "marama kōhiti",
    "arrow": "pere",
    "lightning bolt": "uira",
    "spiral": "tōrino",
    "lotus": "puāwai wai",
    "drum": "pahū",
    "kite": "manu tukutuku",
}
_COLOURS = {
    "red": "whero",
    "blue": "kikorangi",
    "green": "kākāriki",
    "orange": "karaka",
    "purple": "waiporoporo",
    "pink": "māwhero",
    "brown": "parauri",
    "black": "pango",
}


def phrase(concept: str, colour: str) -> str:
    return f"{_NOUNS[concept]} {_COLOURS[colour]}"


def counted(concept: str, colour: str, count: int) -> str:
    return f"{ {1: 'he', 2: 'e rua ngā', 3: 'e toru ngā'}[count] } {phrase(concept, colour)}"


MAORI = Language(
    code="mi",
    name="Maori",
    phrase=phrase,
    counted=counted,
    plurals={concept: f"ngā {noun}" for concept, noun in _NOUNS.items()},
    grounds={
        "plain": "noa",
        "fading": "memeha",
        "striped": "whai rārangi",
        "dotted": "whai ira",
        "checked": "whai tapawhā",
        "grainy": "kirikiri",
    },
    templates=("he pikitia o tētahi {c}", "te whakaahua o te {c}", "he {c} kei te pikitia"),
    frames=(
        "{thing} kei te pikitia nei",
        "kei tēnei whakaahua {thing}",
        "titiro ki te pikitia: {thing}",
        "{thing} kua tāia ki te pepa",
        "te pikitia hou: {thing}",
    ),
    grounded=(
        "{thing} i runga i te papamuri {ground}",
        "{thing}, he papamuri {ground}",
        "te pikitia: {thing}, he papamuri {ground}",
        "{thing} kei te pikitia, he papamuri {ground}",
    ),
    titles=("Ngā pikitia o {plural}", "{plural}: he pikitia, he pānui whakaahua", "He kohinga whakaahua o {plural}"),
)
