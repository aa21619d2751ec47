"""Zero-shot classification: an image belongs to the class whose prompts are nearest to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score.evaldata import PLACEHOLDER
from baselines.train.decode import Chunk, Raw
from pools.errors import WorkFailed


def class_vectors(
    encode_text: Callable[[Tensor], Tensor],
    tokenizer: Callable[[list[str]], Tensor],
    classnames: Sequence[str],
    templates: Sequence[str],
    device: str = "cpu",
) -> Tensor:
    """[classes, d], each the normalised mean of its prompts' normalised vectors (Radford et al. 2021, §3.1.4)."""
    vectors = []
    with torch.inference_mode():
        for name in classnames:
            tokens = tokenizer([t.replace(PLACEHOLDER, name) for t in templates]).to(device)
            prompts = F.normalize(encode_text(tokens).float(), dim=-1)
            vectors.append(F.normalize(prompts.mean(dim=0), dim=-1))
    return torch.stack(vectors)


def ranks(logits: Tensor, labels: Tensor) -> Tensor:
    """How many classes come before each row's own: [n, classes] and [n] → [n]. Of equal scores the lower class is first.

    Raises WorkFailed for scores that are no numbers, which would otherwise pass for right answers.
    """
    if not bool(torch.isfinite(logits).all()):
        raise WorkFailed("the model's features are not finite: its weights are broken")
    own = logits.gather(1, labels[:, None])
    lower = torch.arange(logits.shape[1], device=logits.device)[None, :] < labels[:, None]
    return ((logits > own) | ((logits == own) & lower)).sum(dim=1)


def classify(
    model: Any, chunks: Iterable[Chunk], vectors: Tensor, *, device: str, batch_size: int
) -> Iterator[tuple[Raw, int | None]]:
    """Each image and the rank of its own class, None where the image could not be read, in order."""
    for items, images, labels in _batches(chunks, batch_size):
        found: Iterator[int] = iter(())
        if len(images):
            with torch.inference_mode():
                features = F.normalize(model.encode_image(images.to(device)).float(), dim=-1)
                found = iter(ranks(features @ vectors.T, labels.to(device)).tolist())
        for item in items:
            yield item, None if item.failed else next(found)


def _batches(chunks: Iterable[Chunk], size: int) -> Iterator[tuple[list[Raw], Tensor, Tensor]]:
    """Chunks put together until there are `size` images or more."""
    held: list[Chunk] = []
    for chunk in chunks:
        held.append(chunk)
        if sum(len(c.images) for c in held) >= size:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(held: list[Chunk]) -> tuple[list[Raw], Tensor, Tensor]:
    good = [c for c in held if len(c.images)]
    items = [i for c in held for i in c.items]
    if not good:
        return items, torch.empty(0), torch.empty(0)
    return items, torch.cat([c.images for c in good]), torch.cat([c.targets for c in good])
