"""One archived HTML response (a WARC or ARC record) → what its page says, and its candidates. Pure: record in, `Page` out.

What counts as HTML and which links it has is as Common Crawl's extractor has it, pages of other statuses than 200 included: of
one page the candidates of its WAT are among these, with the same uids (since August 2019, when WATs came to hold attributes
decoded), but where an image without alt text has a caption that no WAT tells.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from pipeline.extract import charset, response, urls, wat
from pipeline.extract.images import TAGS, Image, Images
from pipeline.extract.links import MAX_TEXT, Links
from pipeline.extract.page import Page, Wanted
from pipeline.extract.tags import Lexer, Tag, text
from pipeline.extract.warc import Record

_STATEMENTS = ("html", "meta", "base", "title", "svg")
_OF_IMAGES, _OF_ALL = Lexer(*TAGS, *_STATEMENTS), Lexer()
_IMAGE = re.compile("<(?ai:img)")
_ENDING = re.compile(r"""\.[A-Za-z0-9]{1,10}(?=[?#"'>&\t\n\f\r ])""")
_TITLE = re.compile(r"[^<]*+(?:<(?![A-Za-z/!?])[^<]*+)*+")  # up to the next tag


def parse(record: Record, wanted: Wanted = Wanted()) -> Page | None:  # noqa: B008  (it is frozen)
    """What an archived response says of its page; None if it is no HTML, or names no link of the wanted kind."""
    if record.type not in ("response", "resource") or (answer := response.answer_of(record)) is None:
        return None
    _, headers, body = answer
    content_type = next(iter(response.values(headers, "content-type")), "")
    if not _is_html(record, content_type):
        return None
    page = charset.decode(response.unpack(headers, body), content_type)
    if not _may_link(page, wanted):
        return None
    return _Reading(page, wanted).page(record.target, headers)


def _is_html(record: Record, content_type: str) -> bool:
    """By what the crawler identified, or else by the header."""
    if identified := record.headers.get("warc-identified-payload-type", ""):
        return identified in ("text/html", "application/xhtml+xml")
    return "html" in content_type.lower()


def _may_link(page: str, wanted: Wanted) -> bool:
    """Told quickly, as many pages have no link of the wanted kind."""
    if wanted.images:
        return _IMAGE.search(page) is not None
    return any(wanted.names(ending) for ending in set(_ENDING.findall(page)))


class _Reading:
    """What is found on one way through the tags of a page."""

    def __init__(self, page: str, wanted: Wanted) -> None:
        self._page, self._wanted = page, wanted
        self._title: str | None = None
        self._base: str | None = None
        self._metas: list[dict[str, str]] = []  # as a WAT has them
        self._in_svg = False
        self._images, self._links = Images(page), Links(page, wanted)
        if wanted.images:
            for tag in _OF_IMAGES.tags(page):
                if tag.name in _STATEMENTS:
                    self._state(tag)
                else:
                    self._images.take(tag)
        else:
            for tag in _OF_ALL.tags(page):
                if tag.name in _STATEMENTS:
                    self._state(tag)
                self._links.take(tag)
            self._links.end()

    def page(self, url: str, headers: response.Headers) -> Page | None:
        if not self._images.found and not self._links.found:
            return None
        by_name: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in headers:
            by_name[name].append(value)
        page = wat.describe(url, by_name, self._metas, self._title, self._base)
        described = [(a, image.described) for image in self._images.found for a in _each(image, page.base)]
        return page.consider(described or self._links.found, self._wanted)

    def _state(self, tag: Tag) -> None:
        if tag.name == "svg":
            self._in_svg = not tag.closing and not tag.empty
        elif tag.closing:
            return
        elif tag.name == "title":
            if self._title is None and not self._in_svg:
                title = _TITLE.match(self._page, tag.end)
                self._title = text(title[0])[:MAX_TEXT].strip() if title else None
        elif tag.name == "base":
            if self._base is None:
                self._base = tag.attributes.get("href")
        elif tag.name == "html":
            if (language := tag.attributes.get("lang")) is not None:
                self._metas.append({"name": "HTML@/lang", "content": language})
        else:
            self._metas.append(tag.attributes)


def _each(image: Image, base: urls.Base) -> list[str]:
    """The addresses of an image, those that lead to the same url once."""
    if len(image.addresses) == 1:
        return image.addresses
    return list({_resolved(address, base): address for address in reversed(image.addresses)}.values())[::-1]


def _resolved(address: str, base: urls.Base) -> Any:
    try:
        return urls.resolve(address, base)
    except urls.Rejected:
        return address
