"""Telugu: adjectives do not change; a colour that is a noun takes రంగు, "colour". After a number stands the plural."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular and plural.
_NOUNS = {
    "circle": ("వృత్తం", "వృత్తాలు"),
    "square": ("చతురస్రం", "చతురస్రాలు"),
    "triangle": ("త్రిభుజం", "త్రిభుజాలు"),
    "star": ("నక్షత్రం", "నక్షత్రాలు"),
    "cross": ("శిలువ", "శిలువలు"),
    "ring": ("ఉంగరం", "ఉంగరాలు"),
    "heart": ("హృదయం", "హృదయాలు"),
    "crescent": ("నెలవంక", "నెలవంకలు"),
    "arrow": ("బాణం", "బాణాలు"),
    "lightning bolt": ("మెరుపు", "మెరుపులు"),
    "spiral": ("సర్పిలం", "సర్పిలాలు"),
    "lotus": ("కమలం", "కమలాలు"),
    "drum": ("డోలు", "డోళ్లు"),
    "kite": ("గాలిపటం", "గాలిపటాలు"),
}
_COLOURS = {
    "red": "ఎర్ర",
    "blue": "నీలి",
    "green": "ఆకుపచ్చ",
    "orange": "నారింజ రంగు",
    "purple": "ఊదా రంగు",
    "pink": "గులాబీ రంగు",
    "brown": "గోధుమ రంగు",
    "black": "నల్ల",
}


def phrase(concept: str, colour: str) -> str:
    return f"{_COLOURS[colour]} {_NOUNS[concept][0]}"


def counted(concept: str, colour: str, count: int) -> str:
    if count == 1:
        return f"ఒక {phrase(concept, colour)}"
    return f"{ {2: 'రెండు', 3: 'మూడు'}[count] } {_COLOURS[colour]} {_NOUNS[concept][1]}"


TELUGU = Language(
    code="te",
    name="Telugu",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, plural) in _NOUNS.items()},
    grounds={
        "plain": "సాదా",
        "fading": "వెలిసే",
        "striped": "చారల",
        "dotted": "చుక్కల",
        "checked": "గళ్ల",
        "grainy": "గరుకు",
    },
    templates=("{c} ఉన్న చిత్రం", "{c}, చేత్తో గీసిన బొమ్మ", "{c} ఈ బొమ్మలో ఉంది"),
    frames=(
        "{thing} ఉన్న చిత్రం",
        "{thing}, రంగుల బొమ్మ",
        "{thing}, చేత్తో గీసిన బొమ్మ",
        "{thing} ఉన్న కొత్త పోస్టర్",
    ),
    grounded=(
        "{thing}, {ground} నేపథ్యం",
        "{c}, {ground} నేపథ్యంలో",
        "{thing} {ground} నేపథ్యంలో",
        "{c}, {ground} నేపథ్యం, బొమ్మ",
    ),
    titles=("{plural} – బొమ్మల గ్యాలరీ", "{plural}: చిత్రాలు, పోస్టర్లు", "రంగుల బొమ్మలు: {plural}"),
)
