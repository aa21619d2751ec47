"""How the rows of a pool are spread, and of a selection before and after: the sections of its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.report import diversity, figures, words
from pipeline.report.columns import CAPTION, DOMAIN, LANGUAGE, PHASH, REGION, SHA256, STATED, TOP_LEVEL, UNKNOWN, URL
from pipeline.report.counts import Counts, Histogram
from pipeline.report.figures import Line
from pipeline.report.page import Figure, Part, Section, Table, Text
from pipeline.report.reading import Numbers
from pipeline.report.regions import GENERIC, NONE
from pipeline.report.tallies import Tally
from pipeline.report.thresholds import CHARACTERS, RATIO, SIDE, WORDS, Threshold
from pools import store

SHOWN = 20  # values in a picture
LISTED = 30  # and in a table
MEASURED = {
    SIDE: "shorter side, pixels",
    RATIO: "aspect ratio, longer ÷ shorter side",
    WORDS: "words of the caption",
    CHARACTERS: "characters of the caption",
}
DUPLICATES = {
    CAPTION: "captions",
    URL: "addresses",
    SHA256: "image files (SHA-256)",
    PHASH: "perceptual hashes",
    DOMAIN: "domains",
}


@dataclass(frozen=True)
class View:
    """The groups of rows that a page shows side by side, the first of them all rows: (name, group)."""

    numbers: Numbers
    stem: str  # of the names of its pictures
    groups: tuple[tuple[str, int], ...]
    thresholds: tuple[tuple[str, Threshold], ...] = ()  # with the name of the recipe where there are several
    shares: bool = False  # whether histograms show of each group what part of it lies where, not rows

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.groups)

    @property
    def columns(self) -> list[int]:
        return [group for _, group in self.groups]

    def of(self, counts: Counts) -> list[int]:
        """Of counts by group, those that are shown."""
        return [int(counts[g]) for g in self.columns]

    @property
    def totals(self) -> list[int]:
        return self.of(self.numbers.counted.totals)


def pool_sections(numbers: Numbers) -> list[Section]:
    """What a pool holds."""
    return _sections(View(numbers, "pool", (("rows", 0),)))


def selection_sections(numbers: Numbers, index: int) -> list[Section]:
    """The same before and after a selection, which is one of those that the pool was read with, and what that did."""
    name = store.name(numbers.selections[index].root)
    kept = numbers.groups.kept(index)
    rules = numbers.rules[index]
    view = View(numbers, words.slug(name), (("all rows", 0), ("kept", kept)), tuple(("", t) for t in rules.thresholds))
    sections = _sections(view)
    found = [s for s in (diversity.section(numbers, kept, name), _stages(numbers, index)) if s is not None]
    note = [] if not rules.mix else [_weighted(numbers, index)]
    return [*note, *sections[:1], *found, *sections[1:]]


def _weighted(numbers: Numbers, index: int) -> Section:
    entries = int(numbers.counted.totals[numbers.groups.kept(index)])
    rows = int(sum(n for pattern, n in enumerate(numbers.counted.patterns.tolist()) if pattern >> index & 1))
    text = f"The recipe weighs what it keeps: {rows:,} rows stand in its list {entries:,} times. “Kept” counts these entries."
    return Section("mix", "A weighted list", (Text((text,)),))


def _sections(view: View) -> list[Section]:
    made: list[tuple[str, str, Callable[[View], Iterator[Part]]]] = [
        ("scores", "Scores", _scores),
        ("languages", "Languages", _languages),
        ("sizes", "Sizes of images", lambda v: _histograms(v, (SIDE, RATIO))),
        ("captions", "Captions", _captions),
        ("domains", "Where images lie", _domains),
        ("duplicates", "Duplicates", _duplicates),
        ("labels", "Other labels", _labels),
    ]
    found = [(key, title, tuple(parts(view))) for key, title, parts in made]
    return [Section(f"{key}-{view.stem}", title, parts) for key, title, parts in found if parts]


def _scores(view: View) -> Iterator[Figure]:
    names = sorted(n for n in view.numbers.counted.histograms if n not in MEASURED)
    return _histograms(view, names)


def _histograms(view: View, names: Sequence[str]) -> Iterator[Figure]:
    for name in names:
        histogram = view.numbers.counted.histograms.get(name)
        if histogram is not None and histogram.counts[:, 0].any():
            yield histogram_figure(view, name, histogram)


def histogram_figure(view: View, name: str, histogram: Histogram) -> Figure:
    """A column's histogram with the thresholds on it; where rows lie outside of all edges, the table says how many."""
    counts = histogram.counts[:, view.columns]
    used = np.flatnonzero(counts[1:-1].any(1))
    first, last = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, len(histogram.edges) - 1)
    found = [(who, t) for who, t in view.thresholds if t.column == name]
    for _, threshold in found:  # which shall be seen, wherever it is
        place = int(np.searchsorted(histogram.edges, threshold.value, side="right")) - 1
        first, last = min(first, max(place, 0)), max(last, min(place + 1, len(histogram.edges) - 1))
    edges = histogram.edges[first : last + 1].tolist()
    shown = counts[first + 1 : last + 1]
    lines = [Line(t.value, f"{who} {t}".strip()) for who, t in found]
    title = MEASURED.get(name, name)
    return figures.histogram(
        f"{view.stem}-{words.slug(name)}",
        title[:1].upper() + title[1:] if name in MEASURED else title,
        _alt(view, title, histogram, lines),
        _bins(view, title, histogram),
        edges,
        [(who, _heights(view, shown[:, i], i)) for i, who in enumerate(view.names)],
        lines,
        label=title,
        height="share of its rows, %" if view.shares else "rows",
        even=name not in MEASURED,
    )


