"""Rows for annotators without a pool: a text, columns, and a picture of pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.annotate.annotator import Batch, Model, Pixels, Unscored


@dataclass
class FakeSample:
    """A `Sample`; `asked` are the least sides that it was asked for."""

    text: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    picture: Pixels | str = "no_image"  # or the reason why there is none
    uid: str = "0" * 32
    asked: list[int | None] = field(default_factory=list)

    def pixels(self, min_side: int | None = None) -> Pixels:
        self.asked.append(min_side)
        if isinstance(self.picture, str):
            raise Unscored(self.picture)
        return self.picture

    def size(self) -> tuple[int, int]:
        height, width = self.pixels().shape[:2]
        return width, height


def reason(model: Model, sample: FakeSample) -> str | None:
    """Why a sample is not scored."""
    try:
        model.prepare(sample)
    except Unscored as e:
        return e.reason
    return None


def answers(model: Model, samples: list[FakeSample]) -> dict[str, Any]:
    """All columns as arrays, for samples that can be scored, in one batch."""
    batch: Batch = model.annotate([model.prepare(s) for s in samples])
    return {name: np.asarray(values) for name, values in batch.columns.items()}


def alone(model: Model, samples: list[FakeSample]) -> dict[str, Any]:
    """The same, each by itself."""
    each = [answers(model, [s]) for s in samples]
    return {name: np.concatenate([e[name] for e in each]) for name in each[0]}
