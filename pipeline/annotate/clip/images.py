"""Pixels to what a CLIP model sees, as open_clip's own transform makes it, in a quarter of the time.

The transform is Pillow's: the short side to the model's size, bicubic with a wider window where it shrinks, then the central
square. Here torch computes the same from whole numbers: no value is further than 1 of 255 from Pillow's. A JPEG at least
four times as large as needed is decoded at 1/2, 1/4 or 1/8 first; docs/ANNOTATE.md says how far that is from the whole.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels, Unscored
from pools.schema import Reason

if TYPE_CHECKING:
    import torch

MAX_RATIO = 1000  # the short side is brought to the model's size, and the long one grows with it
LEAST = 2  # a reduced picture's short side is at least so many times the model's size

_thread = threading.local()


class Transform:
    """What open_clip calls a preprocessing config, in two steps: a picture's square of bytes, a batch's normalised floats."""

    def __init__(self, config: dict[str, Any]) -> None:
        from open_clip.transform import PreprocessCfg, image_transform_v2

        self._config = PreprocessCfg(**config)
        height, width = self._config.input_size[1:]
        self.size = int(height)
        plain = self._config.resize_mode == "shortest" and self._config.interpolation in ("bicubic", "bilinear")
        self._by_open_clip = None if plain and height == width else image_transform_v2(self._config, is_train=False)

    @property
    def min_side(self) -> int | None:
        """What to ask of `Sample.pixels` for a reduced picture."""
        return LEAST * self.size if self._by_open_clip is None else None

    def square(self, pixels: Pixels, whole: tuple[int, int] | None = None) -> NDArray[Any]:
        """(height, width, 3) to (size, size, 3) uint8, or to open_clip's own (3, h, w) float32 where its way is another one.

        `whole` is the picture's width and height, where `pixels` is a reduced one.
        """
        height, width = pixels.shape[:2]
        whole = whole or (width, height)
        if max(height, width) > MAX_RATIO * min(height, width):
            raise Unscored(Reason.ASPECT_RATIO.value)
        if self._by_open_clip is None:
            return self._shortest(pixels, *whole)
        from PIL import Image

        made: NDArray[np.float32] = self._by_open_clip(Image.fromarray(pixels)).numpy()
        return made

    def batch(self, squares: list[NDArray[Any]], device: str) -> torch.Tensor:
        """n squares to (n, 3, size, size) float32 on a device, by the operations of torchvision's ToTensor and Normalize."""
        import torch

        stacked = torch.from_numpy(np.stack(squares))
        if device != "cpu":
            stacked = stacked.pin_memory().to(device, non_blocking=True)
        if stacked.dtype != torch.uint8:
            return stacked
        mean, std = (torch.tensor(v, device=stacked.device).view(-1, 1, 1) for v in (self._config.mean, self._config.std))
        return stacked.permute(0, 3, 1, 2).to(torch.float32).div_(255).sub_(mean).div_(std)

    def _shortest(self, pixels: Pixels, width: int, height: int) -> NDArray[np.uint8]:
        import torch

        _one_thread()
        short, size = min(height, width), self.size
        # Rounded as torchvision does it.
        scaled = (int(size * height / short), int(size * width / short))
        if short != size:
            source = torch.from_numpy(pixels).permute(2, 0, 1).unsqueeze(0)
            resize = getattr(torch.ops.aten, f"_upsample_{self._config.interpolation}2d_aa")
            # A pixel of a reduced picture is 2, 4 or 8 wide, the last one as far as the picture goes.
            scales = [scaled[i] * _factor(side, pixels.shape[i]) / side for i, side in enumerate((height, width))]
            made = resize(source, scaled, False, *scales)
            pixels = made[0].permute(1, 2, 0).numpy()
        top, left = round((scaled[0] - size) / 2), round((scaled[1] - size) / 2)
        return np.ascontiguousarray(pixels[top : top + size, left : left + size])


def _factor(whole: int, reduced: int) -> int:
    return next((k for k in (1, 2, 4) if -(-whole // k) == reduced), 8)


def _one_thread() -> None:
    """Threads that prepare pictures are many already; the setting is the calling thread's own."""
    if not getattr(_thread, "settled", False) and threading.current_thread() is not threading.main_thread():
        import torch

        torch.set_num_threads(1)
        _thread.settled = True