def _heights(view: View, counts: Counts, group: int) -> list[float]:
    scale = 100 / max(1, view.totals[group]) if view.shares else 1
    return [float(n) for n in counts * scale]


def _alt(view: View, title: str, histogram: Histogram, lines: Sequence[Line]) -> str:
    counts = histogram.counts[:, 0]
    total = int(counts.sum())
    middle = int(np.searchsorted(np.cumsum(counts), total / 2))
    most = int(counts.argmax())
    text = f"Histogram of {title}: {total:,} rows have a value, half of them {_below(histogram, middle)}; "
    text += f"most, {int(counts[most]):,}, {_range(histogram, most)}."
    if lines:
        text += " Thresholds: " + ", ".join(line.label for line in lines) + "."
    for (who, group), rows in list(zip(view.groups, view.totals, strict=True))[1:]:
        within = int(histogram.counts[:, group].sum())
        if within:
            middle = int(np.searchsorted(np.cumsum(histogram.counts[:, group]), within / 2))
            text += f" {who}: {rows:,} rows, half of them {_below(histogram, middle)}."
    return text


def _below(histogram: Histogram, place: int) -> str:
    edges = histogram.edges
    return f"below {edges[place]:.6g}" if place < len(edges) else f"above {edges[-1]:.6g}"


def _range(histogram: Histogram, place: int) -> str:
    edges = histogram.edges
    if place == 0:
        return f"lie below {edges[0]:.6g}"
    return (
        f"lie between {edges[place - 1]:.6g} and {edges[place]:.6g}" if place < len(edges) else f"are {edges[-1]:.6g} or more"
    )


def _bins(view: View, title: str, histogram: Histogram) -> Table:
    edges, rows = histogram.edges, []
    row = _shares if view.shares else _with_shares
    for place in np.flatnonzero(histogram.counts[:, view.columns].any(1)).tolist():
        low = f"from {edges[place - 1]:.6g}" if place else ""
        high = f"below {edges[place]:.6g}" if place < len(edges) else "on"
        rows.append(row(view, f"{low} {high}".strip(), histogram.counts[place]))
    lacking = view.numbers.counted.totals[: histogram.counts.shape[1]] - histogram.counts.sum(0)
    if lacking.any():
        rows.append(row(view, "no value", lacking))
    return Table(f"Rows by {title}", ("", *(_share_headings(view) if view.shares else _headings(view))), rows)


