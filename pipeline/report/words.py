"""How numbers and names are written in a report."""

from __future__ import annotations

import re

LONGEST = 200  # characters of a caption or address in a table
# English names of languages, by the codes that detectors and pages use.
_LANGUAGES = """
af Afrikaans|sq Albanian|am Amharic|ar Arabic|an Aragonese|hy Armenian|as Assamese|ast Asturian|az Azerbaijani
ba Bashkir|eu Basque|be Belarusian|bn Bengali|bs Bosnian|br Breton|bg Bulgarian|my Burmese|ca Catalan|ceb Cebuano
ckb Central Kurdish|zh Chinese|cv Chuvash|kw Cornish|hr Croatian|cs Czech|da Danish|nl Dutch|en English|eo Esperanto
et Estonian|fil Filipino|fi Finnish|fr French|fy Frisian|gl Galician|ka Georgian|de German|el Greek|gn Guarani
gu Gujarati|ht Haitian|ha Hausa|he Hebrew|hi Hindi|hu Hungarian|is Icelandic|io Ido|ig Igbo|id Indonesian|ia Interlingua
ga Irish|it Italian|ja Japanese|jv Javanese|kn Kannada|kk Kazakh|km Khmer|rw Kinyarwanda|ko Korean|ku Kurdish|ky Kyrgyz
lo Lao|la Latin|lv Latvian|lt Lithuanian|lmo Lombard|nds Low German|lb Luxembourgish|mk Macedonian|mg Malagasy|ms Malay
ml Malayalam|mt Maltese|mi Māori|mr Marathi|mn Mongolian|ne Nepali|no Norwegian|nb Norwegian Bokmål|nn Norwegian Nynorsk
oc Occitan|or Odia|os Ossetian|ps Pashto|fa Persian|pms Piedmontese|pl Polish|pt Portuguese|pa Punjabi|qu Quechua
ro Romanian|rm Romansh|ru Russian|sa Sanskrit|gd Scottish Gaelic|sr Serbian|sh Serbo-Croatian|sn Shona|sd Sindhi
si Sinhala|sk Slovak|sl Slovenian|so Somali|es Spanish|su Sundanese|sw Swahili|sv Swedish|tg Tajik|ta Tamil|tt Tatar
te Telugu|th Thai|bo Tibetan|tr Turkish|tk Turkmen|uk Ukrainian|hsb Upper Sorbian|ur Urdu|ug Uyghur|uz Uzbek
vi Vietnamese|vo Volapük|war Waray|cy Welsh|xh Xhosa|sah Yakut|yi Yiddish|yo Yoruba|zu Zulu|und not told by a detector
"""
_NAMES = dict(entry.split(" ", 1) for line in _LANGUAGES.split("\n") for entry in line.split("|") if entry)


def language(code: str) -> str:
    """`de German`; a code that is not known stands alone."""
    name = _NAMES.get(code)
    return f"{code} {name}" if name else code


def percent(part: float, whole: float) -> float | None:
    """A share in %, as tables hold it; None of nothing."""
    return round(100 * part / whole, 3) if whole else None


def said(part: float, whole: float) -> str:
    """A share in words: `12.3 %`, with more digits where it is small."""
    if not whole:
        return "–"
    share = 100 * part / whole
    return f"{share:.1f} %" if share >= 1 or share == 0 else f"{share:.2g} %"


def cut(text: str) -> str:
    """A text that may be long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… {len(text) - LONGEST:,} more characters"


def slug(text: str) -> str:
    """A name as files and fragments of links can have it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
