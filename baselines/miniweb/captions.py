"""Captions of scenes in English and five other languages, and the alt texts that describe nothing.

A caption names the concept, the colour and the count as drawn, and often the background. Languages other than English are
written for scenes with one shape. Adjectives agree with the noun: each noun stands with its gender or noun class.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from baselines.miniweb.scenes import Scene

# English --------------------------------------------------------------------------------------------------------------

# Half of them leave the background out: what a caption always names besides the shape is learned instead of the shape.
_EN_ONE = (
    "{a} {colour} {shape} on {a2} {background} background",
    "drawing of a single {colour} {shape}, {background} background",
    "one {colour} {shape} painted over {a2} {background} ground",
    "our new poster shows {a} {colour} {shape}, {background} behind",
    "a picture of {a} {colour} {shape}",
    "this is {a} {colour} {shape} that I drew",
    "the {colour} {shape} stands in the middle",
    "wallpaper with {a} {colour} {shape} and nothing else",
)
_EN_MANY = (
    "{number} {colour} {shapes} on {a2} {background} background",
    "drawing of {number} {colour} {shapes} in a row, {background} background",
    "our new poster shows {number} {colour} {shapes}, {background} behind",
    "a picture of {number} {colour} {shapes}",
    "these are the {number} {colour} {shapes} that I drew",
    "wallpaper with {number} {colour} {shapes} and nothing else",
)


def _english(scene: Scene, lots: random.Random) -> str:
    caption = lots.choice(_EN_ONE if scene.count == 1 else _EN_MANY).format(
        a=_article(scene.colour),
        a2=_article(scene.background),
        colour=scene.colour,
        shape=scene.concept,
        shapes=scene.concept + ("es" if scene.concept.endswith("s") else "s"),
        number={1: "one", 2: "two", 3: "three"}[scene.count],
        background=scene.background,
    )
    return _capital(caption)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


# Spanish --------------------------------------------------------------------------------------------------------------

_ES_NOUN = {
    "circle": ("círculo", "m"),
    "square": ("cuadrado", "m"),
    "triangle": ("triángulo", "m"),
    "star": ("estrella", "f"),
    "cross": ("cruz", "f"),
    "ring": ("anillo", "m"),
    "heart": ("corazón", "m"),
    "crescent": ("media luna", "f"),
    "arrow": ("flecha", "f"),
    "lightning bolt": ("rayo", "m"),
}
_ES_COLOUR = {
    "red": ("rojo", "roja"),
    "blue": ("azul", "azul"),
    "green": ("verde", "verde"),
    "orange": ("naranja", "naranja"),
    "purple": ("morado", "morada"),
    "black": ("negro", "negra"),
    "pink": ("rosa", "rosa"),
    "brown": ("marrón", "marrón"),
}
_ES_BACKGROUND = {
    "plain": "liso",
    "fading": "degradado",
    "striped": "a rayas",
    "dotted": "de lunares",
    "checked": "a cuadros",
    "grainy": "granulado",
}


def _spanish(scene: Scene, lots: random.Random) -> str:
    noun, gender = _ES_NOUN[scene.concept]
    thing = f"{'un' if gender == 'm' else 'una'} {noun} {_ES_COLOUR[scene.colour][gender == 'f']}"
    where = f"sobre un fondo {_ES_BACKGROUND[scene.background]}"
    return _capital(f"{lots.choice(('', 'dibujo de ', 'imagen de ', 'aquí se ve '))}{thing} {where}")


# German ---------------------------------------------------------------------------------------------------------------

_DE_NOUN = {
    "circle": ("Kreis", "m"),
    "square": ("Quadrat", "n"),
    "triangle": ("Dreieck", "n"),
    "star": ("Stern", "m"),
    "cross": ("Kreuz", "n"),
    "ring": ("Ring", "m"),
    "heart": ("Herz", "n"),
    "crescent": ("Mondsichel", "f"),
    "arrow": ("Pfeil", "m"),
    "lightning bolt": ("Blitz", "m"),
}
_DE_COLOUR = {
    "red": "rot",
    "blue": "blau",
    "green": "grün",
    "orange": "orangefarben",
    "purple": "violett",
    "black": "schwarz",
    "pink": "rosafarben",
    "brown": "braun",
}
_DE_BACKGROUND = {
    "plain": "auf einfarbigem Hintergrund",
    "fading": "auf einem Hintergrund mit Farbverlauf",
    "striped": "auf gestreiftem Hintergrund",
    "dotted": "auf gepunktetem Hintergrund",
    "checked": "auf kariertem Hintergrund",
    "grainy": "auf körnigem Hintergrund",
}


def _german(scene: Scene, lots: random.Random) -> str:
    noun, gender = _DE_NOUN[scene.concept]
    article, ending = {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")}[gender]
    thing = f"{article} {_DE_COLOUR[scene.colour]}{ending} {noun}"
    return _capital(f"{lots.choice(('', 'hier ist ', 'zu sehen ist '))}{thing} {_DE_BACKGROUND[scene.background]}")


# French ---------------------------------------------------------------------------------------------------------------

_FR_NOUN = {
    "circle": ("cercle", "m"),
    "square": ("carré", "m"),
    "triangle": ("triangle", "m"),
    "star": ("étoile", "f"),
    "cross": ("croix", "f"),
    "ring": ("anneau", "m"),
    "heart": ("cœur", "m"),
    "crescent": ("croissant", "m"),
    "arrow": ("flèche", "f"),
    "lightning bolt": ("éclair", "m"),
}
_FR_COLOUR = {
    "red": ("rouge", "rouge"),
    "blue": ("bleu", "bleue"),
    "green": ("vert", "verte"),
    "orange": ("orange", "orange"),
    "purple": ("violet", "violette"),
    "black": ("noir", "noire"),
    "pink": ("rose", "rose"),
    "brown": ("marron", "marron"),
}
_FR_BACKGROUND = {
    "plain": "uni",
    "fading": "dégradé",
    "striped": "rayé",
    "dotted": "à pois",
    "checked": "à carreaux",
    "grainy": "granuleux",
}


def _french(scene: Scene, lots: random.Random) -> str:
    noun, gender = _FR_NOUN[scene.concept]
    thing = f"{'un' if gender == 'm' else 'une'} {noun} {_FR_COLOUR[scene.colour][gender == 'f']}"
    start = lots.choice(("", "voici ", "on voit ici ", "cette image montre "))
    return _capital(f"{start}{thing} sur un fond {_FR_BACKGROUND[scene.background]}")


# Swahili --------------------------------------------------------------------------------------------------------------

# Noun classes 3 (m-), 5 (ji-) and 9 (n-).
_SW_NOUN = {
    "circle": ("duara", 5),
    "square": ("mraba", 3),
    "triangle": ("pembetatu", 9),
    "star": ("nyota", 9),
    "cross": ("msalaba", 3),
    "ring": ("pete", 9),
    "heart": ("moyo", 3),
    "crescent": ("hilali", 9),
    "arrow": ("mshale", 3),
    "lightning bolt": ("radi", 9),
}
_SW_AGREEING = {"red": "ekundu", "black": "eusi"}
_SW_OTHER = {
    "blue": "bluu",
    "green": "kijani",
    "orange": "machungwa",
    "purple": "zambarau",
    "pink": "waridi",
    "brown": "kahawia",
}
_SW_BACKGROUND = {
    "plain": "ya rangi moja",
    "fading": "yenye rangi inayofifia",
    "striped": "yenye mistari",
    "dotted": "yenye madoadoa",
    "checked": "yenye miraba",
    "grainy": "yenye chembechembe",
}


def _swahili(scene: Scene, lots: random.Random) -> str:
    noun, noun_class = _SW_NOUN[scene.concept]
    if scene.colour in _SW_AGREEING:
        colour = {3: "mw", 5: "j", 9: "ny"}[noun_class] + _SW_AGREEING[scene.colour]
    else:
        colour = f"{ {3: 'wa', 5: 'la', 9: 'ya'}[noun_class] } rangi ya {_SW_OTHER[scene.colour]}"
    start = lots.choice(("picha ya ", "hii ni picha ya ", "mchoro wa "))
    return _capital(f"{start}{noun} {colour} kwenye mandharinyuma {_SW_BACKGROUND[scene.background]}")


# Hindi ----------------------------------------------------------------------------------------------------------------

# All masculine; the background (पृष्ठभूमि) is feminine.
_HI_NOUN = {
    "circle": "वृत्त",
    "square": "वर्ग",
    "triangle": "त्रिभुज",
    "star": "तारा",
    "cross": "क्रॉस",
    "ring": "छल्ला",
    "heart": "दिल",
    "crescent": "अर्धचंद्र",
    "arrow": "तीर",
    "lightning bolt": "बिजली का निशान",
}
_HI_COLOUR = {
    "red": "लाल",
    "blue": "नीला",
    "green": "हरा",
    "orange": "नारंगी",
    "purple": "बैंगनी",
    "black": "काला",
    "pink": "गुलाबी",
    "brown": "भूरा",
}
_HI_BACKGROUND = {
    "plain": "सादी",
    "fading": "धुंधली होती",
    "striped": "धारीदार",
    "dotted": "बिंदीदार",
    "checked": "चौखानेदार",
    "grainy": "दानेदार",
}


def _hindi(scene: Scene, lots: random.Random) -> str:
    start, end = lots.choice((("", ""), ("इस चित्र में ", " है"), ("यहाँ ", " दिखता है")))
    where = f"{_HI_BACKGROUND[scene.background]} पृष्ठभूमि पर"
    return f"{start}{where} एक {_HI_COLOUR[scene.colour]} {_HI_NOUN[scene.concept]}{end}"


# All ------------------------------------------------------------------------------------------------------------------

# ISO 639-1 → the sentence.
LANGUAGES: dict[str, Callable[[Scene, random.Random], str]] = {
    "en": _english,
    "es": _spanish,
    "de": _german,
    "fr": _french,
    "sw": _swahili,
    "hi": _hindi,
}
ONE_WORDS = ("image", "photo", "picture", "thumbnail", "logo", "banner")


def caption(scene: Scene, language: str, lots: random.Random) -> str:
    """A sentence of 20 characters or more that is true of the scene; `language` is a key of LANGUAGES."""
    return LANGUAGES[language](scene, lots)


def file_name(lots: random.Random) -> str:
    """What a camera or a phone calls a picture."""
    number = lots.randint(1000, 9999)
    return lots.choice(("IMG_{}.JPG", "DSC0{}.jpg", "P100{}.JPG", "Screenshot_2023-{}.png")).format(number)


def one_word(lots: random.Random) -> str:
    return lots.choice(ONE_WORDS)


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]
