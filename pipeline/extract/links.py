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
    """Collects the wanted links of a page from all its tags; of nested ones the inner first, as they end first."""

    def __init__(self, page: str, wanted: Wanted) -> None:
        self._page, self._wanted = page, wanted
        self.found: list[tuple[str, str | None]] = []
        self._open: list[tuple[str | None, int]] = []  # address, None if it is not wanted, and where its text begins

    def take(self, tag: Tag) -> None:
        if tag.name == "a":
            if tag.closing:
                self._close(tag.start)
                return
            if not tag.empty:
                address = tag.attributes.get("href") if "href" in tag.written.lower() else None
                self._open.append((address if address and self._wanted.names(address) else None, tag.end))
        if not tag.closing and "." in tag.written:
            self._add(tag)

    def end(self) -> None:
        """The page ends: links that are still open have no text that is known to be theirs."""
        self.found += [(address, None) for address, _ in self._open if address is not None]
        self._open.clear()

    def _close(self, at: int) -> None:
        if self._open:
            address, start = self._open.pop()
            if address is not None:
                self.found.append((address, link_text(self._page[start:at])))

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
