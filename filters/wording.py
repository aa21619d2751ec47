"""Rules on how a caption is worded: file names, boilerplate, hashtags, repeated and capitalised words."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from filters.registry import register
from pools import store
from pools.errors import InputError

# What cameras and programs call a picture, before its number.
_CAMERA = "img|dsc[nf]?|pict?|mvi|pxl|gopr|p|image|photo|picture|screenshot|untitled|capture"


@register("file_name")
@dataclass(frozen=True)
class FileName:
    """Captions that are no name of an image file: none that ends in a dot and one of `extensions`, no camera's (IMG_2031).

    A null caption is not judged. CC3M (section 3.2) drops most of them by its rules on parts of speech, at a higher cost.
    """

    extensions: tuple[str, ...] = ("jpg", "jpeg", "png", "gif", "webp", "avif", "heic", "bmp", "tif", "tiff", "svg")
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if not self.extensions or not all(map(str.isalnum, self.extensions)):
            raise ValueError("extensions takes words such as jpg")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        name = rf"^\s*(?:(?s:.*)\.(?:{'|'.join(self.extensions)})|(?:{_CAMERA})[-_ (]*[0-9][-_ 0-9()]*)\s*$"
        return pc.invert(pc.match_substring_regex(batch["text"], name, ignore_case=True))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch["text"]


@register("boilerplate")
@dataclass(frozen=True)
class Boilerplate:
    """Captions that neither begin nor end with one of `phrases`, whole words, in whatever case; a null caption is not judged.

    CC3M (section 3.2, text-based filtering) names `click to enlarge picture`, `stock photo`, `embedded image permalink` and
    `profile photo`; the others here are forms of those.
    """

    phrases: tuple[str, ...] = (
        "click to enlarge picture",
        "click to enlarge",
        "click to enlarge image",
        "click here to enlarge",
        "click here to enlarge picture",
        "click here to enlarge image",
        "click to view larger image",
        "stock photo",
        "stock photos",
        "stock photography",
        "royalty free stock image",
        "embedded image permalink",
        "profile photo",
        "profile picture",
    )
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if not self.phrases or not all(p.split() for p in self.phrases):
            raise ValueError("phrases: a phrase is empty")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        phrases = "|".join(r"\s+".join(map(re.escape, p.split())) for p in self.phrases)
        other = r"[^\pL\pN]"
        either = rf"^{other}*(?:{phrases})(?:{other}|$)|(?:^|{other})(?:{phrases}){other}*$"
        found = pc.match_substring_regex(batch["text"], either, ignore_case=True)
        return pc.invert(found)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch["text"]


@dataclass(frozen=True)
class _Share:
    """Captions in which a kind of words makes up at most `max_ratio` of the words. A null caption is not judged."""

    max_ratio: float
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if not 0 <= self.max_ratio < 1:
            raise ValueError(f"max_ratio {self.max_ratio:g} is not in [0, 1)")

    def count(self, words: list[str]) -> int:
        raise NotImplementedError

    def words(self, text: str) -> list[str]:
        """What counts as a word: between white space, with a letter or a digit."""
        return [word for word in text.split() if word.isalnum() or any(map(str.isalnum, word))]

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return _judged(batch["text"], lambda text: self._kept(self.words(text)), pa.bool_())

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """`3 of 4 words`."""

        def said(text: str) -> str:
            words = self.words(text)
            return f"{self.count(words)} of {len(words)} words"

        return _judged(batch["text"], said, pa.string())

    def _kept(self, words: list[str]) -> bool:
        return self.count(words) <= self.max_ratio * len(words)


@register("token_repetition")
@dataclass(frozen=True)
class TokenRepetition(_Share):
    """Captions of whose words at most the share `max_ratio` stood before in the caption; case does not count.

    A word is what stands between white space and has a letter or a digit. A null caption is not judged. CC3M (section 3.2)
    drops a high rate of repetition and gives no number; CC12M (section 2.2): 0.2.
    """

    def count(self, words: list[str]) -> int:
        return len(words) - len(set(map(str.lower, words)))


@register("hashtags")
@dataclass(frozen=True)
class Hashtags(_Share):
    """Captions of whose words at most the share `max_ratio` are hashtags; a null caption is not judged.

    A word is what stands between white space and has a letter or a digit.
    """

    def count(self, words: list[str]) -> int:
        return sum(word.startswith("#") for word in words)


@register("capitals")
@dataclass(frozen=True)
class Capitals(_Share):
    """Captions of whose words at most the share `max_ratio` begin with a capital; with `first`, the first word must.

    A word is what stands between white space and has a letter or a digit. A null caption is not judged. CC3M (section 3.2):
    the first word is capitalised and not too many are (it gives no number). Captions that were made lower-case, as CC3M's
    published ones are, all fail `first`.
    """

    first: bool = False

    def count(self, words: list[str]) -> int:
        return sum(word[0].isupper() for word in words)

    def _kept(self, words: list[str]) -> bool:
        return super()._kept(words) and (not self.first or (bool(words) and words[0][0].isupper()))


@register("known_words")
@dataclass(frozen=True)
class KnownWords:
    """Captions of which every word stands in `vocabulary`, `min_count` times or more; a null caption is not judged.

    The file has a word a line, followed by its count, or without counts if all are frequent. Words are compared in small
    letters, without punctuation around them; those without a letter are not asked for. CC3M (section 3.2): 5 times in
    English Wikipedia; CC12M (section 2.2): 20.
    """

    vocabulary: str = field(metadata={"file": True})
    min_count: int = 1
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        known = _vocabulary(self.vocabulary, self.min_count)
        return _judged(batch["text"], lambda text: known.issuperset(_spelt(text)), pa.bool_())

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """The words that are rare."""
        known = _vocabulary(self.vocabulary, self.min_count)
        return _judged(batch["text"], lambda text: " ".join(w for w in _spelt(text) if w not in known), pa.string())


def _spelt(text: str) -> list[str]:
    return [word.strip("'") for word in re.findall(r"[\w'’-]+", text.lower().replace("’", "'")) if any(map(str.isalpha, word))]


@functools.cache
def _vocabulary(path: str, min_count: int) -> frozenset[str]:
    if not store.exists(path):
        raise InputError("no such vocabulary", where=path, expected="a word a line, with its count")
    words = set()
    for i, line in enumerate(store.read_lines(path), 1):
        word, *count = line.split()[:2] or [""]
        if count and not count[0].isdecimal():
            raise InputError(f"count {count[0][:20]!r}", where=f"{path}:{i}", expected="a word and a whole number")
        if word and (not count or int(count[0]) >= min_count):
            words.add(word.lower())
    return frozenset(words)


def _judged(texts: pa.Array, judge: Callable[[str], bool | str], kind: pa.DataType) -> pa.Array:
    captions: Sequence[str | None] = texts.to_pylist()
    return pa.array([None if t is None else judge(t) for t in captions], kind)
