"""Learning rate over steps, which count from 0. The first step is at peak/warmup, not at 0, and 0 is never quite reached."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pools.scales import Scale


def learning_rate(step: int, scale: Scale, steps: int) -> float:
    """The rate of a step in a training of so many steps: linear warmup to the peak, the scale's schedule, its cooldown.

    `cosine` is half a cosine to 0 as open_clip has it, `linear` a line to 0 (ALIGN), both from the end of the warmup to the
    last step; `inverse_sqrt` falls with 1/√step from the end of the warmup on (Zhai et al. 2022) and `constant` stays, both
    whatever the number of steps is. The cooldown multiplies the rates of the last `cooldown_steps` steps by what falls
    linearly from 1 to 0; so a training with few steps cools down on a branch off one with many, see `branch_end`.
    """
    peak, warmup = scale.learning_rate, scale.warmup_steps
    if step < warmup:
        rate = peak * (step + 1) / warmup
    elif scale.schedule == "cosine":
        rate = 0.5 * peak * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
    elif scale.schedule == "linear":
        rate = peak * (steps - step) / (steps - warmup)
    elif scale.schedule == "inverse_sqrt":
        rate = peak * math.sqrt(max(warmup, 1) / (step + 1))
    else:
        rate = peak
    left = steps - step
    return rate * left / scale.cooldown_steps if left < scale.cooldown_steps else rate


def branch_end(start: int, scale: Scale) -> int:
    """Steps in all of a branch that leaves a training after `start` steps to cool down.

    Up to `start`, its rates are the training's own, if the training did not cool down before.
    """
    return start + scale.cooldown_steps


def branch_starts(scale: Scale, steps: int) -> tuple[int, ...]:
    """Steps after which a training of so many keeps its whole state, so that branches end at the scale's `cooled` percents.

    Where a mark comes before the end of warmup and cooldown, there is nothing to cool down from.
    """
    starts = (round(steps * percent / 100) - scale.cooldown_steps for percent in scale.cooled)
    return tuple(s for s in starts if s >= max(scale.warmup_steps, 1))
