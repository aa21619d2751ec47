"""Several column families in one run: each is a run of its own, in its own folder, and can be done when others are not."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.annotate.annotator import Annotator
from pools import store
from pools.manifest import Outcome, Run

VERSION = 2


@dataclass(frozen=True)
class Family:
    """One annotator for one pool; `kind` is the annotator's name in the catalogue."""

    kind: str
    annotator: Annotator
    root: str  # of the pool

    @property
    def name(self) -> str:
        return self.annotator.name

    @property
    def output(self) -> str:
        return store.join(self.root, "annotations", self.name)

    @functools.cached_property
    def header(self) -> dict[str, Any]:
        """The annotator's, which may take a while to make; it travels along to the workers."""
        return dict(self.annotator.header())

    @property
    def run(self) -> Run:
        return Run(self.output, f"annotate {self.kind}", VERSION, {"name": self.name, **self.header})

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it writes besides uid."""
        return (*(f.name for f in self.annotator.fields), f"{self.name}_reason", *self.annotator.arrays)


@dataclass(frozen=True)
class Speed:
    """What a family took, in seconds: of all threads and processes, but `elapsed`, which is the whole run's."""

    rows: int = 0
    decode: float = 0.0
    prepare: float = 0.0
    annotate: float = 0.0
    elapsed: float = 0.0

    def as_json(self) -> dict[str, Any]:
        rate = round(self.rows / self.elapsed, 1) if self.elapsed else 0.0
        seconds = {f"{name}_seconds": round(getattr(self, name), 3) for name in ("decode", "prepare", "annotate", "elapsed")}
        return {"rows": self.rows, **seconds, "rows_per_second": rate}


@dataclass(frozen=True)
class Together(Run):
    """The runs of several families as one, for the engine: a unit is done when each of them has done it.

    A unit's digest is that of each family by name, as JSON. Counts bear the family's name before a slash. The families' own
    marks are set by whoever does the unit, each as soon as its files are in place.
    """

    families: tuple[Family, ...] = ()

    @classmethod
    def of(cls, families: Iterable[Family]) -> Together:
        families = tuple(families)
        stage = "annotate " + ", ".join(f.kind if f.kind == f.name else f"{f.kind} ({f.name})" for f in families)
        if len(families) == 1:
            stage = families[0].run.stage
        return cls(store.join(families[0].root, "annotations"), stage, VERSION, {}, families=families)

    def claim(self, *, overwrite: bool = False) -> None:
        for family in self.families:
            family.run.claim(overwrite=overwrite)

    def done(self, unit: str, inputs: str) -> Outcome | None:
        found = {f.name: f.run.done(unit, digest) for f, digest in self.digests(inputs)}
        if any(outcome is None for outcome in found.values()):
            return None
        return together({name: outcome for name, outcome in found.items() if outcome is not None})

    def digests(self, inputs: str) -> list[tuple[Family, str]]:
        each: dict[str, str] = json.loads(inputs)
        return [(f, each[f.name]) for f in self.families]

    def mark(self, unit: str, inputs: str, outcome: Outcome) -> None:
        """Nothing: see above."""


def together(outcomes: Mapping[str, Outcome], speeds: Mapping[str, Speed] | None = None) -> Outcome:
    """One outcome of those of several families, with what they took in microseconds."""
    counts = {f"{name}/{key}": count for name, outcome in outcomes.items() for key, count in outcome.counts.items()}
    for name, speed in (speeds or {}).items():
        counts[f"{name}@rows"] = speed.rows
        for key in ("decode", "prepare", "annotate"):
            counts[f"{name}@{key}"] = round(1e6 * getattr(speed, key))
    return Outcome(counts)


def apart(total: Outcome, name: str, elapsed: float) -> tuple[Outcome, Speed]:
    """One family's share of a sum of such outcomes."""
    counts = {k.removeprefix(f"{name}/"): v for k, v in total.counts.items() if k.startswith(f"{name}/")}
    took = {k: total.counts.get(f"{name}@{k}", 0) for k in ("rows", "decode", "prepare", "annotate")}
    return Outcome(counts), Speed(took["rows"], took["decode"] / 1e6, took["prepare"] / 1e6, took["annotate"] / 1e6, elapsed)
