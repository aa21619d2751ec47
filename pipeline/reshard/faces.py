"""Faces made unrecognisable in samples that are copied: an image with a face is blurred and encoded anew, or not written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pools import shards

BOXES = "face_bboxes"  # the column, and the field of the json
# Beyond which a box is not in shares of the image's sides, but in pixels, say: nothing would be blurred by it.
_LEAST, _MOST = -1.0, 2.0


@dataclass(frozen=True)
class Failure:
    """Why a sample is not written: `reason` is counted, `detail` is for people."""

    reason: str
    detail: str


def unpacked(value: bytes) -> list[list[float]]:
    """Boxes as the plan has them, four float64 each."""
    boxes: list[list[float]] = np.frombuffer(value, np.float64).reshape(-1, 4).tolist()
    return boxes


def blurred(
    members: dict[str, bytes], boxes: Sequence[Sequence[float]] | None, extension: str, quality: int
) -> dict[str, bytes] | Failure:
    """The members with every image blurred in these boxes ([x0, y0, x1, y1] in 0..1), those without boxes unchanged.

    A sample that nobody has looked at for faces, with boxes that cannot be meant, or with an image that cannot be decoded
    is a failure.
    """
    if boxes is None:
        return Failure("no_boxes", "nobody has looked for faces")
    if not boxes:
        return members
    from pipeline.download.images import blur

    if bad := next((box for box in boxes if not all(_LEAST <= v <= _MOST for v in box) or not blur.usable([box])), None):
        return Failure("bad_boxes", f"{bad} is no box [x0, y0, x1, y1] in 0..1")
    done: dict[str, bytes] = {}
    for name, data in members.items():
        if name.lower().rpartition(".")[2] not in shards.IMAGE_EXTENSIONS:
            done[name] = data
            continue
        image = _encoded(data, boxes, extension, quality)
        if isinstance(image, Failure):
            return image
        done[".".join([*name.split(".")[:-1], extension])] = image
    return done


def _encoded(data: bytes, boxes: Sequence[Sequence[float]], extension: str, quality: int) -> bytes | Failure:
    from pipeline.download.images import orientation
    from pipeline.download.images.decode import MAX_PIXELS, Reject, decode, open_image, room
    from pipeline.download.images.resize import opencv

    picture = open_image(data, MAX_PIXELS)
    if isinstance(picture, Reject):
        return Failure("undecodable_face", picture.message)
    with room(picture):
        found = decode(data, picture)
        if isinstance(found, Reject):
            return Failure("undecodable_face", found.message)
        pixels = softened(np.ascontiguousarray(orientation.upright(found.pixels, found.orientation)), boxes)
        cv2 = opencv()
        option = cv2.IMWRITE_JPEG_QUALITY if extension == "jpg" else cv2.IMWRITE_WEBP_QUALITY
        bgr = pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
        try:
            _, encoded = cv2.imencode(f".{extension}", bgr, [option, quality])
        except cv2.error as e:  # larger than the format has room for
            return Failure("undecodable_face", str(e).strip())
    return bytes(encoded.tobytes())


def softened(pixels: NDArray[np.uint8], boxes: Sequence[Sequence[float]]) -> NDArray[np.uint8]:
    """[h, w] or [h, w, 3] blurred as `blur.blurred` does, up to rounding, in an eighth of its time: only about the boxes."""
    from pipeline.download.images import blur
    from pipeline.download.images.resize import opencv

    sound = blur.usable(boxes)
    height, width = pixels.shape[:2]
    areas, longest = [], 0.0
    for x0, y0, x1, y1 in sound:
        side = max((x1 - x0) * width, (y1 - y0) * height)
        longest = max(longest, side)
        edge = blur.MARGIN * side
        left, top = max(0, math.floor(x0 * width - edge)), max(0, math.floor(y0 * height - edge))
        areas.append((left, top, min(width, math.ceil(x1 * width + edge)), min(height, math.ceil(y1 * height + edge))))
    kernel = max(3, 2 * math.ceil(blur.MARGIN * longest) + 1)
    reach = kernel // 2
    left, top = max(0, min(a[0] for a in areas) - reach), max(0, min(a[1] for a in areas) - reach)
    right, bottom = min(width, max(a[2] for a in areas) + reach), min(height, max(a[3] for a in areas) + reach)
    size = (right - left) * (bottom - top)
    if size > blur.EXACT_PIXELS or size * kernel > blur.EXACT_WORK:
        return blur.blurred(pixels, sound)  # which has a way for the largest
    part = pixels[top:bottom, left:right]
    mask = np.zeros(part.shape[:2], np.float32)
    for x0, y0, x1, y1 in areas:
        mask[y0 - top : y1 - top, x0 - left : x1 - left] = 1
    soft, share = (opencv().GaussianBlur(a, (kernel, kernel), 0) for a in (part, mask))
    share = share.reshape(*share.shape, *[1] * (part.ndim - 2))
    done = pixels.copy()
    done[top:bottom, left:right] = part + (soft.astype(np.float32) - part) * share
    return done
