"""Bytes as served to the JPEG that is stored, or to the reason why not.

Settings and pixels are DataComp's, by img2dataset's own resizer: longest side at most 512, only if bigger, INTER_AREA,
JPEG quality 95, bytes of a JPEG that needs no resizing unchanged, transparency on white. What is not a JPEG reaches the
resizer through Pillow, which tells a cut file from a whole one, and knows palettes, 16-bit samples and frames.
"""

from __future__ import annotations

import functools
import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pools.errors import InputError
from pools.schema import Reason

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Formats a crawl meets. The others of Pillow's stay off: EPS, for one, runs a program to draw itself.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "PPM", "ICO", "JPEG2000")


MAX_PIXELS = 1 << 26


@dataclass(frozen=True, kw_only=True)
class ImageRules:
    """Which images are stored, and how."""

    image_size: int = 512  # pixels, longest side; larger images are made smaller
    quality: int = 95  # of JPEG, where an image is encoded anew
    min_side: int = 0  # pixels, as served
    max_ratio: float | None = None  # long side / short side, as served
    max_pixels: int = MAX_PIXELS  # width · height as the header states it, before anything is decoded

    def __post_init__(self) -> None:
        if self.image_size < 1 or self.max_pixels < 1 or not 1 <= self.quality <= 100 or (self.max_ratio or 1) < 1:
            raise InputError(f"an image rule is out of range: {self}", expected="sizes and ratio ≥ 1, quality 1 to 100")


@dataclass(frozen=True)
class Prepared:
    """An image to store. Sizes in pixels; `original` is as served."""

    jpeg: bytes
    width: int
    height: int
    original_width: int
    original_height: int


@dataclass(frozen=True)
class Reject:
    reason: Reason
    message: str


def prepare(body: bytes, rules: ImageRules) -> Prepared | Reject:
    """The stored form of a served image. For one thread of a process at a time: the resizer redirects standard error."""
    picture = open_image(body, rules.max_pixels)
    if isinstance(picture, Reject):
        return picture
    width, height = picture.size
    if min(width, height) < rules.min_side:
        return Reject(Reason.TOO_SMALL, f"{width}×{height}, the short side must have {rules.min_side}")
    if rules.max_ratio is not None and max(width, height) > rules.max_ratio * min(width, height):
        return Reject(Reason.ASPECT_RATIO, f"{width}×{height}, long/short must be at most {rules.max_ratio:g}")
    if picture.format in ("JPEG", "MPO"):
        if not ends_whole(body):
            return Reject(Reason.TRUNCATED_IMAGE, "the JPEG ends before its end marker")
    else:
        decoded = load(picture)
        if isinstance(decoded, Reject):
            return decoded
        body = _as_png(decoded)
    jpeg, new_width, new_height, _, _, error = _resizer(rules)(io.BytesIO(body))
    if error is not None:
        return Reject(Reason.NOT_AN_IMAGE, str(error))
    return Prepared(jpeg, new_width, new_height, width, height)


def open_image(body: bytes, max_pixels: int) -> Picture | Reject:
    """An image whose header was read and whose pixels were not: its size is known before memory is taken for it."""
    from PIL import Image

    try:
        picture = Image.open(io.BytesIO(body), formats=_formats())
    except Image.DecompressionBombError as e:
        return Reject(Reason.TOO_MANY_PIXELS, str(e))
    except Exception as e:  # parsers of hostile bytes raise whatever they please
        return _broken(e)
    if picture.width * picture.height > max_pixels:
        return Reject(Reason.TOO_MANY_PIXELS, f"{picture.width}×{picture.height} is more than {max_pixels} pixels")
    return picture


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those formats that this build of Pillow can read."""
    from PIL import Image

    Image.init()
    return tuple(f for f in FORMATS if f in Image.OPEN)


def load(picture: Picture) -> Picture | Reject:
    """The same image with its pixels decoded (of an animation the first frame)."""
    try:
        picture.load()
    except Exception as e:  # decoders of hostile bytes raise whatever they please
        return _broken(e)
    return picture


def rgb(picture: Picture) -> Picture | Reject:
    """The same image decoded, in RGB (of an animation the first frame)."""
    try:
        return picture.convert("RGB")
    except Exception as e:  # decoders of hostile bytes raise whatever they please
        return _broken(e)


def _broken(error: Exception) -> Reject:
    text = str(error)
    cut = "truncated" in text.lower() or isinstance(error, EOFError)
    # Pillow's words for an unknown format name the buffer's address.
    unknown = "cannot identify image file" in text
    message = "not a known image format" if unknown else f"{type(error).__name__}: {text}"
    return Reject(Reason.TRUNCATED_IMAGE if cut else Reason.NOT_AN_IMAGE, message)


def ends_whole(jpeg: bytes) -> bool:
    """Whether a JPEG has its end marker (EOI) after the first scan begins.

    Within a scan 0xFF is followed by 0x00 or a restart marker, so the first FFD9 after the scan's header is the real
    end; one before it may belong to the thumbnail in the EXIF block.
    """
    at = 2
    while (at := jpeg.find(b"\xff", at)) >= 0 and at + 4 <= len(jpeg):
        marker = jpeg[at + 1]
        if marker == 0xDA:
            return jpeg.find(b"\xff\xd9", at) >= 0
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:
            at += 1
        else:
            at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return False


def _as_png(picture: Picture) -> bytes:
    """8-bit RGB or RGBA as an uncompressed PNG, which the resizer always encodes as JPEG."""
    import numpy as np
    from PIL import Image

    if picture.mode.startswith("I"):
        # 16-bit samples, which `convert` would clip at 255: a nearly white image.
        samples = np.clip(np.asarray(picture), 0, 65535) >> 8
        picture = Image.fromarray(samples.astype(np.uint8))
    picture = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=0)
    return out.getvalue()


@functools.cache
def _resizer(rules: ImageRules) -> Any:
    # Both are read once, when the libraries load: no request for a newer version, and OpenCV's own check of sizes.
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(rules.max_pixels))
    from img2dataset.resizer import Resizer

    return Resizer(
        rules.image_size,
        "keep_ratio_largest",
        resize_only_if_bigger=True,
        downscale_interpolation="area",
        encode_format="jpg",
        encode_quality=rules.quality,
        skip_reencode=True,
    )
