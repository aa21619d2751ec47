"""Served bytes to pixels, or to the reason why there are none. Nothing here is sure of the bytes: a name, a header, a size."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.download.images import blocks, kinds, orientation
from pools.schema import Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as Picture

# Formats a crawl meets. The others of Pillow's stay off: EPS, for one, runs a program to draw itself.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "PPM", "ICO", "JPEG2000")
MAX_PIXELS = 1 << 26
MAX_SCANNED = 1 << 30  # pixels of a progressive JPEG, counted anew in every scan: some 2 s
MAX_FRAMES = 10_000  # counted; an animation of more is said to have so many
LARGE_PIXELS = 1 << 24  # from which on one image a process is decoded at a time, so that threads do not add up memory
SLOW_PIXELS = 1 << 19  # or pairs of bytes, of what Pillow decodes in Python, one or two microseconds each
_SLOW_DECODERS = frozenset({"ppm", "bmp_rle"})
_STRIP = 1 << 18  # pixels made opaque at once

_one_large = threading.Lock()


@dataclass(frozen=True)
class Reject:
    """Why an image is not stored; its size (upright) and frames as far as they are known."""

    reason: Reason
    message: str
    original_width: int | None = None
    original_height: int | None = None
    frames: int | None = None


@dataclass(frozen=True)
class Decoded:
    """The first picture of a file as its samples lie there: [h, w, 3] RGB or [h, w] grey."""

    pixels: NDArray[np.uint8]
    orientation: int  # EXIF's, by which the picture is to be turned
    format: str  # Pillow's name
    plain: bool  # whether the samples lie in the file as 8-bit grey or RGB


def open_image(body: bytes, max_pixels: int) -> Picture | Reject:
    """An image whose header was read and whose pixels were not: its size is known before memory is taken for it."""
    image = _pillow()
    if (why := blocks.overfull(body)) is not None:
        return Reject(Reason.NOT_AN_IMAGE, why)
    try:
        picture: Picture = image.open(io.BytesIO(body), formats=_formats())
    except Exception as e:  # parsers of hostile bytes raise whatever they please
        return _broken(e, body)
    if picture.width * picture.height > max_pixels:
        return Reject(Reason.TOO_MANY_PIXELS, f"{picture.width}×{picture.height} is more than {max_pixels} pixels")
    return picture


def rgb(picture: Picture) -> Picture | Reject:
    """The same image decoded, in RGB (of an animation the first frame)."""
    try:
        return picture.convert("RGB")
    except Exception as e:  # decoders of hostile bytes raise whatever they please
        return _broken(e, b"")


def room(picture: Picture) -> contextlib.AbstractContextManager[object]:
    """What an image is to be decoded and made smaller in: one large one at a time."""
    return _one_large if picture.width * picture.height >= LARGE_PIXELS else contextlib.nullcontext()


def decode(body: bytes, picture: Picture, reduced: int = 1) -> Decoded | Reject:
    """Every pixel of an opened image, transparency on white; a JPEG's at 1/2, 1/4 or 1/8 of its size if `reduced` says so."""
    layout = " ".join(str(tile[3]) for tile in _tiles(picture))
    found = _jpeg(body, picture, reduced) if is_jpeg(picture) else None
    if found is None:
        try:
            found = _by_pillow(body, picture)
        except Exception as e:  # decoders of hostile bytes raise whatever they please
            return _broken(e, body)
    if isinstance(found, Reject):
        return found
    plain = picture.mode in ("L", "RGB") and "16" not in layout and not picture.has_transparency_data
    return Decoded(found, orientation.read(picture), str(picture.format), plain)


def is_jpeg(picture: Picture) -> bool:
    """Whether the bytes are a JPEG's; an MPO is one with more pictures behind it, for stereo or a wider range."""
    return picture.format in ("JPEG", "MPO")


def frames(body: bytes, picture: Picture) -> int:
    """How many pictures an animation or a document has, as far as they can be read."""
    if picture.format == "GIF":  # asking Pillow means to compose them all
        return max(1, blocks.gif_frames(body, MAX_FRAMES))
    if picture.format == "TIFF":
        return max(1, blocks.tiff_frames(body, MAX_FRAMES))
    return 1 if is_jpeg(picture) else min(MAX_FRAMES, max(1, int(getattr(picture, "n_frames", 1))))


@functools.cache
def _pillow() -> Any:
    from PIL import AvifImagePlugin, Image

    # Of files, for somebody at a screen. What matters here is an error and becomes a reason.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    logging.getLogger("PIL").addHandler(logging.NullHandler())  # or it writes to standard error
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # each image has a thread of the download's already
    return Image


@functools.cache
def _formats() -> tuple[str, ...]:
    """Those formats that this build of Pillow can read."""
    image = _pillow()
    image.init()
    return tuple(f for f in FORMATS if f in image.OPEN)


