"""What a page of a report is made of: plain values, which `pipeline.report.write` turns into HTML.

Every text here is text, never markup: it is escaped when a page is written. Only a figure's `svg` goes in as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

SAMPLES = 12  # of a stage and side, unless more are asked for
BETWEEN_SIDES = " · "


@dataclass(frozen=True)
class Text:
    """Paragraphs."""

    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first column names the row. Numbers stand right, None is left empty."""

    caption: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str | int | float | None]]
    marks: frozenset[int] = frozenset()  # rows to mark, by their index: a loss of diversity, what is not comparable, …


@dataclass(frozen=True)
class Figure:
    """A picture drawn from numbers, and the same numbers."""

    name: str  # stem of figures/NAME.svg and .png
    title: str
    alt: str  # the picture in words, with its main numbers
    svg: str  # drawn by us, so not escaped
    table: Table
    png: bytes | None = None  # for papers; not on the page


@dataclass(frozen=True)
class Card:
    """A sample in a gallery."""

    uid: str
    caption: str
    url: str | None
    stage: str  # what dropped it, or what it was kept by
    side: str  # where it stands: "dropped", "nearly kept", …; several with `BETWEEN_SIDES` in between
    reason: str  # what the rule compared, in words
    scores: tuple[tuple[str, float], ...] = ()
    language: str | None = None  # a BCP 47 tag, if one is known
    image: bytes | None = None  # a small picture encoded by us, JPEG or WebP
    size: tuple[int, int] | None = None  # pixels of `image`, width and height
    no_image: str | None = None  # why there is none
    unsafe: str | None = None  # why it is blurred until asked for; None = it is not


@dataclass(frozen=True)
class Gallery:
    """Cards with a search above them; those at the end give way first if the page grows too large."""

    id: str
    title: str
    cards: Sequence[Card]


Part: TypeAlias = Text | Table | Figure | Gallery


@dataclass(frozen=True)
class Section:
    id: str  # unique within the page: the fragment of its link
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Page:
    name: str  # NAME.html
    title: str
    lead: str  # a sentence or two on what is looked at
    sections: Sequence[Section]


# Makes a gallery of samples of one pool: (id, title, uids, side) → Gallery, cards in the order of the uids.
MakeGallery: TypeAlias = Callable[[str, str, Sequence[str], str], Gallery]
