"""WordNet as far as filters ask it: the base forms of a word, and the first synset that it names."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filters import models
from pools.errors import InputError

# Parts of speech in the order in which a word is looked up, with the ending of their files.
POS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
FILES = tuple(f"{kind}.{pos}" if kind == "index" else f"{pos}.{kind}" for pos in POS.values() for kind in ("index", "exc"))
# What WordNet's manual, morphy(7WN), takes off the end of a word and puts in its place.
ENDINGS = {
    "n": (
        *(("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh")),
        *(("men", "man"), ("ies", "y")),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
_ENDS = {pos: tuple(ending for ending, _ in pairs) for pos, pairs in ENDINGS.items()}
_LAST_LETTERS = frozenset(ending[-1] for endings in _ENDS.values() for ending in endings)


@dataclass(frozen=True)
class WordNet:
    """`first[pos][lemma]`: offset of the lemma's first synset; `irregular[pos][form]`: base forms of an irregular form."""

    first: dict[str, dict[str, int]]
    irregular: dict[str, dict[str, list[str]]]

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """All lemmas and irregular forms."""
        return frozenset().union(*self.first.values(), *self.irregular.values())

    def base_forms(self, word: str, pos: str) -> list[str]:
        """Lemmas of one part of speech that a word in small letters may be a form of, best first.

        An irregular form has those its list names and no other. Else endings are taken off once or, while nothing is found,
        again; the word itself comes first.
        """
        lemmas = self.first[pos]
        if not word.endswith(_ENDS[pos]) and word not in self.irregular[pos]:
            return [word] if word in lemmas else []
        if (listed := self.irregular[pos].get(word)) is not None:
            return [form for form in dict.fromkeys([word, *listed]) if form in lemmas]
        cut = list(_cut([word], pos))
        found = [form for form in dict.fromkeys([word, *cut]) if form in lemmas]
        while not found and cut:
            cut = list(_cut(cut, pos))
            found = [form for form in dict.fromkeys(cut) if form in lemmas]
        return found

    def first_synset(self, word: str) -> tuple[str, int] | None:
        """(part of speech, offset) of the first synset of a word: nouns before verbs, adjectives, adverbs. None: no such word.

        The order in which NLTK lists them, which DataComp's code takes the first of.
        """
        word = word.lower()
        if word[-1:] not in _LAST_LETTERS and word not in self.words:
            return None  # as most words of other languages
        for pos in POS:
            if (offset := self.first[pos].get(word)) is not None:
                return pos, offset  # a lemma is the first of its own base forms
            if forms := self.base_forms(word, pos):
                return pos, self.first[pos][forms[0]]
        return None


def _cut(forms: list[str], pos: str) -> Iterator[str]:
    for form in forms:
        for ending, instead in ENDINGS[pos]:
            if form.endswith(ending):
                yield form[: len(form) - len(ending)] + instead


@functools.cache
def load(path: str) -> WordNet:
    """WordNet's `index.*` and `*.exc` files in a folder, or the ones that a name stands for. Raises InputError."""
    folder = Path(models.packaged(path) if path in models.PACKAGED else path)
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise InputError(f"no file {missing[0]}", where=folder, expected=f"WordNet's database: {', '.join(FILES)}")
    files = {name: (folder / name).read_bytes() for name in FILES}
    if path in models.PACKAGED and hashlib.sha256(b"".join(files.values())).hexdigest() != models.SHA256[path]:
        raise InputError("not the files that were expected", where=folder, expected=f"SHA-256 {models.SHA256[path]}")
    try:
        first = {p: dict(map(_entry, _lines(files[f"index.{name}"]))) for p, name in POS.items()}
    except (ValueError, IndexError) as e:
        raise InputError(f"unreadable: {e}", where=folder, expected="WordNet's index files") from e
    irregular = {p: {w[0]: w[1:] for w in map(str.split, _lines(files[f"{name}.exc"]))} for p, name in POS.items()}
    return WordNet(first, irregular)


def _lines(data: bytes) -> list[str]:
    """Lines without the licence, whose lines begin with a blank."""
    return [line for line in data.decode("utf-8").splitlines() if line.strip() and not line.startswith(" ")]


def _entry(line: str) -> tuple[str, int]:
    """Of `lemma pos synsets pointers … sense_count tagged offset…`: the lemma and the first offset."""
    lemma, _, count, rest = line.split(" ", 3)
    # Offsets have eight digits each and a blank between them; splitting all of a line takes twice as long.
    offset = rest.rstrip()[1 - 9 * int(count) :][:8]
    if len(offset) == 8 and offset.isdecimal():
        return lemma, int(offset)
    return lemma, int(rest.split()[-int(count)])
