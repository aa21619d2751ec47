"""What is counted of a pool's rows, in groups of them: histograms, and how often each of few values is seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
MOST_LABELS = 64  # values of a column up to which it is one of labels
MOST_CLUSTERS = 1 << 17
OTHERS = "(others)"


def by_group(places: NDArray[Any], size: int, weights: NDArray[np.int64]) -> Counts:
    """(n,) places below `size` and (g, n) weights of the rows in each group → (size, g) sums of the weights."""
    return np.stack([_sums(places, size, w) for w in weights], axis=1)


def _sums(places: NDArray[Any], size: int, weights: NDArray[np.int64]) -> Counts:
    # Sums of whole numbers below 2^53 are exact in doubles.
    return np.bincount(places, weights, size).astype(np.int64)


@dataclass
class Histogram:
    """Rows between `edges` (e,), the lower one included: `counts` (e + 1, g), the first below all edges, the last above."""

    edges: NDArray[np.float64]
    groups: int
    counts: Counts = field(init=False)
    nulls: Counts = field(init=False)  # (g,) null or no number

    def __post_init__(self) -> None:
        self.counts = np.zeros((len(self.edges) + 1, self.groups), np.int64)
        self.nulls = np.zeros(self.groups, np.int64)

    def add(self, values: NDArray[np.floating], weights: NDArray[np.int64]) -> None:
        """(n,) numbers, NaN for null. They are compared in their own precision, as thresholds are."""
        good = ~np.isnan(values)
        places = np.searchsorted(self.edges.astype(values.dtype), values[good], side="right")
        self.counts += by_group(places, len(self.counts), weights[:, good])
        self.nulls += weights[:, ~good].sum(1)

    def merge(self, other: Histogram) -> None:
        self.counts += other.counts
        self.nulls += other.nulls


@dataclass
class Labels:
    """How often each value is seen: {value: (g,)}. With more than `most` values, the rest are `OTHERS`, or it is given up."""

    groups: int
    most: int = MOST_CLUSTERS
    gives_up: bool = False
    counts: dict[str, Counts] = field(default_factory=dict)
    given_up: bool = False

    def add(self, names: Sequence[str], counts: Counts) -> None:
        """k values and (k, g) counts."""
        if self.given_up:
            return
        for name, more in zip(names, counts, strict=True):
            if name not in self.counts and len(self.counts) >= self.most:
                if self.gives_up:
                    self.given_up = True
                    self.counts.clear()
                    return
                name = OTHERS
            if name in self.counts:
                self.counts[name] = self.counts[name] + more
            else:
                self.counts[name] = more.copy()

    def merge(self, other: Labels) -> None:
        if other.given_up:
            self.given_up = True
            self.counts.clear()
        elif other.counts:
            self.add(list(other.counts), np.stack(list(other.counts.values())))

    def ranked(self) -> list[tuple[str, Counts]]:
        """The most frequent first, by the first group; equally frequent ones by name."""
        return sorted(self.counts.items(), key=lambda item: (-int(item[1][0]), item[0]))


def nice_edges(values: NDArray[np.floating], bounds: Sequence[float], bins: int = 50) -> NDArray[np.float64]:
    """Evenly spaced round numbers over all but the outermost thousandths of some values, and over the bounds."""
    good = values[np.isfinite(values)].astype(np.float64)
    ends = [*np.quantile(good, [0.001, 0.999]).tolist()] if len(good) else []
    ends += [b for b in bounds if math.isfinite(b)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    if low == high:
        low, high = low - (abs(low) or 1) / 10, high + (abs(high) or 1) / 10
    rough = (high - low) / bins
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= rough)
    first, last = math.floor(low / step), math.floor(high / step) + 1
    digits = max(0, 2 - math.floor(math.log10(step)))
    return np.round(np.arange(first, last + 1) * step, digits)
