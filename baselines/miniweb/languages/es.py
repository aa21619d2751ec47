"""Spanish: two genders; the adjective follows the noun and agrees in gender and number."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, plural, feminine.
_NOUNS = {
    "circle": ("círculo", "círculos", False),
    "square": ("cuadrado", "cuadrados", False),
    "triangle": ("triángulo", "triángulos", False),
    "star": ("estrella", "estrellas", True),
    "cross": ("cruz", "cruces", True),
    "ring": ("anillo", "anillos", False),
    "heart": ("corazón", "corazones", False),
    "crescent": ("media luna", "medias lunas", True),
    "arrow": ("flecha", "flechas", True),
    "lightning bolt": ("rayo", "rayos", False),
    "spiral": ("espiral", "espirales", True),
    "lotus": ("loto", "lotos", False),
    "drum": ("tambor", "tambores", False),
    "kite": ("cometa", "cometas", True),
}
# Masculine and feminine; the plurals add -s, or -es after a consonant.
_COLOURS = {
    "red": ("rojo", "roja"),
    "blue": ("azul", "azul"),
    "green": ("verde", "verde"),
    "orange": ("naranja", "naranja"),
    "purple": ("morado", "morada"),
    "pink": ("rosa", "rosa"),
    "brown": ("marrón", "marrón"),
    "black": ("negro", "negra"),
}
_PLURAL_COLOURS = {"azul": "azules", "marrón": "marrones"}


def phrase(concept: str, colour: str) -> str:
    noun, _, feminine = _NOUNS[concept]
    return f"{noun} {_COLOURS[colour][feminine]}"


def counted(concept: str, colour: str, count: int) -> str:
    _, plural, feminine = _NOUNS[concept]
    if count == 1:
        return f"{'una' if feminine else 'un'} {phrase(concept, colour)}"
    adjective = _COLOURS[colour][feminine]
    return f"{ {2: 'dos', 3: 'tres'}[count] } {plural} {_PLURAL_COLOURS.get(adjective, adjective + 's')}"


SPANISH = Language(
    code="es",
    name="Spanish",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, plural, _) in _NOUNS.items()},
    grounds={
        "plain": "liso",
        "fading": "degradado",
        "striped": "a rayas",
        "dotted": "de lunares",
        "checked": "a cuadros",
        "grainy": "granulado",
    },
    templates=("dibujo a color: {c}", "lámina decorativa: {c}", "ilustración para imprimir: {c}"),
    frames=(
        "dibujo de {thing}",
        "imagen de {thing}",
        "aquí puedes ver {thing}",
        "nuestro póster muestra {thing}",
        "fondo de pantalla con {thing}",
        "tarjeta de felicitación con {thing}",
    ),
    grounded=(
        "{thing} sobre un fondo {ground}",
        "{c} sobre fondo {ground}",
        "dibujo de {thing} sobre fondo {ground}",
        "aquí puedes ver {thing} sobre un fondo {ground}",
        "póster con {thing} y fondo {ground}",
    ),
    titles=("Dibujos de {plural} – galería", "{plural}: imágenes y láminas", "Galería de imágenes con {plural}"),
)
