"""Text that stands in the picture, and how much of it that covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample
from pipeline.models import Weights, locate

if TYPE_CHECKING:
    from pipeline.annotate.pictures.ocr import Reader

VERSION = 1
PP_OCR = "pp-ocrv4"


def make_text_in_image(given: dict[str, str]) -> TextInImage:
    """Text within pictures, by PP-OCRv4: `text_in_image`, how many lines (`…_lines`), the share of the picture (`…_area`).

    Options: `name`, and `weights`, a folder with the two networks in place of those that are installed with winnow.
    """
    chosen = options.known("text_in_image", given, "weights", "name")
    return TextInImage(chosen.get("name", "text_in_image"), locate(PP_OCR, chosen.get("weights")))


@dataclass(frozen=True)
class TextInImage:
    """What PP-OCRv4 reads in a picture, a line of text a line, how many there are, and the share of the picture they cover.

    Lines that are found and cannot be read with some certainty do not count. For filters like T-MARS's (Maini et al. 2023):
    a caption that says what stands in the picture teaches little of what is to be seen in it. A picture without text has an
    empty text, 0 and 0.
    """

    name: str
    weights: Weights
    reads: tuple[str, ...] = ()
    wants_image: bool = True

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (
            pa.field(self.name, pa.string()),
            pa.field(f"{self.name}_lines", pa.int32()),
            pa.field(f"{self.name}_area", pa.float32()),
        )

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        from pipeline.annotate.pictures import ocr

        return {
            "model": "PP-OCRv4, detection and recognition",
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "transform": {"long_side": ocr.LONG_SIDE, "interpolation": "area if it shrinks, else linear"},
            "min_score": ocr.MIN_SCORE,
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> TextInImageModel:
        from pipeline.annotate.pictures.ocr import Reader

        # Pictures are read in as many threads as there are, each by itself.
        return TextInImageModel(self, Reader(self.weights.path, device, 1))


class TextInImageModel:
    """All is done in `prepare`: pictures are of different sizes, and none has to wait for others."""

    def __init__(self, annotator: TextInImage, reader: Reader) -> None:
        self._annotator, self._reader = annotator, reader

    def prepare(self, sample: Sample) -> tuple[str, int, float]:
        from pipeline.annotate.pictures.ocr import LONG_SIDE

        lines, area = self._reader.read(sample.pixels(LONG_SIDE))
        return "\n".join(line.text for line in lines), len(lines), area

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        texts, lines, areas = zip(*inputs, strict=True)
        name = self._annotator.name
        return Batch({name: texts, f"{name}_lines": lines, f"{name}_area": areas})
