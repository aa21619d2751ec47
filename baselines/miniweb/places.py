"""Where pages stand, how they write their links, and in which of four places they state their language."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stated(StrEnum):
    """The place in which a page states its language; the three others are silent."""

    HTML = "html"  # <html lang>
    META = "meta"  # <meta http-equiv="content-language">
    HEADER = "header"  # the HTTP header Content-Language
    CLD2 = "cld2"  # the crawler's guess, in a metadata record of its own


# The sites in each language. Pictures stand there, or on the first one's image host.
HOSTS = {
    "en": ("www.shapely.example", "drawings.example", "blog.geometry.example", "posters.example", "sketchbook.example"),
    "es": ("www.dibujos.example", "galeria.figuras.example", "laminas.example"),
    "ru": ("www.risunki.example", "galereya.figury.example", "plakaty.example"),
    "de": ("www.zeichnungen.example", "galerie.formen.example", "plakate.example"),
    "fr": ("www.dessins.example", "galerie.formes.example", "affiches.example"),
    "hi": ("www.chitra.example", "akritiyan.example"),
    "he": ("www.tziurim.example", "tzurot.example"),
    "bn": ("www.chhobi.example", "akriti.example"),
    "fil": ("www.guhit.example", "hugis.example"),
    "sw": ("www.michoro.example", "maumbo.example"),
    "te": ("www.chitralu.example", "akaralu.example"),
    "mi": ("www.tuhinga.example", "hanga.example"),
}


@dataclass(frozen=True)
class Place:
    """Where a page stands and how it writes its links: absolute, relative in four ways, by turns."""

    number: int  # of the page
    language: str

    @property
    def host(self) -> str:
        hosts = HOSTS[self.language]
        return hosts[self.number % len(hosts)]

    @property
    def page_url(self) -> str:
        return f"{self._scheme}://{self.host}/gallery/{self.number}/index.html"

    @property
    def base(self) -> str | None:
        """The page's <base href>."""
        return f"{self._scheme}://{self._images}/sets/{self.number}/" if self._way == 4 else None

    def link(self, name: str) -> tuple[str, str]:
        """(address, the address as the page writes it) of a picture's file."""
        home, images = f"{self._scheme}://{self.host}", f"//{self._images}/{self.number}/{name}"
        return (
            (f"https:{images}", f"https:{images}"),
            (f"{home}/images/{name}", f"/images/{name}"),
            (f"{home}/gallery/{self.number}/full/{name}", f"full/{name}"),
            (f"{self._scheme}:{images}", images),
            (f"{self._scheme}://{self._images}/sets/{self.number}/{name}", name),
        )[self._way]

    @property
    def _images(self) -> str:
        return "img." + HOSTS[self.language][0].removeprefix("www.")

    @property
    def _scheme(self) -> str:
        return "http" if self.number % 7 == 3 else "https"

    @property
    def _way(self) -> int:
        # Not in step with the hosts, which also take turns by five.
        return (self.number + self.number // 5) % 5
