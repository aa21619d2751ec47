"""E(N) = α·N^(−c) + ε: what an error falls to as N grows (Wang et al. 2025, Scaling pre-training to 100 billion data).

For a given c the law is linear in α and ε, so c alone is searched for, and both others are the non-negative least squares
(variable projection). The intervals come from a bootstrap of the residuals, since the Ns of checkpoints are chosen, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.studies.plot import Point, Series, chart
from pools.errors import InputError

EXPONENTS = (0.01, 3.0)  # between which c is searched for
GRID = 60  # values of c that are tried before the best is refined
PARAMETERS = 3
Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Law:
    """The three parameters."""

    alpha: float
    c: float
    epsilon: float

    def error(self, n: float) -> float:
        return float(self.alpha * n**-self.c + self.epsilon)


@dataclass(frozen=True)
class Fit:
    """A law, the interval of each parameter, and the root mean square of the residuals."""

    law: Law
    intervals: dict[str, Interval]
    level: float
    samples: int
    residual: float

    @property
    def undetermined(self) -> bool:
        """Whether c is at an end of EXPONENTS: the points do not bend as such a law does."""
        return not EXPONENTS[0] * 1.001 < self.law.c < EXPONENTS[1] / 1.001

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        values = {"alpha": self.law.alpha, "c": self.law.c, "epsilon": self.law.epsilon}
        named = {name: {"value": v, "interval": list(self.intervals[name])} for name, v in values.items()}
        told = {"level": self.level, "bootstrap": self.samples, "residual": self.residual}
        return {**named, **told, "undetermined": self.undetermined}

    def lines(self, wanted: Sequence[float]) -> list[str]:
        """For people."""
        named = {"α": ("alpha", self.law.alpha), "c": ("c", self.law.c), "ε": ("epsilon", self.law.epsilon)}
        said = [f"error = α·N^(−c) + ε, {100 * self.level:g} % intervals of {self.samples} bootstrap samples"]
        for sign, (name, value) in named.items():
            low, high = self.intervals[name]
            said.append(f"  {sign}  {value:.6g}  ({low:.6g} to {high:.6g})")
        if self.undetermined:
            said.append("  the points do not bend as such a law does: c is at the end of what was tried")
        return [*said, *(f"N = {n:g}: error {self.law.error(n):.6g}" for n in wanted)]


def fit_with_intervals(
    n: Sequence[float], error: Sequence[float], *, samples: int = 1000, level: float = 0.95, seed: int = 0
) -> Fit:
    """The law of errors at each N, and percentile intervals over `samples` bootstrap samples of the residuals.

    Raises InputError for too few points, or numbers that are not above 0.
    """
    x, y = np.asarray(n, np.float64), np.asarray(error, np.float64)
    if len(np.unique(x)) <= PARAMETERS or x.min() <= 0 or y.min() <= 0:
        raise InputError(f"{len(np.unique(x))} different N", where="points", expected="four or more, N and errors above 0")
    law = fit(x, y)
    predicted = law.alpha * x**-law.c + law.epsilon
    residuals = y - predicted
    # Residuals of a fit are smaller than the errors that made them, by the parameters that followed them.
    spread = (residuals - residuals.mean()) * np.sqrt(len(x) / (len(x) - PARAMETERS))
    rng = np.random.default_rng(seed)
    again = [fit(x, predicted + rng.choice(spread, len(x))) for _ in range(samples)]
    tails = (50 * (1 - level), 100 - 50 * (1 - level))
    intervals = {}
    for name in ("alpha", "c", "epsilon"):
        low, high = np.percentile([getattr(a, name) for a in again], tails)
        intervals[name] = (float(low), float(high))
    return Fit(law, intervals, level, samples, float(np.sqrt(np.mean(residuals**2))))


def fit(x: Floats, y: Floats) -> Law:
    """Least squares over α ≥ 0, ε ≥ 0 and c within EXPONENTS."""
    from scipy.optimize import minimize_scalar

    middle = float(np.exp(np.log(x).mean()))  # N in units of it, so that both columns are of one size
    logs = np.log(x / middle)

    def misfit(log_c: float) -> float:
        return float(_linear(logs, np.array([np.exp(log_c)]), y)[2][0])

    grid = np.linspace(math.log(EXPONENTS[0]), math.log(EXPONENTS[1]), GRID)
    best = int(np.argmin(_linear(logs, np.exp(grid), y)[2]))
    bounds = grid[max(0, best - 1)], grid[min(GRID - 1, best + 1)]
    c = float(np.exp(minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 1e-7}).x))
    alpha, epsilon, _ = _linear(logs, np.array([c]), y)
    return Law(float(alpha[0]) * middle**c, c, float(epsilon[0]))


def _linear(logs: Floats, c: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """For each c the α ≥ 0 and ε ≥ 0 of least squares, and the sum of squares that is left."""
    powers = np.exp(-c[:, None] * logs)
    mean = powers.mean(axis=1)
    centred = powers - mean[:, None]
    alpha = np.maximum(0, centred @ y / (centred**2).sum(axis=1))
    epsilon = y.mean() - alpha * mean
    # Where ε would be negative, the least squares with ε ≥ 0 have ε = 0.
    alpha = np.where(epsilon < 0, powers @ y / (powers**2).sum(axis=1), alpha)
    epsilon = np.maximum(0, epsilon)
    rest = y - alpha[:, None] * powers - epsilon[:, None]
    return alpha, epsilon, (rest**2).sum(axis=1)


def draw(law: Law, points: Sequence[Point], x: str, y: str) -> str:
    """The points and the law through them."""
    least, most = min(p[0] for p in points), max(p[0] for p in points)
    curve = [(float(n), law.error(float(n))) for n in np.geomspace(least, most, 100)]
    return chart(f"{y} over {x}", x, y, [Series("measured", points), Series("α·N^(−c) + ε", curve, line=True)])
