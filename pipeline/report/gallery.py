"""Galleries: rows of a pool as cards with small pictures, those that are unsafe to be blurred."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.report import hostile, images
from pipeline.report.funnel import Stage
from pipeline.report.margins import Margin
from pipeline.report.page import BETWEEN_SIDES, SAMPLES, Card, Gallery, Section, Text
from pipeline.report.samples import Row, find, read_rows, sampled
from pipeline.report.verdicts import (
    DROPPED,
    KEPT,
    NEAR_DROPPED,
    NEAR_PASSED,
    UNSCORED,
    Place,
    Survey,
)
from pools.layout import Pool
from pools.outputs import Selection

OF_POOL = 8 * SAMPLES  # of a pool without a selection
# Above these a picture is blurred where no recipe says otherwise: what open_nsfw's authors call surely safe ends there
# (see `filters.safety`), and LAION's own texts.
NSFW_COLUMNS: Mapping[str, float] = {"nsfw_image": 0.2, "punsafe": 0.2}
NSFW_WORDS = {"NSFW": ("UNLIKELY",)}  # columns of words, and those words that say a picture is safe


@dataclass(frozen=True)
class Wanted:
    """How much is shown, and how it is chosen."""

    samples: int = SAMPLES
    seed: int = 0
    pictures: bool = True  # whether shards are looked into


@dataclass(frozen=True)
class Galleries:
    """Makes galleries of one pool, of one selection of it, or of a selection alone."""

    pool: Pool | None
    selection: Selection | None
    wanted: Wanted
    pictures: images.Pictures
    limits: Mapping[str, float]  # {column of harm: above it a picture is blurred}

    @classmethod
    def of(
        cls,
        pool: Pool | None,
        selection: Selection | None,
        keep: Sequence[Mapping[str, Any]],
        wanted: Wanted,
        pictures: images.Pictures,
    ) -> Galleries:
        """With the limits of the rules `nsfw` among a recipe's stages, where it has any."""
        return cls(pool, selection, wanted, pictures, {**NSFW_COLUMNS, **dict(_stated(keep))})

    def rows(self, places: Iterable[Place]) -> dict[Place, Row]:
        """What cards show of some rows."""
        return read_rows(self.pool, self.selection, list(places), self._others)

    def random(self) -> dict[Place, Row]:
        """Random rows of the pool."""
        assert self.pool is not None
        number = OF_POOL if self.wanted.samples == SAMPLES else self.wanted.samples
        places = sampled(self.pool, number, self.wanted.seed)
        found = self.rows(places)
        return {place: found[place] for place in places}

    def look_up(self, rows: Iterable[Row]) -> None:
        """Has the pictures of some rows ready."""
        if self.wanted.pictures:
            self.pictures.look_up((row.place.stem, row.uid.lower()) for row in rows)

    def stages(
        self, survey: Survey, rows: Mapping[Place, Row], margins: Sequence[Margin], stages: Sequence[Stage]
    ) -> list[Section]:
        """A section for each stage that dropped something, and one for what was kept; `rows` are those of the survey."""
        self.look_up(rows.values())
        sections = []
        for i, stage in enumerate(stages):
            if not stage.dropped:
                continue
            compared = [m for m in margins if m.stage == i]
            cards = [
                self._card(rows[place], f"{i} {stage.name}", side, _reason(rows[place], stage.name, compared))
                for place, side in _sides(survey, i)
            ]
            title = f"Stage {i}, {stage.name}: {stage.dropped:,} dropped"
            told = Text(_paragraphs(stage, compared))
            sections.append(Section(f"stage-{i}", title, [told, Gallery(f"cards-{i}", title, _spread(cards))]))
        kept = [self._card(rows[p], "kept", KEPT, "passed every stage") for p in survey.places.get((-1, KEPT), [])]
        if kept:
            title = f"Kept: {survey.kept:,}"
            sections.append(Section("kept", title, [Gallery("cards-kept", title, kept)]))
        return sections

    def sample(self, rows: Mapping[Place, Row]) -> Section:
        """Random rows of the pool."""
        self.look_up(rows.values())
        cards = [self._card(row, "pool", "sample", "") for row in rows.values()]
        return Section("sample", "A sample of the pool", [Gallery("cards", "A sample of the pool", cards)])

    def of_uids(self, id_: str, title: str, uids: Sequence[str], side: str) -> Gallery:
        """The first rows of the pool that have these uids; those that it lacks are left out. A `MakeGallery`."""
        assert self.pool is not None
        places = find(self.pool, uids)
        rows = self.rows(places.values())
        self.look_up(rows.values())
        return Gallery(id_, title, [self._card(rows[places[u]], title, side, "") for u in map(str.lower, uids) if u in places])

    def notes(self) -> tuple[str, ...]:
        """What cannot be seen on the cards, and why."""
        if self.pool is None:
            return ("The pool was not given, so the samples have neither captions nor pictures: winnow report SELECTION POOL.",)
        told = []
        if not self.wanted.pictures:
            told.append("Pictures were not asked for.")
        elif not any(set(self._others) & part.columns().keys() for part in self.pool.parts):
            told.append(
                "No picture is blurred: the pool does not say which are unsafe. "
                "winnow annotate POOL --with nsfw_image finds out."
            )
        return tuple(told)

    @property
    def _others(self) -> list[str]:
        return [*self.limits, *NSFW_WORDS]

    def _card(self, row: Row, stage: str, side: str, reason: str) -> Card:
        picture = self.pictures.get(row.place.stem, row.uid.lower())
        common = (row.uid, row.text or "", row.url, stage, side, reason, row.scores, row.language)
        if not isinstance(picture, images.Thumbnail):
            return Card(*common, no_image=picture)
        return Card(*common, image=picture.data, size=(picture.width, picture.height), unsafe=self._unsafe(row.columns or {}))

    def _unsafe(self, columns: Mapping[str, Any]) -> str | None:
        """Why a picture is to be blurred: a score of harm above its limit, or a column of harm that says nothing of it."""
        for name, value in columns.items():
            if name in NSFW_WORDS:
                if str(value).upper() not in NSFW_WORDS[name]:
                    return f"{name}: {hostile.shown(str(value), 40)}"
            elif not isinstance(value, int | float) or value != value:
                return f"no {name}"
            elif value > self.limits[name]:
                return f"{name} {value:.2f}"
        return None


