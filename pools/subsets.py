"""Nested random subsets of a pool, small ⊂ medium ⊂ large: whether a row is in one is decided by its uid alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pools.uids import Uids, hash64

# Of its own ("subsets" in ASCII): a recipe or a sample draws with 0, 1, 2 …, and must not draw what was drawn already.
SEED = 0x73756273657473


@dataclass(frozen=True)
class Within:
    """The uids whose 64-bit hash is below `fraction` · 2^64: the same in every pool, and all of them in a larger fraction."""

    fraction: Fraction  # in (0, 1]

    def keep(self, uids: Uids) -> NDArray[np.bool_]:
        """(n,) whether each uid is in the subset."""
        last = math.ceil(self.fraction * (1 << 64)) - 1
        kept: NDArray[np.bool_] = hash64(uids, SEED) <= np.uint64(last)
        return kept
