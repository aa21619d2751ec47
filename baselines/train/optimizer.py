"""What turns gradients into steps."""

from __future__ import annotations

import torch

from pools.scales import Scale


def build_optimizer(net: torch.nn.Module, scale: Scale) -> torch.optim.Optimizer:
    """The scale's AdamW or LAMB over two groups: what does not decay, and what does.

    As open_clip has it, norms, biases, the logits' scale and bias do not. LAMB (You et al. 2020) takes those parameters
    without its trust ratio, as its authors do. Neither clips gradients by itself.
    """
    free, decayed = _groups(net)
    groups = [{"params": free, "weight_decay": 0.0}, {"params": decayed, "weight_decay": scale.weight_decay}]
    betas = (scale.beta1, scale.beta2)
    if scale.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=scale.learning_rate, betas=betas, eps=scale.eps, fused=True)
    from timm.optim.lamb import Lamb

    return Lamb(groups, lr=scale.learning_rate, betas=betas, eps=scale.eps, max_grad_norm=None)


def _groups(net: torch.nn.Module) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    free: list[torch.nn.Parameter] = []
    decayed: list[torch.nn.Parameter] = []
    for name, parameter in net.named_parameters():
        if parameter.requires_grad:
            named = any(part in name for part in ("bn", "ln", "bias", "logit_scale"))
            (free if parameter.ndim < 2 or named else decayed).append(parameter)
    return free, decayed
