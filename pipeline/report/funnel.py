"""The funnel of a filter run: rows in, what each stage dropped, what was kept; seen to agree with the verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from pipeline.report import hostile
from pipeline.report.figures import GREY, PALETTE, draw, short, shortened
from pipeline.report.page import Figure, Section, Table, Text
from pipeline.report.verdicts import Survey
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST, Outcome
from pools.outputs import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Stage:
    """What one stage of a recipe did."""

    name: str
    options: str  # as a recipe spells them, on one line
    dropped: int
    unscored: int  # among the dropped


@dataclass(frozen=True)
class Funnel:
    """What became of all rows of a pool."""

    recipe: str
    description: str
    rows: int
    stages: tuple[Stage, ...]
    keep: Sequence[Mapping[str, Any]]  # the stages as the recipe spells them
    kept: int
    listed: int | None  # entries of the list, if a mix weighs it

    def section(self, name: str) -> Section:
        """`name`: of the picture's file."""
        left, rows = self.rows, list[tuple[str | int | None, ...]]()
        for i, stage in enumerate(self.stages):
            share = _share(stage.dropped, self.rows)
            rows.append(
                (f"{i} {stage.name}", left, stage.dropped, share, stage.unscored, left := left - stage.dropped, stage.options)
            )
        rows.append(("kept", None, None, _share(self.kept, self.rows), None, self.kept, None))
        header = ("stage", "rows in", "dropped", "share of all", "could not be judged", "left", "options")
        table = Table("Every row of the pool, once", header, rows)
        return Section("funnel", "The funnel", [Text(self._told()), self._figure(name, table), table])

    def _figure(self, name: str, table: Table) -> Figure:
        """A bar a stage: what it kept, what it dropped, and of this what it could not judge."""
        labels = [f"{i} {stage.name}" for i, stage in enumerate(self.stages)]
        left = [self.rows - sum(s.dropped for s in self.stages[: i + 1]) for i in range(len(self.stages))]
        judged = [stage.dropped - stage.unscored for stage in self.stages]
        unscored = [stage.unscored for stage in self.stages]
        parts = [("left", left), ("dropped", judged), ("could not be judged", unscored)]
        shown = [(who, counts) for who, counts in parts if who != "could not be judged" or any(counts)]

        def paint(axes: Axes) -> None:
            start = [0] * len(labels)
            for (who, counts), colour in zip(shown, (PALETTE[0], PALETTE[1], GREY), strict=False):
                axes.barh(range(len(labels)), counts, 0.7, left=start, color=colour, label=who)
                start = [a + b for a, b in zip(start, counts, strict=True)]
            for row, stage in enumerate(self.stages):
                text = f" −{stage.dropped:,} ({_share(stage.dropped, self.rows)})"
                axes.annotate(text, (start[row], row), va="center", fontsize=8)
            axes.set_xlim(0, 1.22 * max(self.rows, 1))
            axes.set_yticks(range(len(labels)), [shortened(label) for label in labels])
            axes.invert_yaxis()
            axes.set_xlabel("rows")
            axes.xaxis.set_major_formatter(lambda value, _: short(value))
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, ncols=3)

        dropped = ", ".join(f"{label} drops {s.dropped:,}" for label, s in zip(labels, self.stages, strict=True))
        alt = f"A funnel in {len(labels)} stages: of {self.rows:,} rows {dropped or 'none is dropped'}; {self.kept:,} are kept."
        title = "What each stage left and dropped"
        room = 0.2 + 0.074 * max((len(shortened(label)) for label in labels), default=0)  # inches
        names = [who for who, _ in shown]
        return draw(name, title, alt, table, paint, height=0.7 + 0.32 * len(labels), left=room, legend=names)

    def _told(self) -> tuple[str, ...]:
        told = [f"{self.rows:,} rows in, {self.kept:,} kept ({_share(self.kept, self.rows)})."]
        if unscored := sum(stage.unscored for stage in self.stages):
            told.append(
                f"{unscored:,} of the rows that were dropped ({_share(unscored, self.rows)} of all) could not be judged: a "
                "value was missing. They are among the dropped rows of their stage."
            )
        if self.listed is not None:
            told.append(f"The list names {self.listed:,} samples: the recipe's mix repeats some rows, or leaves some out.")
        return tuple(told)


def read_funnel(selection: Selection) -> Funnel:
    """From the manifest and the recipe. Raises InputError if the selection is not whole, or rows were lost."""
    path = store.join(selection.root, MANIFEST)
    if not store.exists(path):
        raise InputError("no manifest", where=selection.root, expected="a finished run of `winnow filter`")
    counts: dict[str, int] = store.read_json(path)["counts"]
    Outcome(counts).check()
    recipe = yaml.safe_load(store.read_bytes(selection.recipe).decode("utf-8", "replace"))
    stages = []
    for i, rule in enumerate(recipe["keep"]):
        ((name, options),) = rule.items()
        key = f"{i}-{name}"
        stages.append(Stage(name, _spelled(options), counts.get(f"dropped:{key}", 0), counts.get(f"unscored:{key}", 0)))
    return Funnel(
        str(recipe["name"]),
        str(recipe.get("description") or ""),
        counts.get("in", 0),
        tuple(stages),
        recipe["keep"],
        counts.get("kept", 0),
        counts.get("listed"),
    )


def reconcile(funnel: Funnel, survey: Survey, where: str) -> None:
    """Raises InputError unless the verdicts, counted, are what the manifest says."""
    told = (funnel.rows, [(s.dropped, s.unscored) for s in funnel.stages])
    last = max(len(funnel.stages), *(stage + 1 for stage in survey.dropped), 0)
    seen = (survey.rows, [(survey.dropped[i], survey.unscored[i]) for i in range(last)])
    if told != seen:
        raise InputError(
            f"the verdicts are not those of the manifest: of {seen[0]:,} rows the stages dropped "
            f"{[dropped for dropped, _ in seen[1]]}, where it says {[dropped for dropped, _ in told[1]]} of {told[0]:,}",
            where=where,
            expected="a selection as `winnow filter` left it",
            fix="filter again with --overwrite",
        )


def _spelled(options: object) -> str:
    text = yaml.safe_dump(options, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False).strip()
    return "" if text == "{}" else hostile.shown(text, 200)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
