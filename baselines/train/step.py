"""One optimiser step: forward, loss, backward, update; in parts where a batch does not fit, over several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, get_total_norm

from baselines.train.config import Plan
from baselines.train.distributed import World
from baselines.train.loss import build_loss
from baselines.train.optimizer import build_optimizer

MAX_LOGIT_SCALE = math.log(100)


@dataclass(frozen=True)
class Placed:
    """A process's part of a batch on its device."""

    images: Tensor  # uint8 or float [n, 3, H, W]
    tokens: Tensor  # [n, context length]
    uids: Sequence[str]


@dataclass(frozen=True)
class Measured:
    """What a step has shown before its update."""

    loss: float  # of this process's part; the mean over the processes is that of the batch
    scale: float
    bias: float | None
    grad_norm: float  # of the whole gradient, before it is clipped
    busy: float  # seconds that a GPU was at work; 0 without one


class Stepper:
    """A model with all that trains it. `net` is the plain model, whose weights are saved."""

    def __init__(self, net: Any, plan: Plan, world: World, normalise: Callable[[Tensor], Tensor]) -> None:
        self.plan, self.world, self.normalise = plan, world, normalise
        torch.backends.cudnn.benchmark = plan.device == "cuda"  # all batches but the last have one shape
        if plan.device == "cuda" and world.size > 1:
            # Changes nothing where there is no batch norm.
            net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)  # type: ignore[no-untyped-call]
        # Convolutions are a third faster with the channels of a pixel side by side; the numbers are the same up to rounding.
        self.net = net.to(memory_format=torch.channels_last)
        self.optimizer = build_optimizer(net, plan.scale)
        self.scaler = torch.amp.GradScaler("cuda", enabled=plan.precision == "amp")  # fp16 gradients underflow without it
        self.loss = build_loss(plan.scale, rank=world.rank, world=world.size)
        if plan.scale.grad_checkpointing and plan.device == "cuda":
            net.set_grad_checkpointing(True)
        if plan.compile:
            net.compile(dynamic=False)
        self._called = self.net if world.size == 1 else _distributed(net, plan)
        self._events: list[Any] = []  # of a GPU: its work on a batch begins, ends
        if plan.device == "cuda":
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
        self._parameters = [p for p in net.parameters() if p.requires_grad]

    def gradients(self, batch: Placed, parts: int) -> Tensor:
        """Leaves the gradients of the batch's loss, averaged over the processes, in the parameters.

        Returns what `read` waits for: a GPU is still at work.
        """
        if self._events:
            self._events[0].record()
        self.optimizer.zero_grad()
        loss = self._whole(batch) if parts == 1 else self._in_parts(batch, parts)
        self.scaler.unscale_(self.optimizer)
        bias = getattr(self.net, "logit_bias", None)
        seen = [loss, self.net.logit_scale.exp(), self._clipped(), *([] if bias is None else [bias])]
        values = torch.stack([v.detach().float().reshape(()) for v in seen])
        if self._events:
            self._events[1].record()
        return values

    def read(self, values: Tensor) -> Measured:
        """The figures of `gradients`: the one wait for a GPU in a step."""
        loss, scale, norm, *bias = values.tolist()
        busy = self._events[0].elapsed_time(self._events[1]) / 1000 if self._events else 0.0
        return Measured(loss, scale, bias[0] if bias else None, norm, busy)

    def update(self, rate: float) -> None:
        """One step of the optimiser with the gradients there are; with amp none if they are not finite."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.scaler.step(self.optimizer)
        self.scaler.update()
        with torch.no_grad():
            self.net.logit_scale.clamp_(0, MAX_LOGIT_SCALE)

    def _whole(self, batch: Placed) -> Tensor:
        with self._autocast():
            out = self._called(self._images(batch.images), batch.tokens)
            loss = self.loss(out["image_features"], out["text_features"], out["logit_scale"], out.get("logit_bias"), batch.uids)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return loss

    def _in_parts(self, batch: Placed, parts: int) -> Tensor:
        """The same loss and gradients as in one piece, with the activations of one part in memory at a time.

        Features of all parts come first, without activations; the loss of the whole batch gives each feature its gradient;
        then each part is computed again, and its features' gradients go on to the weights (Gao et al. 2021). A batch norm
        sees its part only, twice.
        """
        images, tokens = batch.images.tensor_split(parts), batch.tokens.tensor_split(parts)
        # The second time dropout leaves out what it did at first.
        with torch.random.fork_rng(devices=["cuda"] if self.plan.device == "cuda" else []), torch.no_grad(), self._autocast():
            outs = [self.net(self._images(i), t) for i, t in zip(images, tokens, strict=True)]
        held = {k: torch.cat([o[k] for o in outs]).requires_grad_() for k in ("image_features", "text_features")}
        held |= {k: outs[0][k].detach().clone().requires_grad_() for k in ("logit_scale", "logit_bias") if k in outs[0]}
        with self._autocast():
            loss = self.loss(
                held["image_features"], held["text_features"], held["logit_scale"], held.get("logit_bias"), batch.uids
            )
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        at = 0
        for number, (image, token) in enumerate(zip(images, tokens, strict=True)):
            with self._autocast():
                out = self._called(self._images(image), token)
            rows = slice(at, at := at + len(token))
            terms = []
            for name, value in held.items():
                # Scale and bias are of the whole batch: their gradient goes with the first part, in the others with weight 0.
                gradient = value.grad if value.ndim == 0 or name.startswith("logit") else value.grad[rows]  # type: ignore[index]
                weight = 0.0 if name.startswith("logit") and number else 1.0
                terms.append((out[name].float() * gradient.float() * weight).sum())  # type: ignore[union-attr]
            torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
        return loss

    def _clipped(self) -> Tensor:
        if self.plan.scale.grad_clip:
            return clip_grad_norm_(self._parameters, self.plan.scale.grad_clip)
        return get_total_norm([p.grad for p in self._parameters if p.grad is not None])

    def _images(self, images: Tensor) -> Tensor:
        return self.normalise(images).contiguous(memory_format=torch.channels_last)

    def _autocast(self) -> torch.autocast:
        dtype = torch.float16 if self.plan.precision == "amp" else torch.bfloat16
        return torch.autocast(self.plan.device, dtype, enabled=self.plan.precision != "fp32")


def _distributed(net: Any, plan: Plan) -> Any:
    """The model with gradients that are averaged over the processes."""
    devices = [torch.cuda.current_device()] if plan.device == "cuda" else None
    return DistributedDataParallel(net, device_ids=devices, static_graph=True)
