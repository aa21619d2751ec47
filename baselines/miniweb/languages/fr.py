"""French: two genders; the adjective follows the noun and agrees, save for colours that are nouns (orange, marron)."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, plural, feminine.
_NOUNS = {
    "circle": ("cercle", "cercles", False),
    "square": ("carré", "carrés", False),
    "triangle": ("triangle", "triangles", False),
    "star": ("étoile", "étoiles", True),
    "cross": ("croix", "croix", True),
    "ring": ("anneau", "anneaux", False),
    "heart": ("cœur", "cœurs", False),
    "crescent": ("croissant de lune", "croissants de lune", False),
    "arrow": ("flèche", "flèches", True),
    "lightning bolt": ("éclair", "éclairs", False),
    "spiral": ("spirale", "spirales", True),
    "lotus": ("lotus", "lotus", False),
    "drum": ("tambour", "tambours", False),
    "kite": ("cerf-volant", "cerfs-volants", False),
}
# Masculine and feminine; the plurals add -s.
_COLOURS = {
    "red": ("rouge", "rouge"),
    "blue": ("bleu", "bleue"),
    "green": ("vert", "verte"),
    "orange": ("orange", "orange"),
    "purple": ("violet", "violette"),
    "pink": ("rose", "rose"),
    "brown": ("marron", "marron"),
    "black": ("noir", "noire"),
}
_UNCHANGING = ("orange", "brown")


def phrase(concept: str, colour: str) -> str:
    noun, _, feminine = _NOUNS[concept]
    return f"{noun} {_COLOURS[colour][feminine]}"


def counted(concept: str, colour: str, count: int) -> str:
    _, plural, feminine = _NOUNS[concept]
    if count == 1:
        return f"{'une' if feminine else 'un'} {phrase(concept, colour)}"
    ending = "" if colour in _UNCHANGING else "s"
    return f"{ {2: 'deux', 3: 'trois'}[count] } {plural} {_COLOURS[colour][feminine]}{ending}"


FRENCH = Language(
    code="fr",
    name="French",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, plural, _) in _NOUNS.items()},
    grounds={
        "plain": "uni",
        "fading": "dégradé",
        "striped": "rayé",
        "dotted": "à pois",
        "checked": "à carreaux",
        "grainy": "granuleux",
    },
    templates=("dessin à imprimer : {c}", "dessin en couleurs : {c}", "image d'illustration : {c}"),
    frames=(
        "cette image montre {thing}",
        "on voit ici {thing}",
        "dessin avec {thing}",
        "notre nouvelle affiche montre {thing}",
        "j'ai dessiné {thing}",
        "carte de vœux avec {thing}",
    ),
    grounded=(
        "{thing} sur un fond {ground}",
        "{c} sur fond {ground}",
        "dessin avec {thing} sur fond {ground}",
        "on voit ici {thing} sur un fond {ground}",
        "affiche avec {thing} et un fond {ground}",
    ),
    titles=("Dessins : {plural} – galerie", "{plural} : images et affiches", "Galerie d'images avec des {plural}"),
)
