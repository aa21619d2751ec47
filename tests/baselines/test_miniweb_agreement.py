"""Noun phrases in twelve languages: gender or noun class, case and number."""

from __future__ import annotations

import pytest

from baselines.miniweb.languages import LANGUAGES, Language

every_language = pytest.mark.parametrize("language", LANGUAGES.values(), ids=list(LANGUAGES))

# Worked out by hand.
PHRASES = {
    "en": {("star", "red"): "red star", ("lightning bolt", "black"): "black lightning bolt"},
    "es": {
        ("star", "red"): "estrella roja",
        ("heart", "purple"): "corazón morado",
        ("crescent", "black"): "media luna negra",
        ("spiral", "brown"): "espiral marrón",
    },
    "ru": {
        ("star", "red"): "красная звезда",
        ("ring", "blue"): "синее кольцо",
        ("circle", "green"): "зелёный круг",
        ("arrow", "blue"): "синяя стрелка",
        ("kite", "red"): "красный воздушный змей",
    },
    "de": {
        ("star", "red"): "roter Stern",
        ("heart", "orange"): "orangefarbenes Herz",
        ("drum", "pink"): "rosafarbene Trommel",
    },
    "fr": {
        ("star", "green"): "étoile verte",
        ("star", "brown"): "étoile marron",
        ("cross", "purple"): "croix violette",
        ("heart", "black"): "cœur noir",
    },
    "hi": {
        ("star", "blue"): "नीला तारा",
        ("lightning bolt", "blue"): "नीली बिजली",
        ("kite", "black"): "काली पतंग",
        ("heart", "red"): "लाल दिल",
    },
    "he": {("star", "red"): "כוכב אדום", ("ring", "black"): "טבעת שחורה", ("spiral", "brown"): "ספירלה חומה"},
    "bn": {("star", "red"): "লাল তারা", ("lotus", "blue"): "নীল পদ্ম"},
    "fil": {("star", "red"): "pulang bituin", ("heart", "blue"): "asul na puso", ("kite", "brown"): "kayumangging saranggola"},
    "sw": {
        ("star", "red"): "nyota nyekundu",
        ("circle", "red"): "duara jekundu",
        ("heart", "black"): "moyo mweusi",
        ("lotus", "blue"): "yungiyungi la rangi ya bluu",
        ("arrow", "green"): "mshale wa rangi ya kijani",
    },
    "te": {("star", "red"): "ఎర్ర నక్షత్రం", ("heart", "orange"): "నారింజ రంగు హృదయం"},
    "mi": {("star", "red"): "whetū whero", ("kite", "blue"): "manu tukutuku kikorangi"},
}
COUNTED = {
    "en": {
        ("circle", "orange", 1): "an orange circle",
        ("cross", "red", 2): "two red crosses",
        ("lotus", "blue", 3): "three blue lotuses",
    },
    "es": {
        ("star", "red", 1): "una estrella roja",
        ("circle", "red", 1): "un círculo rojo",
        ("cross", "blue", 2): "dos cruces azules",
        ("heart", "brown", 3): "tres corazones marrones",
        ("crescent", "purple", 3): "tres medias lunas moradas",
    },
    "ru": {
        ("star", "red", 1): "красная звезда",
        ("star", "red", 2): "две красные звезды",
        ("circle", "red", 2): "два красных круга",
        ("ring", "blue", 2): "два синих кольца",
        ("arrow", "blue", 3): "три синие стрелки",
        ("kite", "green", 3): "три зелёных воздушных змея",
    },
    "de": {
        ("star", "red", 1): "ein roter Stern",
        ("crescent", "red", 1): "eine rote Mondsichel",
        ("heart", "red", 1): "ein rotes Herz",
        ("star", "red", 2): "zwei rote Sterne",
        ("kite", "blue", 3): "drei blaue Papierdrachen",
    },
    "fr": {
        ("star", "green", 1): "une étoile verte",
        ("cross", "blue", 2): "deux croix bleues",
        ("ring", "orange", 2): "deux anneaux orange",
        ("kite", "black", 3): "trois cerfs-volants noirs",
    },
    "hi": {
        ("star", "blue", 1): "एक नीला तारा",
        ("star", "blue", 2): "दो नीले तारे",
        ("lightning bolt", "green", 3): "तीन हरी बिजलियाँ",
        ("circle", "black", 2): "दो काले वृत्त",
    },
    "he": {
        ("star", "red", 1): "כוכב אדום",
        ("star", "red", 2): "שני כוכבים אדומים",
        ("arrow", "orange", 2): "שני חיצים כתומים",
        ("ring", "red", 2): "שתי טבעות אדומות",
        # Masculine for all its ending.
        ("heart", "blue", 3): "שלושה לבבות כחולים",
        ("spiral", "black", 3): "שלוש ספירלות שחורות",
    },
    "bn": {
        ("star", "red", 1): "একটি লাল তারা",
        ("star", "red", 2): "দুটি লাল তারা",
        ("drum", "black", 3): "তিনটি কালো ঢোল",
    },
    "fil": {
        ("star", "red", 1): "isang pulang bituin",
        ("star", "black", 2): "dalawang itim na bituin",
        ("drum", "green", 3): "tatlong berdeng tambol",
    },
    "sw": {
        ("star", "red", 2): "nyota nyekundu mbili",
        ("star", "blue", 3): "nyota tatu za rangi ya bluu",
        ("circle", "red", 2): "maduara mekundu mawili",
        ("lotus", "pink", 3): "mayungiyungi matatu ya rangi ya waridi",
        ("square", "black", 3): "miraba myeusi mitatu",
        ("heart", "brown", 2): "mioyo miwili ya rangi ya kahawia",
    },
    "te": {
        ("star", "red", 1): "ఒక ఎర్ర నక్షత్రం",
        ("star", "red", 2): "రెండు ఎర్ర నక్షత్రాలు",
        ("drum", "blue", 3): "మూడు నీలి డోళ్లు",
    },
    "mi": {
        ("star", "red", 1): "he whetū whero",
        ("star", "red", 2): "e rua ngā whetū whero",
        ("drum", "black", 3): "e toru ngā pahū pango",
    },
}


@every_language
def test_class_names_and_counted_things_agree(language: Language) -> None:
    assert {what: language.phrase(*what) for what in PHRASES[language.code]} == PHRASES[language.code]
    assert {what: language.counted(*what) for what in COUNTED[language.code]} == COUNTED[language.code]


def test_german_accusative_differs_in_the_masculine_singular_alone() -> None:
    german = LANGUAGES["de"]
    assert german.accusative is not None
    assert german.accusative("kite", "blue", 1) == "einen blauen Papierdrachen"
    assert german.accusative("spiral", "blue", 1) == "eine blaue Spirale"
    assert german.accusative("heart", "blue", 1) == "ein blaues Herz"
    assert german.accusative("star", "blue", 2) == "zwei blaue Sterne"
