"""Pixels to fewer (or more) pixels, as img2dataset's resizer does."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ResizeMode = Literal["keep_ratio_largest", "keep_ratio", "border", "center_crop", "no"]
# Modes in which the shortest side becomes the image size; the longest in the others.
_SHORTEST = ("keep_ratio", "center_crop")


@functools.cache
def opencv() -> Any:
    """OpenCV without threads of its own: each image has a thread of the download's already."""
    import cv2

    cv2.setNumThreads(1)
    return cv2


def target(width: int, height: int, image_size: int, mode: ResizeMode, only_if_bigger: bool) -> tuple[int, int] | None:
    """Width and height after scaling, before cropping and borders; None where a mode leaves the image alone."""
    if mode == "no":
        return None
    side = min(width, height) if mode in _SHORTEST else max(width, height)
    if side <= image_size and only_if_bigger:
        return None
    scale = image_size / side
    return max(1, round(width * scale)), max(1, round(height * scale))


def scaled(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """[h, w, …] to `size` (width, height): means over areas when it shrinks, Lanczos when it grows."""
    height, width = pixels.shape[:2]
    if (width, height) == size:
        return pixels
    cv2 = opencv()
    from pipeline.download.images import area  # compiled code takes a moment to load

    if area.serves(width, height, *size):
        return area.resized(np.ascontiguousarray(pixels), size)
    way = cv2.INTER_AREA if size[0] < width or size[1] < height else cv2.INTER_LANCZOS4
    return cv2.resize(pixels, size, interpolation=way)  # type: ignore[no-any-return]


def framed(pixels: NDArray[np.uint8], image_size: int, mode: ResizeMode) -> NDArray[np.uint8]:
    """A scaled image cut to its central square, or filled up to one with white, in the modes that ask for it."""
    height, width = pixels.shape[:2]
    if mode == "center_crop":
        top, left = (height - image_size) // 2, (width - image_size) // 2
        return pixels[top : top + image_size, left : left + image_size]
    if mode == "border":
        above, before = max(0, image_size - height) // 2, max(0, image_size - width) // 2
        below, after = max(0, image_size - height) - above, max(0, image_size - width) - before
        cv2 = opencv()
        white = (255, 255, 255)
        return cv2.copyMakeBorder(pixels, above, below, before, after, cv2.BORDER_CONSTANT, value=white)  # type: ignore[no-any-return]
    return pixels
