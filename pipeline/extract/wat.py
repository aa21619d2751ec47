"""One WAT record (JSON that describes one crawled page) → candidate rows. Pure: bytes in, rows out.

The format is that of Common Crawl's extractor (ia-web-commons): links stand as the page wrote them, unresolved; `srcset`
and `data-src` never reach a WAT; a header's value is a string or a list of strings. What the crawler's language detector (CLD2)
made of a page stands in a record of its own, about the same address.

A page's language comes from the first of four places that names one: `<html lang>`, meta content-language, the header
Content-Language, the detector.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pipeline.extract import optout, urls
from pipeline.extract.text import clean, repair
from pools import uids

IMAGE = "IMG@/src"
DETECTED = "languages-cld2"


class Row(msgspec.Struct, frozen=True):
    """The columns of a candidate that come from its page; the source file adds the others."""

    uid: str
    url: str
    text: str
    alt: str
    page_title: str | None
    page_url: str
    content_language: str | None
    opt_out: str | None


@dataclass(frozen=True)
class Page:
    """Rows of one record, and counts: `in` image links = rows + `dropped:<why>`; `pages` with an image, `bad_record`."""

    rows: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


# Only what is read is typed, so that the decoder steps over the rest. What writers disagree about is Any.
class _Link(msgspec.Struct):
    path: Any = None
    url: Any = None
    alt: Any = None


class _Head(msgspec.Struct):
    Metas: Any = None
    Title: Any = None
    Base: Any = None


class _Html(msgspec.Struct):
    Head: _Head | None = None
    Links: list[_Link] | None = None


class _Response(msgspec.Struct):
    Headers: Any = None
    html: _Html | None = msgspec.field(default=None, name="HTML-Metadata")


class _Payload(msgspec.Struct):
    response: _Response | None = msgspec.field(default=None, name="HTTP-Response-Metadata")


class _Envelope(msgspec.Struct):
    payload: _Payload | None = msgspec.field(default=None, name="Payload-Metadata")


class _Record(msgspec.Struct):
    Envelope: _Envelope | None = None


class _Named(msgspec.Struct):
    Name: Any = None
    Value: Any = None


class _Fields(msgspec.Struct):
    records: list[_Named] = msgspec.field(default_factory=list, name="Metadata-Records")


class _AboutPayload(msgspec.Struct):
    fields: _Fields = msgspec.field(default_factory=_Fields, name="WARC-Metadata-Metadata")


class _AboutEnvelope(msgspec.Struct):
    payload: _AboutPayload = msgspec.field(default_factory=_AboutPayload, name="Payload-Metadata")


class _About(msgspec.Struct):
    Envelope: _AboutEnvelope = msgspec.field(default_factory=_AboutEnvelope)


class _Language(msgspec.Struct):
    code: str


class _Detection(msgspec.Struct):
    languages: list[_Language]


_DECODER = msgspec.json.Decoder(_Record)
_ABOUT_DECODER = msgspec.json.Decoder(_About)
_DETECTION_DECODER = msgspec.json.Decoder(_Detection)


def parse(content: bytes, page_url: str) -> Page:
    """Candidate rows of a WAT record and why its other image links are none.

    A row needs a caption that is not empty and an http(s) url. Pages that object to their use give rows as well: the
    directives stand in `opt_out`, and who filters decides. Records that name no image are not parsed.
    """
    page = Page()
    if b"IMG@/src" not in content:
        return page
    try:
        response = _decode(content)
    except (ValueError, RecursionError):
        page.counts["bad_record"] += 1
        return page
    links = [link for link in (response.html.Links or ()) if link.path == IMAGE] if response and response.html else []
    if response is None or not links:
        return page
    head = (response.html.Head if response.html else None) or _Head()
    page_url = repair(page_url)
    base = urls.page_base(page_url, head.Base if isinstance(head.Base, str) else None)
    title = clean(head.Title) if isinstance(head.Title, str) else ""
    language, objections = _language(head, response), _objections(head, response)
    page.counts["pages"] += 1
    page.counts["in"] += len(links)
    for link in links:
        found = _candidate(link, base)
        if isinstance(found, str):
            page.counts[f"dropped:{found}"] += 1
            continue
        url, alt, text = found
        page.rows.append(Row(uids.new(url, alt), url, text, alt, title or None, page_url, language, objections))
    return page


def detected_language(content: bytes) -> str | None:
    """The code of the first language that the crawler's detector names in a WAT record on a page, None if it names none.

    `un` is CLD2's code for "unknown". What does not parse says nothing: the page's rows stand without it.
    """
    if DETECTED.encode() not in content:
        return None
    try:
        about = _ABOUT_DECODER.decode(content).Envelope.payload.fields.records
        said = next((r.Value for r in about if r.Name == DETECTED and isinstance(r.Value, str)), "")
        languages = _DETECTION_DECODER.decode(said).languages
    except (ValueError, RecursionError):
        return None
    code = clean(languages[0].code) if languages else ""
    return code if code not in ("", "un") else None


def with_language(rows: list[Row], language: str) -> list[Row]:
    """The same rows in this language."""
    return [msgspec.structs.replace(row, content_language=language) for row in rows]


def _candidate(link: _Link, base: str) -> tuple[str, str, str] | str:
    """(url, alt, text) of an image link, or why it is none."""
    if not isinstance(link.url, str | None) or not isinstance(link.alt, str | None):
        return "bad_link"
    alt = repair(link.alt or "")
    if not (text := clean(alt)):
        return "no_text"
    try:
        return urls.resolve(link.url or "", base), alt, text
    except urls.Rejected as e:
        return e.why


def _decode(content: bytes) -> _Response | None:
    """The HTTP part of a record, None if it has none. Raises ValueError if it is not JSON."""
    try:
        envelope = _DECODER.decode(content).Envelope
        return envelope.payload.response if envelope and envelope.payload else None
    except msgspec.DecodeError:
        # Lone surrogates, which json lets pass to be repaired; control characters; shapes other than expected.
        return _lenient(json.loads(content.decode("utf-8", "replace"), strict=False))


def _lenient(record: Any) -> _Response | None:
    """The same from any JSON value: parts of another shape count as absent."""
    part = record
    for name in ("Envelope", "Payload-Metadata", "HTTP-Response-Metadata"):
        part = part.get(name) if isinstance(part, dict) else None
    if not isinstance(part, dict):
        return None
    page = part.get("HTML-Metadata")
    if not isinstance(page, dict):
        return _Response(part.get("Headers"))
    head, links = page.get("Head"), page.get("Links")
    return _Response(
        part.get("Headers"),
        _Html(
            _Head(head.get("Metas"), head.get("Title"), head.get("Base")) if isinstance(head, dict) else None,
            [_Link(x.get("path"), x.get("url"), x.get("alt")) for x in links if isinstance(x, dict)]
            if isinstance(links, list)
            else None,
        ),
    )


def _language(head: _Head, response: _Response) -> str | None:
    """The language that the page itself states: `<html lang>`, else meta content-language, else the header Content-Language."""
    for values in (
        _metas(head, "name", "html@/lang"),
        _metas(head, "http-equiv", "content-language"),
        _header(response, "content-language"),
    ):
        for value in values:
            if language := clean(value):
                return language
    return None


def _objections(head: _Head, response: _Response) -> str | None:
    values = [*_metas(head, "name", "robots"), *_metas(head, "name", optout.AGENT), *_header(response, "x-robots-tag")]
    return optout.directives(values) if values else None


def _metas(head: _Head, key: str, name: str) -> Iterator[str]:
    """Contents of the meta elements whose `key` attribute is `name`, in any case."""
    for meta in head.Metas if isinstance(head.Metas, list) else ():
        if isinstance(meta, dict) and isinstance(said := meta.get(key), str) and said.strip().lower() == name:
            content = meta.get("content")
            yield from [content] if isinstance(content, str) else []


def _header(response: _Response, name: str) -> Iterator[str]:
    """Values of a header, whose name may be in any case and whose value a string or a list."""
    for key, value in response.Headers.items() if isinstance(response.Headers, dict) else ():
        if key.lower() == name:
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str))
