"""Rules on what a caption names: words that WordNet knows."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa

from filters import models, wordnet
from filters.registry import register
from pools import store
from pools.errors import InputError

_WNID = re.compile(r"[nvar][0-9]{8}")
_WORDS_REMEMBERED = 1 << 20


@register("text_entity")
@dataclass(frozen=True)
class TextEntity:
    """Captions with a word whose first synset in WordNet 3.0 is among `synsets`; a null caption is not judged.

    Words are cut at white space, so `dog,` is none. The first synset of a word is that of its noun, else of its verb,
    adjective or adverb, after endings are taken off. DataComp (section 3, text-based): ImageNet-21K. As in its code, only
    the offset of a synset is compared, so that a few verbs and adjectives count whose offset is that of a noun of
    ImageNet-21K; `same_pos` asks for the part of speech too. `synsets` is a file of synsets such as n02084071, one a line;
    `wordnet` a folder of WordNet's database. Left as they are, those that ship in packages.
    """

    synsets: str = field(default=models.IMAGENET_21K, metadata={"file": True})
    wordnet: str = field(default=models.WORDNET_30, metadata={"file": True})
    same_pos: bool = False
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        hits = _hits(self.synsets, self.wordnet, self.same_pos)
        # The words are looked up by map and any, which no line of Python goes through.
        mask = [None if t is None else any(map(hits.__getitem__, t.split())) for t in batch["text"].to_pylist()]
        return pa.array(mask, pa.bool_())

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """The words that were found, with their synsets; empty if none is."""
        hits, known = _hits(self.synsets, self.wordnet, self.same_pos), wordnet.load(self.wordnet)
        found: list[str | None] = []
        for text in batch["text"].to_pylist():
            words = [] if text is None else text.split()
            if any(map(hits.__getitem__, words)):
                found.append(", ".join(f"{w} {_wnid(known, w)}" for w in dict.fromkeys(words) if hits[w]))
            else:  # as in all rows that are dropped, whose values are asked for
                found.append(None if text is None else "")
        return pa.array(found, pa.string())


class _Hits(dict[str, bool]):
    """Whether a word counts, worked out when first asked for; of the last million words or fewer."""

    def __init__(self, known: wordnet.WordNet, wanted: frozenset[tuple[str, int]] | frozenset[int]) -> None:
        super().__init__()
        self.known, self.wanted = known, wanted
        self.by_offset = all(isinstance(w, int) for w in wanted)

    def __missing__(self, word: str) -> bool:
        first = self.known.first_synset(word)
        if len(self) >= _WORDS_REMEMBERED:
            self.clear()
        hit = first is not None and (first[1] if self.by_offset else first) in self.wanted
        self[word] = hit
        return hit


@functools.cache
def _hits(synsets: str, path: str, same_pos: bool) -> _Hits:
    wanted = _synsets(synsets)
    return _Hits(wordnet.load(path), wanted if same_pos else frozenset(offset for _, offset in wanted))


def _synsets(path: str) -> frozenset[tuple[str, int]]:
    """The synsets of a file as (part of speech, offset). Raises InputError with the line."""
    if path in models.PACKAGED:
        path = models.checked(path)
    elif not store.exists(path):
        raise InputError("no such file of synsets", where=path, expected="synsets such as n02084071, one a line")
    found = set()
    for i, line in enumerate(store.read_lines(path), 1):
        if not (wnid := line.strip()):
            continue
        if not _WNID.fullmatch(wnid):
            raise InputError(f"{wnid[:40]!r}", where=f"{path}:{i}", expected="a synset such as n02084071")
        found.add((wnid[0], int(wnid[1:])))
    return frozenset(found)


def _wnid(known: wordnet.WordNet, word: str) -> str:
    pos, offset = known.first_synset(word) or ("n", 0)
    return f"{pos}{offset:08d}"
