"""From folders to the pages on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline import engine
from pipeline.engine import Options
from pipeline.progress import Progress
from pipeline.report import words
from pipeline.report.distributions import pool_sections, selection_sections
from pipeline.report.funnel import Funnel, read_funnel, reconcile
from pipeline.report.gallery import Galleries, Wanted
from pipeline.report.images import Pictures
from pipeline.report.kinds import Kind, kind_of
from pipeline.report.margins import Margin, margins_of
from pipeline.report.page import Figure, Page, Part, Section, Text
from pipeline.report.reading import read
from pipeline.report.samples import Row
from pipeline.report.thresholds import read_rules
from pipeline.report.verdicts import Place, Survey, parts_of, stems, survey
from pipeline.report.write import INDEX, Written, write
from pools import store
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection

VERSION = 1
_UNSAFE_NAME = re.compile(r"[^\w.-]+")


@dataclass(frozen=True)
class Settings:
    """What a report may be told."""

    wanted: Wanted
    max_bytes: int | None  # of a page; None = as much as it takes
    engine: Options  # how a pool is read, and whether the output is replaced


@dataclass(frozen=True)
class _Given:
    """The paths by what they are, in order."""

    pool: Pool | None
    paths: dict[Kind, list[str]]


def report(paths: Sequence[str], output: str, settings: Settings, *, overwrite: bool = False, quiet: bool = False) -> Outcome:
    """Writes the pages on some paths, and an index; counts pages, bytes, samples, and samples for which there was no room.

    Raises InputError for what cannot be reported on, and for selections that are not of the pool given with them.
    """
    given, options = _given(paths), settings.engine
    run = Run(output, "report", VERSION, _said(settings), (digest_of([_identity(p) for p in paths]),))
    if (before := engine.recall(run, options)) is not None:
        return before
    run.claim(overwrite=options.overwrite)
    pages = []
    for page in _pages(given, settings):
        Progress.note(f"report: {page.title}", quiet=options.quiet)
        pages.append(page)
    written = write(output, _named(pages), max_bytes=settings.max_bytes)
    outcome = Outcome(_counts(written))
    run.finish(outcome)
    return outcome


def _said(settings: Settings) -> dict[str, object]:
    wanted = settings.wanted
    return {"samples": wanted.samples, "seed": wanted.seed, "pictures": wanted.pictures, "max_bytes": settings.max_bytes}


def _counts(written: Written) -> dict[str, int]:
    return {
        "pages": written.pages,
        "bytes": written.bytes,
        "samples": written.cards,
        "samples_left_out": written.left_out,
    }


def _identity(path: str) -> str:
    """A digest of a folder's files by their sizes and times of change."""
    return digest_of([store.digest(store.join(path, f), path) for f in store.list_files(path)])


def _given(paths: Sequence[str]) -> _Given:
    kinds: dict[Kind, list[str]] = {}
    for path in dict.fromkeys(p.rstrip("/") or p for p in paths):
        kinds.setdefault(kind_of(path), []).append(path)
    pools = kinds.get("pool", [])
    if len(pools) > 1 and "selection" in kinds:
        raise InputError(f"{len(pools)} pools beside a selection", where=", ".join(pools), expected="the one it was made of")
    if len(kinds.get("leaderboard", [])) > 1:
        raise InputError("several leaderboards", where=", ".join(kinds["leaderboard"]), expected="one folder")
    return _Given(Pool.open(pools[0]) if len(pools) == 1 else None, kinds)


def _pages(given: _Given, settings: Settings) -> Iterator[Page]:
    """In the order in which somebody would look at them."""
    for path in given.paths.get("download", []):
        from pipeline.report.download import download_page

        yield download_page(path)
    selections = [Selection(path) for path in given.paths.get("selection", [])]
    if given.pool is not None:
        yield from _pool_pages(given.pool, selections, settings)
    else:
        for path in given.paths.get("pool", []):
            yield from _pool_pages(Pool.open(path), (), settings)
        for selection in selections:
            made = _Judged.of(selection, None, settings, Pictures(None, settings.engine))
            yield from _selection_pages(made, ())
    yield from _run_pages(given)


