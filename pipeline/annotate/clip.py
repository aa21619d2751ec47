"""Images and texts to CLIP features."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.clip_models import ModelFiles

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

Features = NDArray[np.float32]


class ClipModel:
    """A loaded model. The features of a pair do not depend on the batch it is in, up to rounding (1e-6)."""

    def __init__(self, files: ModelFiles, device: str) -> None:
        import open_clip
        import torch
        from open_clip.transform import PreprocessCfg, image_transform_v2

        # Convolutions would otherwise run in TF32 on newer GPUs, whose 10-bit mantissa shows in the third digit.
        torch.backends.cudnn.allow_tf32 = False
        name, self._model = files.create(device)
        self._device = device
        self._tokenize = open_clip.get_tokenizer(name)
        self._preprocess = image_transform_v2(PreprocessCfg(**self._model.visual.preprocess_cfg), is_train=False)

    def pixels(self, image: Image) -> torch.Tensor:
        """One image as the model's input, (3, H, W) float32. Safe to call from several threads."""
        tensor: torch.Tensor = self._preprocess(image)
        return tensor

    def encode(self, pixels: Sequence[torch.Tensor], texts: Sequence[str]) -> tuple[Features, Features]:
        """Features of n images and n texts, L2-normalised: (n, d) and (n, d). Long texts are cut to the context."""
        import torch

        with torch.inference_mode():
            images = self._model.encode_image(torch.stack(list(pixels)).to(self._device), normalize=True)
            tokens = self._tokenize(list(texts)).to(self._device)
            captions = self._model.encode_text(tokens, normalize=True)
        return images.float().cpu().numpy(), captions.float().cpu().numpy()


@functools.lru_cache(maxsize=1)
def load(files: ModelFiles, device: str) -> ClipModel:
    """The model, kept for the next unit of this process."""
    return ClipModel(files, device)
