"""Rules on the language of the caption."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import models
from filters.registry import register


@register("language")
@dataclass(frozen=True)
class Language:
    """Captions whose most likely language, by fastText's lid.176, is one of `is`.

    Line breaks become spaces first; an empty caption is `und`, a null one is not judged. DataComp (section 3): `en`.
    `model` is a path to lid.176.bin or .ftz; left as it is, the .ftz that ships in a package. `fold_case` judges the
    lower-case form, which helps captions in capitals and is not what DataComp does.
    """

    is_: tuple[str, ...]
    model: str = field(default=models.LID_176_FTZ, metadata={"file": True})
    min_score: float | None = None
    fold_case: bool = False
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if not self.is_:
            raise ValueError("`is` is empty; expected language codes, such as en")
        if wrong := [code for code in self.is_ if not 2 <= len(code) <= 3 or not code.isascii() or not code.islower()]:
            raise ValueError(f"language {wrong[0]!r}; expected a code of two or three small letters, such as en")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        labels, scores = self._predict(batch["text"])
        good = np.isin(labels, self.is_)
        if self.min_score is not None:
            good &= scores >= np.float32(self.min_score)
        return pa.array(good, mask=batch["text"].is_null().to_numpy(zero_copy_only=False))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        labels, scores = self._predict(batch["text"])
        said = [f"{label} {score:.3f}" for label, score in zip(labels, scores, strict=True)]
        return pa.array(said, pa.string(), mask=batch["text"].is_null().to_numpy(zero_copy_only=False))

    def _predict(self, texts: pa.Array) -> tuple[NDArray[np.str_], NDArray[np.float32]]:
        captions = [t or "" for t in texts.to_pylist()]
        return models.identify_languages([c.lower() if self.fold_case else c for c in captions], self.model)
