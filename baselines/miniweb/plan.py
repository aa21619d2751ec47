"""Which pages there are, what pictures they link to, and what is wrong with some: all of it from (pictures, seed).

Languages are dealt out over all pages, flaws in blocks of 100 pictures, so their shares hold at any size. Any picture can be
asked for without the others. A plan holds a few bytes a picture; the pages themselves come one at a time.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import dataclass, replace

from baselines.miniweb import evals, junk
from baselines.miniweb.flaws import NOT_DESCRIBED, Flaw, deal, deal_flaws
from baselines.miniweb.languages import LANGUAGES, LOW
from baselines.miniweb.places import Place, Stated
from baselines.miniweb.scenes import COLOURS, COUNTS, FAMILIES, Scene, draw_lots, scene
from pools import uids

PICTURES_A_PAGE = 5
# Of 100 pages, how many are in the language.
LANGUAGE_SHARES = {
    **{"en": 60.0, "es": 12.0, "ru": 8.0, "de": 6.0, "fr": 4.9},
    **{"hi": 2.0, "he": 1.8, "bn": 1.6, "fil": 1.4, "sw": 1.1, "te": 0.8, "mi": 0.4},
}
ALTS_A_URL = 40
WITHOUT_CAPTION = {
    Flaw.FILE_NAME: junk.file_name,
    Flaw.ONE_WORD: junk.one_word,
    Flaw.BOILERPLATE: junk.boilerplate,
}
# Scenes beyond any web's own: of other captions, and of addresses with many alts.
_OTHERS, _SHARED = 1 << 40, 1 << 41


@dataclass(frozen=True)
class Picture:
    """One image link of a page: its alt text and, whether or not it is served, the scene that is drawn."""

    index: int
    url: str  # absolute
    src: str  # as the page writes it
    alt: str
    scene: Scene
    flaw: Flaw | None
    language: str | None  # of the alt; None if it speaks of no scene
    copy_of: str | None = None  # the uid of another picture, or the key of a held-out one
    again: bool = False  # an earlier picture has the same address

    @property
    def uid(self) -> str:
        return uids.new(self.url, self.alt)

    @property
    def describes(self) -> bool:
        """Whether a whole picture is served and the alt is true of it."""
        return self.flaw not in NOT_DESCRIBED


@dataclass(frozen=True)
class Page:
    number: int
    url: str
    base: str | None  # <base href>
    title: str
    language: str
    stated: Stated
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Plan:
    """What the pages and pictures of one web have in common; see `make_plan`."""

    pictures: int
    seed: int
    languages: tuple[str, ...]  # of each page
    turns: tuple[int, ...]  # of each page, its place among the pages in its language
    flaws: tuple[Flaw | None, ...]  # of each picture
    families: tuple[str, ...]  # of each picture
    sources: dict[str, tuple[int, ...]]  # by family, the unflawed pictures, which others copy
    shared: dict[int, int]  # of each picture with many alts, its place among those of its family

    @property
    def pages(self) -> int:
        return len(self.languages)

    def page(self, number: int) -> Page:
        language = self.languages[number]
        place = Place(number, language)
        first = number * PICTURES_A_PAGE
        links = tuple(self.picture(i) for i in range(first, min(first + PICTURES_A_PAGE, self.pictures)))
        title = LANGUAGES[language].title(links[0].scene)
        return Page(number, place.page_url, place.base, title, language, self._stated(number), links)

    def picture(self, index: int) -> Picture:
        if self.flaws[index] is Flaw.MANY_ALTS:
            return self._many_alts(index)
        shown, copy_of = self._shown(index)
        alt, spoken = self._alt(index, shown)
        url, src = Place(index // PICTURES_A_PAGE, self._language(index)).link(f"picture-{index:06d}.jpg")
        return Picture(index, url, src, alt, shown, self.flaws[index], spoken, copy_of)

    def _alt(self, index: int, shown: Scene) -> tuple[str, str | None]:
        """The alt text and the language in which it speaks of a scene."""
        flaw, language = self.flaws[index], self._language(index)
        lots = draw_lots(self.seed, index, "caption")
        if flaw in WITHOUT_CAPTION:
            return WITHOUT_CAPTION[flaw](lots), None
        caption = LANGUAGES[language].caption(self._other(shown, index) if flaw is Flaw.MISMATCHED else shown, lots)
        return f"{caption} {junk.product_code(lots)}" if flaw is Flaw.RARE_TOKEN else caption, language

    def _language(self, index: int) -> str:
        return self.languages[index // PICTURES_A_PAGE]

    def _stated(self, number: int) -> Stated:
        # The languages do not begin alike, so that rare ones with a page each do not all state it in the same place.
        places = tuple(Stated)
        start = tuple(LANGUAGE_SHARES).index(self.languages[number])
        return places[(start + self.turns[number]) % len(places)]

    def _scene(self, index: int) -> Scene:
        return scene(self.seed, index, family=self.families[index])

    def _shown(self, index: int) -> tuple[Scene, str | None]:
        """The scene of a picture, and what it is a copy of."""
        flaw, family = self.flaws[index], self.families[index]
        lots = draw_lots(self.seed, index, "shown")
        match flaw:
            case Flaw.EXACT_COPY | Flaw.NEAR_COPY:
                # Cultural shapes may be too few to copy from; common ones may stand on any page.
                source = self.picture(lots.choice(self.sources[family] or self.sources["common"]))
                return source.scene, source.uid
            case Flaw.EVAL_COPY:
                held = lots.choice(evals.held_out(family))
                return held.scene, held.key
            case Flaw.TOO_SMALL:
                return replace(self._scene(index), width=lots.randint(96, 180), height=lots.randint(96, 180)), None
            case Flaw.BANNER:
                height = lots.randint(200, 230)
                return replace(self._scene(index), height=height, width=round(height * lots.uniform(3.25, 4.0))), None
            case _:
                return replace(self._scene(index), face=flaw is Flaw.FACE, unsafe=flaw is Flaw.UNSAFE), None

    def _other(self, shown: Scene, index: int) -> Scene:
        """A scene of the same family with another concept and another colour."""
        lots = draw_lots(self.seed, index, "other")
        while True:
            other = scene(self.seed, _OTHERS + lots.randrange(1 << 30), family=shown.family)
            if other.concept != shown.concept and other.colour != shown.colour:
                return other

    def _many_alts(self, index: int) -> Picture:
        """A link to an address that others link to as well; the alts of one address are of scenes that differ in words."""
        family, language = self.families[index], self._language(index)
        group, place = divmod(self.shared[index], ALTS_A_URL)
        shown = scene(self.seed, _SHARED + group, family=family)
        others = [
            (concept, colour, count)
            for count, concept, colour in itertools.product(COUNTS, FAMILIES[family], COLOURS)
            if concept != shown.concept and colour != shown.colour
        ]
        draw_lots(self.seed, family, group, "many alts").shuffle(others)
        concept, colour, count = others[place]
        described = replace(shown, concept=concept, colour=colour, count=count)
        alt = LANGUAGES[language].caption(described, draw_lots(self.seed, index, "caption"))
        url = f"https://shared.pictures.example/{family}/picture-{group:04d}.jpg"
        return Picture(index, url, url, alt, shown, Flaw.MANY_ALTS, language, again=place > 0)


@functools.lru_cache(maxsize=2)
def make_plan(pictures: int, seed: int) -> Plan:
    languages = deal(LANGUAGE_SHARES, -(-pictures // PICTURES_A_PAGE))
    draw_lots(seed, "languages").shuffle(languages)
    seen: Counter[str] = Counter()
    turns = []
    for language in languages:
        turns.append(seen[language])
        seen[language] += 1
    flaws, families = deal_flaws(pictures, seed), _families(pictures, languages)
    sources, shared = {}, {}
    for family in FAMILIES:
        own = [i for i in range(pictures) if families[i] == family]
        sources[family] = tuple(i for i in own if flaws[i] is None)
        shared.update({i: place for place, i in enumerate(i for i in own if flaws[i] is Flaw.MANY_ALTS)})
    return Plan(pictures, seed, tuple(languages), tuple(turns), tuple(flaws), families, sources, shared)


def _families(pictures: int, languages: list[str]) -> tuple[str, ...]:
    """Of the pictures on pages in low-resource languages every other one is cultural."""
    families, low = [], 0
    for i in range(pictures):
        on_low = languages[i // PICTURES_A_PAGE] in LOW
        families.append("cultural" if on_low and low % 2 == 0 else "common")
        low += on_low
    return tuple(families)
