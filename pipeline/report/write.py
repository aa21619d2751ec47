"""Pages to files: each NAME.html holds all it needs, and nothing in it can run or fetch anything but what stands here."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report import hostile, svg
from pipeline.report.page import Card, Figure, Gallery, Page, Table, Text
from pools import store

TEMPLATES = Path(__file__).parent / "templates"
MAX_BYTES = 5_000_000  # of a page
CELL_CHARS = 300  # of a text in a table that are shown
INDEX = "index"
_QUANTITY = re.compile(r"[-+−<>≥≤×≈]? ?[0-9][0-9.,]*(?:[ \u00a0]?[%‰×]| ?MB)?|[-–—]")
_NOTE_BYTES = 400  # of the words on what is left out


@dataclass(frozen=True)
class Written:
    """What has been written: pages, bytes of all of them, cards, and cards that found no room."""

    pages: int
    bytes: int
    cards: int
    left_out: int


def write(output: str, pages: Sequence[Page], *, max_bytes: int | None = MAX_BYTES) -> Written:
    """NAME.html for each page, index.html, figures/NAME.svg and .png.

    A page that would have more than `max_bytes` shows fewer cards, of each gallery the first, and says so. Raises ValueError
    if two pages have one name.
    """
    names = [page.name for page in pages]
    if len({INDEX, *names}) <= len(names):
        raise ValueError(f"names of pages: {', '.join(names)}")
    size = cards = left_out = 0
    for page in pages:
        content, shown, lost = _fitted(page, pages, max_bytes)
        store.write_bytes(store.join(output, f"{page.name}.html"), content)
        size, cards, left_out = size + len(content), cards + shown, left_out + lost
        for section in page.sections:
            for part in section.parts:
                if isinstance(part, Figure):
                    _export(output, part)
    content = _render("index.html.j2", page=None, pages=pages)
    store.write_bytes(store.join(output, f"{INDEX}.html"), content)
    return Written(len(pages), size + len(content), cards, left_out)


def _export(output: str, figure: Figure) -> None:
    path = store.join(output, "figures", figure.name)
    store.write_bytes(f"{path}.svg", svg.standalone(figure.svg).encode("utf-8", "replace"))
    if figure.png is not None:
        store.write_bytes(f"{path}.png", figure.png)


def _fitted(page: Page, pages: Sequence[Page], max_bytes: int | None) -> tuple[bytes, int, int]:
    """A page, the cards in it, and those left out."""
    galleries = [part for section in page.sections for part in section.parts if isinstance(part, Gallery)]
    cards = {id(g): [_card(card, f"{g.id}-{i}") for i, card in enumerate(g.cards)] for g in galleries}
    first = next((s.id for s in page.sections if any(isinstance(part, Gallery) for part in s.parts)), None)
    longest = max(map(len, cards.values()), default=0)
    total = sum(map(len, cards.values()))

    def rendered(most: int) -> bytes:
        def shown_of(gallery: Gallery) -> list[Markup]:
            return cards[id(gallery)][:most]

        return _render(
            "page.html.j2",
            page=page,
            pages=pages,
            filtered=bool(most),
            first_gallery=first,
            shown_of=shown_of,
            max_bytes=max_bytes,
        )

    most = longest
    if max_bytes is not None and longest:
        room = max_bytes - len(rendered(0)) - _NOTE_BYTES * len(galleries)
        sizes = [[len(card.encode()) for card in found] for found in cards.values()]
        while most and sum(sum(of_gallery[:most]) for of_gallery in sizes) > room:
            most -= 1
    shown = sum(min(most, len(found)) for found in cards.values())
    return rendered(most), shown, total - shown


def _card(card: Card, id_: str) -> Markup:
    picture = None
    if card.image is not None:
        kind = "webp" if card.image[:4] == b"RIFF" else "jpeg"
        picture = f"data:image/{kind};base64,{base64.b64encode(card.image).decode()}"
    rendered: str = _environment().get_template("card.html.j2").render(card=card, id=id_, picture=picture)
    return Markup(rendered)


def _render(template: str, **values: Any) -> bytes:
    css, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_sha256(css)}'; script-src 'sha256-{_sha256(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    html: str = _environment().get_template(template).render(css=css, script=script, policy=policy, **values)
    return html.encode()


@functools.cache
def _asset(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text("utf-8"))


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        finalize=_usable,
    )
    environment.filters.update(cell=_cell, number=_number, shown=hostile.shown, url=hostile.shown_url, inline=_inline)
    environment.globals.update(link=hostile.link, numeric=_numeric)
    environment.tests.update(
        table=lambda part: isinstance(part, Table),
        figure=lambda part: isinstance(part, Figure),
        gallery=lambda part: isinstance(part, Gallery),
        text=lambda part: isinstance(part, Text),
    )
    return environment


def _usable(value: Any) -> Any:
    """What is put into a template, without what HTML cannot hold; escaped after that, unless it is markup already."""
    return hostile.readable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _inline(figure: Figure) -> Markup:
    return Markup(svg.inline(figure.svg, figure.name))


def _numeric(table: Table, column: int) -> bool:
    """Whether a column has numbers, which stand right; also those with a sign or a unit, as `3.1 %`."""
    found = [row[column] for row in table.rows if column < len(row) and row[column] not in (None, "")]
    return bool(found) and all(not isinstance(value, str) or _QUANTITY.fullmatch(value) for value in found)


def _number(value: float) -> str:
    """1234 → 1,234; 0.123456 → 0.1235."""
    if isinstance(value, int) or (value == value and abs(value) >= 10_000 and abs(value) != float("inf")):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _cell(value: str | int | float | None) -> str:
    if value is None:
        return ""
    return hostile.shown(value, CELL_CHARS) if isinstance(value, str) else _number(value)
