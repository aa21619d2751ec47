"""The images of a page: every address that its markup names for one, with the text that describes it.

`<img src>` is all that a WAT tells. A page names an image's largest size in `srcset` and in the `<source>`s of a `<picture>`,
and what a script loads later in attributes whose names its authors chose; and its description may be a `<figcaption>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.extract import srcset
from pipeline.extract.tags import Tag, text
from pipeline.extract.text import clean

TAGS = ("img", "source", "picture", "figure", "figcaption")

# What scripts for late loading read: lazysizes, jquery.lazyload, echo.js, slick, Jetpack, WP Rocket, Smush, Autoptimize,
# revslider, Flickity, Cloudflare Mirage, mod_pagespeed, Ezoic, Zhihu.
_LATE = """data-src data-original data-lazy-src data-lazy data-lazyload data-echo data-original-src data-orig-src data-img-src
data-image-src data-flickity-lazyload data-cfsrc data-pagespeed-lazy-src data-ezsrc data-actualsrc data-url lazy-src"""
_SETS = ("srcset", "data-srcset", "data-lazy-srcset", "data-original-set", "data-ezsrcset")
_NO_ADDRESS = re.compile(r"[{}<>\"]|\A[^./]*\Z")  # JSON, markup; `true`, an id
# File names of what stands in for an image that comes later.
_STAND_IN = re.compile(
    r"(?:^|[/_.-])(?:blank|clear|dot|dummy|empty|gr[ae]y|lazy(?:load)?|load(?:er|ing)|pixel|placeholder|spacer|spinner"
    r"|trans(?:parent)?|white|1x1)(?![A-Za-z0-9])(?=[^/]*\Z)",
    re.IGNORECASE,
)
_QUERY = re.compile(r"[?#]")


@dataclass(slots=True)
class _Figure:
    caption: str = ""


@dataclass(slots=True)
class Image:
    """Addresses and alt text of one `<img>` as they stand, each address once; and the figure that it is in."""

    addresses: list[str]
    alt: str | None
    figure: _Figure | None = field(repr=False)

    @property
    def described(self) -> str | None:
        """Its alt text, or its figure's caption where the alt text is absent or blank."""
        if self.figure is not None and self.figure.caption and not (self.alt and clean(self.alt)):
            return self.figure.caption
        return self.alt


class Images:
    """Collects the images of a page from its tags (those of `TAGS`), in their order."""

    def __init__(self, page: str) -> None:
        self._page = page
        self.found: list[Image] = []
        self._figures: list[_Figure] = []
        self._caption: int | None = None  # where the text of an open figcaption begins
        self._sources: list[str] | None = None  # of an open picture that has had no image yet

    def take(self, tag: Tag) -> None:
        if tag.name == "img":
            if not tag.closing:
                self._image(tag.attributes)
        elif tag.name == "picture":
            self._sources = None if tag.closing else []
        elif tag.name == "source":
            if self._sources is not None and not tag.closing:
                self._sources += _sets(tag.attributes)
        elif tag.name == "figcaption":
            self._end_caption(tag.start)
            if not tag.closing and self._figures:
                self._caption = tag.end
        elif tag.closing:
            self._end_caption(tag.start)
            if self._figures:
                self._figures.pop()
        else:
            self._end_caption(tag.start)
            self._figures.append(_Figure())

    def _image(self, attributes: Mapping[str, str]) -> None:
        source = attributes.get("src")
        addresses = [] if source is None else [source]
        sizes, self._sources = (self._sources or []) + _sets(attributes), None
        if sizes and (largest := srcset.largest(*sizes)) is not None:
            addresses.append(largest)
        if _stands_in(source, attributes):
            addresses += [value for name in _LATE.split() if not _NO_ADDRESS.search(value := attributes.get(name, ""))]
        if addresses:
            figure = self._figures[-1] if self._figures else None
            self.found.append(Image(list(dict.fromkeys(addresses)), attributes.get("alt"), figure))

    def _end_caption(self, at: int) -> None:
        if self._caption is not None and not self._figures[-1].caption:
            self._figures[-1].caption = text(self._page[self._caption : at])
        self._caption = None


def _sets(attributes: Mapping[str, str]) -> list[str]:
    return [attributes[name] for name in _SETS if name in attributes]


def _stands_in(source: str | None, attributes: Mapping[str, str]) -> bool:
    """Whether an image's source is absent or seems to stand in for another, as its name or the image's class says."""
    source = (source or "").strip()
    if not source or source.startswith(("data:", "about:", "#")) or "lazy" in attributes.get("class", "").lower():
        return True
    return _STAND_IN.search(_QUERY.split(source, maxsplit=1)[0]) is not None
