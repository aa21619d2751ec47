"""Writes a made-up web: WATs of its pages, WARCs of everything it serves, a truth table, and held-out pictures to score on."""

from __future__ import annotations

import contextlib
import html
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from baselines.miniweb import draw, plan, warc
from baselines.miniweb.evals import write_evals
from pipeline import engine
from pools import store
from pools.errors import InputError
from pools.manifest import Outcome, Run

VERSION = 1
PARTS = 3
_DEFAULT = engine.Options()
TRUTH = pa.schema(
    [
        pa.field("uid", pa.string()),
        pa.field("url", pa.string()),
        pa.field("concept", pa.string()),  # what the picture shows
        pa.field("flaw", pa.string()),  # from plan.Flaw; null = none
        pa.field("language", pa.string()),  # ISO 639-1, of the alt; null = the alt is no sentence
    ]
)


@dataclass(frozen=True)
class MiniWeb:
    """A made-up web on disk."""

    folder: str

    @property
    def wats(self) -> str:
        """The folder of `miniweb-0000N.warc.wat.gz`."""
        return store.join(self.folder, "wat")

    @property
    def warcs(self) -> list[str]:
        """`miniweb-0000N.warc.gz`: each page and picture that is served, for `winnow replay`."""
        return [store.join(self.folder, "warc", _name(i)) for i in range(PARTS)]

    @property
    def truth(self) -> str:
        """One row a picture, in the order of the pages: uid, url, concept, flaw, language."""
        return store.join(self.folder, "truth.parquet")

    @property
    def evals(self) -> str:
        """The folder with `wds_miniweb-shapes_test/`."""
        return store.join(self.folder, "evals")


def build(folder: str, *, pictures: int = 500, seed: int = 0, options: engine.Options = _DEFAULT) -> MiniWeb:
    """Writes the web unless it is there; the same (pictures, seed) give the same bytes.

    Every picture is one image link with an alt text on one page. Raises InputError if `folder` holds anything else.
    """
    if pictures < 1:
        raise InputError(f"{pictures} pictures", where="--pictures", expected="1 or more")
    run = Run(folder, "miniweb", VERSION, {"pictures": pictures, "seed": seed})
    units = [engine.Unit(f"part-{i}", "", (folder, pictures, seed, i)) for i in range(PARTS)]
    units.append(engine.Unit("evals", "", (folder,)))
    web = MiniWeb(folder)

    def finish(total: Outcome) -> Outcome:
        _write_truth(web.truth, pictures, seed)
        return total

    engine.run(run, units, _make, options, finish)
    return web


def _make(unit: engine.Unit) -> Outcome:
    if unit.name == "evals":
        return Outcome({"held_out": write_evals(MiniWeb(unit.args[0]).evals)})
    return _write_part(*unit.args)


def _name(part: int) -> str:
    return f"miniweb-{part:05d}.warc.gz"


