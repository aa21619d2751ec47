"""The contrastive loss over a batch of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from open_clip import ClipLoss
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def contrastive_loss(image: Tensor, text: Tensor, scale: Tensor, uids: Sequence[str]) -> Tensor:
    """Symmetric cross-entropy over scale · image[n, d] @ text[n, d].T, features L2-normalised.

    A sample that stands twice in the batch (a list may name a uid several times, a small set starts a new pass within a
    batch) is no negative of itself: such pairs are left out of the sum.
    """
    loss = ClipLoss()
    if len(set(uids)) == len(uids):
        value: Tensor = loss(image, text, scale)
        return value
    number = {uid: i for i, uid in enumerate(uids)}
    ids = torch.tensor([number[uid] for uid in uids], device=image.device)
    same = (ids[:, None] == ids[None, :]).fill_diagonal_(False)
    per_image, per_text = loss.get_logits(image, text, scale)
    labels = torch.arange(len(uids), device=image.device)
    return (
        F.cross_entropy(per_image.masked_fill(same, -torch.inf), labels)
        + F.cross_entropy(per_text.masked_fill(same, -torch.inf), labels)
    ) / 2