def _headings(view: View) -> list[str]:
    """Rows of each group, and what part of all rows with the value each other group has."""
    return [*view.names, *(f"{name}, % of these" for name in view.names[1:])]


def _with_shares(view: View, title: str, counts: Counts) -> tuple[str | int | float | None, ...]:
    shown = view.of(counts)
    return (title, *shown, *(words.percent(n, shown[0]) for n in shown[1:]))


def _shares(view: View, title: str, counts: Counts) -> tuple[str | int | float | None, ...]:
    """Rows of each group, and their share of that group in %."""
    shown = view.of(counts)
    return (title, *shown, *(words.percent(n, total) for n, total in zip(shown, view.totals, strict=True)))


def _share_headings(view: View) -> list[str]:
    return [*view.names, *(f"share of {name}, %" for name in view.names)]


def share_figure(view: View, key: str, title: str, ranked: Sequence[tuple[str, Counts]], *, more: str = "") -> Figure:
    """The most frequent values of something as bars of shares."""
    shown = ranked[:SHOWN]
    totals = view.totals
    series = [
        (who, [100 * int(c[g]) / totals[i] if totals[i] else 0.0 for _, c in shown]) for i, (who, g) in enumerate(view.groups)
    ]
    first = ", ".join(
        f"{name} " + " and ".join(f"{words.said(int(c[g]), totals[i])} of {who}" for i, (who, g) in enumerate(view.groups))
        for name, c in shown[:4]
    )
    rest = "." if len(shown) <= 4 else f"; and {len(shown) - 4} more."
    alt = f"{title}: bars of shares, the most frequent first. {first}{rest}"
    table = Table(f"{title}{more}", ("", *_share_headings(view)), [_shares(view, name, c) for name, c in ranked[:LISTED]])
    return figures.bars(
        f"{view.stem}-{words.slug(key)}", title, alt, table, [n for n, _ in shown], series, label="share of rows, %"
    )


def _languages(view: View) -> Iterator[Part]:
    counted = view.numbers.counted
    titles = {LANGUAGE: "Languages of captions", STATED: "Languages that pages state"}
    if LANGUAGE not in counted.labels and CAPTION in counted.tallies:
        text = "Languages of captions are not known: `winnow annotate --with language` finds them, as does the extra `filter`."
        yield Text((text,))
    for name, title in titles.items():
        if name in counted.labels and any(value != UNKNOWN for value in counted.labels[name].counts):
            ranked = [(words.language(value), c) for value, c in counted.labels[name].ranked()]
            yield share_figure(view, name, title, ranked, more=f"; {len(ranked)} in all" if len(ranked) > LISTED else "")
    if counted.identified:
        yield Text((f"The language of {counted.identified:,} captions was found for this page, by fastText's lid.176.",))


def _captions(view: View) -> Iterator[Part]:
    yield from _histograms(view, (WORDS, CHARACTERS))
    if CAPTION in view.numbers.counted.tallies:
        yield _frequent(view, CAPTION, "Most frequent captions")


def _frequent(view: View, key: str, title: str) -> Table:
    tally, names = view.numbers.counted.tallies[key], view.numbers.names[key]
    hashes, counts = tally.top(LISTED)
    rows = [
        _shares(view, words.cut(names[int(h)]) or "(empty)", c) for h, c in zip(hashes, counts, strict=True) if int(h) in names
    ]
    return Table(f"{title}{_error(tally)}", ("", *_share_headings(view)), rows)


def _error(tally: Tally) -> str:
    return f"; each may stand {tally.error:,} times more often than it says" if tally.error else ""


