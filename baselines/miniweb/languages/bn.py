"""Bengali: no agreement and no plural after a number, which carries the classifier -ṭi instead."""

from __future__ import annotations

from baselines.miniweb.languages.language import Language

_NOUNS = {
    "circle": "বৃত্ত",
    "square": "বর্গ",
    "triangle": "ত্রিভুজ",
    "star": "তারা",
    "cross": "ক্রস",
    "ring": "আংটি",
    "heart": "হৃদয়",
    "crescent": "অর্ধচন্দ্র",
    "arrow": "তীর",
    "lightning bolt": "বজ্র",
    "spiral": "প্যাঁচ",
    "lotus": "পদ্ম",
    "drum": "ঢোল",
    "kite": "ঘুড়ি",
}
_COLOURS = {
    "red": "লাল",
    "blue": "নীল",
    "green": "সবুজ",
    "orange": "কমলা",
    "purple": "বেগুনি",
    "pink": "গোলাপি",
    "brown": "বাদামি",
    "black": "কালো",
}


def phrase(concept: str, colour: str) -> str:
    return f"{_COLOURS[colour]} {_NOUNS[concept]}"


def counted(concept: str, colour: str, count: int) -> str:
    return f"{ {1: 'একটি', 2: 'দুটি', 3: 'তিনটি'}[count] } {phrase(concept, colour)}"


BENGALI = Language(
    code="bn",
    name="Bengali",
    phrase=phrase,
    counted=counted,
    plurals=_NOUNS,
    grounds={
        "plain": "একরঙা",
        "fading": "ক্রমে হালকা",
        "striped": "ডোরাকাটা",
        "dotted": "ফুটকি আঁকা",
        "checked": "চেক কাটা",
        "grainy": "দানাদার",
    },
    templates=("ছবিতে {c} আঁকা আছে", "{c}, হাতে আঁকা ছবি", "{c} – সুন্দর রঙিন ছবি"),
    frames=(
        "ছবিতে {thing} আছে",
        "{thing} আঁকা আছে",
        "{thing}, হাতে আঁকা ছবি",
        "{thing} – ছাপার জন্য ছবি",
        "{thing}, সুন্দর রঙিন ছবি",
    ),
    grounded=(
        "{thing}, {ground} পটভূমি",
        "{c}, {ground} পটভূমিতে",
        "{thing} {ground} পটভূমিতে",
        "{c}, {ground} পটভূমি, ছবি",
    ),
    titles=("{plural} – ছবির গ্যালারি", "{plural}: ছবি ও পোস্টার", "হাতে আঁকা ছবি: {plural}"),
)
