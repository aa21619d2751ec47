"""Pages on submissions: a leaderboard of those in a folder, and one submission with its card and its datasheet.

Ranks are worked out from what submissions say of themselves, by the rules of `winnow leaderboard`, which checks their receipts
and scores besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pipeline.report import figures, markdown, words
from pipeline.report.page import Figure, Page, Part, Section, Table, Text
from pipeline.report.runs import read_results
from pools import store
from pools.errors import InputError
from pools.scales import load_scales

INFO, DEMO = "submission.json", "leaderboard.json"
AVERAGE = "Average"
COLUMNS = ("ImageNet", "ImageNet dist. shifts", "VTAB", "Retrieval", AVERAGE)
NOISE = 0.006  # of the average between runs of one recipe (Gadre et al. 2023), where no choice here has two seeds
_Cell = str | int | float | None


@dataclass(frozen=True)
class Row:
    """One choice of data: the mean over its seeds, the range of the average, and why it has no rank if it has none."""

    method: str
    size: int | None
    seeds: int
    scores: Mapping[str, float | None]
    span: tuple[float, float] | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Board:
    """Rows of one scale, track and version of the suite, the best first; `band` is the noise of the average."""

    title: str
    rows: tuple[Row, ...]
    band: float
    measured: bool

    def rank(self, row: Row) -> int | None:
        """Equal scores share a rank."""
        if row.notes:
            return None
        return 1 + sum(not r.notes and _average(r) > _average(row) for r in self.rows)

    def noise(self, place: int) -> bool:
        """Whether a row is within the noise of the one above it."""
        row = self.rows[place]
        if place == 0 or row.notes:
            return False
        return _average(self.rows[place - 1]) - _average(row) <= self.band


def _average(row: Row) -> float:
    return row.scores[AVERAGE] or 0.0


def leaderboard_page(folder: str) -> Page:
    """Of submissions in a folder (or below folders in it), and of the demo's `leaderboard.json`.

    Raises InputError if there is neither.
    """
    sections = []
    files = sorted(store.list_files(folder))
    infos = [store.read_json(store.join(folder, f)) for f in files if f.rpartition("/")[2] == INFO]
    for i, board in enumerate(boards(infos)):
        sections.append(Section(f"board-{i + 1}", board.title, tuple(_board(board, i + 1))))
    for f in (f for f in files if f.rpartition("/")[2] == DEMO):
        sections.append(Section(f"demo-{words.slug(f)}", f"The demo's leaderboard: {f}", tuple(_demo(folder, f))))
    if not sections:
        raise InputError("no submission here", where=folder, expected=f"folders with {INFO}, or the demo's {DEMO}")
    lead = f"{len(infos)} submissions on {len(sections)} boards." if infos else "The recipes of a demo and their scores."
    return Page("leaderboard", f"Leaderboard: {store.name(folder)}", lead, sections)


def boards(infos: Sequence[Mapping[str, Any]]) -> list[Board]:
    """One for each scale, track and version of the suite, small scales first."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for info in infos:
        found[info.get("scale"), info.get("track"), info.get("suite_version")].append(info)
    order = {name: i for i, name in enumerate(load_scales())}
    keys = sorted(found, key=lambda k: (order.get(k[0], len(order)), str(k[0]), str(k[1]), k[2] or 0))
    return [_make_board(key, found[key]) for key in keys]


def _make_board(key: tuple[Any, ...], infos: Sequence[Mapping[str, Any]]) -> Board:
    groups: dict[tuple[Any, Any], list[Mapping[str, Any]]] = defaultdict(list)
    for info in infos:
        listed = info.get("list") or {}
        choice = info.get("recipe_digest") or listed.get("sha256") or info.get("training_data")
        groups[info.get("method_name"), choice].append(info)
    rows = [_row(group) for group in groups.values()]
    spans = [row.span[1] - row.span[0] for row in rows if row.seeds > 1 and row.span and not row.notes]
    ranked = sorted((r for r in rows if not r.notes), key=lambda r: (-_average(r), r.method))
    others = sorted((r for r in rows if r.notes), key=lambda r: (-_average(r), r.method))
    title = f"Scale {key[0]}, track {key[1]}, suite version {key[2]}"
    return Board(title, (*ranked, *others), max(spans) if spans else NOISE, bool(spans))


def _row(group: Sequence[Mapping[str, Any]]) -> Row:
    seeds = list({info.get("seed"): info for info in group}.values())
    columns = [_columns(info) for info in seeds]
    scores = {c: fmean(some) if len(some := [v for f in columns if (v := f[c]) is not None]) == len(seeds) else None
              for c in COLUMNS}  # fmt: skip
    averages = [v for f in columns if (v := f[AVERAGE]) is not None]
    span = (min(averages), max(averages)) if len(averages) == len(seeds) else None
    notes = list(dict.fromkeys(note for info in seeds for note in info.get("departures", ())))
    if scores[AVERAGE] is None:
        told = seeds[0].get("aggregate", {})
        notes.append(f"{told.get('scored', 0)} of the {told.get('of', 38)} tasks that count: no average")
    first = seeds[0]
    return Row(str(first.get("method_name")), first.get("dataset_size"), len(seeds), scores, span, tuple(notes))


def _columns(info: Mapping[str, Any]) -> dict[str, float | None]:
    told = info.get("aggregate") or {}
    return {c: told.get("average" if c == AVERAGE else c) for c in COLUMNS}


