"""The languages of the made-up web, five that the real web is full of and seven that it has little of.

fastText's lid.176 knows all but Maori, which it has no label for; Filipino goes there by the label `tl`.
"""

from __future__ import annotations

from baselines.miniweb.languages.bn import BENGALI
from baselines.miniweb.languages.de import GERMAN
from baselines.miniweb.languages.en import ENGLISH
from baselines.miniweb.languages.es import SPANISH
from baselines.miniweb.languages.fil import FILIPINO
from baselines.miniweb.languages.fr import FRENCH
from baselines.miniweb.languages.he import HEBREW
from baselines.miniweb.languages.hi import HINDI
from baselines.miniweb.languages.language import Language
from baselines.miniweb.languages.mi import MAORI
from baselines.miniweb.languages.ru import RUSSIAN
from baselines.miniweb.languages.sw import SWAHILI
from baselines.miniweb.languages.te import TELUGU

__all__ = ["HIGH", "LANGUAGES", "LOW", "Language"]

# In order of their share of the web, largest first.
LANGUAGES: dict[str, Language] = {
    language.code: language
    for language in (
        ENGLISH,
        SPANISH,
        RUSSIAN,
        GERMAN,
        FRENCH,
        HINDI,
        HEBREW,
        BENGALI,
        FILIPINO,
        SWAHILI,
        TELUGU,
        MAORI,
    )
}
HIGH = ("en", "es", "ru", "de", "fr")
LOW = ("hi", "he", "bn", "fil", "sw", "te", "mi")
