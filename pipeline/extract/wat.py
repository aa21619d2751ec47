"""One WAT record (JSON that describes one crawled page) → its candidates. Pure: bytes in, a `Page` out.

The format is that of Common Crawl's extractor (ia-web-commons): links stand as the page wrote them, unresolved; `srcset`
and `data-src` never reach a WAT; a header's value is a string or a list of strings. What the crawler's language detector (CLD2)
made of a page stands in a record of its own, about the same address.

A page's language comes from the first of four places that names one: `<html lang>`, meta content-language, the header
Content-Language, the detector.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline import optout
from pipeline.extract import page
from pipeline.extract.page import Page, Wanted
from pipeline.extract.text import clean
from pipeline.extract.warc import Record

IMAGE = "IMG@/src"
DETECTED = b"languages-cld2"
# What the crawler writes, nearly always, as it stands in JSON; `un` is CLD2's code for "unknown".
_FIRST_CODE = re.compile(rb'"languages-cld2","Value":"[^\[\]]*\\"languages\\":\[\{\\"code\\":\\"(?!un\\)([a-zA-Z-]{2,12})\\"')


class BadRecord(ValueError):
    """A record that is no JSON."""


# Only what is read is typed, so that the decoder steps over the rest. What writers disagree about is Any.
# gc=False: none of them can be part of a cycle, and there are a hundred and more a page.
class Link(msgspec.Struct, gc=False):
    path: Any = None
    url: Any = None
    alt: Any = None
    text: Any = None


class _Head(msgspec.Struct):
    Metas: Any = None
    Title: Any = None
    Base: Any = None


class _Html(msgspec.Struct):
    Head: _Head | None = None
    Links: list[Link] | None = None


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


def parse(content: bytes, page_url: str, wanted: Wanted = Wanted()) -> Page | None:  # noqa: B008  (it is frozen)
    """What a WAT record says of the page at this address; None if it names no link of the wanted kind.

    Records without links, or without an image where images are wanted, are not parsed. Raises BadRecord.
    """
    if not may_link(content, 0, wanted):
        return None
    try:
        response = _decode(content)
    except (ValueError, RecursionError) as e:
        raise BadRecord(str(e)) from e
    if response is None or response.html is None or not response.html.Links:
        return None
    if wanted.images:
        links = [(link.url, link.alt) for link in response.html.Links if link.path == IMAGE]
    else:
        named = wanted.names
        links = [(x.url, x.text) for x in response.html.Links if isinstance(x.url, str) and named(x.url)]
    if not links:
        return None
    head = response.html.Head or _Head()
    return describe(page_url, response.Headers, head.Metas, head.Title, head.Base).consider(links, wanted)


def describe(url: str, headers: Any, metas: Any, title: Any, base: Any) -> Page:
    """The page of these parts of a WAT record, each of any JSON type; with no links so far."""
    if not metas and not headers:
        return page.describe(url, base=base, title=title)
    by_name, values = _by_name(metas), _values(headers)
    return page.describe(
        url,
        base=base,
        title=title,
        languages=(*by_name["html@/lang"], *by_name["content-language"], *values["content-language"]),
        objections=(*by_name["robots"], *by_name[optout.AGENT], *values["x-robots-tag"]),
    )


def is_wat(record: Record) -> bool:
    """Whether a record is one of a WAT: metadata, in JSON."""
    data, start = record.data, record.start
    if data.find(b"application/json", 0, start) < 0:
        return False
    # The one spelling there is in practice is found four times faster.
    return data.find(b"\r\nWARC-Type: metadata\r\n", 0, start) > 0 or record.type == "metadata"


def may_link(data: bytes | bytearray, start: int, wanted: Wanted) -> bool:
    """Whether a WAT record, of which the content begins at `start`, may name a link of the wanted kind."""
    return data.find(b"IMG@/src" if wanted.images else b'"Links"', start) >= 0


def may_detect(record: Record) -> bool:
    """Whether a record may hold what the crawler's language detector made of a page."""
    return record.data.find(DETECTED, record.start) >= 0


def detected_language(content: bytes) -> str | None:
    """The code of the first language that the crawler's detector names in a WAT record on a page, None if it names none.

    What does not parse says nothing: the page's rows stand without it.
    """
    if (found := _FIRST_CODE.search(content)) is not None:
        return found[1].decode()
    if DETECTED not in content:
        return None
    try:
        about = _ABOUT_DECODER.decode(content).Envelope.payload.fields.records
        said = next((r.Value for r in about if r.Name == DETECTED.decode() and isinstance(r.Value, str)), "")
        languages = _DETECTION_DECODER.decode(said).languages
    except (ValueError, RecursionError):
        return None
    code = clean(languages[0].code) if languages else ""
    return code if code not in ("", "un") else None


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
            [Link(x.get("path"), x.get("url"), x.get("alt"), x.get("text")) for x in links if isinstance(x, dict)]
            if isinstance(links, list)
            else None,
        ),
    )


_META_NAMES = {"html@/lang": "name", "content-language": "http-equiv", "robots": "name", optout.AGENT: "name"}
_HEADER_NAMES = ("content-language", "x-robots-tag")


def _by_name(metas: Any) -> Mapping[str, list[str]]:
    """Contents of the meta elements that matter, by their names in lower case."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for meta in metas if isinstance(metas, list) else ():
        if not isinstance(meta, dict):
            continue
        for key in ("name", "http-equiv"):
            if isinstance(said := meta.get(key), str) and _META_NAMES.get(name := said.strip().lower()) == key:
                content = meta.get("content")
                found[name] += [content] if isinstance(content, str) else []
    return found


def _values(headers: Any) -> Mapping[str, list[str]]:
    """Values of the headers that matter; a name may be in any case, a value a string or a list."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in headers.items() if isinstance(headers, dict) else ():
        if (name := key.lower()) in _HEADER_NAMES:
            found[name] += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)]
    return found
