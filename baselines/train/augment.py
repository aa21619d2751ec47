"""From a picture to what the model sees of it in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pools.scales import Augment

if TYPE_CHECKING:
    from open_clip.transform import PreprocessCfg

ALIGN_RESIZED, ALIGN_CROPPED = 346, 289


def training_transform(cfg: PreprocessCfg, augment: Augment) -> Callable[[Any], Any]:
    """RGB picture → float [3, H, W]; the last two steps make a tensor of it and normalise it.

    `resized_crop` is open_clip's; `crop_flip` is ALIGN's: the picture at 346/289 of the model's side, its shape not kept, a
    random crop of the model's size, and half of the crops mirrored.
    """
    from open_clip.transform import image_transform_v2
    from torchvision import transforms

    plain: Any = image_transform_v2(cfg, is_train=True)
    if augment == "resized_crop":
        return plain  # type: ignore[no-any-return]
    height, width = cfg.size if isinstance(cfg.size, tuple | list) else (cfg.size, cfg.size)
    larger = [round(side * ALIGN_RESIZED / ALIGN_CROPPED) for side in (height, width)]
    return transforms.Compose(  # type: ignore[no-any-return]
        [
            transforms.Resize(larger, transforms.InterpolationMode.BICUBIC),
            transforms.RandomCrop((height, width)),
            transforms.RandomHorizontalFlip(),
            *plain.transforms[-3:],  # to RGB, to a tensor, normalised
        ]
    )