def _domains(view: View) -> Iterator[Part]:
    counted = view.numbers.counted
    if DOMAIN not in counted.tallies:
        return
    tally, names = counted.tallies[DOMAIN], view.numbers.names[DOMAIN]
    hashes, counts = tally.top(LISTED)
    ranked = [(names[int(h)] or "(no address)", c) for h, c in zip(hashes, counts, strict=True) if int(h) in names]
    repeats = tally.repeats()
    about = "" if tally.exact else "about "
    if ranked:
        more = f"; {about}{int(repeats.values[0]):,} in all{_error(tally)}"
        yield share_figure(view, DOMAIN, "Registered domains", ranked, more=more)
    regions = [(name, c) for name, c in counted.labels[REGION].ranked() if name not in (GENERIC, NONE)]
    generic = sum((c for n, c in counted.labels[REGION].counts.items() if n in (GENERIC, NONE)), np.zeros(1, np.int64))
    if regions:
        yield share_figure(view, REGION, "Regions, by the country code of the domain", regions)
        text = (
            f"{words.said(int(generic[0]), view.totals[0])} of the rows are under generic names (.com, .org, …, and country "
            "codes sold as such, as .io and .tv), which say no region. Regions are those of the United Nations' M49."
        )
        yield Text((text,))
    ranked = [("." + name if name else "(none)", c) for name, c in counted.labels[TOP_LEVEL].ranked()]
    yield Table("Top-level domains", ("", *_share_headings(view)), [_shares(view, n, c) for n, c in ranked[:LISTED]])


def _duplicates(view: View) -> Iterator[Part]:
    tallies = {name: t for name, t in view.numbers.counted.tallies.items() if name != DOMAIN}
    if not tallies:
        return
    head = [f"{what}, {name}" if len(view.names) > 1 else what
            for name in view.names for what in ("different", "of these repeated", "rows with a repeated one")]  # fmt: skip
    rows: list[tuple[str | int, ...]] = []
    estimated = False
    for name, tally in sorted(tallies.items(), key=lambda item: list(DUPLICATES).index(item[0])):
        repeats = tally.repeats()
        estimated = estimated or not repeats.exact
        cells = [int(n[g]) for g in view.columns for n in (repeats.values, repeats.repeated, repeats.rows)]
        rows.append((DUPLICATES[name] + ("" if repeats.exact else " (estimated)"), *cells))
    yield Table("Rows that have something in common", ("equal", *head), rows)
    if estimated:
        limit = next(iter(tallies.values())).limit
        yield Text((f"Beyond {limit:,} different values these numbers are estimates, from a sample of the values.",))
    for name in (URL, SHA256, PHASH):
        if view.numbers.names.get(name):
            table = _frequent(view, name, f"Most frequent {DUPLICATES[name]}")
            yield Table(table.caption, table.header, table.rows[:10])


def _labels(view: View) -> Iterator[Part]:
    known = {LANGUAGE, STATED, REGION, TOP_LEVEL}
    for name, labels in sorted(view.numbers.counted.labels.items()):
        if name not in known and not labels.given_up and len(labels.counts) > 1:
            ranked = [(value or "(empty)", c) for value, c in labels.ranked()]
            yield share_figure(view, f"label-{name}", name, ranked)


def _stages(numbers: Numbers, index: int) -> Section | None:
    """What each stage dropped, by language, region and labels."""
    groups, rules = numbers.groups, numbers.rules[index]
    if not groups.stages[index]:
        return None
    names = [f"{i} {name}" for i, name in enumerate(rules.stages)]
    columns = [groups.dropped(index, i) for i in range(len(names))]
    stem = words.slug(store.name(numbers.selections[index].root))
    parts = []
    for name, labels in sorted(numbers.counted.labels.items(), key=lambda item: (item[0] not in (LANGUAGE, STATED), item[0])):
        if labels.given_up or len(labels.counts) < 2 or name == TOP_LEVEL:
            continue
        shown = labels.ranked()[:LISTED]
        # As often as they are in the pool: entries of a weighted list are no rows.
        rows: list[tuple[str | int, ...]] = [
            (
                words.language(value) if name in (LANGUAGE, STATED) else value or "(empty)",
                int(c[0]),
                *(int(c[g]) for g in columns),
                int(c[0]) - sum(int(c[g]) for g in columns),
            )
            for value, c in shown
        ]
        parts.append(Table(f"Rows that each stage dropped, by {name}", ("", "all rows", *names, "kept"), rows))
    return Section(f"stages-{stem}", "What each stage dropped", tuple(parts)) if parts else None
