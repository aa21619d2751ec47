"""Scores of the models that were trained on each recipe's choice, of one web or over the webs of several seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from baselines.miniweb.columns import COLUMNS, FIRST, OTHER_HIGH, read_results
from baselines.miniweb.languages import LOW
from baselines.miniweb.tables import NONE, percent, table
from pools import store, uids
from pools.errors import InputError
from pools.outputs import Selection

Boards = Mapping[int, Sequence["Row"]]  # by seed


@dataclass(frozen=True)
class Row:
    """One recipe: entries of its uid list, and by column's key its score and what guessing gives, 0..1.

    None where there is no list, or where a task of the column was not scored.
    """

    recipe: str
    samples: int | None
    scores: Mapping[str, float | None]
    chances: Mapping[str, float | None]


def read(folder: str, recipes: Sequence[str]) -> list[Row]:
    """The rows of a demo's folder, the best in the first column first and those without it last.

    What is not there (a list, a run, a task) is a gap. Raises InputError if two runs were scored on sets of other sizes.
    """
    rows = []
    for name in recipes:
        listed = Selection(store.join(folder, "selections", name)).uids
        results = read_results(store.join(folder, "runs", name))
        rows.append(
            Row(
                name,
                len(uids.read_list(listed)) if store.exists(listed) else None,
                {c.key: results.score(c) for c in COLUMNS},
                {c.key: results.chance(c) for c in COLUMNS},
            )
        )
    _chances(rows)
    return sorted(rows, key=lambda row: _place(row.scores[FIRST]))


def lines(rows: Sequence[Row]) -> list[str]:
    """The rows as a table; `*` marks the best of a column."""
    best = {c.key: max((s for r in rows if (s := r.scores[c.key]) is not None), default=None) for c in COLUMNS}
    chances = _chances(rows)
    head = [
        ["", "", *(f"{c.title[0]} " for c in COLUMNS)],
        ["recipe", "samples", *(f"{c.title[1]} " for c in COLUMNS)],
        ["(chance)", "", *(f"{percent(chances[c.key])} " for c in COLUMNS)],
    ]
    cells = []
    for row in rows:
        samples = NONE if row.samples is None else f"{row.samples:,}"
        cells.append([row.recipe, samples, *(_marked(row.scores[c.key], best[c.key]) for c in COLUMNS)])
    return [
        "Leaderboard: zero-shot accuracy and recall on held-out pictures, in %; * is the best of a column",
        *table(head, cells),
        f"  high: mean over {', '.join(OTHER_HIGH)}; low: mean over {', '.join(LOW)}",
    ]


def content(rows: Sequence[Row]) -> dict[str, Any]:
    """The rows for machines, in JSON's types: what each column is a mean over, and what guessing gives in it."""
    chances = _chances(rows)
    return {
        "columns": {c.key: {"tasks": list(c.tasks), "metrics": list(c.metrics), "chance": chances[c.key]} for c in COLUMNS},
        "rows": [{"recipe": row.recipe, "samples": row.samples, "scores": dict(row.scores)} for row in rows],
    }