def _stated(rules: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """(column, greatest score) of the rules `nsfw`, also of those within others."""
    for rule in rules:
        for name, options in rule.items():
            if isinstance(options, list):
                yield from _stated(options)
            elif name == "nsfw":
                yield options["column"], options["max"]


def _sides(survey: Survey, stage: int) -> list[tuple[Place, str]]:
    """The rows that are shown of a stage, each once; one that is there for two reasons has both."""
    found: dict[Place, list[str]] = defaultdict(list)
    for side in (DROPPED, NEAR_DROPPED, NEAR_PASSED, UNSCORED):
        for place in survey.places.get((stage, side), []):
            found[place].append(side)
    return [(place, BETWEEN_SIDES.join(sides)) for place, sides in found.items()]


def _spread(cards: Sequence[Card]) -> list[Card]:
    """The first of each side, then the second: what is left out at the end is then a little of each."""
    sides: dict[str, list[Card]] = defaultdict(list)
    for card in cards:
        sides[card.side].append(card)
    longest = max(map(len, sides.values()), default=0)
    return [of_side[i] for i in range(longest) for of_side in sides.values() if i < len(of_side)]


def _reason(row: Row, name: str, compared: Sequence[Margin]) -> str:
    """What a stage compared: the verdict's words, or of a row that passed the column's value."""
    if row.reason == name:
        return "could not be judged" if row.value is None else f"{name}: {_rounded(row.value)}"
    return "; ".join(margin.said(dict(row.scores)) for margin in compared)


def _rounded(value: str) -> str:
    """A verdict's value, with fewer digits if it is a number."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return hostile.shown(value, 120)


def _paragraphs(stage: Stage, compared: Sequence[Margin]) -> tuple[str, ...]:
    told = [f"{stage.name} {stage.options}".strip()]
    if compared:
        told.append(
            f"It keeps what has {'; '.join(map(str, compared))}. “{NEAR_DROPPED}” and “{NEAR_PASSED}” are the samples closest "
            "to that from either side; what later stages made of the latter is another matter."
        )
    if stage.unscored:
        told.append(f"{stage.unscored:,} of the rows could not be judged: they have no value to compare.")
    return tuple(told)