def _board(board: Board, number: int) -> Iterator[Part]:
    rows: list[tuple[_Cell, ...]] = []
    for place, row in enumerate(board.rows):
        rank = board.rank(row)
        shown = "no rank" if rank is None else f"≈ {rank}" if board.noise(place) else str(rank)
        scores = (None if (v := row.scores[c]) is None else round(v, 4) for c in COLUMNS)
        span = f"{row.span[0]:.4f} to {row.span[1]:.4f}" if row.span and row.seeds > 1 else None
        rows.append((row.method, shown, row.size, row.seeds, *scores, span, "; ".join(row.notes) or None))
    source = "seen here between seeds" if board.measured else "as published, since no choice here has two seeds"
    table = Table(
        f"{board.title}, by the average; ≈ is within the noise ({board.band:.4f}, {source}) of the row above",
        ("method", "rank", "samples", "seeds", *COLUMNS, "average over seeds", "why it has no rank"),
        rows,
        frozenset(i for i, row in enumerate(board.rows) if row.notes),
    )
    there = [row for row in board.rows if row.scores[AVERAGE] is not None]
    if not there:
        yield table
        return
    values = [("average", [_average(row) for row in there])]
    errors = [[(_average(r) - r.span[0], r.span[1] - _average(r)) if r.span else (0.0, 0.0) for r in there]]
    alt = f"Averages, {board.title}: " + ", ".join(f"{row.method} {_average(row):.4f}" for row in there[:8]) + "."
    labels = [row.method for row in there]
    stem = f"leaderboard-{number}"
    yield figures.bars(stem, board.title, alt, table, labels, values, label="average", errors=errors)
    yield Text(
        ("Ranks are of what submissions say of themselves; `winnow leaderboard` checks that their parts belong together.",)
    )


def _demo(folder: str, file: str) -> Iterator[Part]:
    held = store.read_json(store.join(folder, file))
    columns, rows = held.get("columns"), held.get("rows")
    if not isinstance(columns, dict) or not isinstance(rows, list):
        where = store.join(folder, file)
        raise InputError("not the leaderboard of a demo", where=where, expected="a map with columns and rows")
    keys = list(columns)
    cells: list[tuple[_Cell, ...]] = [(r["recipe"], r["samples"], *(_percent(r["scores"].get(k)) for k in keys)) for r in rows]
    cells.append(("guessing", None, *(_percent(columns[k].get("chance")) for k in keys)))
    table = Table("Scores, %", ("recipe", "samples", *(k.replace("_", " ") for k in keys)), cells)
    series = [(str(r["recipe"]), [100 * (r["scores"].get(k) or 0.0) for k in keys]) for r in rows]
    told = ", ".join(f"{who} {values[0]:.1f} %" for who, values in series)
    alt = f"Scores of {len(series)} recipes in {len(keys)} columns; {keys[0].replace('_', ' ')}: {told}."
    labels = [k.replace("_", " ") for k in keys]
    guesses = [_percent(columns[k].get("chance")) for k in keys]
    yield figures.bars(
        f"demo-{words.slug(file)}",
        "Scores of the recipes",
        alt,
        table,
        labels,
        series,
        label="score, %",
        strokes=guesses,
        compared=False,
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * value, 2)


def submission_page(folder: str) -> Page:
    """What a submission says of itself, its scores by task, its model card and its datasheet."""
    path = store.join(folder, INFO)
    if not store.exists(path):
        raise InputError("no submission", where=folder, expected=f"a folder with {INFO}, which `winnow submit` writes")
    info = store.read_json(path)
    name = str(info.get("method_name"))
    sections = [Section("facts", "In short", tuple(_facts(info)))]
    results = store.join(folder, str(info.get("results")))
    if store.exists(results) and (figure := _tasks(read_results(results))) is not None:
        sections.append(Section("tasks", "Scores by task", (figure,)))
    for file, title in (("README.md", "Model card"), ("DATASHEET.md", "Datasheet")):
        if store.exists(store.join(folder, file)):
            text = store.read_bytes(store.join(folder, file)).decode("utf-8", "replace")
            sections.append(Section(words.slug(title), title, markdown.parts(text)))
    lead = f"{info.get('model')} at scale {info.get('scale')}, track {info.get('track')}."
    return Page("submission", f"Submission: {name}", lead, sections)


_FACTS = ("author", "writeup", "scale", "track", "model", "dataset_size", "samples_seen", "batch_size", "learning_rate", "seed",
          "precision", "suite_version", "recipe", "recipe_digest", "pool_rows", "weights_sha256")  # fmt: skip


def _facts(info: Mapping[str, Any]) -> Iterator[Part]:
    rows = [(name.replace("_", " "), _cell(info[name])) for name in _FACTS if info.get(name) is not None]
    yield Table("The submission", ("", "value"), rows)
    scores = _columns(info)
    yield Table(
        "Scores", ("over", "score"), [(c, None if scores[c] is None else round(float(scores[c] or 0), 4)) for c in COLUMNS]
    )
    if departures := info.get("departures"):
        yield Text((f"Not comparable with other runs of the scale: {'; '.join(map(str, departures))}.",))


def _cell(value: Any) -> _Cell:
    return value if isinstance(value, int | float) else words.cut(str(value))


def _tasks(scores: Mapping[str, float]) -> Figure | None:
    if not scores:
        return None
    tasks = list(scores)
    best, worst = max(tasks, key=lambda t: scores[t]), min(tasks, key=lambda t: scores[t])
    alt = f"Main metrics of {len(tasks)} tasks, from {worst} {scores[worst]:.4f} to {best} {scores[best]:.4f}."
    table = Table("Main metric of each task", ("task", "score"), [(t, round(scores[t], 6)) for t in tasks])
    values = [("score", [scores[t] for t in tasks])]
    return figures.bars("submission-tasks", "Scores by task", alt, table, tasks, values, label="main metric")
