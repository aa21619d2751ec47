"""Rules on the parts of speech of a caption, as spaCy tags English."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from filters import tagging
from filters.registry import register


@dataclass(frozen=True)
class _Speech:
    """Captions with `min` words or more of a part of speech. A null caption is not judged."""

    min: int = 1
    part: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if self.min < 0:
            raise ValueError(f"min {self.min} is negative")

    def passes(self, counts: tagging.Counts) -> bool:
        found: int = getattr(counts, self.part)
        return found >= self.min

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        counted = tagging.count_parts(batch["text"].to_pylist())
        return pa.array([None if c is None else self.passes(c) for c in counted], pa.bool_())

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """`2 of 7 words`."""
        counted = tagging.count_parts(batch["text"].to_pylist())
        said = [None if c is None else f"{getattr(c, self.part)} of {c.words} words" for c in counted]
        return pa.array(said, pa.string())


@register("nouns")
@dataclass(frozen=True)
class Nouns(_Speech):
    """English captions with `min` nouns or more, names included, that are at most the share `max_ratio` of the words.

    Tagged by spaCy's en_core_web_sm, words being its tokens without punctuation; a null caption is not judged. CC3M (section
    3.2): 1, and a high ratio is dropped (it gives no number); CC12M (section 2.2): 1.
    """

    max_ratio: float | None = None
    part: ClassVar = "nouns"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_ratio is not None and not 0 < self.max_ratio <= 1:
            raise ValueError(f"max_ratio {self.max_ratio:g} is not in (0, 1]")

    def passes(self, counts: tagging.Counts) -> bool:
        return super().passes(counts) and (self.max_ratio is None or counts.nouns <= self.max_ratio * counts.words)


@register("determiners")
@dataclass(frozen=True)
class Determiners(_Speech):
    """English captions with `min` determiners or more: articles, `this`, `some`, `which`, possessives such as `her`.

    Tagged by spaCy's en_core_web_sm; a null caption is not judged. CC3M (section 3.2) and CC12M (section 2.2): 1.
    """

    part: ClassVar = "determiners"


@register("prepositions")
@dataclass(frozen=True)
class Prepositions(_Speech):
    """English captions with `min` prepositions or more, `to` and conjunctions such as `while` included.

    Tagged by spaCy's en_core_web_sm; a null caption is not judged. CC3M (section 3.2): 1.
    """

    part: ClassVar = "prepositions"
