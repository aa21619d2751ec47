"""A sample's picture, decoded when somebody looks at it, and once for all who do."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

import numpy as np

from pipeline.annotate.annotator import Pixels, Unscored
from pipeline.download.images import orientation
from pipeline.download.images.decode import MAX_PIXELS, Decoded, Reject, decode, is_jpeg, open_image, room

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

_REDUCED = (8, 4, 2)  # at these a JPEG decoder does less work; its other scales take as long as the whole picture


class Picture:
    """The bytes of a picture. One thread at a time."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._found: dict[int, Pixels | Reject] = {}  # by how much it was reduced
        self.seconds = 0.0  # spent on decoding

    def pixels(self, min_side: int | None = None) -> Pixels:
        """As `Sample.pixels`. What comes depends on the picture and `min_side`, never on who else has looked at it."""
        start = time.perf_counter()
        opened = self._opened
        straight = self._straight
        reduced = 1 if min_side is None or straight is None else _factor(min(straight.size), min_side)
        if reduced not in self._found:
            self._found[reduced] = opened if isinstance(opened, Reject) else self._decoded(opened, reduced)
        found = self._found[reduced]
        self.seconds += time.perf_counter() - start
        if isinstance(found, Reject):
            raise Unscored(found.reason.value)
        return found

    def size(self) -> tuple[int, int]:
        """Width and height, upright."""
        if self._straight is not None:
            return self._straight.size
        height, width = self.pixels().shape[:2]
        return width, height

    @functools.cached_property
    def _straight(self) -> PillowImage | None:
        """A picture that may be reduced. Not one that is turned: its last column, of which there is a part, is not the last."""
        opened = self._opened
        if isinstance(opened, Reject) or not is_jpeg(opened) or orientation.read(opened) != orientation.UPRIGHT:
            return None
        return opened

    @functools.cached_property
    def _opened(self) -> PillowImage | Reject:
        return open_image(self._body, MAX_PIXELS)

    def _decoded(self, opened: PillowImage, reduced: int) -> Pixels | Reject:
        with room(opened):
            decoded = decode(self._body, opened, reduced)
        return decoded if isinstance(decoded, Reject) else _upright(decoded)


def _factor(short: int, min_side: int) -> int:
    return next((k for k in _REDUCED if -(-short // k) >= min_side), 1)


def _upright(decoded: Decoded) -> Pixels:
    pixels = orientation.upright(decoded.pixels, decoded.orientation)
    return np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else np.ascontiguousarray(pixels)