@dataclass(frozen=True)
class _Judged:
    """A selection, what became of all rows, and the rows that are shown."""

    selection: Selection
    funnel: Funnel
    margins: Sequence[Margin]
    galleries: Galleries
    survey: Survey
    rows: Mapping[Place, Row]

    @classmethod
    def of(cls, selection: Selection, pool: Pool | None, settings: Settings, pictures: Pictures) -> _Judged:
        wanted = settings.wanted
        funnel = read_funnel(selection)
        margins = margins_of(read_rules(selection)) if pool is not None else []
        found = survey(selection, pool, margins, wanted.samples, wanted.seed)
        if stems(selection):
            reconcile(funnel, found, selection.root)
        galleries = Galleries.of(pool, selection, funnel.keep, wanted, pictures)
        return cls(selection, funnel, margins, galleries, found, galleries.rows(found.chosen))


def _pool_pages(pool: Pool, selections: Sequence[Selection], settings: Settings) -> Iterator[Page]:
    """On a pool, on each of its selections, and on what these have in common."""
    for selection in selections:
        parts_of(selection, pool)
    pictures = Pictures(pool, settings.engine)
    galleries = Galleries.of(pool, None, (), settings.wanted, pictures)
    sample = galleries.random()
    judged = [_Judged.of(selection, pool, settings, pictures) for selection in selections]
    galleries.look_up([*sample.values(), *(row for j in judged for row in j.rows.values())])
    numbers = read(pool, selections, options=settings.engine, seed=settings.wanted.seed)
    name = store.name(pool.root)
    files = "one file" if numbers.files == 1 else f"{numbers.files:,} files"
    sections = [*pool_sections(numbers), *_with_note(galleries, [galleries.sample(sample)])]
    yield Page(name, name, f"A pool: {numbers.rows:,} rows in {files}.", sections)
    for i, found in enumerate(judged):
        yield from _selection_pages(found, selection_sections(numbers, i))
    if len(selections) > 1:
        from pipeline.report.compare import compare_page

        yield compare_page(numbers, galleries.of_uids)


def _run_pages(given: _Given) -> Iterator[Page]:
    if runs := given.paths.get("run"):
        from pipeline.report.runs import runs_page

        yield runs_page(runs)
    for path in given.paths.get("leaderboard", []):
        from pipeline.report.leaderboard import leaderboard_page

        yield leaderboard_page(path)
    for path in given.paths.get("submission", []):
        from pipeline.report.leaderboard import submission_page

        yield submission_page(path)


def _selection_pages(judged: _Judged, distributions: Sequence[Section]) -> Iterator[Page]:
    """What a filter did in numbers, and a page of samples."""
    funnel, name = judged.funnel, store.name(judged.selection.root)
    without = "The filter wrote no verdicts, so no samples can be shown."
    told = [] if stems(judged.selection) else [Section("without", "Samples", [Text((without,))])]
    lead = f"What the recipe {funnel.recipe} did to the pool. {funnel.description}".strip()
    yield Page(name, name, lead, [funnel.section(f"funnel-{words.slug(name)}"), *told, *distributions])
    if judged.rows:
        galleries = judged.galleries
        shown = galleries.stages(judged.survey, judged.rows, judged.margins, funnel.stages)
        lead = f"What each stage of {funnel.recipe} threw away, what it nearly kept and nearly threw away, and what was kept."
        yield Page(f"{name}-samples", f"{name}: samples", lead, _with_note(galleries, shown))


def _with_note(galleries: Galleries, sections: Sequence[Section]) -> list[Section]:
    """The sections, with a word at the start of the first on what cannot be seen in them."""
    told = galleries.notes()
    if not told or not sections:
        return list(sections)
    return [replace(sections[0], parts=[Text(told), *sections[0].parts]), *sections[1:]]


def _named(pages: Sequence[Page]) -> list[Page]:
    """The pages with names that files may have, each of its own, and so their figures."""
    taken, drawn = {INDEX}, set[str]()
    named = []
    for page in pages:
        name = _free(_UNSAFE_NAME.sub("-", page.name).strip(".-") or "page", taken)
        sections = [replace(s, parts=[_drawn(part, name, drawn) for part in s.parts]) for s in page.sections]
        named.append(replace(page, name=name, sections=sections))
    return named


def _drawn(part: Part, page: str, taken: set[str]) -> Part:
    if not isinstance(part, Figure):
        return part
    name = part.name if part.name.lower() not in taken else f"{page}-{part.name}"
    return replace(part, name=_free(_UNSAFE_NAME.sub("-", name).strip(".-") or "figure", taken))


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number the first of the kind that is not taken, which it then is."""
    number, found = 1, name
    while found.lower() in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found.lower())
    return found
