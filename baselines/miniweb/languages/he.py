"""Hebrew: two genders; the adjective follows the noun and agrees. A plural's ending does not tell its gender (לבבות אדומים)."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, plural, feminine.
_NOUNS = {
    "circle": ("עיגול", "עיגולים", False),
    "square": ("ריבוע", "ריבועים", False),
    "triangle": ("משולש", "משולשים", False),
    "star": ("כוכב", "כוכבים", False),
    "cross": ("צלב", "צלבים", False),
    "ring": ("טבעת", "טבעות", True),
    "heart": ("לב", "לבבות", False),
    "crescent": ("סהר", "סהרים", False),
    "arrow": ("חץ", "חיצים", False),
    "lightning bolt": ("ברק", "ברקים", False),
    "spiral": ("ספירלה", "ספירלות", True),
    "lotus": ("לוטוס", "לוטוסים", False),
    "drum": ("תוף", "תופים", False),
    "kite": ("עפיפון", "עפיפונים", False),
}
# Masculine, and what the other endings (-ה, -ים, -ות) are added to: a final mem is written otherwise within a word.
_COLOURS = {
    "red": ("אדום", "אדומ"),
    "blue": ("כחול", "כחול"),
    "green": ("ירוק", "ירוק"),
    "orange": ("כתום", "כתומ"),
    "purple": ("סגול", "סגול"),
    "pink": ("ורוד", "ורוד"),
    "brown": ("חום", "חומ"),
    "black": ("שחור", "שחור"),
}
_NUMBERS = {2: ("שני", "שתי"), 3: ("שלושה", "שלוש")}


def phrase(concept: str, colour: str) -> str:
    noun, _, feminine = _NOUNS[concept]
    masculine, stem = _COLOURS[colour]
    return f"{noun} {stem}ה" if feminine else f"{noun} {masculine}"


def counted(concept: str, colour: str, count: int) -> str:
    _, plural, feminine = _NOUNS[concept]
    if count == 1:
        return phrase(concept, colour)
    return f"{_NUMBERS[count][feminine]} {plural} {_COLOURS[colour][1]}{'ות' if feminine else 'ים'}"


HEBREW = Language(
    code="he",
    name="Hebrew",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, plural, _) in _NOUNS.items()},
    grounds={
        "plain": "אחיד",
        "fading": "מדורג",
        "striped": "מפוספס",
        "dotted": "מנוקד",
        "checked": "משובץ",
        "grainy": "מגורען",
    },
    templates=("ציור צבעוני של {c}", "{c}, תמונה להדפסה", "תמונה ובה {c}, להדפסה"),
    frames=(
        "{thing}, ציור יד צבעוני",
        "{thing}, תמונה להדפסה",
        "{thing} בציור יד צבעוני",
        "ציור של {thing} להדפסה",
        "כרזה ובה {thing}, להדפסה",
    ),
    grounded=(
        "{thing} על רקע {ground}, תמונה",
        "{thing} על רקע {ground}, ציור יד",
        "{thing}, רקע {ground}, ציור יד",
        "{thing} על רקע {ground}, כרזה",
    ),
    titles=("ציורים של {plural} – גלריה", "{plural}: תמונות וכרזות", "תמונות להדפסה: {plural}"),
)
