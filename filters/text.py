"""Rules on the caption's length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays, models
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
        texts = batch["text"]
        mask = _within(arrays.numpy(pc.utf8_length(texts)), self.min_chars, self.max_chars)
        if self.min_words is not None or self.max_words is not None:
            mask &= _within(self._words(texts.to_pylist()), self.min_words, self.max_words)
        return arrays.booleans(mask, arrays.numpy(texts.is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        texts = batch["text"].to_pylist()
        words = self._words(texts).tolist()
        return arrays.strings(
            [None if t is None else f"{n} words, {len(t)} characters" for t, n in zip(texts, words, strict=True)]
        )

    def _words(self, texts: Sequence[str | None]) -> NDArray[np.int64]:
        """(n,) numbers of words; 0 of a null caption."""
        # str.split and not Arrow's split: the two differ on which characters are white space (U+001C … U+001F).
        split: Callable[[str], list[str]] = models.fasttext_tokenize if self.tokenizer == "fasttext" else str.split
        return np.fromiter((0 if t is None else len(split(t)) for t in texts), np.int64, len(texts))


def _within(values: NDArray[Any], least: int | None, most: int | None) -> NDArray[np.bool_]:
    mask = np.ones(len(values), bool)
    if least is not None:
        mask &= values >= least
    if most is not None:
        mask &= values <= most
    return mask
