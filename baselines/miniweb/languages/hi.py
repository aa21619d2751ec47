"""Hindi: two genders; only the adjectives that end in -ā agree. The sentences ask for the direct case alone."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

# Singular, plural, feminine.
_NOUNS = {
    "circle": ("वृत्त", "वृत्त", False),
    "square": ("वर्ग", "वर्ग", False),
    "triangle": ("त्रिभुज", "त्रिभुज", False),
    "star": ("तारा", "तारे", False),
    "cross": ("क्रॉस", "क्रॉस", False),
    "ring": ("छल्ला", "छल्ले", False),
    "heart": ("दिल", "दिल", False),
    "crescent": ("अर्धचंद्र", "अर्धचंद्र", False),
    "arrow": ("तीर", "तीर", False),
    "lightning bolt": ("बिजली", "बिजलियाँ", True),
    "spiral": ("सर्पिल", "सर्पिल", False),
    "lotus": ("कमल", "कमल", False),
    "drum": ("ढोल", "ढोल", False),
    "kite": ("पतंग", "पतंगें", True),
}
# Masculine singular, masculine plural, feminine.
_COLOURS = {
    "red": ("लाल", "लाल", "लाल"),
    "blue": ("नीला", "नीले", "नीली"),
    "green": ("हरा", "हरे", "हरी"),
    "orange": ("नारंगी", "नारंगी", "नारंगी"),
    "purple": ("बैंगनी", "बैंगनी", "बैंगनी"),
    "pink": ("गुलाबी", "गुलाबी", "गुलाबी"),
    "brown": ("भूरा", "भूरे", "भूरी"),
    "black": ("काला", "काले", "काली"),
}


def phrase(concept: str, colour: str) -> str:
    noun, _, feminine = _NOUNS[concept]
    return f"{_COLOURS[colour][2 if feminine else 0]} {noun}"


def counted(concept: str, colour: str, count: int) -> str:
    _, plural, feminine = _NOUNS[concept]
    if count == 1:
        return f"एक {phrase(concept, colour)}"
    return f"{ {2: 'दो', 3: 'तीन'}[count] } {_COLOURS[colour][2 if feminine else 1]} {plural}"


HINDI = Language(
    code="hi",
    name="Hindi",
    phrase=phrase,
    counted=counted,
    plurals={concept: plural for concept, (_, plural, _) in _NOUNS.items()},
    # Feminine, as पृष्ठभूमि is.
    grounds={
        "plain": "सादी",
        "fading": "रंग बदलती",
        "striped": "धारीदार",
        "dotted": "बिंदीदार",
        "checked": "चौखानेदार",
        "grainy": "दानेदार",
    },
    templates=("चित्र में {c} है, देखिए", "{c}, हाथ से बनी तस्वीर", "{c} – हाथ से बना चित्र"),
    frames=(
        "इस चित्र में {thing}",
        "चित्र में देखिए: {thing}",
        "{thing}, हाथ से बना चित्र",
        "{thing}, छापने के लिए चित्र",
        "{thing}, बच्चों के लिए चित्र",
    ),
    grounded=(
        "{thing}, पीछे {ground} पृष्ठभूमि है",
        "{c}, {ground} पृष्ठभूमि पर",
        "{thing} {ground} पृष्ठभूमि पर",
        "{c}, {ground} पृष्ठभूमि पर बना चित्र",
    ),
    titles=("{plural} – चित्रों की गैलरी", "{plural}: चित्र और पोस्टर", "रंगीन चित्र: {plural}"),
)
