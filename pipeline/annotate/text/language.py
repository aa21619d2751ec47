"""The language of captions, by fastText and by CLD3."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from filters import arrays, lid, models
from filters.models import CLD3, LID_176_FTZ
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored
from pipeline.models import Weights, locate

VERSION = 1


def make_language(given: dict[str, str]) -> Language:
    """Captions' languages: `language` and `language_score` by fastText, `language_cld3` by CLD3.

    Options: `model` (lid.176.ftz; lid.176.bin is the one that DataComp took) or `weights` (the path of such a file), `name`,
    `cld3=false` leaves the second opinion out, `fold_case=true` judges the lower-case form.
    """
    chosen = options.known("language", given, "model", "weights", "name", "cld3", "fold_case")
    return Language(
        chosen.get("name", "language"),
        locate(chosen.get("model", LID_176_FTZ), chosen.get("weights")),
        options.truth("language", chosen, "cld3", True),
        options.truth("language", chosen, "fold_case", False),
    )


@dataclass(frozen=True)
class Language:
    """The most likely language of a caption and its probability, as the filter `language` finds them, and CLD3's.

    Codes are the models' own: ISO 639's, in CLD3's with `iw` for Hebrew and `zh-Latn` for Pinyin. A blank text has none. Of a
    text without letters the models say what they say of nothing: `en` with 0.12, and `ja`.
    """

    name: str
    weights: Weights
    cld3: bool = True
    fold_case: bool = False
    reads: tuple[str, ...] = ("text",)
    wants_image: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        found = [pa.field(self.name, pa.string()), pa.field(f"{self.name}_score", pa.float32())]
        return (*found, *([pa.field(f"{self.name}_cld3", pa.string())] if self.cld3 else []))

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": f"fastText {os.path.basename(self.weights.path)}" + (", CLD3" if self.cld3 else ""),
            "weights_sha256": self.weights.sha256,
            "cld3": importlib.metadata.version("cld3-py") if self.cld3 else None,
            "fold_case": self.fold_case,
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> LanguageModel:
        model = LanguageModel(self)
        model.annotate(["a"])  # a file that is no such model is found before anything is written
        return model


class LanguageModel:
    """Both models, as the filter asks them."""

    def __init__(self, annotator: Language) -> None:
        self._annotator = annotator

    def prepare(self, sample: Sample) -> str:
        if sample.text is None or not sample.text.strip():
            raise Unscored("no_text")
        return sample.text.lower() if self._annotator.fold_case else sample.text

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        name = self._annotator.name
        labels, scores = lid.identify(arrays.strings(inputs), self._annotator.weights.path)
        columns: dict[str, Any] = {
            name: labels.tolist(),
            f"{name}_score": np.minimum(scores, 1),
        }  # fastText's sums run over by 1e-5
        if self._annotator.cld3:
            columns[f"{name}_cld3"] = models.identify_languages(inputs, CLD3)[0].tolist()
        return Batch(columns)
