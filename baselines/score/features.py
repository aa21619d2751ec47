"""All features of a set of images at once, for what needs them all: classifiers that learn, and search among images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from baselines.score.encode import Encoder
from baselines.score.metrics import Ints
from baselines.train.decode import Raw


@dataclass(frozen=True)
class Features:
    """`vectors` [m, d], L2-normalised, of the m images that could be read; `rows` [m] are their targets, `lost` the others."""

    rows: Ints
    vectors: Tensor
    lost: tuple[Raw, ...]


def gather(encoder: Encoder, raws: Iterable[Raw], task: str) -> Features:
    """Raises WorkFailed as `Encoder.images` does."""
    items, vectors = encoder.features(raws, task)
    rows = np.array([i.target for i in items if not i.failed], np.int64)
    return Features(rows, vectors, tuple(i for i in items if i.failed))
