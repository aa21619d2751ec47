"""Which way is up, as EXIF says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image as Picture

UPRIGHT = 1
TAG = 0x0112
_SIDEWAYS = (5, 6, 7, 8)  # rows of the file are columns of the picture


def read(picture: Picture) -> int:
    """EXIF's orientation, 1 to 8; 1 where there is none, or none that can be read.

    Of PNG it is complete after decoding only. Pillow turns TIFFs itself, and states an AVIF's own rotation as EXIF's.
    XMP's is not asked: editors leave it behind when they turn the pixels, and browsers do not ask it either.
    """
    block = picture.info.get("exif")
    if not block:
        return UPRIGHT
    from PIL.Image import Exif

    exif = Exif()
    try:
        exif.load(block)
        found = exif.get(TAG, UPRIGHT)
    except Exception:  # a parser of hostile bytes raises whatever it pleases; such a block says nothing
        return UPRIGHT
    return found if isinstance(found, int) and 1 <= found <= 8 else UPRIGHT


def size(width: int, height: int, orientation: int) -> tuple[int, int]:
    """Width and height of the upright picture."""
    return (height, width) if orientation in _SIDEWAYS else (width, height)


def upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """[h, w, …] as stored to [h', w', …] as seen, a view. (CIPA DC-008-2023, 4.6.5.1.6)"""
    if orientation in _SIDEWAYS:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
