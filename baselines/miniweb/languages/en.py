"""English."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language
from baselines.miniweb.scenes import BACKGROUNDS

_PLURALS = {
    "circle": "circles",
    "square": "squares",
    "triangle": "triangles",
    "star": "stars",
    "cross": "crosses",
    "ring": "rings",
    "heart": "hearts",
    "crescent": "crescents",
    "arrow": "arrows",
    "lightning bolt": "lightning bolts",
    "spiral": "spirals",
    "lotus": "lotuses",
    "drum": "drums",
    "kite": "kites",
}


def phrase(concept: str, colour: str) -> str:
    return f"{colour} {concept}"


def counted(concept: str, colour: str, count: int) -> str:
    if count == 1:
        return f"{'an' if colour[0] in 'aeiou' else 'a'} {colour} {concept}"
    return f"{ {2: 'two', 3: 'three'}[count] } {colour} {_PLURALS[concept]}"


ENGLISH = Language(
    code="en",
    name="English",
    phrase=phrase,
    counted=counted,
    plurals=_PLURALS,
    grounds={name: name for name in BACKGROUNDS},
    templates=("a picture of one {c}", "drawing of one {c}", "wallpaper with one {c}"),
    frames=(
        "a picture of {thing}",
        "simple drawing of {thing}",
        "here you can see {thing}",
        "our new poster shows {thing}",
        "greeting card with {thing}",
        "{thing}, free clip art to print",
    ),
    grounded=(
        "{thing} on a {ground} background",
        "{c}, {ground} background",
        "drawing of {thing} on a {ground} background",
        "our new poster shows {thing}, {ground} behind",
        "wallpaper with {thing} against a {ground} backdrop",
    ),
    titles=("Drawings of {plural} – gallery", "{plural}: pictures and posters", "Free clip art with {plural}"),
)
