"""Two selections of one pool, or more, beside each other: what both keep, what only one keeps, and how it is made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from pipeline.report import distributions, diversity, figures, words
from pipeline.report.columns import DOMAIN, LANGUAGE, REGION, STATED, UNKNOWN
from pipeline.report.counts import Counts
from pipeline.report.distributions import View, histogram_figure, share_figure
from pipeline.report.page import Gallery, MakeGallery, Page, Part, Section, Table, Text
from pipeline.report.reading import Numbers
from pipeline.report.thresholds import CHARACTERS, RATIO, SIDE, WORDS
from pools import store
from pools.errors import InputError


def compare_page(numbers: Numbers, gallery: MakeGallery | None = None) -> Page:
    """`gallery` makes cards of uids. Raises InputError for fewer than two selections."""
    names = _names(numbers)
    if len(names) < 2:
        raise InputError("one selection", where=numbers.pool, expected="two or more of one pool, to be compared")
    groups = numbers.groups
    kept = [groups.kept(i) for i in range(len(names))]
    only = [groups.only(i) for i in range(len(names))]
    thresholds = tuple((name, t) for name, rules in zip(names, numbers.rules, strict=True) for t in rules.thresholds)
    beside = View(numbers, "compare", (("all rows", 0), *zip(names, kept, strict=True)), thresholds, True)
    each = [(f"only {name}", group) for name, group in zip(names, only, strict=True)]
    alone = View(numbers, "only", (("all rows", 0), *each), thresholds, True)
    sections = [
        Section("overlap", "What they share", tuple(_overlap(numbers, names))),
        Section("diversity", "Diversity", tuple(_diversity(numbers, names, kept))),
        Section("scores-beside", "Scores of what each keeps", tuple(_histograms(beside))),
        Section("languages-beside", "Languages of what each keeps", tuple(_values(beside, LANGUAGE, STATED))),
        Section("only", "What one alone keeps", (Text((_alone(names),)), *_values(alone, LANGUAGE, STATED, REGION, DOMAIN))),
        Section("scores-only", "Scores of what one alone keeps", tuple(_histograms(alone))),
        *(_galleries(numbers, names, gallery) if gallery is not None else ()),
    ]
    lead = f"{' and '.join(names)}, side by side: what they keep of {numbers.rows:,} rows, together and each alone."
    return Page("compare", f"Comparison: {', '.join(names)}", lead, [s for s in sections if s.parts])


def _names(numbers: Numbers) -> list[str]:
    """The folders' names, which tell two runs of a recipe apart; with a number where they do not."""
    names: list[str] = []
    for selection in numbers.selections:
        name, number = store.name(selection.root), 1
        while name in names:
            number += 1
            name = f"{store.name(selection.root)} ({number})"
        names.append(name)
    return names


def _alone(names: Sequence[str]) -> str:
    others = "the other" if len(names) == 2 else "any other"
    return f"Rows that one selection keeps and {others} does not; shares are of those rows."


def _overlap(numbers: Numbers, names: Sequence[str]) -> Iterator[Part]:
    patterns = numbers.counted.patterns
    rows = []
    for i, j in combinations(range(len(names)), 2):
        both, one, other = overlap(patterns, i, j)
        union = both + one + other
        rows.append(
            (f"{names[i]} and {names[j]}", both, one, other, union, round(both / union, 4) if union else None,
             words.percent(both, both + one), words.percent(both, both + other))
        )  # fmt: skip
    head = ("", "both", "only the first", "only the second", "either", "Jaccard", "of the first, %", "of the second, %")
    yield Table("Rows that two selections keep (Jaccard: both ÷ either)", head, rows)
    every = [(_who(pattern, names), int(n), words.percent(int(n), numbers.rows)) for pattern, n in enumerate(patterns) if n]
    every.sort(key=lambda row: -row[1])
    series = [("rows", [float(row[1]) for row in every])]
    alt = "Rows by who keeps them: " + ", ".join(f"{who} {n:,}" for who, n, _ in every[:8]) + "."
    table = Table("Rows by who keeps them", ("kept by", "rows", "share of all, %"), every)
    yield figures.bars("compare-overlap", "Who keeps what", alt, table, [row[0] for row in every], series, label="rows")


