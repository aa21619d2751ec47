"""Class vectors from class names and templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

PLACEHOLDER = "{c}"


def prompts(classname: str, templates: Sequence[str]) -> list[str]:
    return [template.replace(PLACEHOLDER, classname) for template in templates]


def class_vectors(
    encode: Callable[[Sequence[str]], Tensor], classnames: Sequence[str], templates: Sequence[str], batch_size: int
) -> Tensor:
    """[classes, d], each the normalised mean of its prompts' normalised vectors (Radford et al. 2021, §3.1.4).

    `encode` turns n texts into [n, d], normalised; it gets the prompts of as many whole classes at once as fit a batch, of
    one class if none do.
    """
    together = max(1, batch_size // len(templates))
    vectors = []
    for at in range(0, len(classnames), together):
        names = classnames[at : at + together]
        encoded = encode([prompt for name in names for prompt in prompts(name, templates)])
        vectors.append(F.normalize(encoded.view(len(names), len(templates), -1).mean(dim=1), dim=-1))
    return torch.cat(vectors)
