"""Which pages there are, what pictures they link to, and what is wrong with some: all of it from (seed, number of pictures).

The flaws are dealt out in blocks of 100 pictures and the languages in blocks of 20 pages, so their shares hold at any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from baselines.miniweb import captions
from baselines.miniweb.scenes import Scene, draw_lots, scene
from pools import uids


class Flaw(StrEnum):
    """What is wrong with a picture or its alt text. A picture has one flaw or none."""

    MISMATCHED = "mismatched"  # the caption is of another scene: other concept, other colour
    FILE_NAME = "file_name"  # the alt is a camera's file name
    ONE_WORD = "one_word"  # the alt is one word that describes nothing
    TOO_SMALL = "too_small"  # both sides 96 to 180 pixels
    BANNER = "banner"  # at least 3.2 times as wide as high; the height is 200 pixels or more
    DEAD_LINK = "dead_link"  # nothing is served at the address (404)
    HTML_ANSWER = "html_answer"  # an HTML page is served at the address, which ends in .jpg


# How many of 100 pictures have the flaw.
SHARES = {
    Flaw.MISMATCHED: 12,
    Flaw.FILE_NAME: 4,
    Flaw.ONE_WORD: 3,
    Flaw.TOO_SMALL: 4,
    Flaw.BANNER: 3,
    Flaw.DEAD_LINK: 4,
    Flaw.HTML_ANSWER: 2,
}
BLOCK = 100
PICTURES_A_PAGE = 5
# Of the 20 pages of a block, this many are in a language other than English; the languages take turns.
FOREIGN_PAGES = 3
FOREIGN = tuple(language for language in captions.LANGUAGES if language != "en")
SITES = ("www.shapely.example", "drawings.example", "blog.geometry.example", "posters.example", "sketchbook.example")
IMAGE_HOST = "img.shapely.example"


@dataclass(frozen=True)
class Picture:
    """One image link of a page: the alt text and, unless the link is dead, the scene that is drawn."""

    index: int
    url: str  # absolute
    src: str  # as the page writes it
    alt: str
    scene: Scene
    flaw: Flaw | None
    language: str | None  # of the alt; None if the alt is no sentence

    @property
    def uid(self) -> str:
        return uids.new(self.url, self.alt)


@dataclass(frozen=True)
class Page:
    index: int
    url: str
    base: str | None  # <base href>
    title: str
    language: str
    pictures: tuple[Picture, ...]


def page_count(pictures: int) -> int:
    return -(-pictures // PICTURES_A_PAGE)


def pages(pictures: int, seed: int, first: int, last: int) -> Iterator[Page]:
    """The pages from `first` up to but not including `last` of a web of so many pictures."""
    for number in range(first, last):
        language = _page_language(seed, number)
        place = _Place.of(number)
        start = number * PICTURES_A_PAGE
        links = [_picture(seed, i, language, place) for i in range(start, min(start + PICTURES_A_PAGE, pictures))]
        yield Page(number, place.page_url, place.base, f"Gallery {number} – {place.host}", language, tuple(links))


def _page_language(seed: int, number: int) -> str:
    per_block = BLOCK // PICTURES_A_PAGE
    block, place = divmod(number, per_block)
    foreign = draw_lots(seed, block, "languages").sample(range(per_block), FOREIGN_PAGES)
    if place not in foreign:
        return "en"
    return FOREIGN[(block * FOREIGN_PAGES + foreign.index(place)) % len(FOREIGN)]


def _flaw(seed: int, index: int) -> Flaw | None:
    block, place = divmod(index, BLOCK)
    dealt: list[Flaw | None] = [flaw for flaw, share in SHARES.items() for _ in range(share)]
    dealt += [None] * (BLOCK - len(dealt))
    draw_lots(seed, block, "flaws").shuffle(dealt)
    return dealt[place]


def _picture(seed: int, index: int, language: str, place: _Place) -> Picture:
    flaw = _flaw(seed, index)
    lots = draw_lots(seed, index, "caption")
    shown = scene(seed, index, count=None if language == "en" else 1)
    if flaw is Flaw.TOO_SMALL:
        shown = replace(shown, width=lots.randint(96, 180), height=lots.randint(96, 180))
    elif flaw is Flaw.BANNER:
        height = lots.randint(200, 230)
        shown = replace(shown, height=height, width=round(height * lots.uniform(3.25, 4.0)))
    spoken: str | None = language
    if flaw is Flaw.FILE_NAME:
        alt, spoken = captions.file_name(lots), None
    elif flaw is Flaw.ONE_WORD:
        alt, spoken = captions.one_word(lots), None
    else:
        alt = captions.caption(_other(shown, seed, index) if flaw is Flaw.MISMATCHED else shown, language, lots)
    name = f"{shown.colour}-{shown.concept.replace(' ', '-')}-{index:06d}.jpg"
    url, src = place.link(name)
    return Picture(index, url, src, alt, shown, flaw, spoken)


def _other(shown: Scene, seed: int, index: int) -> Scene:
    """A scene of another concept and another colour, with the same count."""
    lots = draw_lots(seed, index, "other")
    while True:
        other = scene(seed, lots.randrange(1 << 30), count=shown.count)
        if other.concept != shown.concept and other.colour != shown.colour:
            return other


@dataclass(frozen=True)
class _Place:
    """Where a page stands and how it writes its links: absolute, relative in four ways, by turns."""

    number: int
    scheme: str
    host: str

    @classmethod
    def of(cls, number: int) -> _Place:
        return cls(number, "http" if number % 7 == 3 else "https", SITES[number % len(SITES)])

    @property
    def page_url(self) -> str:
        return f"{self.scheme}://{self.host}/gallery/{self.number}/index.html"

    @property
    def base(self) -> str | None:
        return f"{self.scheme}://{IMAGE_HOST}/sets/{self.number}/" if self._way == 4 else None

    def link(self, name: str) -> tuple[str, str]:
        """(address, the address as the page writes it) of a picture's file."""
        home, images = f"{self.scheme}://{self.host}", f"//{IMAGE_HOST}/{self.number}/{name}"
        return (
            (f"https:{images}", f"https:{images}"),
            (f"{home}/images/{name}", f"/images/{name}"),
            (f"{home}/gallery/{self.number}/full/{name}", f"full/{name}"),
            (f"{self.scheme}:{images}", images),
            (f"{self.scheme}://{IMAGE_HOST}/sets/{self.number}/{name}", name),
        )[self._way]

    @property
    def _way(self) -> int:
        # Not in step with the hosts, which also take turns by five.
        return (self.number + self.number // 5) % 5
