"""Bytes as served to the image that is stored, or to the reason why not.

By default pixels and bytes are DataComp's, that is those of img2dataset's resizer: longest side at most 512, only if
bigger, area means, JPEG quality 95, bytes of a JPEG that needs no change unchanged, transparency on white. Unlike there,
pictures stand upright, and what is cut or lies about itself is told apart. docs/DOWNLOAD.md has what becomes of what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from pipeline.download.images import blur, orientation, resize
from pipeline.download.images.decode import MAX_PIXELS as MAX_PIXELS
from pipeline.download.images.decode import Decoded, decode, frames, room
from pipeline.download.images.decode import Reject as Reject
from pipeline.download.images.decode import open_image as open_image
from pipeline.download.images.decode import rgb as rgb
from pools.errors import InputError
from pools.schema import Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EncodeFormat = Literal["jpg", "png", "webp"]
Exif = Literal["apply", "ignore"]
# Pillow's names of formats, as file extensions.
EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif", "JPEG2000": "jp2", "DIB": "bmp"}
_LONGEST_SIDE = {"jpg": 65_535, "png": 1_000_000, "webp": 16_383}  # that the formats, or OpenCV's writers, have room for


@dataclass(frozen=True, kw_only=True)
class ImageRules:
    """Which images are stored, and how; names and meanings are img2dataset's where it has them."""

    image_size: int = 512  # pixels
    resize_mode: resize.ResizeMode = "keep_ratio_largest"  # which side becomes `image_size`
    only_if_bigger: bool = True  # whether smaller images stay as they are, without borders
    encode_format: EncodeFormat = "jpg"
    quality: int = 95  # 1 to 100; of png how hard it is compressed, 0 to 9
    reencode: bool = True  # if not, bytes are stored as served whatever the format; only faces to blur change them
    exif: Exif = "apply"  # whether pictures are stored upright, or as img2dataset leaves them
    min_bytes: int = 0  # as served
    min_side: int = 0  # pixels, as served
    max_ratio: float | None = None  # long side / short side, as served
    max_pixels: int = MAX_PIXELS  # width · height as the header states it, before anything is decoded

    def __post_init__(self) -> None:
        if min(self.image_size, self.max_pixels) < 1 or min(self.min_bytes, self.min_side) < 0 or (self.max_ratio or 1) < 1:
            raise InputError(f"an image rule is out of range: {self}", expected="sizes and ratio ≥ 1, least bytes and side ≥ 0")
        lowest, highest = (0, 9) if self.encode_format == "png" else (1, 100)
        if not lowest <= self.quality <= highest:
            raise InputError(f"quality {self.quality}", expected=f"{lowest} to {highest} for {self.encode_format}")
        for name, value, known in (
            ("resize mode", self.resize_mode, resize.ResizeMode),
            ("format", self.encode_format, EncodeFormat),
            ("exif", self.exif, Exif),
        ):
            if value not in get_args(known):
                raise InputError(f"no such {name}: {value}", expected=", ".join(get_args(known)))


@dataclass(frozen=True)
class Prepared:
    """An image to store. Sizes in pixels, upright; `original` is as served."""

    data: bytes
    width: int
    height: int
    original_width: int
    original_height: int
    frames: int = 1  # pictures in the served file, of which this is the first
    ext: str = "jpg"  # of the format that `data` is in

    @property
    def jpeg(self) -> bytes:
        return self.data


def prepare(body: bytes, rules: ImageRules, boxes: Sequence[Sequence[float] | None] | None = None) -> Prepared | Reject:
    """The stored form of a served image. Threads may call it at once: what takes long does not hold the interpreter.

    boxes: faces to blur, [x0, y0, x1, y1] each in 0..1 of the upright image.
    Every stored image was decoded to its last pixel, also where its bytes are kept.
    """
    if not body:
        return Reject(Reason.EMPTY, "no bytes")
    if len(body) < rules.min_bytes:
        return Reject(Reason.TOO_FEW_BYTES, f"{len(body)} bytes, at least {rules.min_bytes} are wanted")
    picture = open_image(body, rules.max_pixels)
    if isinstance(picture, Reject):
        return picture
    turned = orientation.read(picture) if rules.exif == "apply" else orientation.UPRIGHT
    size, count = orientation.size(*picture.size, turned), frames(body, picture)
    with room(picture):
        found = _unfit(*size, rules) or decode(body, picture)
        if isinstance(found, Reject):
            return replace(found, original_width=size[0], original_height=size[1], frames=count)
        return _stored(body, found, count, blur.usable(boxes or ()), rules)


def _stored(body: bytes, found: Decoded, count: int, faces: Sequence[blur.Box], rules: ImageRules) -> Prepared | Reject:
    turned = found.orientation if rules.exif == "apply" else orientation.UPRIGHT
    height, width = found.pixels.shape[:2]
    width, height = orientation.size(width, height, turned)
    fits = resize.target(width, height, rules.image_size, rules.resize_mode, rules.only_if_bigger) is None
    served_as = EXTENSIONS.get(found.format, found.format.lower())
    as_wanted = served_as == rules.encode_format and found.plain and count == 1 and fits and turned == orientation.UPRIGHT
    if not faces and (as_wanted or not rules.reencode):
        return Prepared(body, width, height, width, height, count, served_as)
    pixels = _finished(found.pixels, turned, faces, rules)
    stored_height, stored_width = pixels.shape[:2]
    if max(stored_width, stored_height) > _LONGEST_SIDE[rules.encode_format]:
        message = f"{stored_width}×{stored_height} does not fit into a {rules.encode_format}"
        return Reject(Reason.TOO_MANY_PIXELS, message, width, height, count)
    return Prepared(_encoded(pixels, rules), stored_width, stored_height, width, height, count, rules.encode_format)


def _unfit(width: int, height: int, rules: ImageRules) -> Reject | None:
    if min(width, height) < rules.min_side:
        return Reject(Reason.TOO_SMALL, f"{width}×{height}, the short side must have {rules.min_side}")
    if rules.max_ratio is not None and max(width, height) > rules.max_ratio * min(width, height):
        return Reject(Reason.ASPECT_RATIO, f"{width}×{height}, long/short must be at most {rules.max_ratio:g}")
    return None


def _finished(pixels: NDArray[np.uint8], turned: int, faces: Sequence[blur.Box], rules: ImageRules) -> NDArray[np.uint8]:
    """Scaled, turned, blurred, framed: in this order, which is img2dataset's, and least work."""
    import numpy as np

    height, width = pixels.shape[:2]
    size = None
    if rules.reencode:
        size = resize.target(width, height, rules.image_size, rules.resize_mode, rules.only_if_bigger)
        pixels = resize.scaled(pixels, size or (width, height))
    pixels = np.ascontiguousarray(orientation.upright(pixels, turned))
    if faces:
        pixels = blur.blurred(pixels, faces)
    return pixels if size is None else resize.framed(pixels, rules.image_size, rules.resize_mode)


def _encoded(pixels: NDArray[np.uint8], rules: ImageRules) -> bytes:
    """[h, w] or [h, w, 3] RGB in the format of the rules, without metadata."""
    import numpy as np

    cv2 = resize.opencv()
    option = {"jpg": cv2.IMWRITE_JPEG_QUALITY, "png": cv2.IMWRITE_PNG_COMPRESSION, "webp": cv2.IMWRITE_WEBP_QUALITY}
    bgr = np.ascontiguousarray(pixels) if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    ok, data = cv2.imencode(f".{rules.encode_format}", bgr, [option[rules.encode_format], rules.quality])
    assert ok, "OpenCV could not encode an image of bounded size"
    return bytes(data.tobytes())
