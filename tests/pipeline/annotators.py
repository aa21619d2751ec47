"""Annotators of no use, whose answers can be worked out by hand; in a module, so that workers find them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored

calls: Counter[str] = Counter()  # of this process: loads, and rows prepared and annotated, by name


def make_brightness(given: dict[str, str]) -> Brightness:
    """Takes `name` and `min_side`."""
    options.known("brightness", given, "name", "min_side")
    return Brightness(given.get("name", "brightness"), int(given["min_side"]) if "min_side" in given else None)


def make_length(given: dict[str, str]) -> Length:
    """Takes `name` and `column`."""
    options.known("length", given, "name", "column")
    return Length(given.get("name", "length"), given.get("column", "text_length"))


@dataclass(frozen=True)
class Brightness:
    """Mean of all samples of the picture, and its size as an array."""

    name: str = "brightness"
    min_side: int | None = None
    reads: tuple[str, ...] = ()
    wants_image: bool = True
    breaks_at: str = ""  # a uid at which it raises
    version: int = 1

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(f"{self.name}_mean", pa.float64()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {f"{self.name}_size": 2}

    def header(self) -> dict[str, Any]:
        return {"version": self.version}

    def load(self, device: str, threads: int) -> BrightnessModel:
        calls[f"{self.name} load"] += 1
        return BrightnessModel(self)


@dataclass
class BrightnessModel:
    annotator: Brightness

    def prepare(self, sample: Sample) -> Any:
        calls[f"{self.annotator.name} prepare"] += 1
        if sample.uid == self.annotator.breaks_at:
            raise RuntimeError("broken on purpose")
        return sample.pixels(self.annotator.min_side)

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        name = self.annotator.name
        calls[f"{name} annotate"] += len(inputs)
        means = np.array([pixels.mean() for pixels in inputs])
        return Batch({f"{name}_mean": means}, {f"{name}_size": np.array([p.shape[:2] for p in inputs])})


@dataclass(frozen=True)
class Length:
    """Characters of the text; of one that is too long not a number, of an odd one nothing."""

    name: str = "length"
    column: str = "text_length"
    reads: tuple[str, ...] = ("text",)
    wants_image: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.column, pa.float32()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> dict[str, Any]:
        return {"version": 1}

    def load(self, device: str, threads: int) -> LengthModel:
        calls[f"{self.name} load"] += 1
        return LengthModel(self.column)


@dataclass
class LengthModel:
    column: str

    def prepare(self, sample: Sample) -> str:
        if not sample.text:
            raise Unscored("no_text")
        return sample.text

    def annotate(self, inputs: Sequence[str]) -> Batch:
        calls["length annotate"] += len(inputs)
        lengths = [float("nan") if len(text) > 100 else float(len(text)) for text in inputs]
        return Batch({self.column: lengths}, reasons=["odd" if len(text) % 2 else None for text in inputs])
