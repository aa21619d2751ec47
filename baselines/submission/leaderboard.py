"""Submissions ranked, each scale and track by itself, with what the noise of training leaves of the ranks.

Submissions of one method and one recipe or list that differ in their seed are one row: the mean, and the range over seeds.
Results of different versions of the suite stand on different boards: they are not compared.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from baselines.miniweb.tables import NONE, table
from baselines.score.aggregate import AVERAGE, COLUMNS, Aggregate, aggregate, read
from baselines.submission import receipt
from pools import store
from pools.errors import InputError
from pools.scales import load_scales

# What the authors saw between runs of one recipe (Gadre et al. 2023), 0..1; taken where no recipe here has two seeds.
PUBLISHED_NOISE = {"ImageNet": 0.002, AVERAGE: 0.006}
CSV = ("rank", "scale", "track", "suite_version", "method", "dataset_size", "seeds", *COLUMNS)


@dataclass(frozen=True)
class Entry:
    """One submission; `reasons` say why it has no rank, if it has none."""

    folder: str
    info: dict[str, Any]
    aggregate: Aggregate
    reasons: tuple[str, ...]

    @property
    def board(self) -> tuple[str, str, int | None]:
        return self.info["scale"], self.info["track"], self.info["suite_version"]

    @property
    def choice(self) -> tuple[str, str]:
        """What seeds of one choice of data share: its recipe if it has one, for a list may be drawn at random."""
        listed = self.info["list"]
        return self.info["method_name"], self.info["recipe_digest"] or (
            listed["sha256"] if listed else self.info["training_data"]
        )


@dataclass(frozen=True)
class Row:
    """One choice of data on a board: means over its seeds, and the least and the greatest of each column."""

    method: str
    dataset_size: int | None
    seeds: int
    scores: dict[str, float | None]
    ranges: dict[str, tuple[float, float] | None]
    rank: int | None
    noise: bool  # whether the gap to the row above is within the noise
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Board:
    """Rows of one scale, track and suite, best first; `band` is the noise of the column they are ranked by."""

    scale: str
    track: str
    suite_version: int | None
    column: str
    band: float | None
    measured: bool  # whether the band was seen here, over seeds of one choice
    rows: tuple[Row, ...]

    def lines(self) -> list[str]:
        """For people."""
        head = [["", "method", "samples", "seeds", *COLUMNS]]
        cells = []
        for row in self.rows:
            rank = NONE if row.rank is None else f"{'≈' if row.noise else ''}{row.rank}"
            size = NONE if row.dataset_size is None else f"{row.dataset_size:,}"
            cells.append([rank, row.method, size, str(row.seeds), *(_score(row.scores[c]) for c in COLUMNS)])
        said = [f"scale {self.scale}, track {self.track}, suite version {self.suite_version}, by {self.column}"]
        said += table(head, cells, left=2, width=120)
        if self.band is not None and any(r.rank for r in self.rows):
            source = "seen here between seeds" if self.measured else "as published, since no choice here has two seeds"
            said.append(f"  noise {self.band:.4f} ({source}); ≈ is within it of the row above")
        for row in self.rows:
            if (span := row.ranges[self.column]) and row.seeds > 1:
                said.append(f"  {row.method}: {span[0]:.4f} to {span[1]:.4f} over {row.seeds} seeds")
            said += [f"  {row.method} has no rank: {note}" for note in row.notes]
        return said

    def content(self) -> dict[str, Any]:
        """For machines, in JSON's types."""
        rows = [
            {
                "rank": r.rank,
                "method": r.method,
                "dataset_size": r.dataset_size,
                "seeds": r.seeds,
                "scores": r.scores,
                "ranges": {c: list(s) if s else None for c, s in r.ranges.items()},
                "within_noise_of_the_row_above": r.noise,
                "comparable": not r.notes,
                "notes": list(r.notes),
            }
            for r in self.rows
        ]
        noise = {"band": self.band, "measured": self.measured}
        told = {"scale": self.scale, "track": self.track, "suite_version": self.suite_version}
        return {**told, "ranked_by": self.column, "noise": noise, "rows": rows}


