"""WATs for tests: pages described in a few words → the records that a crawler's extractor writes of them."""

from __future__ import annotations

import gzip
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Link = tuple[Any, ...]  # (src,) or (src, alt)


def warc_record(
    content: bytes,
    *,
    uri: str = "http://e.example/",
    kind: str = "metadata",
    media: str = "application/json",
    length: int | None = None,
    line_end: bytes = b"\r\n",
) -> bytes:
    """One record, of JSON unless `media` says otherwise; `length` is a Content-Length that may lie."""
    lines = [
        b"WARC/1.0",
        b"WARC-Type: " + kind.encode(),
        b"WARC-Target-URI: " + uri.encode(),
        b"WARC-Date: 2024-05-31T01:17:49Z",
        b"Content-Type: " + media.encode(),
        b"Content-Length: %d" % (len(content) if length is None else length),
    ]
    return line_end.join(lines) + 2 * line_end + content + 2 * line_end


def page_json(
    links: Iterable[Link] | None,
    *,
    headers: Mapping[str, Any] | None = None,
    base: str | None = None,
    metas: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    others: Sequence[Mapping[str, Any]] = (),
) -> bytes:
    """The JSON of one page; `links=None` leaves the list of links out, `others` are links of another kind behind the images."""
    head: dict[str, Any] = {"Metas": list(metas)}
    if base is not None:
        head["Base"] = base
    if title is not None:
        head["Title"] = title
    page: dict[str, Any] = {"Head": head}
    if links is not None:
        images = [{"path": "IMG@/src"} | dict(zip(("url", "alt"), link, strict=False)) for link in links]
        page["Links"] = [{"path": "A@/href", "url": "other.html", "text": "elsewhere"}, *images, *others]
    response = {"Response-Message": {"Status": "200"}, "Headers": headers or {}, "HTML-Metadata": page}
    # Without spaces and the path first, as the extractor writes it.
    return json.dumps({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": response}}}, separators=(",", ":")).encode()


def page(uri: str, links: Iterable[Link] | None, **more: Any) -> bytes:
    """The WAT record of one page."""
    return warc_record(page_json(links, **more), uri=uri)


def response(uri: str, links: Iterable[tuple[str, str]], *, title: str = "", head: str = "") -> bytes:
    """The WARC record of a page as HTML; `head` are further lines of its HTTP headers."""
    images = "".join(f'<img src="{html.escape(src)}" alt="{html.escape(alt)}">' for src, alt in links)
    body = f"<html><head><title>{html.escape(title)}</title></head><body>{images}</body></html>".encode()
    answer = f"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n{head}\r\n".encode()
    return warc_record(answer + body, uri=uri, kind="response", media="application/http; msgtype=response")


def detection(uri: str, *codes: str, value: Any = None) -> bytes:
    """The WAT record of a page's metadata record, with the languages that CLD2 found; `value` in place of their JSON text."""
    found = [{"code": c, "code-iso-639-3": c, "text-covered": 0.9, "score": 1170.0, "name": c.upper()} for c in codes]
    said = json.dumps({"reliable": True, "text-bytes": 3080, "languages": found}) if value is None else value
    fields = [{"Name": "fetchTimeMs", "Value": "258"}, {"Name": "languages-cld2", "Value": said}]
    payload = {"Actual-Content-Type": "application/metadata-fields", "WARC-Metadata-Metadata": {"Metadata-Records": fields}}
    return warc_record(json.dumps({"Envelope": {"Payload-Metadata": payload}}).encode(), uri=uri)


def request(uri: str) -> bytes:
    """The WAT record of the request for a page."""
    payload = {"HTTP-Request-Metadata": {"Headers": {"Accept-Language": "en-US,en;q=0.5"}}}
    return warc_record(json.dumps({"Envelope": {"Payload-Metadata": payload}}).encode(), uri=uri)


def numbered(n: int) -> bytes:
    """A page with one image of its own, `http://e.example/<n>.jpg`, alt `picture <n>`."""
    return page(f"http://e.example/page{n}", [(f"{n}.jpg", f"picture {n}")])


def members(records: Iterable[bytes]) -> list[bytes]:
    """One gzip member each."""
    return [gzip.compress(record, mtime=0) for record in records]


def write(path: Path, records: Iterable[bytes]) -> Path:
    """A `.wat.gz` with one member a record, or a plain file if the name does not end in `.gz`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(members(records) if path.suffix == ".gz" else records))
    return path
