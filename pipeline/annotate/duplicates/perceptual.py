"""Perceptual hashes: few bits of a picture that change little when it is scaled, recompressed, or a bit brighter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels
from pipeline.download.images import resize

PDQ_SIDE = 512  # pixels, of the longer side of what PDQ is shown: its authors' advice, and it is slow on more
PDQ_BYTES = 32
Bytes = NDArray[np.uint8]


def phash(pixels: Pixels) -> int:
    """imagehash's `phash`, its first bit the highest: `f"{phash(pixels):016x}"` is what imagehash writes."""
    import imagehash
    from PIL import Image

    return int(str(imagehash.phash(Image.fromarray(pixels))), 16)


def pdq(pixels: Pixels) -> tuple[Bytes, int]:
    """PDQ's 256 bits as 32 bytes, in its own order, and its quality, 0 (nothing to see) to 100. (Facebook 2019)"""
    import pdqhash

    height, width = pixels.shape[:2]
    if (scale := PDQ_SIDE / max(height, width)) < 1:
        pixels = resize.scaled(pixels, (max(1, round(width * scale)), max(1, round(height * scale))))
    bits, quality = pdqhash.compute(np.ascontiguousarray(pixels))
    return np.packbits(bits.astype(np.uint8)), int(quality)


def mirrored(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(pixels[:, ::-1])
