"""Faces in pictures of any size, by a detector that wants sides of a multiple of 32 and knows faces of middling size.

Two frames are looked at: the picture itself, and the picture small in the middle of a frame, where a face that fills the
picture is of a size that detectors were trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels
from pipeline.download.images import resize

STRIDE = 32  # pixels; the sides of what a detector is shown are multiples
LARGE = 1 / 3  # of the picture's longer side: faces of that size are looked for in the small picture
REDUCED, ROOM = 4, 2.5  # the small picture's longer side is a 4th of `side` at most, the frame's sides are 2.5 times its own
OVERLAP = 0.4  # intersection over union from which on two boxes are one face's
Floats = NDArray[np.float32]
# A frame (h, w, 3) RGB → boxes (n, 4), [x0, y0, x1, y1] in its pixels, and scores (n,).
Detector = Callable[[Pixels], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Frame:
    """What a detector is shown: black around a picture of `width` × `height` whose corner is at (left, top)."""

    pixels: Pixels
    left: int
    top: int
    width: int
    height: int

    @classmethod
    def of(cls, picture: Pixels, longest: int, room: float) -> Frame:
        """The picture, made smaller if its longer side is more than `longest`, in a frame of `room` times its sides."""
        height, width = picture.shape[:2]
        scale = min(1.0, longest / max(height, width))
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
        small = resize.scaled(picture, (width, height))
        framed = [-(-round(length * room) // STRIDE) * STRIDE for length in (height, width)]
        left, top = (0, 0) if room == 1 else ((framed[1] - width) // 2, (framed[0] - height) // 2)
        pixels = np.zeros((*framed, 3), np.uint8)
        pixels[top : top + height, left : left + width] = small
        return cls(pixels, left, top, width, height)

    def mirrored(self) -> Frame:
        """The same seen in a mirror."""
        left = self.pixels.shape[1] - self.left - self.width
        return Frame(np.ascontiguousarray(self.pixels[:, ::-1]), left, self.top, self.width, self.height)

    def relative(self, boxes: Floats) -> Floats:
        """Boxes (n, 4) in the frame's pixels, relative to the picture."""
        corner, size = np.array([self.left, self.top] * 2), np.array([self.width, self.height] * 2)
        return np.asarray((boxes - corner) / size, np.float32)


def frames(picture: Pixels, side: int) -> tuple[Frame, Frame]:
    """What is looked at: the picture with sides of at most `side` pixels, and the small picture."""
    return Frame.of(picture, side, 1), Frame.of(picture, max(1, side // REDUCED), ROOM)


def find_faces(shown: tuple[Frame, Frame], detect: Detector, min_score: float, sure: float) -> tuple[Floats, Floats]:
    """Boxes (n, 4) in 0..1 of the picture and scores (n,), the surest first.

    Those less than `sure` are faces if the mirror image has one there too.
    """
    boxes, scores = _of_both(shown, detect, min_score)
    if (scores < sure).any():
        left, top, right, bottom = _of_both((shown[0].mirrored(), shown[1].mirrored()), detect, min_score)[0].T
        seen = (_overlaps(boxes, np.stack([1 - right, top, 1 - left, bottom], axis=1)) > OVERLAP).any(axis=1)
        kept = seen | (scores >= sure)
        boxes, scores = boxes[kept], scores[kept]
    return boxes, scores


def _of_both(shown: tuple[Frame, Frame], detect: Detector, min_score: float) -> tuple[Floats, Floats]:
    found = [_found(shown[0], detect, min_score, 0.0), _found(shown[1], detect, min_score, LARGE)]
    boxes, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    boxes = np.clip(boxes, 0, 1)
    inside = (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])
    boxes, scores = boxes[inside], scores[inside]
    order = np.lexsort((*boxes.T, -scores))
    kept = order[surest(boxes[order])]
    return boxes[kept], scores[kept]


def _found(frame: Frame, detect: Detector, min_score: float, least: float) -> tuple[Floats, Floats]:
    """What a frame shows, of faces whose longer side is `least` of the picture's or more."""
    boxes, scores = detect(frame.pixels)
    sides = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, initial=0)
    good = (scores >= min_score) & (sides >= least * max(frame.width, frame.height))
    return frame.relative(boxes[good]), scores[good].astype(np.float32)


def surest(boxes: Floats) -> NDArray[np.intp]:
    """Places of the boxes (n, 4) that no earlier one of them overlaps much."""
    overlap = np.tril(_overlaps(boxes, boxes) > OVERLAP, -1)
    kept = np.ones(len(boxes), bool)
    for i in range(len(boxes)):
        kept[i] = not (overlap[i] & kept).any()
    return np.flatnonzero(kept)


def _overlaps(one: Floats, other: Floats) -> Floats:
    """(n, 4), (m, 4) → (n, m) intersection over union."""
    low, high = np.maximum(one[:, None, :2], other[:, :2]), np.minimum(one[:, None, 2:], other[:, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (one, other)]
    return np.asarray(shared / (areas[0][:, None] + areas[1] - shared), np.float32)
