"""Perceptual hashes of pictures, for duplicates within a pool and of evaluation images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample
from pipeline.annotate.duplicates.perceptual import PDQ_SIDE, Bytes, pdq, phash

VERSION = 1
NAME = "phash"


def make_phash(given: dict[str, str]) -> Phash:
    """imagehash's 64-bit pHash as a whole number: column `phash`, which `phash_duplicates` and `eval_phash` read.

    `pdq=true` adds PDQ's 256 bits (`pdq`, 64 hex digits) and how much there was to see (`pdq_quality`, 0 to 100).
    """
    chosen = options.known("phash", given, "name", "pdq")
    return Phash(chosen.get("name", NAME), options.truth("phash", chosen, "pdq", False))


@dataclass(frozen=True)
class Phash:
    """Hashes of the upright picture, transparency laid on white."""

    name: str
    pdq: bool
    reads: tuple[str, ...] = ()
    wants_image: bool = True

    @property
    def columns(self) -> tuple[str, str, str]:
        """pHash, PDQ, its quality."""
        before = "" if self.name == NAME else f"{self.name}_"
        return self.name, f"{before}pdq", f"{before}pdq_quality"

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        fields = [pa.field(n, t) for n, t in zip(self.columns, (pa.uint64(), pa.string(), pa.int32()), strict=True)]
        return tuple(fields if self.pdq else fields[:1])

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {
            "model": "imagehash phash, 64 bits, the first the highest",
            "preprocessing": "grey, 32×32, Lanczos",
            "version": VERSION,
        }
        return {**found, "pdq": f"the longer side at most {PDQ_SIDE}, area means"} if self.pdq else found

    def load(self, device: str, threads: int) -> PhashModel:
        return PhashModel(self)


class PhashModel:
    """There is nothing to load; a GPU would gain nothing."""

    def __init__(self, annotator: Phash) -> None:
        self._annotator = annotator

    def prepare(self, sample: Sample) -> tuple[int, tuple[Bytes, int] | None]:
        pixels = sample.pixels()
        return phash(pixels), pdq(pixels) if self._annotator.pdq else None

    def annotate(self, inputs: Sequence[tuple[int, tuple[Bytes, int] | None]]) -> Batch:
        hashes, digits, quality = self._annotator.columns
        columns: dict[str, Any] = {hashes: np.array([value for value, _ in inputs], np.uint64)}
        seen = [more for _, more in inputs if more is not None]
        if self._annotator.pdq:
            columns |= {digits: [bits.tobytes().hex() for bits, _ in seen], quality: [q for _, q in seen]}
        return Batch(columns)
