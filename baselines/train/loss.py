"""The contrastive losses over a batch of pairs, which may lie on several processes.

Each process computes its own rows only, against the features of all: n × B logits instead of B × B (Cherti et al. 2022,
appendix). The mean of the processes' losses is the loss of the whole batch in one process; gathering lets gradients through,
so after the usual averaging the gradients are that process's as well. Processes may hold different numbers of pairs, one at
least.

Pairs of one uid (a list may name it several times, a small set starts a new pass within a batch) are no negatives of each
other, wherever they lie: such logits are left out.

Whoever accumulates gradients over parts of a batch calls the loss once, on the features of all parts, and computes each part
again with the gradient of its features: the logits' scale and bias then count once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn import functional as F  # noqa: N812

from pools.scales import Loss, Scale

# What the logits start from: SigLIP's temperature 10 and bias −10, ALIGN's temperature 1; else what the model says.
_START: dict[Loss, dict[str, float]] = {
    "softmax": {},
    "sigmoid": {"init_logit_scale": math.log(10), "init_logit_bias": -10.0},
    "align": {"init_logit_scale": 0.0},
}


def initial_logits(scale: Scale) -> dict[str, float]:
    """Options of open_clip's `create_model` (and entries of a model config) that go with the scale's loss."""
    return dict(_START[scale.loss])


def build_loss(scale: Scale, *, rank: int = 0, world: int = 1) -> ContrastiveLoss:
    """The scale's loss for the process of that rank."""
    return ContrastiveLoss(scale.loss, scale.label_smoothing, rank, world)


@dataclass(frozen=True)
class ContrastiveLoss:
    """A loss of L2-normalised features.

    `softmax`: cross-entropy over scale · image @ text.T, the mean of both directions (CLIP); `align`: their sum (ALIGN).
    `sigmoid`: −log σ(±(scale · image @ text.T + bias)) summed over all pairs of the batch, divided by the number of images, as
    SigLIP's implementation and open_clip have it (the papers write it as a mean over all pairs).
    """

    kind: Loss = "softmax"
    label_smoothing: float = 0.0
    rank: int = 0
    world: int = 1

    def __call__(self, image: Tensor, text: Tensor, scale: Tensor, bias: Tensor | None, uids: Sequence[str]) -> Tensor:
        """The loss of this process's pairs: features [n, d], scale and bias scalars, n uids."""
        others = _alone(image, text, uids) if self.world == 1 else _gathered(image, text, uids, self.rank, self.world)
        if self.kind == "sigmoid":
            value = self._sigmoid(image, others, scale, bias)
        else:
            per_image, per_text = _logits(image, others.text, scale, bias), _logits(text, others.image, scale, bias)
            value = self._entropy(per_image, others) + self._entropy(per_text, others)
            value = value / 2 if self.kind == "softmax" else value
        return value if others.weight == 1 else value * others.weight

    def _entropy(self, logits: Tensor, others: _Batch) -> Tensor:
        labels = torch.arange(others.first, others.first + len(logits), device=logits.device)
        if others.same is None:
            return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        logits = logits.masked_fill(others.same, -torch.inf)
        if not self.label_smoothing:
            return F.cross_entropy(logits, labels)
        # What is left out has no part of the smoothed label either.
        logs = logits.log_softmax(1)
        own = logs.gather(1, labels[:, None]).squeeze(1)
        mean = logs.masked_fill(others.same, 0).sum(1) / (~others.same).sum(1)
        return -((1 - self.label_smoothing) * own + self.label_smoothing * mean).mean()

    def _sigmoid(self, image: Tensor, others: _Batch, scale: Tensor, bias: Tensor | None) -> Tensor:
        logits = _logits(image, others.text, scale, bias)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # a sum over so many pairs is too much for half
        signs = -torch.ones_like(logits)
        signs.diagonal(others.first).fill_(1)
        terms = F.logsigmoid(signs * logits)
        if others.same is not None:
            terms = terms.masked_fill(others.same, 0)
        return -terms.sum() / len(image)


@dataclass(frozen=True)
class _Batch:
    """The whole batch as one process sees it."""

    image: Tensor  # [B, d]
    text: Tensor  # [B, d]
    first: int  # where this process's pairs begin
    same: Tensor | None  # bool [n, B]: other pairs of the same uid
    weight: float  # of this process's mean: its share of the pairs times the number of processes


def _logits(rows: Tensor, columns: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    logits = scale * rows @ columns.T
    return logits if bias is None else logits + bias


def _alone(image: Tensor, text: Tensor, uids: Sequence[str]) -> _Batch:
    if len(set(uids)) == len(uids):
        return _Batch(image, text, 0, None, 1.0)
    ids = _ids(uids, image.device)
    return _Batch(image, text, 0, _same(ids, ids, 0), 1.0)


def _gathered(image: Tensor, text: Tensor, uids: Sequence[str], rank: int, world: int) -> _Batch:
    sizes = _sizes(len(image), world)
    ids = _ids(uids, image.device)
    everyone = torch.cat(_all_gather(ids, sizes))
    first = sum(sizes[:rank])
    both: Tensor = _Gather.apply(torch.cat((image, text), 1), sizes, rank)
    images, texts = both.chunk(2, 1)
    return _Batch(images, texts, first, _same(ids, everyone, first), len(image) * world / sum(sizes))


def _ids(uids: Sequence[str], device: torch.device) -> Tensor:
    """64-bit hashes [n]. Should two uids ever share one, a negative is left out."""
    hashes = (hashlib.blake2b(uid.encode(), digest_size=8).digest() for uid in uids)
    return torch.tensor([int.from_bytes(h, "little", signed=True) for h in hashes], dtype=torch.int64, device=device)


def _same(own: Tensor, everyone: Tensor, first: int) -> Tensor:
    same = own[:, None] == everyone[None, :]
    same.diagonal(first).fill_(False)
    return same


def _sizes(n: int, world: int) -> list[int]:
    # Over gloo, which is there beside NCCL: a number that came back from the GPU would make every step wait for it.
    return torch.cat(_all_gather(torch.tensor([n]), [1] * world)).tolist()


def _all_gather(rows: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """The rows of every process, which may be of different numbers, without gradients."""
    most = max(sizes)
    padded = rows.detach().contiguous()
    if len(rows) < most:
        padded = torch.cat((padded, padded.new_zeros(most - len(rows), *rows.shape[1:])))
    parts = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(parts, padded)
    return [part[:size] for part, size in zip(parts, sizes, strict=True)]


class _Gather(torch.autograd.Function):
    """Rows of all processes [B, …] from each one's [n, …]; a row's gradient is the sum of all processes'."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.sizes, ctx.rank = sizes, rank
        return torch.cat(_all_gather(rows, sizes))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        if total.is_cuda and len(set(ctx.sizes)) == 1:
            own = total.new_empty(ctx.sizes[ctx.rank], *total.shape[1:])
            distributed.reduce_scatter_tensor(own, total)  # half of the traffic; gloo, for CPUs, has none
            return own, None, None
        distributed.all_reduce(total)
        first = sum(ctx.sizes[: ctx.rank])
        return total[first : first + ctx.sizes[ctx.rank]], None, None
