"""From the bytes of a picture to the pixels that the model is fed with, as open_clip's training transform has them, faster.

That transform is a random crop, resized (bicubic), as floats, normalised. Here the same pixels stay bytes: they are a quarter
as much to hand on, and are normalised on the model's device. What is drawn depends on the sample's seed alone.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import simplejpeg
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.download.images import prepare as images

if TYPE_CHECKING:
    from PIL.Image import Image

_TRIES = 10  # draws of a crop that may not fit into the picture


def rgb(data: bytes) -> Image:
    """The picture in RGB. Raises ValueError with the reason if the bytes are none, are cut, or would fill the memory."""
    found = images.open_image(data, images.MAX_PIXELS)
    if not isinstance(found, images.Reject):
        found = images.rgb(found)
    if isinstance(found, images.Reject):
        raise ValueError(f"{found.reason}: {found.message}")
    return found


def rgb_pixels(data: bytes) -> NDArray[np.uint8]:
    """[h, w, 3], equal to `rgb`'s; a sound JPEG without Pillow, which takes half as long again for it."""
    pixels = _jpeg(data) if data[:3] == b"\xff\xd8\xff" else None
    return np.asarray(rgb(data)) if pixels is None else pixels


def _jpeg(data: bytes) -> NDArray[np.uint8] | None:
    """None where Pillow must judge: it reads CMYK as well, forgives small damage, and has the words for the rest."""
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
        if colours not in ("YCbCr", "RGB", "Gray") or height * width > images.MAX_PIXELS:
            return None
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB")
    except ValueError:
        return None
    return pixels


@dataclass(frozen=True)
class Normalise:
    """[n, 3, h, w] bytes on any device → float32, (x / 255 - mean) / std, to the bit what ToTensor and Normalize give."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, pixels: Tensor) -> Tensor:
        mean, std = (_column(v, pixels.device) for v in (self.mean, self.std))
        return pixels.to(torch.float32).div_(255).sub_(mean).div_(std)


@functools.lru_cache(maxsize=8)
def _column(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


@dataclass(frozen=True)
class Crop:
    """A random part of the picture, `scale` of its area and of `ratio` width / height, resized to `size` (height, width).

    As torchvision's RandomResizedCrop does it, which draws from PyTorch's global generator and takes ten times as long to.
    """

    size: tuple[int, int]
    scale: tuple[float, float]
    ratio: tuple[float, float]
    interpolation: int  # Pillow's number

    def __call__(self, data: bytes, seed: int) -> NDArray[np.uint8]:
        """[h, w, 3]. Raises ValueError as `rgb` does."""
        from PIL import Image

        pixels = rgb_pixels(data)
        top, left, height, width = self.box(pixels.shape[0], pixels.shape[1], random.Random(seed))
        part = np.ascontiguousarray(pixels[top : top + height, left : left + width])
        picture = Image.frombuffer("RGB", (width, height), part, "raw", "RGB", 0, 1)
        return np.asarray(picture.resize(self.size[::-1], self.interpolation))

    def box(self, height: int, width: int, draw: random.Random) -> tuple[int, int, int, int]:
        """Top, left, height and width of the part."""
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(_TRIES):
            area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * draw.random())
            shape = math.exp(low + (high - low) * draw.random())
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return int(draw.random() * (height - h + 1)), int(draw.random() * (width - w + 1)), h, w
        h, w = height, width
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w


@dataclass(frozen=True)
class Steps:
    """What another transform does to a picture, with PyTorch's global generator seeded by the sample."""

    steps: tuple[Callable[[Any], Any], ...]

    def __call__(self, data: bytes, seed: int) -> Any:
        """What the last step gives: a picture in RGB, [3, h, w] floats. Raises ValueError as `rgb` does."""
        from PIL import Image

        found: Any = Image.fromarray(rgb_pixels(data))
        # Not torch.manual_seed, which also notes a stack trace for every kind of device that is not there, at 0.3 ms a sample.
        torch.default_generator.manual_seed(seed)
        for step in self.steps:
            found = step(found)
        return found


def as_bytes(transform: Any) -> tuple[Crop | Steps, Normalise] | None:
    """A transform that ends in ToTensor and Normalize in two parts: up to bytes, and from there; None for another."""
    from open_clip.transform import MaybeConvertMode, MaybeToTensor
    from torchvision.transforms import InterpolationMode, Normalize, RandomResizedCrop, ToTensor

    steps = tuple(getattr(transform, "transforms", ()))
    if len(steps) < 3 or type(steps[-1]) is not Normalize or type(steps[-2]) not in (MaybeToTensor, ToTensor):
        return None
    *before, _, norm = steps
    normalise = Normalise(tuple(map(float, norm.mean)), tuple(map(float, norm.std)))
    modes = {InterpolationMode.BICUBIC: 3, InterpolationMode.BILINEAR: 2}
    cut = before[0]
    if [type(s) for s in before] == [RandomResizedCrop, MaybeConvertMode] and cut.interpolation in modes:
        size, scale, ratio = (tuple(v) for v in (cut.size, cut.scale, cut.ratio))
        return Crop(size, scale, ratio, modes[cut.interpolation]), normalise
    return Steps(tuple(before)), normalise
