"""One part of a made-up web: the WARC of what is served, and the WAT of its pages."""

from __future__ import annotations

import contextlib
from collections import Counter

from baselines.miniweb import pages, warc
from baselines.miniweb.answers import answer
from baselines.miniweb.places import Stated
from baselines.miniweb.plan import Page, Picture, make_plan
from pools import store
from pools.manifest import Outcome

PICTURES_A_PART = 1500
_SOFTWARE = {"software": "winnow-miniweb", "format": "WARC File Format 1.0", "description": "a made-up web"}


def part_count(pictures: int) -> int:
    return max(2, round(pictures / PICTURES_A_PART))


def write_part(folder: str, pictures: int, seed: int, part: int) -> Outcome:
    """Writes `warc/miniweb-<part>.warc.gz` and `wat/miniweb-<part>.warc.wat.gz`; one page is in memory at a time."""
    plan, parts = make_plan(pictures, seed), part_count(pictures)
    first, last = (plan.pages * i // parts for i in (part, part + 1))
    name = f"miniweb-{part:05d}.warc.gz"
    wat_name = name.replace(".warc.gz", ".warc.wat.gz")
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as files:
        web = warc.Writer(files.enter_context(store.atomic(store.join(folder, "warc", name))), name)
        wat = warc.WatWriter(files.enter_context(store.atomic(store.join(folder, "wat", wat_name))), wat_name)
        wat.describe(web.info(_SOFTWARE), name, {"WARC-Info-Metadata": _SOFTWARE})
        for number in range(first, last):
            page = plan.page(number)
            _write_page(web, wat, page)
            for picture in page.pictures:
                _write_picture(web, picture)
                counts.update(["in", "kept", *([f"flaw:{picture.flaw}"] if picture.flaw else [])])
    return Outcome(dict(counts))


def _write_page(web: warc.Writer, wat: warc.WatWriter, page: Page) -> None:
    host, path = page.url.split("//")[1].split("/", 1)
    asked = [("Host", host), ("User-Agent", "winnow-miniweb"), ("Accept", "text/html")]
    block = warc.http_head(f"GET /{path} HTTP/1.1", asked)
    request = web.add("request", "application/http; msgtype=request", block, uri=page.url)
    message = {"Method": "GET", "Path": f"/{path}", "Version": "HTTP/1.1"}
    wat.describe(request, page.url, {"HTTP-Request-Metadata": {"Request-Message": message, "Headers": dict(asked)}})

    body, headers = pages.body(page), pages.headers(page)
    response = web.response(page.url, headers, body)
    described = {
        "Response-Message": {"Version": "HTTP/1.1", "Status": "200", "Reason": "OK"},
        "Headers": dict([*headers, ("Content-Length", str(len(body)))]),
        "HTML-Metadata": pages.html_metadata(page),
        "Entity-Length": str(len(body)),
        "Entity-Digest": warc.sha1(body),
        "Entity-Trailing-Slop-Length": "0",
    }
    wat.describe(response, page.url, {"HTTP-Response-Metadata": described})

    if page.stated is Stated.CLD2:
        notes = pages.crawler_notes(page)
        record = web.metadata(page.url, notes, response)
        listed = [{"Name": name, "Value": value} for name, value in notes.items()]
        payload = {"Actual-Content-Type": "application/metadata-fields", "WARC-Metadata-Metadata": {"Metadata-Records": listed}}
        wat.describe(record, page.url, payload)


def _write_picture(web: warc.Writer, picture: Picture) -> None:
    if (answered := answer(picture)) is not None:
        headers, body = answered
        # Pictures are compressed already.
        web.response(picture.url, [("Date", warc.HTTP_DATE), *headers], body, level=1)
