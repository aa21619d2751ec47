"""The links of a page to other documents than images: those that Common Crawl's extractor lists, with the text of `<a>`."""

from __future__ import annotations

import re

from pipeline.extract.page import Wanted
from pipeline.extract.tags import Tag, text

MAX_TEXT = 128  # characters of a link's text, and of a title, that the extractor keeps

_ATTRIBUTES = {
    "a": ("href",),
    "applet": ("codebase", "cdata"),
    "area": ("href",),
    "audio": ("src",),
    "blockquote": ("cite",),
    "button": ("formaction",),
    "del": ("cite",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("src",),
    "iframe": ("src",),
    "img": ("src", "longdesc"),
    "input": ("src", "formaction"),
    "ins": ("cite",),
    "menuitem": ("icon",),
    "object": ("codebase", "cdata", "data"),
    "q": ("cite",),
    "source": ("src",),
    "track": ("src",),
    "video": ("src", "poster"),
}
_GLOBAL = ("background", "data-href", "data-uri")  # on any element
_ANYWHERE = re.compile("(?ai:" + "|".join(_GLOBAL) + ")")
# `location.href = '…'` and `window.open('…'`, on these elements.
_CLICKED = ("div", "input")
_SCRIPTED = re.compile(
    r"""(?:javascript:)?(?:(?:(?:window|top|document|self|parent)\.)?location(?:\.href)?\s*=\s*'([^'"]{3,256})'\Z"""
    r"""|(?:window|parent)\.open\((['"])([^'"]{3,256})\2[,)])""",
    re.IGNORECASE,
)


def link_text(markup: str) -> str:
    """The text between a link's tags, as a WAT has it."""
    return text(markup, opening=False)[:MAX_TEXT].strip()


class Links:
    """Collects the wanted links of a page from all its tags, in their order."""

    def __init__(self, page: str, wanted: Wanted) -> None:
        self._page, self._wanted = page, wanted
        self.found: list[tuple[str, str | None]] = []
        self._open: tuple[str, int] | None = None  # a wanted address, and where its text begins

    def take(self, tag: Tag) -> None:
        if tag.name == "a":
            self._close(tag.start)  # a link within a link ends it (WHATWG HTML, 13.2.6.4.7)
            if tag.closing:
                return
            if not tag.empty and "." in tag.written and self._wanted.names(address := tag.attributes.get("href", "")):
                self._open = address, tag.end
        if not tag.closing and "." in tag.written:
            self._add(tag)

    def end(self) -> None:
        """The page ends; a link that is still open has no text that is known to be its own."""
        if self._open is not None:
            self.found.append((self._open[0], None))

    def _close(self, at: int) -> None:
        if self._open is not None:
            address, start = self._open
            self.found.append((address, link_text(self._page[start:at])))
            self._open = None

    def _add(self, tag: Tag) -> None:
        names = _ATTRIBUTES.get(tag.name, ())
        clicked = tag.name in _CLICKED
        if not names and not clicked and not _ANYWHERE.search(tag.written):
            return
        attributes = tag.attributes
        if tag.name == "a" and not tag.empty:
            names = ()
        addresses = [attributes[name] for name in (*_GLOBAL, *names) if name in attributes]
        if clicked and (scripted := _SCRIPTED.match(attributes.get("onclick", ""))):
            addresses.append(scripted[1] or scripted[3])
        self.found += [(address, None) for address in addresses if self._wanted.names(address)]