@dataclass(frozen=True)
class Range:
    """A score over the seeds that have it: mean, least, greatest (0..1), and how many seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        return f"{percent(self.low)}–{percent(self.high)}"


Ranges = Mapping[str, Range | None]  # by column's key; None without any score


def spread(boards: Boards) -> dict[str, Ranges]:
    """{recipe: its ranges} over the seeds' leaderboards, in the order of the first column's mean; some may lack a recipe."""
    rows = [row for _, board in sorted(boards.items()) for row in board]
    found = {name: _ranges([r for r in rows if r.recipe == name]) for name in dict.fromkeys(r.recipe for r in rows)}
    return dict(sorted(found.items(), key=lambda item: _place_of(item[1][FIRST])))


def spread_lines(boards: Boards) -> list[str]:
    """Means with their ranges below, what some seeds lack, and of each pair whether the first column tells them apart."""
    found, cells = spread(boards), []
    for name, ranges in found.items():
        cells.append([name, *(NONE if (r := ranges[c.key]) is None else percent(r.mean) for c in COLUMNS)])
        cells.append(["", *("" if (r := ranges[c.key]) is None else str(r) for c in COLUMNS)])
    head = [["", *(c.title[0] for c in COLUMNS)], ["recipe", *(c.title[1] for c in COLUMNS)]]
    return [
        f"Over {len(boards)} seeds: the mean, and below it the least and the greatest, in %",
        *table(head, cells),
        *(f"  {line}" for line in _partial(found, len(boards))),
        f"Ranges of {' '.join(COLUMNS[0].title)}, of each two recipes",
        *(f"  {compare(found, a, b, FIRST)}" for a, b in combinations(found, 2)),
    ]


def spread_content(boards: Boards) -> dict[str, Any]:
    """The ranges for machines, in JSON's types."""
    recipes = {
        name: {key: None if r is None else asdict(r) for key, r in ranges.items()} for name, ranges in spread(boards).items()
    }
    return {"seeds": sorted(boards), "recipes": recipes}


def compare(found: Mapping[str, Ranges], a: str, b: str, column: str) -> str:
    """Whether the ranges of two recipes overlap: `clip_score 91.2–93.8 over no_filter 44.0–49.1: apart`."""
    above, below = sorted((a, b), key=lambda name: _place_of(found[name][column]))
    high, low = found[above][column], found[below][column]
    said = f"{above} {high or NONE} over {below} {low or NONE}"
    if high is None or low is None:
        return f"{said}: not scored"
    if min(high.seeds, low.seeds) < 2:
        return f"{said}: one seed does not tell"
    return f"{said}: {'apart' if low.high < high.low else 'overlap'}"


def _chances(rows: Sequence[Row]) -> dict[str, float | None]:
    """What guessing gives in each column. Raises InputError if that is not the same for all rows."""
    found: dict[str, float | None] = {}
    for column in COLUMNS:
        said = {chance: row.recipe for row in rows if (chance := row.chances[column.key]) is not None}
        if len(said) > 1:
            raise InputError(
                f"{' '.join(column.title)}: guessing gives {' and '.join(f'{c:.4g} ({name})' for c, name in said.items())}",
                where="leaderboard",
                expected="runs that were scored on the same sets",
                fix="run `winnow score` with --overwrite for all of them",
            )
        found[column.key] = next(iter(said), None)
    return found


def _ranges(rows: Sequence[Row]) -> dict[str, Range | None]:
    scores = {c.key: [s for r in rows if (s := r.scores[c.key]) is not None] for c in COLUMNS}
    return {key: Range(fmean(some), min(some), max(some), len(some)) if some else None for key, some in scores.items()}


def _partial(found: Mapping[str, Ranges], seeds: int) -> Iterator[str]:
    for name, ranges in found.items():
        fewer = {c: r.seeds for c in COLUMNS if (r := ranges[c.key]) is not None and r.seeds < seeds}
        if len(fewer) == len(COLUMNS) and len(set(fewer.values())) == 1:
            yield f"{name}: {fewer[COLUMNS[0]]} of {seeds} seeds"
        else:
            yield from (f"{name}, {' '.join(c.title)}: {number} of {seeds} seeds" for c, number in fewer.items())


def _place(score: float | None) -> tuple[bool, float]:
    """Sorts the greatest first, and last what there is not; equals keep their order."""
    return (True, 0.0) if score is None else (False, -score)


def _place_of(found: Range | None) -> tuple[bool, float]:
    return _place(None if found is None else found.mean)


def _marked(score: float | None, best: float | None) -> str:
    """A blank stands where others have the mark, so that the numbers stay aligned."""
    return percent(score) + ("*" if score is not None and score == best else " ")
