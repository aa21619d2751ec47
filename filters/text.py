"""Rules on the caption's length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from filters import models
from filters.registry import register


@register("caption")
@dataclass(frozen=True)
class Caption:
    """Captions of `min_words` to `max_words` words and `min_chars` to `max_chars` characters, bounds included.

    Words are cut at white space, or by fastText's tokenizer; characters are code points. A null caption is not judged.
    DataComp (section 3): basic has more than 2 words and 5 characters, image-based more than 1 fastText token and 5 characters.
    """

    min_words: int | None = None
    max_words: int | None = None
    min_chars: int | None = None
    max_chars: int | None = None
    tokenizer: Literal["whitespace", "fasttext"] = "whitespace"
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        bounds = (self.min_words, self.max_words, self.min_chars, self.max_chars)
        if all(b is None for b in bounds):
            raise ValueError("no bound given; takes min_words, max_words, min_chars, max_chars")
        if any(b is not None and b < 0 for b in bounds):
            raise ValueError("a bound is negative")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        chars = pc.utf8_length(batch["text"])
        mask = pc.is_valid(batch["text"])
        mask = pc.if_else(mask, pc.and_(_at_least(chars, self.min_chars), _at_most(chars, self.max_chars)), None)
        if self.min_words is not None or self.max_words is not None:
            words = self._words(batch["text"])
            mask = pc.and_(mask, pc.and_(_at_least(words, self.min_words), _at_most(words, self.max_words)))
        return mask

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        words, chars = self._words(batch["text"]).cast(pa.string()), pc.utf8_length(batch["text"]).cast(pa.string())
        return pc.binary_join_element_wise(words, pc.binary_join_element_wise(chars, "characters", " "), " words, ")

    def _words(self, texts: pa.Array) -> pa.Array:
        # str.split and not Arrow's split: the two differ on which characters are white space (U+001C … U+001F).
        split: Callable[[str], list[str]] = models.fasttext_tokenize if self.tokenizer == "fasttext" else str.split
        return pa.array([None if t is None else len(split(t)) for t in texts.to_pylist()], pa.int64())


def _at_least(values: pa.Array, bound: int | None) -> pa.Array | pa.BooleanScalar:
    return pa.scalar(True) if bound is None else pc.greater_equal(values, bound)


def _at_most(values: pa.Array, bound: int | None) -> pa.Array | pa.BooleanScalar:
    return pa.scalar(True) if bound is None else pc.less_equal(values, bound)
