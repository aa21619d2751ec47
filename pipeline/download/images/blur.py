"""Faces made unrecognisable, as img2dataset and so DataComp do it, after https://github.com/princetonvisualai/imagenet-face-obfuscation"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.download.images.resize import opencv
from pools.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Box = tuple[float, float, float, float]  # x0, y0, x1, y1 in 0..1
Area = tuple[int, int, int, int]  # the same in pixels, with the margin
EXACT_PIXELS, EXACT_WORK = 1 << 22, 1 << 28  # pixels and pixels · kernel up to which the result is img2dataset's to the byte
COARSE_KERNEL = 32  # pixels of a kernel that are enough for a smooth result
LEAST, MOST = -1, 2  # of a face that is cut by the image's edge
MARGIN = 0.1  # of a box's longer side, on all sides; the blur's nominal sigma is the same share of the longest box


def usable(boxes: Sequence[Sequence[float] | None], where: str | None = None) -> tuple[Box, ...]:
    """The boxes that mark a part of the image: corners in order, cut to the image.

    Left out: those without four finite numbers, and those of which nothing lies in the image. Raises InputError for numbers
    that are no shares of it: boxes in pixels would leave the faces as they are.
    """
    found: list[Box] = []
    for box in boxes:
        numbers = [] if box is None else [float(v) for v in box if v is not None]
        if any(v < LEAST or v > MOST for v in numbers):
            raise InputError(
                f"face box {numbers} is not relative to the image",
                where=where,
                expected="[x0, y0, x1, y1], each in 0..1 (what juts out a little is cut)",
                fix="divide x by the image's width and y by its height",
            )
        if box is None or len(box) != 4 or not all(v is not None and math.isfinite(v) for v in box):
            continue
        (x0, x1), (y0, y1) = sorted(_inside(v) for v in box[::2]), sorted(_inside(v) for v in box[1::2])
        if x0 < x1 and y0 < y1:
            found.append((x0, y0, x1, y1))
    return tuple(found)


def blurred(pixels: NDArray[np.uint8], boxes: Sequence[Box]) -> NDArray[np.uint8]:
    """[h, w] or [h, w, 3] with each box and a margin around it blurred, softly at its edge; at least one box.

    Equal to img2dataset's to the byte, its loss of a grey level here and there outside the boxes included, unless that
    would take seconds (images of many megapixels): then the blur is computed on fewer pixels.
    """

    height, width = pixels.shape[:2]
    areas, longest = _areas(boxes, width, height)
    # Its sigma is not the nominal one: OpenCV takes 0.3 · ((kernel - 1) / 2 - 1) + 0.8, a third of it.
    kernel = max(3, 2 * math.ceil(MARGIN * longest) + 1)
    reach = kernel // 2
    top, bottom = max(0, min(a[1] for a in areas) - reach), min(height, max(a[3] for a in areas) + reach)
    size = (bottom - top) * width
    if size > EXACT_PIXELS or size * kernel > EXACT_WORK:
        return _coarse(pixels, areas, kernel)
    return _exact(pixels, areas, kernel, top, bottom)


def _exact(pixels: NDArray[np.uint8], areas: Sequence[Area], kernel: int, top: int, bottom: int) -> NDArray[np.uint8]:
    """Only the rows that the blur reaches are worked on; a part of a row would be rounded otherwise at its end."""
    import numpy as np

    first, last = max(0, top - kernel // 2), min(len(pixels), bottom + kernel // 2)
    part = pixels[first:last].astype(np.float32) / 255.0
    mask = np.zeros_like(part)
    for x0, y0, x1, y1 in areas:
        mask[y0 - first : y1 - first, x0:x1] = 1
    soft, share = (opencv().GaussianBlur(a, ksize=(kernel, kernel), sigmaX=0) for a in (part, mask))
    mixed = part * (1 - share) + soft * share
    levels = np.arange(256, dtype=np.uint8).astype(np.float32) / 255.0
    done = (levels * 255.0).astype(np.uint8)[pixels]
    done[top:bottom] = (mixed[top - first : bottom - first] * 255.0).astype(np.uint8)
    return done


def _coarse(pixels: NDArray[np.uint8], areas: Sequence[Area], kernel: int) -> NDArray[np.uint8]:
    import numpy as np

    cv2 = opencv()
    height, width = pixels.shape[:2]
    factor = max(1, kernel // COARSE_KERNEL)
    sigma = (0.3 * (kernel // 2 - 1) + 0.8) / factor  # that OpenCV takes for the kernel
    mask = np.zeros((height, width), np.uint8)
    for x0, y0, x1, y1 in areas:
        mask[y0:y1, x0:x1] = 255
    small = (max(1, width // factor), max(1, height // factor))
    soft, share = (
        cv2.resize(cv2.GaussianBlur(cv2.resize(a, small, interpolation=cv2.INTER_AREA), (0, 0), sigma), (width, height))
        for a in (pixels, mask)
    )
    done = pixels.copy()
    for y in range(height):  # row by row: whole images of floats would fill the memory
        if share[y].any():
            part = share[y].astype(np.float32).reshape(-1, *[1] * (pixels.ndim - 2)) / 255
            done[y] = pixels[y] * (1 - part) + soft[y] * part
    return done


def _areas(boxes: Sequence[Box], width: int, height: int) -> tuple[list[Area], int]:
    """The boxes with their margins in pixels, and the longest side of one without."""
    areas: list[Area] = []
    longest = 0
    for box in boxes:
        x0, y0, x1, y1 = int(box[0] * width), int(box[1] * height), int(box[2] * width), int(box[3] * height)
        side = max(x1 - x0, y1 - y0)
        longest = max(longest, side)
        edge = MARGIN * side
        x0, y0, x1, y1 = int(x0 - edge), int(y0 - edge), int(x1 + edge), int(y1 + edge)
        areas.append((_clip(x0, width), _clip(y0, height), _clip(x1, width), _clip(y1, height)))
    return areas, longest


def _clip(at: int, length: int) -> int:
    return min(max(at, 0), length - 1)


def _inside(value: float) -> float:
    return min(max(value, 0.0), 1.0)