def find(folders: Sequence[str]) -> list[Entry]:
    """Submissions, and those one level below folders that are none themselves. Raises InputError where there is none."""
    paths = []
    for folder in folders:
        if not store.is_dir(folder):
            raise InputError("no such folder", where=folder, expected="a submission, or a folder of submissions")
        if store.exists(store.join(folder, receipt.INFO)):
            paths.append(folder)
            continue
        below = [name for name in store.list_files(folder, receipt.INFO) if name.count("/") == 1]
        if not below:
            raise InputError(
                "no submission here", where=folder, expected=f"a folder with {receipt.INFO}, or folders that have it"
            )
        paths += [store.join(folder, name.rpartition("/")[0]) for name in below]
    return [_entry(path) for path in dict.fromkeys(p.rstrip("/") for p in paths)]


def _entry(folder: str) -> Entry:
    info = receipt.read_info(folder)
    reasons = receipt.problems(folder, weights=False)
    gone = any(info["results"] in reason for reason in reasons)
    found = aggregate({} if gone else read(store.join(folder, info["results"])).scores, allow_missing=True)
    partial = found.lines()[:1] if found.missing and not gone else []
    return Entry(folder, info, found, (*info["departures"], *partial, *reasons))


def boards(entries: Sequence[Entry], column: str = AVERAGE) -> list[Board]:
    """One for each scale, track and version of the suite, small scales first. Raises InputError for an unknown column."""
    if column not in COLUMNS:
        raise InputError(f"no column {column!r}", where="--by", expected=f"one of {', '.join(COLUMNS)}")
    found: dict[tuple[str, str, int | None], list[Entry]] = defaultdict(list)
    for entry in entries:
        found[entry.board].append(entry)
    order = {name: i for i, name in enumerate(load_scales())}
    keys = sorted(found, key=lambda k: (order.get(k[0], len(order)), k[0], k[1], k[2] or 0))
    return [_board(key, found[key], column) for key in keys]


def _board(key: tuple[str, str, int | None], entries: Sequence[Entry], column: str) -> Board:
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[entry.choice].append(entry)
    rows = [_row(group) for group in groups.values()]
    spans = [s[1] - s[0] for r in rows if not r.notes and r.seeds > 1 and (s := r.ranges[column])]
    band = max(spans) if spans else PUBLISHED_NOISE.get(column)
    ranked = sorted((r for r in rows if not r.notes), key=lambda r: (-(r.scores[column] or 0.0), r.method))
    placed = [_placed(row, i, ranked, column, band) for i, row in enumerate(ranked)]
    others = sorted((r for r in rows if r.notes), key=lambda r: (-(r.scores[column] or -1.0), r.method))
    return Board(*key, column, band, bool(spans), (*placed, *others))


def _placed(row: Row, place: int, ranked: Sequence[Row], column: str, band: float | None) -> Row:
    mine, above = row.scores[column] or 0.0, ranked[max(0, place - 1)].scores[column] or 0.0
    noise = place > 0 and band is not None and above - mine <= band
    # Equal scores share the rank of the first of them.
    rank = 1 + sum((r.scores[column] or 0.0) > mine for r in ranked)
    return Row(row.method, row.dataset_size, row.seeds, row.scores, row.ranges, rank, noise, row.notes)


def _row(group: Sequence[Entry]) -> Row:
    seeds = {entry.info["seed"]: entry for entry in sorted(group, key=lambda e: e.folder)}
    chosen = list(seeds.values())
    values = {c: [v for e in chosen if (v := e.aggregate.column(c)) is not None] for c in COLUMNS}
    whole = {c: some for c, some in values.items() if len(some) == len(chosen)}
    scores = {c: fmean(whole[c]) if c in whole else None for c in COLUMNS}
    ranges = {c: (min(whole[c]), max(whole[c])) if c in whole else None for c in COLUMNS}
    info, notes = chosen[0].info, dict.fromkeys(reason for e in chosen for reason in e.reasons)
    return Row(info["method_name"], info["dataset_size"], len(chosen), scores, ranges, None, False, tuple(notes))


def as_csv(found: Sequence[Board]) -> str:
    """All boards in one table; the names of the last columns are those of `Row`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*CSV, f"{AVERAGE} low", f"{AVERAGE} high", "within_noise_of_the_row_above", "comparable", "notes"])
    for board in found:
        for row in board.rows:
            span = row.ranges[AVERAGE] or (None, None)
            told: list[Any] = [row.rank, board.scale, board.track, board.suite_version, row.method, row.dataset_size, row.seeds]
            told += [*(row.scores[c] for c in COLUMNS), *span, row.noise, not row.notes, "; ".join(row.notes)]
            writer.writerow(["" if value is None else value for value in told])
    return out.getvalue()


def _score(value: float | None) -> str:
    return NONE if value is None else f"{value:.4f}"
