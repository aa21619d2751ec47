"""From the links on the pages to what each recipe keeps: every row that was lost on the way, and why."""

from __future__ import annotations

from collections.abc import Mapping

from pools.errors import WorkFailed
from pools.manifest import Outcome

Counts = Mapping[str, int]
# What the rows that a stage keeps are called.
STAGES = {"extract": "candidates", "download": "downloaded", "annotate": "scored"}


def funnel_lines(stages: Mapping[str, Counts], recipes: Mapping[str, Counts]) -> list[str]:
    """From the counts (`Outcome.counts`) of `extract`, `download` and, if it ran, `annotate`; and of `filter` for each recipe.

    Raises WorkFailed unless in = kept + dropped + failed in each, and each takes in what the one before kept (a recipe, and
    annotate, all that was downloaded).
    """
    _check(stages, recipes)
    lines = ["From the web to the training sets", _line("image links on the pages", stages["extract"]["in"])]
    for stage, name in STAGES.items():
        if stage in stages:
            lines += [*_losses(stages[stage]), _line(name, stages[stage]["kept"])]
    lines.append("Of what was downloaded, each recipe keeps")
    for recipe, counts in recipes.items():
        lines.append(_line(recipe, counts["kept"]))
        if "listed" in counts:
            lines.append(_line(f"{recipe}, entries of its list", counts["listed"]))
        lines += _losses(counts, "by filter ")
    return lines


def _check(stages: Mapping[str, Counts], recipes: Mapping[str, Counts]) -> None:
    for counts in (*stages.values(), *recipes.values()):
        Outcome(dict(counts)).check()
    candidates, downloaded = stages["extract"]["kept"], stages["download"]["kept"]
    taken = {"download": (stages["download"], candidates)}
    taken |= {name: (stages[name], downloaded) for name in stages if name == "annotate"}
    taken |= {f"filter {name}": (counts, downloaded) for name, counts in recipes.items()}
    for name, (counts, before) in taken.items():
        if counts["in"] != before:
            raise WorkFailed(f"rows were lost before {name}: {counts['in']:,} in, where {before:,} were kept before it")


def _losses(counts: Counts, by: str = "") -> list[str]:
    """A line for each reason for which rows were dropped or failed."""
    lines = []
    for name, count in counts.items():
        kind, _, why = name.partition(":")
        if kind in ("dropped", "failed") and count:
            unscored = counts.get(f"unscored:{why}", 0)
            note = f" ({unscored:,} unscored)" if unscored else ""
            lines.append(_line(f"  {kind} {by}{why}{note}", -count))
    return lines


def _line(name: str, count: int) -> str:
    return f"  {name:52}{count:>12,}"