def _jpeg(body: bytes, picture: Picture, reduced: int) -> NDArray[np.uint8] | Reject | None:
    """A grey or RGB JPEG's pixels; None where Pillow must judge, which knows more kinds and forgives small damage.

    libjpeg itself fills up what is missing with grey, and only warns. With warnings as errors a JPEG that was cut and
    closed again is found out.
    """
    size = picture.width * picture.height
    # Counted with care only where a quick count is too high: the bytes may have more behind the picture.
    if size * body.count(b"\xff\xda") > MAX_SCANNED and (scans := blocks.jpeg_scans(body)) * size > MAX_SCANNED:
        return Reject(
            Reason.TOO_MANY_PIXELS, f"{picture.width}×{picture.height} in {scans} scans is more than {MAX_SCANNED} pixels"
        )
    colours = {"L": "GRAY", "RGB": "RGB"}.get(picture.mode)
    if colours is None:
        return None
    import simplejpeg

    try:
        if simplejpeg.decode_jpeg_header(body)[:2] != (picture.height, picture.width):
            return None
        # The decoder takes the smallest of its sizes that is no smaller than asked for; 0 is the picture's own.
        least = (-(-picture.height // reduced), -(-picture.width // reduced)) if reduced > 1 else (0, 0)
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(body, colours, min_height=least[0], min_width=least[1])
    except ValueError as e:
        cut = "premature end" in str(e).lower()
        return Reject(Reason.TRUNCATED_IMAGE, f"JPEG: {e}") if cut else None
    return pixels[:, :, 0] if colours == "GRAY" else pixels


def _by_pillow(body: bytes, picture: Picture) -> NDArray[np.uint8] | Reject:
    import numpy as np

    slow = {tile[0] for tile in _tiles(picture)} & _SLOW_DECODERS
    if slow and max(picture.width * picture.height, len(body) // 2) > SLOW_PIXELS:
        message = f"{picture.width}×{picture.height} in {len(body)} bytes is too much of a format that is decoded slowly"
        return Reject(Reason.TOO_MANY_PIXELS, message)
    picture.load()
    if picture.mode == "F" or picture.mode.startswith("I"):
        return _levels(picture)
    if picture.has_transparency_data:
        return _on_white(_in_mode(picture, "RGBA"))
    return np.asarray(_in_mode(picture, "L" if picture.mode in ("1", "L") else "RGB"))


def _in_mode(picture: Picture, mode: str) -> Picture:
    """Pillow's `convert` without its copy of what needs none."""
    return picture if picture.mode == mode else picture.convert(mode)


def _tiles(picture: Picture) -> Any:
    """What Pillow decodes a file by: (decoder, box, offset, the samples' layout) for each part."""
    return getattr(picture, "tile", ())


def _levels(picture: Picture) -> NDArray[np.uint8]:
    """Grey samples of more than 8 bits, which Pillow would clip at 255: a nearly white image.

    Whole numbers are of 16 bits and fractions between 0 and 1, as is usual; where one is not, lowest to highest are spread.
    """
    import numpy as np

    samples = np.asarray(picture)
    if picture.mode == "F":
        samples = np.nan_to_num(samples)
    low, high, usual = float(samples.min()), float(samples.max()), 1 if picture.mode == "F" else 65535
    if low < 0 or high > usual:
        grey = ((samples - low) * (255 / (high - low or 1))).astype(np.uint8)
    elif picture.mode == "F":
        grey = (samples * np.float32(255) + np.float32(0.5)).astype(np.uint8)
    else:
        grey = (samples >> 8).astype(np.uint8)
    if isinstance(clear := picture.info.get("transparency"), int):
        grey[samples == clear] = 255
    return grey


def _on_white(picture: Picture) -> NDArray[np.uint8]:
    """RGBA to [h, w, 3]: round(alpha / 255 · colour + 255 - alpha), in whole numbers, some rows at a time."""
    import numpy as np

    width, height = picture.size
    done = np.empty((height, width, 3), np.uint8)
    step = max(1, _STRIP // width)
    for top in range(0, height, step):
        rows = np.asarray(picture.crop((0, top, width, min(top + step, height)))).astype(np.uint16)
        alpha = rows[:, :, 3:]
        # At most 255² + 127, which 16 bits hold.
        done[top : top + step] = (alpha * rows[:, :, :3] + (255 - alpha) * 255 + 127) // 255
    return done


def _broken(error: Exception, body: bytes) -> Reject:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError):
        return Reject(Reason.TOO_MANY_PIXELS, str(error))
    text = str(error)
    cut = "truncated" in text.lower() or isinstance(error, EOFError) or kinds.is_cut(body)
    # Pillow's words for an unknown format name the buffer's address.
    what = kinds.describe(body) if isinstance(error, UnidentifiedImageError) else f"{type(error).__name__}: {text}"
    return Reject(Reason.TRUNCATED_IMAGE if cut else Reason.NOT_AN_IMAGE, what)
