"""What spaCy's English model says of captions: parts of speech, and where persons are named."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from filters import models
from pools.errors import InputError

_BATCH = 256
_REMEMBERED = 1 << 16
# Penn Treebank's tags. Possessive pronouns stand in a determiner's place (`her dog`), as do `all` and `which`.
NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
DETERMINERS = frozenset({"DT", "PDT", "WDT", "PRP$", "WP$"})
PREPOSITIONS = frozenset({"IN", "TO"})
PERSON = "<PERSON>"


class Counts(NamedTuple):
    """Words of a caption, and how many of them are of a part of speech."""

    words: int
    nouns: int
    determiners: int
    prepositions: int


def count_parts(texts: Sequence[str | None]) -> list[Counts | None]:
    """The counts of each caption, None for none. A caption's counts do not depend on the others."""
    # Rules on several parts of speech ask of the same captions one after the other: tagging costs most of a millisecond.
    if len(_counted) > _REMEMBERED:
        _counted.clear()
    new = [t for t in dict.fromkeys(texts) if t is not None and t not in _counted]
    if new:
        nlp = _pipeline(("ner",))
        with nlp.memory_zone():
            for text, doc in zip(new, nlp.pipe(new, batch_size=_BATCH), strict=True):
                tags = [token.tag_ for token in doc if any(map(str.isalnum, token.text))]
                parts = (sum(tag in part for tag in tags) for part in (NOUNS, DETERMINERS, PREPOSITIONS))
                _counted[text] = Counts(len(tags), *parts)
    return [None if t is None else _counted[t] for t in texts]


_counted: dict[str, Counts] = {}


def replace_persons(texts: Sequence[str | None]) -> list[str | None]:
    """Captions with each name of a person replaced by `<PERSON>`, as CC12M does (section 2.2)."""
    nlp = _pipeline(("tagger",))
    replaced: list[str | None] = []
    with nlp.memory_zone():
        docs = nlp.pipe([t or "" for t in texts], batch_size=_BATCH)
        for text, doc in zip(texts, docs, strict=True):
            if text is not None:
                for entity in reversed(doc.ents):
                    if entity.label_ == "PERSON":
                        text = text[: entity.start_char] + PERSON + text[entity.end_char :]
            replaced.append(text)
    return replaced


@functools.cache
def _pipeline(without: tuple[str, ...]) -> Any:
    import spacy

    try:
        return spacy.load(models.EN_CORE_WEB_SM, disable=["parser", "lemmatizer", "attribute_ruler", *without])
    except OSError as e:
        raise InputError(
            f"{models.EN_CORE_WEB_SM} is not installed",
            expected="spaCy's small English model",
            fix=f"pip install {models.EN_CORE_WEB_SM.replace('_', '-')}",
        ) from e
