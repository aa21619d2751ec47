"""Rules on the language of the caption."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays, lid, models
from filters.mixture import language_of
from filters.registry import register

_CODE = re.compile("[a-z]{2,3}")
_CLD3_CODE = re.compile("[a-z]{2,3}(-Latn)?")


@register("language")
@dataclass(frozen=True)
class Language:
    """Captions whose most likely language is one of `is`, by fastText's lid.176 or by CLD3.

    An empty caption is `und`, a null one is not judged. DataComp (section 3): `en`. `model` is a path to lid.176.bin or
    .ftz, for which line breaks become spaces; left as it is, the .ftz that ships in a package; `cld3` is Google's CLD3 over
    the first 1000 bytes, four times as slow, whose codes are its own (Hebrew is `iw`, Pinyin `zh-Latn`): DataComp's LAION-2B
    filter. `fold_case` judges the lower-case form, which helps captions in capitals and is not what DataComp does.
    """

    is_: tuple[str, ...]
    model: str = field(default=models.LID_176_FTZ, metadata={"file": True})
    min_score: float | None = None
    fold_case: bool = False
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        if not self.is_:
            raise ValueError("`is` is empty; expected language codes, such as en")
        pattern = _CLD3_CODE if self.model == models.CLD3 else _CODE
        if wrong := [code for code in self.is_ if not pattern.fullmatch(code)]:
            raise ValueError(f"language {wrong[0]!r}; expected a code of two or three small letters, such as en")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return self._mask(batch["text"], *self._predict(batch["text"]))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        labels, scores = self._predict(batch["text"])
        return _said(labels, scores, arrays.numpy(batch["text"].is_null()))

    def judge(self, batch: pa.RecordBatch) -> tuple[pa.BooleanArray, pa.Array]:
        """Mask and values at once, as finding a language is what takes the time; the values are of the rows that go."""
        labels, scores = self._predict(batch["text"])
        mask = self._mask(batch["text"], labels, scores)
        return mask, _said(labels, scores, arrays.numpy(mask.fill_null(arrays.TRUE)))

    def _mask(self, texts: pa.Array, labels: NDArray[np.str_], scores: NDArray[np.float32]) -> pa.BooleanArray:
        good = np.isin(labels, self.is_)
        if self.min_score is not None:
            good &= scores >= np.float32(self.min_score)
        return arrays.booleans(good, arrays.numpy(texts.is_null()))

    def _predict(self, texts: pa.Array) -> tuple[NDArray[np.str_], NDArray[np.float32]]:
        if self.fold_case:
            texts = arrays.strings([(t or "").lower() for t in texts.to_pylist()])
        return lid.identify(texts, self.model)


def _said(labels: NDArray[np.str_], scores: NDArray[np.float32], without: NDArray[np.bool_]) -> pa.Array:
    """(n,) `en 0.912`, null where `without` says so."""
    found = zip(labels.tolist(), scores.tolist(), without.tolist(), strict=True)
    return arrays.strings([None if skip else f"{label} {score:.3f}" for label, score, skip in found])


@register("stated_language")
@dataclass(frozen=True)
class StatedLanguage:
    """Rows whose page states that it is in one of the languages `is`; where it states none, a row is not judged.

    The language is the first subtag of `column`, in small letters (`en-GB` and `en,es` are en), replaced codes by their newer
    ones (`iw` is he). WebLI-100B (section 3): the languages of its subsets are those that pages state.
    """

    is_: tuple[str, ...]
    column: str = "content_language"

    def __post_init__(self) -> None:
        if not self.is_ or not all(map(_CODE.fullmatch, self.is_)):
            raise ValueError("`is` takes codes of two or three small letters, such as en")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        wanted = set(map(language_of, self.is_))
        stated = batch[self.column].cast(pa.string()).dictionary_encode()
        languages = map(language_of, stated.dictionary.to_pylist())
        return pa.array([language in wanted if language else None for language in languages], pa.bool_()).take(stated.indices)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column]