def overlap(patterns: Counts, i: int, j: int) -> tuple[int, int, int]:
    """Rows that both selections keep, only the first, only the second; whatever others do."""
    sets = np.arange(len(patterns))
    a, b = (sets >> i & 1).astype(bool), (sets >> j & 1).astype(bool)
    return int(patterns[a & b].sum()), int(patterns[a & ~b].sum()), int(patterns[~a & b].sum())


def _who(pattern: int, names: Sequence[str]) -> str:
    keep = [name for i, name in enumerate(names) if pattern >> i & 1]
    if not keep:
        return "none"
    return "only " + keep[0] if len(keep) == 1 else "all of them" if len(keep) == len(names) > 2 else " and ".join(keep)


def _diversity(numbers: Numbers, names: Sequence[str], kept: Sequence[int]) -> Iterator[Table]:
    found = [diversity.changes(numbers, group) for group in kept]
    rows: list[tuple[str | float, ...]] = []
    marks = set()
    for dimension in zip(*found, strict=True):
        title = diversity.COUNTED.get(dimension[0].name, dimension[0].name)
        effective = [dimension[0].effective[0], *(change.effective[1] for change in dimension)]
        entropies = [dimension[0].entropy[0], *(change.entropy[1] for change in dimension)]
        if min(effective[1:]) <= (1 + diversity.LOST) / 2 * effective[0]:
            marks.add(len(rows))
        rows.append((title, *(round(e, 2) for e in effective), *(round(e, 4) for e in entropies)))
    head = ("effective number of", "all rows", *names, "entropy, bits: all rows", *names)
    caption = "Diversity of what each keeps; marked where the effective number fell by a quarter or more in one of them"
    if rows:
        yield Table(caption, head, rows, frozenset(marks))


def _histograms(view: View) -> Iterator[Part]:
    histograms = view.numbers.counted.histograms
    for name in [*sorted(n for n in histograms if n not in distributions.MEASURED), SIDE, RATIO, WORDS, CHARACTERS]:
        histogram = histograms.get(name)
        if histogram is not None and histogram.counts[:, 0].any():
            yield histogram_figure(view, name, histogram)


_TITLES = {LANGUAGE: "Languages of captions", STATED: "Languages that pages state", REGION: "Regions", DOMAIN: "Domains"}


def _values(view: View, *names: str) -> Iterator[Part]:
    for name in names:
        ranked = _ranked(view.numbers, name)
        if len(ranked) > 1:
            yield share_figure(view, name, _TITLES[name], ranked)


def _ranked(numbers: Numbers, name: str) -> list[tuple[str, Counts]]:
    if name == DOMAIN:
        tally, named = numbers.counted.tallies.get(DOMAIN), numbers.names.get(DOMAIN, {})
        pairs = zip(*tally.top(len(named)), strict=True) if tally is not None else ()
        return [(named[int(h)], counts) for h, counts in pairs if int(h) in named]
    labels = numbers.counted.labels.get(name)
    if labels is None or not any(value != UNKNOWN for value in labels.counts):
        return []
    return [(words.language(v) if name in (LANGUAGE, STATED) else v, counts) for v, counts in labels.ranked()]


def _galleries(numbers: Numbers, names: Sequence[str], gallery: MakeGallery) -> Iterator[Section]:
    for i, name in enumerate(names):
        _, uids = numbers.counted.only.get(i, (None, []))
        if uids:
            made: Gallery = gallery(f"gallery-only-{words.slug(name)}", f"Only {name} keeps", uids, f"kept by {name} alone")
            yield Section(f"samples-{words.slug(name)}", f"A sample of what only {name} keeps", (made,))
