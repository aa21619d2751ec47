"""EfficientNet-lite0: a picture to scores of ImageNet's 1,000 classes. (Tan and Le 2019, in TensorFlow's lite form)"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels
from pools.errors import InputError

if TYPE_CHECKING:
    import torch

SIDE = 224
WHOLE = 256  # the short side of which the middle SIDE × SIDE are taken
_MEAN, _SCALE = 127.0, 128.0
TRANSFORM = {"size": SIDE, "short_side": WHOLE, "interpolation": "bicubic", "mean": _MEAN, "scale": _SCALE}
_CHUNK = 8
_EPSILON = 1e-3  # of the batch normalisation
# Strides of the 16 blocks; everything else is told by the shapes of the weights.
_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)


def crop(pixels: Pixels) -> NDArray[np.float32]:
    """The network's input: the middle of a picture, its short side brought to 256 first, as (3, 224, 224)."""
    from PIL import Image

    height, width = pixels.shape[:2]
    side = min(height, width) * SIDE / WHOLE
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    taken = Image.fromarray(pixels).resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=box)
    return (np.asarray(taken, np.float32).transpose(2, 0, 1) - _MEAN) / _SCALE


@dataclass(frozen=True)
class _Convolution:
    """A convolution with its batch normalisation worked into weight and bias."""

    weight: torch.Tensor
    bias: torch.Tensor
    stride: int
    clipped: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        import torch.nn.functional as f

        kernel = self.weight.shape[-1]
        groups = x.shape[1] // self.weight.shape[1]
        if kernel > 1:  # as TensorFlow pads: the odd pixel goes behind
            need = max(kernel - self.stride, 0) if x.shape[-1] % self.stride == 0 else kernel - x.shape[-1] % self.stride
            x = f.pad(x, (need // 2, need - need // 2) * 2)
        x = f.conv2d(x, self.weight, self.bias, self.stride, groups=groups)
        return x.clamp_(0, 6) if self.clipped else x


class EfficientNetLite0:
    """The network with its weights, in fp32, under the names of efficientnet-lite-pytorch's state dict."""

    def __init__(self, state: Mapping[str, torch.Tensor], device: str) -> None:
        def convolution(name: str, norm: str, stride: int = 1, *, clipped: bool = True) -> _Convolution:
            factor = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + _EPSILON).sqrt()
            bias = state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * factor
            weight = state[f"{name}.weight"] * factor[:, None, None, None]
            return _Convolution(weight.to(device), bias.to(device), stride, clipped)

        self._device = device
        self._stem = convolution("_conv_stem", "_bn0", 2)
        self._blocks = []
        for i, stride in enumerate(_STRIDES):
            block = f"_blocks.{i}."
            widen = [convolution(f"{block}_expand_conv", f"{block}_bn0")] if f"{block}_expand_conv.weight" in state else []
            depthwise = convolution(f"{block}_depthwise_conv", f"{block}_bn1", stride)
            narrow = convolution(f"{block}_project_conv", f"{block}_bn2", clipped=False)
            self._blocks.append([*widen, depthwise, narrow])
        self._head = convolution("_conv_head", "_bn1")
        self._weight, self._bias = state["_fc.weight"].to(device), state["_fc.bias"].to(device)

    @classmethod
    def load(cls, path: str, device: str) -> EfficientNetLite0:
        """From a file of weights. Raises InputError for one that is not of this network."""
        import torch

        try:
            return cls(torch.load(path, map_location="cpu", weights_only=True), device)
        except (pickle.UnpicklingError, RuntimeError, KeyError, AttributeError) as e:
            raise InputError(f"unreadable: {e}", where=path, expected="the weights of efficientnet-lite0") from e

    def logits(self, crops: NDArray[np.float32]) -> torch.Tensor:
        """(n, 3, 224, 224) → (n, 1000)."""
        import torch

        # A few pictures at a time stay in the processor's cache, and channels last are the faster order there.
        whole = torch.from_numpy(crops).to(self._device).contiguous(memory_format=torch.channels_last)
        return torch.cat([self._forward(whole[i : i + _CHUNK]) for i in range(0, len(whole), _CHUNK)])

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        import torch

        x = self._stem(x)
        for block in self._blocks:
            before = x
            for convolution in block:
                x = convolution(x)
            if x.shape == before.shape:
                x = x + before
        return torch.nn.functional.linear(self._head(x).mean((2, 3)), self._weight, self._bias)
