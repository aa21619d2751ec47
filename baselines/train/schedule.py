"""Learning rate over steps."""

from __future__ import annotations

import math


def learning_rate(step: int, *, steps: int, peak: float, warmup: int) -> float:
    """Linear warmup to `peak`, then half a cosine to 0; `step` counts from 0.

    As open_clip (and so DataComp) has it: the first step is at peak/warmup, not at 0, and 0 is never quite reached.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    return 0.5 * peak * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))