def _write_part(folder: str, pictures: int, seed: int, part: int) -> Outcome:
    count = plan.page_count(pictures)
    first, last = (count * i // PARTS for i in (part, part + 1))
    name = _name(part)
    wat_name = name.replace(".warc.gz", ".warc.wat.gz")
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as files:
        web = warc.Writer(files.enter_context(store.atomic(store.join(folder, "warc", name))), name)
        wat = warc.WatWriter(files.enter_context(store.atomic(store.join(folder, "wat", wat_name))), wat_name)
        fields = {"software": "winnow-miniweb", "format": "WARC File Format 1.0", "description": "a made-up web"}
        wat.describe(web.info(fields), name, {"WARC-Info-Metadata": fields})
        for page in plan.pages(pictures, seed, first, last):
            _write_page(web, wat, page)
            for picture in page.pictures:
                _write_picture(web, picture)
                counts.update(["in", "kept", *([f"flaw:{picture.flaw}"] if picture.flaw else [])])
    return Outcome(dict(counts))


def _write_page(web: warc.Writer, wat: warc.WatWriter, page: plan.Page) -> None:
    host, path = page.url.split("//")[1].split("/", 1)
    asked = [("Host", host), ("User-Agent", "winnow-miniweb"), ("Accept", "text/html")]
    block = warc.http_head(f"GET /{path} HTTP/1.1", asked)
    request = web.add("request", "application/http; msgtype=request", block, uri=page.url)
    message = {"Method": "GET", "Path": f"/{path}", "Version": "HTTP/1.1"}
    wat.describe(request, page.url, {"HTTP-Request-Metadata": {"Request-Message": message, "Headers": dict(asked)}})

    body = _html(page).encode()
    headers = [("Date", warc.HTTP_DATE), ("Content-Type", "text/html; charset=UTF-8"), ("Content-Language", page.language)]
    response = web.response(page.url, headers, body)
    described = {
        "Response-Message": {"Version": "HTTP/1.1", "Status": "200", "Reason": "OK"},
        "Headers": dict([*headers, ("Content-Length", str(len(body)))]),
        "HTML-Metadata": _html_metadata(page),
        "Entity-Length": str(len(body)),
        "Entity-Digest": warc.sha1(body),
        "Entity-Trailing-Slop-Length": "0",
    }
    wat.describe(response, page.url, {"HTTP-Response-Metadata": described})


def _write_picture(web: warc.Writer, picture: plan.Picture) -> None:
    if picture.flaw is plan.Flaw.DEAD_LINK:
        return
    if picture.flaw is plan.Flaw.HTML_ANSWER:
        kind, body = "text/html; charset=UTF-8", b"<!DOCTYPE html><title>Sorry</title><p>This picture has moved."
    else:
        kind, body = "image/jpeg", draw.jpeg(picture.scene)
    web.response(picture.url, [("Date", warc.HTTP_DATE), ("Content-Type", kind)], body)


# What every page has besides its pictures: a logo without a text, a spacer in the page itself, and plain links.
_LOGO = "/assets/logo.png"
_SPACER = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def _links(page: plan.Page) -> list[dict[str, str]]:
    """The page's links as a WAT lists them, in the order of the page."""
    links = [
        {"path": "A@/href", "url": "/", "text": "Home"},
        {"path": "IMG@/src", "url": _LOGO},
        {"path": "IMG@/src", "url": _SPACER, "alt": ""},
    ]
    for p in page.pictures:
        links.append({"path": "IMG@/src", "url": p.src, "alt": p.alt})
        links.append({"path": "A@/href", "url": f"/picture/{p.index}", "text": f"Picture {p.index}"})
    return links


def _html_metadata(page: plan.Page) -> dict[str, Any]:
    metas = [
        {"name": "HTML@/lang", "content": page.language},
        {"name": "viewport", "content": "width=device-width"},
        {"property": "og:title", "content": page.title},
    ]
    head: dict[str, Any] = {"Metas": metas, "Title": page.title}
    if page.base is not None:
        head["Base"] = page.base
    return {"Head": head, "Links": _links(page)}


def _html(page: plan.Page) -> str:
    """The page that its description in the WAT describes."""
    base = f'<base href="{page.base}">' if page.base is not None else ""
    lines = [
        f'<!DOCTYPE html>\n<html lang="{page.language}">\n<head><meta charset="UTF-8">{base}<title>{page.title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f'<meta property="og:title" content="{page.title}"></head>\n<body>',
    ]
    for link in _links(page):
        url = html.escape(link["url"])
        if link["path"] == "A@/href":
            lines.append(f'<a href="{url}">{html.escape(link["text"])}</a>')
        else:
            alt = f' alt="{html.escape(link["alt"])}"' if "alt" in link else ""
            lines.append(f'<img src="{url}"{alt}>')
    return "\n".join([*lines, "</body></html>\n"])


def _write_truth(path: str, pictures: int, seed: int) -> None:
    with store.atomic(path) as f, pq.ParquetWriter(f, TRUTH, compression="zstd") as writer:
        count, step = plan.page_count(pictures), 2000
        for first in range(0, count, step):
            found = [p for page in plan.pages(pictures, seed, first, min(first + step, count)) for p in page.pictures]
            rows = [
                {"uid": p.uid, "url": p.url, "concept": p.scene.concept, "flaw": p.flaw, "language": p.language} for p in found
            ]
            writer.write_table(pa.Table.from_pylist(rows, TRUTH))
