"""Rules on caption and image together, by the words that name what the image shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pyarrow as pa

from filters import models, wordnet
from filters.registry import register

_WORD = re.compile(r"[^\W\d_]+")


@register("label_overlap")
@dataclass(frozen=True)
class LabelOverlap:
    """Captions that share a word, or a base form of one, with a label of their image.

    The labels are those of `column`, a list of texts or one text with commas; base forms are WordNet's. Null captions and
    null labels are not judged. CC3M (section 3.3) takes labels of a commercial classifier and stems words.
    """

    column: str = "labels"
    wordnet: str = field(default=models.WORDNET_30, metadata={"file": True})

    @property
    def needs(self) -> tuple[str, ...]:
        return ("text", self.column)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pa.array([None if words is None else bool(words) for words in self._shared(batch)], pa.bool_())

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """The words that they share; else the labels."""
        said = [
            None if words is None else " ".join(sorted(words)) or f"not {_joined(labels)}"
            for words, labels in zip(self._shared(batch), batch[self.column].to_pylist(), strict=True)
        ]
        return pa.array(said, pa.string())

    def _shared(self, batch: pa.RecordBatch) -> list[set[str] | None]:
        pairs = zip(batch["text"].to_pylist(), batch[self.column].to_pylist(), strict=True)
        return [None if t is None or ls is None else self._forms(t) & self._forms(_joined(ls)) for t, ls in pairs]

    def _forms(self, text: str) -> set[str]:
        known = wordnet.load(self.wordnet)
        words = set(_WORD.findall(text.lower()))
        return words.union(*(known.base_forms(word, pos) for word in words for pos in wordnet.POS))


def _joined(labels: str | list[str | None]) -> str:
    return labels if isinstance(labels, str) else ", ".join(label for label in labels if label)
