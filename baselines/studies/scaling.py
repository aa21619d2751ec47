"""The line that errors follow over compute (Cherti et al. 2023, Reproducible scaling laws for contrastive learning).

Compute is GMAC a sample × samples seen, the error 1 − accuracy (of retrieval, 1 − recall@5 of images). The line is fitted in
log10 of both to the lower envelope of the runs: equal-width bins of compute, and in each the lowest error at the bin's
centre. OpenAI's own runs, which have no envelope, are fitted as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.studies import rows
from baselines.studies.plot import Series, chart
from pools.errors import InputError

BINS = 5
MARGIN = 0.1  # of log10, by which the last bin reaches beyond the largest run
# What the paper calls so many samples seen: the size of a pass × passes.
NOMINAL = {"3B": 80_000_415 * 32, "13B": 407_332_084 * 32, "34B": 407_332_084 * 84, "68B": 407_332_084 * 168}
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """log10 error = intercept + slope · log10 compute."""

    slope: float
    intercept: float

    def error(self, compute: float) -> float:
        return float(10 ** (self.intercept + self.slope * np.log10(compute)))


@dataclass(frozen=True)
class Runs:
    """n runs: compute, error, and what sort of run each is (its model and samples seen)."""

    compute: Floats
    error: Floats
    sorts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Study:
    """What was fitted, to which points (compute, error), and how far it lies from the best run of each sort."""

    runs: Runs
    line: Line
    points: tuple[tuple[float, float], ...]
    mean_error: float  # |predicted − measured|, 0..1

    def content(self, wanted: Mapping[str, float]) -> dict[str, Any]:
        """For machines, in JSON's types, with predictions of the error at each compute that is wanted."""
        return {
            "runs": len(self.runs.compute),
            "points": [list(p) for p in self.points],
            "slope": self.line.slope,
            "intercept": self.line.intercept,
            "mean_error": self.mean_error,
            "predictions": {name: {"compute": c, "error": self.line.error(c)} for name, c in wanted.items()},
        }

    def lines(self, wanted: Mapping[str, float]) -> list[str]:
        """For people."""
        largest = float(self.runs.compute.max())
        said = [
            f"{len(self.runs.compute)} runs, fitted to {len(self.points)} points: "
            f"error = 10^{self.line.intercept:.4f} · compute^{self.line.slope:.4f}",
            f"mean |predicted − measured| {100 * self.mean_error:.4f} points",
        ]
        for name, compute in wanted.items():
            beyond = f", {compute / largest:.3g} × the largest run" if compute > largest else ""
            error = 100 * self.line.error(compute)
            said.append(f"{name}: {100 - error:.4f} % ({error:.4f} % error) at {compute:.4g} GMAC{beyond}")
        return said


def read(
    path: str, conditions: Sequence[str], *, compute: str = "gmacs_total", metric: str = "acc1", sorts: Sequence[str] = ()
) -> Runs:
    """Runs from a table with a column of compute and one of a score from 0 to 1."""
    chosen = rows.read(path, conditions)
    x, y = np.array(rows.numbers(chosen, compute, path)), 1 - np.array(rows.numbers(chosen, metric, path))
    if not (x > 0).all() or not ((y > 0) & (y <= 1)).all():
        raise InputError(f"no logarithm of {compute} or of 1 − {metric}", where=path, expected="compute > 0, 0 ≤ score < 1")
    rows.need(chosen, sorts, path)
    return Runs(x, y, tuple(tuple(row[s] for s in sorts) for row in chosen))


def nominal_compute(path: str, conditions: Sequence[str]) -> Floats:
    """Compute of each row with its samples seen as the paper's scales have them: gmacs × NOMINAL[samples_seen_pretty]."""
    chosen = rows.read(path, conditions)
    rows.need(chosen, ["samples_seen_pretty"], path)
    for row in chosen:
        if row["samples_seen_pretty"] not in NOMINAL:
            expected = f"one of {', '.join(NOMINAL)}"
            raise InputError(f"samples_seen_pretty {row['samples_seen_pretty']!r}", where=path, expected=expected)
    samples = [NOMINAL[row["samples_seen_pretty"]] for row in chosen]
    return np.array([g * s for g, s in zip(rows.numbers(chosen, "gmacs", path), samples, strict=True)])


def study(runs: Runs, *, bins: int | None = BINS, nominal: Floats | None = None) -> Study:
    """Fits the line, to the envelope over so many bins, or with None to all runs.

    `nominal` is the compute at which each run is compared with the line, where that is not its own.
    """
    points = envelope(runs.compute, runs.error, bins) if bins else (np.log10(runs.compute), np.log10(runs.error))
    line = fit(*points)
    best: dict[tuple[str, ...], int] = {}
    for i, sort in enumerate(runs.sorts):
        if sort not in best or runs.error[i] < runs.error[best[sort]]:
            best[sort] = i
    at = runs.compute if nominal is None else nominal
    gaps = [abs(line.error(at[i]) - runs.error[i]) for i in best.values()]
    plain = tuple((float(10**x), float(10**y)) for x, y in zip(*points, strict=True))
    return Study(runs, line, plain, float(np.mean(gaps)))


def envelope(compute: Floats, error: Floats, bins: int = BINS) -> tuple[Floats, Floats]:
    """log10 of the centres of the bins that have a run, and the least log10 of an error in each."""
    x, y = np.log10(compute), np.log10(error)
    edges = np.linspace(x.min(), x.max() + MARGIN, bins + 1)
    place = np.searchsorted(edges, x, side="right") - 1
    found = [(edges[b : b + 2].mean(), y[place == b].min()) for b in range(bins) if (place == b).any()]
    centres, least = zip(*found, strict=True)
    return np.array(centres), np.array(least)


def fit(x: Floats, y: Floats) -> Line:
    """Least squares. Raises InputError for fewer than two different x."""
    if len(np.unique(x)) < 2:
        raise InputError(f"{len(x)} runs at one compute", where="runs", expected="two or more, apart in compute")
    slope, intercept = np.polyfit(x, y, 1)
    return Line(float(slope), float(intercept))


def product(text: str) -> tuple[str, float]:
    """`G/14=532.92*6.8e10` → its label and the product; without `=` the text is the label."""
    label, equals, factors = text.rpartition("=")
    try:
        numbers = [float(factor) for factor in factors.split("*")]
    except ValueError:
        numbers = [-1.0]
    if min(numbers) <= 0:
        raise InputError(f"{text!r}", where="--extrapolate", expected="compute, as 1e12, 532.92*6.8e10 or NAME=532.92*6.8e10")
    return label if equals else text, float(np.prod(numbers))


def draw(study: Study, wanted: Sequence[float], metric: str) -> str:
    """The runs, the points that were fitted, and the line as far as the compute that is wanted."""
    runs = list(zip(study.runs.compute.tolist(), study.runs.error.tolist(), strict=True))
    ends = [*study.runs.compute.tolist(), *wanted]
    line = [(c, study.line.error(c)) for c in (min(ends), max(ends))]
    predicted = [(c, study.line.error(c)) for c in wanted]
    series = [Series("runs", runs), Series("fitted points", study.points), Series("scaling law", line, line=True)]
    series += [Series("predicted", predicted)] if predicted else []
    return chart(f"Error over compute: 1 − {metric}", "GMAC per sample × samples seen", "error", series)
