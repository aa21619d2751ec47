"""What a selection did to the diversity of a pool: shares of languages, regions, domains and clusters before and after.

Filters that raise scores on Western benchmarks were found to lower those on cultural ones, as what they drop comes from fewer
of the world's languages and places than what they keep (WebLI-100B, section on filters). A value's *ratio* is its share of
what is kept over its share of all rows: 1 where a filter treats it as the rest, 0 where nothing is left. Entropy is in bits;
2^entropy, the *effective number*, is how many values there would be if all were equally frequent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.report import figures, words
from pipeline.report.columns import DOMAIN, LANGUAGE, REGION, STATED, UNKNOWN
from pipeline.report.page import Figure, Section, Table, Text
from pipeline.report.reading import Numbers
from pipeline.report.regions import GENERIC, NONE, WESTERN
from pipeline.report.tallies import Tally

LOST = 0.5  # ratio at and below which a value is marked
CHANCE = 3.0  # standard deviations of a random choice of rows, which it must lie below what that would leave, too
SHOWN = 24
_CERTAIN = 8  # times the error: values so frequent enter an estimated entropy one by one
_SAY_NOTHING = (UNKNOWN, "und", GENERIC, NONE)
LOW_RESOURCE = ("bn", "fil", "hi", "he", "mi", "sw", "te")  # WebLI-100B
COUNTED = {LANGUAGE: "languages of captions", STATED: "languages that pages state", REGION: "regions", DOMAIN: "domains"}


@dataclass(frozen=True)
class Change:
    """A dimension before and after: different values, entropy in bits, and what stands for values: (name, before, after)."""

    name: str
    values: tuple[int, int]
    entropy: tuple[float, float]
    rows: tuple[tuple[str, int, int], ...]  # the most frequent first
    exact: bool = True

    @property
    def effective(self) -> tuple[float, float]:
        return 2.0 ** self.entropy[0], 2.0 ** self.entropy[1]


def changes(numbers: Numbers, kept: int) -> list[Change]:
    """Every dimension that the pool has; `kept` is the group of the rows after."""
    counted = numbers.counted
    clusters = sorted(n for n in counted.labels if n == "cluster" or n.endswith("_cluster"))
    found = []
    for name in (LANGUAGE, STATED, REGION, *clusters):
        if name in counted.labels and counted.labels[name].counts:
            ranked = [(value, c) for value, c in counted.labels[name].ranked() if value not in _SAY_NOTHING]
            if len(ranked) < 2:
                continue
            counts = np.array([[c[0], c[kept]] for _, c in ranked], np.int64).reshape(-1, 2)
            rows = tuple((value, int(c[0]), int(c[kept])) for value, c in ranked)
            found.append(Change(name, (_there(counts, 0), _there(counts, 1)), _entropies(counts), rows))
    if DOMAIN in counted.tallies:
        found.append(_of_domains(numbers, kept))
    return found


def _of_domains(numbers: Numbers, kept: int) -> Change:
    tally, names = numbers.counted.tallies[DOMAIN].settle(), numbers.names[DOMAIN]
    hashes, counts = tally.top(len(names))
    rows = tuple((names[int(h)], int(c[0]), int(c[kept])) for h, c in zip(hashes, counts, strict=True) if names.get(int(h)))
    repeats = tally.repeats()
    entropy = entropy_of(tally, 0, tally.rows), entropy_of(tally, kept, int(numbers.counted.totals[kept]))
    return Change(DOMAIN, (int(repeats.values[0]), int(repeats.values[kept])), entropy, rows, tally.exact)


def entropy_of(tally: Tally, group: int, total: int) -> float:
    """Bits; of an inexact tally, the most frequent values by themselves and an estimate of the others by the sample."""
    tally.settle()
    if tally.exact:
        return _entropy(tally.sample[1][:, group])
    hashes, counts = tally.heavy
    frequent = counts[:, 0] > _CERTAIN * tally.error
    others = tally.sample[1][~np.isin(tally.sample[0], hashes[frequent]), group]
    lacking = tally.error // 2 * (counts[frequent, group] > 0)
    return _bits(counts[frequent, group] + lacking, total) + float(1 << tally.level) * _bits(others, total)


def _entropies(counts: NDArray[np.int64]) -> tuple[float, float]:
    return _entropy(counts[:, 0]), _entropy(counts[:, 1])


def _entropy(counts: NDArray[np.int64]) -> float:
    return _bits(counts, int(counts.sum()))


def _bits(counts: NDArray[np.int64], total: int) -> float:
    shares = counts[counts > 0] / total if total else np.empty(0)
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def _there(counts: NDArray[np.int64], side: int) -> int:
    return int((counts[:, side] > 0).sum())


def ratio(before: int, after: int, totals: tuple[int, int]) -> float | None:
    """Share after ÷ share before; None where there is nothing to compare."""
    return None if not before or not totals[0] or not totals[1] else (after / totals[1]) / (before / totals[0])


def lost(before: int, after: int, totals: tuple[int, int]) -> bool:
    """Whether half of a share or more is gone, and not by chance: of few rows a random choice may well leave none."""
    r = ratio(before, after, totals)
    if r is None or r > LOST:
        return False
    rate = totals[1] / totals[0]
    return before * rate - after > CHANCE * math.sqrt(before * rate * max(0.0, 1 - rate))


def section(numbers: Numbers, kept: int, name: str) -> Section | None:
    """All of it for one selection, called `name`; None if the pool says nothing of where its rows are from."""
    totals = int(numbers.counted.totals[0]), int(numbers.counted.totals[kept])
    found = changes(numbers, kept)
    if not found:
        return None
    parts: list[Text | Table | Figure] = [Text(tuple(_sentences(found, totals))), _summary(found), *_together(found, totals)]
    for change in found:
        parts += _figure(change, totals, name)
    return Section(f"diversity-{words.slug(name)}", "What it did to diversity", tuple(parts))


def _sentences(found: Sequence[Change], totals: tuple[int, int]) -> list[str]:
    lines = [
        f"{totals[1]:,} of {totals[0]:,} rows are kept ({words.said(totals[1], totals[0])}). Were they a random choice, every "
        "share would stay as it was: a ratio of 1. What has lost half of its share or more is marked, if not by chance."
    ]
    for change in found:
        fewer = sum(lost(before, after, totals) for _, before, after in change.rows)
        gone = sum(after == 0 for _, _, after in change.rows)
        of = f"the {len(change.rows):,} most frequent {COUNTED[DOMAIN]}" if change.name == DOMAIN else f"{len(change.rows):,}"
        what = "" if change.name == DOMAIN else f" {COUNTED.get(change.name, change.name + ' values')}"
        lines.append(
            f"Of {of}{what}, {fewer:,} have lost half of their share or more, {gone:,} are gone wholly; the effective "
            f"number went from {change.effective[0]:.4g} to {change.effective[1]:.4g}."
        )
    return lines


def _summary(found: Sequence[Change]) -> Table:
    rows, marks = [], set()
    for i, change in enumerate(found):
        before, after = change.effective
        title = COUNTED.get(change.name, change.name)
        rows.append(
            (
                title if change.exact else f"{title} (estimated)",
                *change.values,
                round(change.entropy[0], 4),
                round(change.entropy[1], 4),
                round(before, 2),
                round(after, 2),
                round(after / before, 4),
            )
        )
        if after < (1 + LOST) / 2 * before:
            marks.add(i)
    return Table(
        "Diversity before and after; marked where the effective number fell by a quarter or more",
        ("", "values before", "after", "entropy before, bits", "after", "effective number before", "after", "ratio"),
        rows,
        frozenset(marks),
    )


_Test = Callable[[str], bool]
_TOGETHER: dict[str, tuple[tuple[str, _Test], ...]] = {
    LANGUAGE: (
        ("captions in English", lambda v: v == "en"),
        (f"captions in low-resource languages ({', '.join(LOW_RESOURCE)})", lambda v: v in LOW_RESOURCE),
        ("captions in all other languages", lambda v: v not in ("en", *LOW_RESOURCE)),
    ),
    STATED: (
        ("pages in English", lambda v: v == "en"),
        (f"pages in low-resource languages ({', '.join(LOW_RESOURCE)})", lambda v: v in LOW_RESOURCE),
        ("pages in all other languages", lambda v: v not in ("en", *LOW_RESOURCE)),
    ),
    REGION: (
        ("names of the West (Northern America, Europe but the East, Australia and New Zealand)", lambda v: v in WESTERN),
        ("names of all other regions", lambda v: v not in WESTERN),
    ),
}


def _together(found: Sequence[Change], totals: tuple[int, int]) -> list[Table]:
    rows, marks = [], set()
    for change in found:
        for title, inside in _TOGETHER.get(change.name, ()):
            before = sum(b for value, b, _ in change.rows if inside(value))
            after = sum(a for value, _, a in change.rows if inside(value))
            if before:
                rows.append(_row(title, before, after, totals))
                if lost(before, after, totals):
                    marks.add(len(rows) - 1)
    return [Table("Taken together", _HEAD, rows, frozenset(marks))] if rows else []


_HEAD = ("", "rows before", "rows after", "share before, %", "share after, %", "ratio")
_Row = tuple[str | int | float | None, ...]


def _row(title: str, before: int, after: int, totals: tuple[int, int]) -> _Row:
    r = ratio(before, after, totals)
    shares = words.percent(before, totals[0]), words.percent(after, totals[1])
    return (title, before, after, *shares, None if r is None else round(r, 4))


def table(change: Change, totals: tuple[int, int], caption: str) -> Table:
    """The most frequent values, and the ratio of each."""
    shown = change.rows[: 2 * SHOWN]
    marks = (i for i, (_, b, a) in enumerate(shown) if lost(b, a, totals))
    rows = [_row(_named(change.name, value), b, a, totals) for value, b, a in shown]
    return Table(caption, _HEAD, rows, frozenset(marks))


def _named(dimension: str, value: str) -> str:
    return words.language(value) if dimension in (LANGUAGE, STATED) else value


def _figure(change: Change, totals: tuple[int, int], name: str) -> list[Figure]:
    shown = [(v, b, a, r) for v, b, a in change.rows[:SHOWN] if (r := ratio(b, a, totals)) is not None]
    if not shown:
        return []
    shown.sort(key=lambda row: -row[3])
    title = f"{COUNTED.get(change.name, change.name).capitalize()}: who gained and who lost"
    (most, *_, gained), (least, *_, kept) = shown[0], shown[-1]
    alt = (
        f"Ratios of shares after and before, of {len(shown)} {COUNTED.get(change.name, change.name)}: from "
        f"{_named(change.name, most)}, whose share is {gained:.2f} times what it was, to {_named(change.name, least)}, "
        f"{kept:.2f} times; {sum(lost(b, a, totals) for _, b, a, _ in shown)} have lost half or more."
    )
    more = "" if len(change.rows) <= SHOWN else f" (the {SHOWN} most frequent in the picture)"
    numbers = table(change, totals, title + more)
    labels = [_named(change.name, v) for v, *_ in shown]
    stem = f"diversity-{words.slug(name)}-{words.slug(change.name)}"
    return [figures.ratios(stem, title, alt, numbers, labels, [r for *_, r in shown])]
