"""German: three genders; the adjective before the noun takes the strong endings."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, plural, gender.
_NOUNS = {
    "circle": ("Kreis", "Kreise", "m"),
    "square": ("Quadrat", "Quadrate", "n"),
    "triangle": ("Dreieck", "Dreiecke", "n"),
    "star": ("Stern", "Sterne", "m"),
    "cross": ("Kreuz", "Kreuze", "n"),
    "ring": ("Ring", "Ringe", "m"),
    "heart": ("Herz", "Herzen", "n"),
    "crescent": ("Mondsichel", "Mondsicheln", "f"),
    "arrow": ("Pfeil", "Pfeile", "m"),
    "lightning bolt": ("Blitz", "Blitze", "m"),
    "spiral": ("Spirale", "Spiralen", "f"),
    "lotus": ("Lotusblüte", "Lotusblüten", "f"),
    "drum": ("Trommel", "Trommeln", "f"),
    "kite": ("Papierdrachen", "Papierdrachen", "m"),
}
_COLOURS = {
    "red": "rot",
    "blue": "blau",
    "green": "grün",
    "orange": "orangefarben",
    "purple": "violett",
    "pink": "rosafarben",
    "brown": "braun",
    "black": "schwarz",
}
# Article and ending of the adjective.
_NOMINATIVE = {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")}
_ACCUSATIVE = _NOMINATIVE | {"m": ("einen", "en")}


def phrase(concept: str, colour: str) -> str:
    noun, _, gender = _NOUNS[concept]
    return f"{_COLOURS[colour]}{_NOMINATIVE[gender][1]} {noun}"


def counted(concept: str, colour: str, count: int) -> str:
    return _counted(concept, colour, count, _NOMINATIVE)


def accusative(concept: str, colour: str, count: int) -> str:
    return _counted(concept, colour, count, _ACCUSATIVE)


def _counted(concept: str, colour: str, count: int, endings: dict[str, tuple[str, str]]) -> str:
    noun, plural, gender = _NOUNS[concept]
    if count > 1:
        return f"{ {2: 'zwei', 3: 'drei'}[count] } {_COLOURS[colour]}e {plural}"
    article, ending = endings[gender]
    return f"{article} {_COLOURS[colour]}{ending} {noun}"


GERMAN = Language(
    code="de",
    name="German",
    phrase=phrase,
    counted=counted,
    accusative=accusative,
    plurals={concept: plural for concept, (_, plural, _) in _NOUNS.items()},
    # Dative, without article.
    grounds={
        "plain": "einfarbigem Hintergrund",
        "fading": "Hintergrund mit Farbverlauf",
        "striped": "gestreiftem Hintergrund",
        "dotted": "gepunktetem Hintergrund",
        "checked": "kariertem Hintergrund",
        "grainy": "körnigem Hintergrund",
    },
    templates=("Zeichnung: {c}", "{c} als Zeichnung", "Bild zum Ausdrucken: {c}"),
    frames=(
        "das Bild zeigt {accusative}",
        "hier siehst du {accusative}",
        "unser neues Poster zeigt {accusative}",
        "ich habe {accusative} gezeichnet",
        "{thing} als Wandbild",
        "Malvorlage: {thing}",
    ),
    grounded=(
        "{thing} auf {ground}",
        "{c} vor {ground}",
        "Zeichnung: {thing} auf {ground}",
        "das Bild zeigt {accusative} auf {ground}",
        "hier siehst du {accusative} vor {ground}",
    ),
    titles=("{plural} – Galerie mit Zeichnungen", "{plural}: Bilder und Poster", "Bilder zum Ausdrucken: {plural}"),
)
