"""What a page says of itself and of its images (or other documents) → candidates. Pure, and the same for every source.

The sources (WAT, WARC, ARC) find a page's links and statements, each in its own way; what becomes of them is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from pipeline import optout
from pipeline.extract import urls
from pipeline.extract.text import clean, repair

Documents = Literal["image", "image_only", "audio", "video", "text"]
DOCUMENTS: tuple[Documents, ...] = get_args(Documents)

# By the ends of their names, as cc2dataset has them.
_ENDINGS = {
    "audio": "ogg wav mp3 flac m4a",
    "video": "avi mp4 mkv webm mov mpg mpeg m4v",
    "text": "pdf epub djvu mobi doc docx rtf txt odt ppt pptx pages keynote wps md",
}
_NAMED = {
    kind: re.compile(rf"\.(?:{'|'.join(endings.split())})(?=\Z|[?#])", re.IGNORECASE) for kind, endings in _ENDINGS.items()
}


@dataclass(frozen=True)
class Wanted:
    """Which links become candidates.

    `documents`: images with a caption; images with or without one; or links to audio, video or text by the ends of their
    names, captioned by the link's own text, which may be empty. `opted_out`: whether pages that object give candidates too.
    """

    documents: Documents = "image"
    opted_out: bool = False

    @property
    def images(self) -> bool:
        return self.documents in ("image", "image_only")

    @property
    def captioned(self) -> bool:
        return self.documents == "image"

    def names(self, address: str) -> bool:
        """Whether an address, absolute or not, ends like a document of this kind."""
        return _NAMED[self.documents].search(address) is not None


class Candidate(NamedTuple):
    """An absolute url, the alt text (or link text) as the page has it, and the same cleaned."""

    url: str
    alt: str
    caption: str


@dataclass(slots=True)
class Page:
    """What goes for all candidates of a page, and the candidates, once it has been told of its links.

    `counts`: `in` links of the wanted kind = candidates + `dropped:<why>`.
    """

    url: str
    title: str | None
    language: str | None
    opt_out: str | None
    base: urls.Base
    candidates: list[Candidate] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def consider(self, links: Iterable[tuple[Any, Any]], wanted: Wanted) -> Page:
        """Itself, with the candidates among these (address, alt text) links of the wanted kind, as they stand in the page.

        A value of another type than text makes a link a bad one; None is an absent value.
        """
        links = list(links)
        self.count("in", len(links))
        if self.opt_out and not wanted.opted_out:
            self.count("dropped:opt_out", len(links))
            return self
        for address, alt in links:
            try:
                self.candidates.append(_candidate(address, alt, self.base, wanted))
            except urls.Rejected as e:
                self.count(f"dropped:{e.why}")
        return self


def describe(
    url: str,
    *,
    base: Any = None,
    title: Any = None,
    languages: Iterable[str] = (),
    objections: Iterable[str] = (),
) -> Page:
    """The page at `url`, with no links so far.

    `base` is its `<base href>`; `languages` and `objections` are what it states, the most telling first.
    """
    url = repair(url)
    return Page(
        url,
        (clean(title) or None) if isinstance(title, str) else None,
        next((language for said in languages if (language := clean(said))), None),
        optout.directives(objections) if objections else None,
        urls.Base(url, base if isinstance(base, str) else None),
    )


def _candidate(address: Any, alt: Any, base: urls.Base, wanted: Wanted) -> Candidate:
    """Raises Rejected."""
    alt = "" if alt is None else alt
    address = "" if address is None else address
    if type(alt) is not str or type(address) is not str:
        raise urls.Rejected("bad_link")
    caption = clean(alt)
    if not caption and wanted.captioned:
        raise urls.Rejected("no_text")
    url = urls.resolve(address, base)
    if not wanted.images and not wanted.names(urls.after_host(url)):
        raise urls.Rejected("bad_url")
    return Candidate(url, repair(alt), caption)
