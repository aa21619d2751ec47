"""Rules on the size and the format of the image as it was served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from filters import arrays
from filters.registry import register

# Endings of an address by format, for pools that say nothing better.
_ENDINGS = {"jpeg": "jpe?g|jpe|jfif", "png": "png", "gif": "gif", "webp": "webp", "avif": "avif", "bmp": "bmp", "tiff": "tiff?"}
Format = Literal["jpeg", "png", "gif", "webp", "avif", "bmp", "tiff"]


@register("image_format")
@dataclass(frozen=True)
class ImageFormat:
    """Images of one format, by the ending of the address, or by a column that names formats or media types.

    `column: url` (as it is left) looks at the path's ending, without query and fragment: an address without one, as `/image/7`,
    is dropped. Another column is compared with the format and with `image/<format>`. A null is not judged. CC3M (section 3.1)
    and CC12M: JPEG only.
    """

    is_: Format
    column: str = "url"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        if self.column == "url":
            return pc.match_substring_regex(batch["url"], rf"(?i)^[^?#]*\.(?:{_ENDINGS[self.is_]})(?:[?#]|$)")
        return pc.match_substring_regex(batch[self.column], rf"(?i)^\s*(?:image/)?(?:{_ENDINGS[self.is_]})\s*(?:;|$)")

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column]


@register("image_size")
@dataclass(frozen=True)
class ImageSize:
    """Images whose short side is `min_side` pixels or more and whose long side is at most `max_aspect` times the short.

    Bounds included; a side of 0 drops the image, a null side is not judged. DataComp (section 3): 200 and 3.0.
    """

    min_side: int | None = None
    max_aspect: float | None = None
    needs: ClassVar[tuple[str, ...]] = ("original_width", "original_height")

    def __post_init__(self) -> None:
        if self.min_side is None and self.max_aspect is None:
            raise ValueError("no bound given; takes min_side, max_aspect")
        if self.max_aspect is not None and self.max_aspect < 1:
            raise ValueError(f"max_aspect {self.max_aspect} is below 1, which no image can meet")

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        width, height = (batch[name].cast(pa.float64()) for name in self.needs)
        sides = arrays.floats(width), arrays.floats(height)
        short, long = np.minimum(*sides), np.maximum(*sides)
        mask = short > 0
        if self.min_side is not None:
            mask &= short >= self.min_side
        if self.max_aspect is not None:
            # A quotient of doubles, as the reference computes it; a product would round elsewhere.
            with np.errstate(divide="ignore", invalid="ignore"):  # of 0, dropped above
                mask &= long / short <= self.max_aspect
        return arrays.booleans(mask, arrays.numpy(width.is_null()) | arrays.numpy(height.is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        width, height = (batch[name].cast(pa.string()) for name in self.needs)
        return pc.binary_join_element_wise(width, height, _BY)


_BY = arrays.strings(["x"])[0]
