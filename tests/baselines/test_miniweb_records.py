"""The records of a made-up web's WARCs and WATs, read with other people's parsers."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType

from baselines.miniweb.web import MiniWeb
from tests.baselines.webs import described, page_links


def notes(web: MiniWeb) -> Iterator[tuple[str, dict[str, str]]]:
    """(page, what the crawler noted) of each such record of the WATs."""
    for uri, about in described(web):
        payload = about["Envelope"]["Payload-Metadata"]
        if "WARC-Metadata-Metadata" in payload:
            assert payload["Actual-Content-Type"] == "application/metadata-fields"
            listed = payload["WARC-Metadata-Metadata"]["Metadata-Records"]
            yield uri, {r["Name"]: r["Value"] for r in listed}


def served(web: MiniWeb) -> dict[str, tuple[str, bytes]]:
    """Address → (content type, body) of every recorded answer."""
    found = {}
    for path in web.warcs:
        with Path(path).open("rb") as f:
            for record in ArchiveIterator(f, record_types=WarcRecordType.response, verify_digests=True):
                assert record.http_headers.status_code == 200
                found[record.headers["WARC-Target-URI"]] = (record.http_content_type or "", record.reader.read())
    return found


def test_links_are_written_in_every_way(small_web: MiniWeb) -> None:
    ways = Counter[str]()
    for _, page in page_links(small_web):
        sources = [n["url"] for n in page["Links"] if n.get("alt")]
        source = next(s for s in sources if "//shared.pictures.example/" not in s)  # they are absolute wherever they stand
        if "Base" in page["Head"]:
            ways["base"] += 1
        elif source.startswith("//"):
            ways["protocol-relative"] += 1
        elif source.startswith("/"):
            ways["root-relative"] += 1
        else:
            ways["absolute" if source.startswith("https://") else "relative"] += 1
    assert ways == dict.fromkeys(["base", "protocol-relative", "root-relative", "absolute", "relative"], 20)


class _Images(HTMLParser):
    """The (src, alt) of each <img>, the <base> and the stated languages of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str | None, str | None]] = []
        self.base = ""
        self.languages: dict[str, list[str | None]] = {"html": [], "meta": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "img":
            self.found.append((named["src"], named.get("alt")))
        self.base = named["href"] or "" if tag == "base" else self.base
        if tag == "html" and "lang" in named:
            self.languages["html"].append(named["lang"])
        if tag == "meta" and named.get("http-equiv") == "content-language":
            self.languages["meta"].append(named["content"])


def test_wats_describe_the_pages_that_are_served(small_web: MiniWeb) -> None:
    answers = served(small_web)
    pages = 0
    for uri, page in page_links(small_web):
        kind, body = answers[uri]
        assert kind == "text/html"
        parser = _Images()
        parser.feed(body.decode())
        listed = [(n["url"], n.get("alt")) for n in page["Links"] if n["path"] == "IMG@/src"]
        assert parser.found == listed and len(listed) == 2 + 5
        assert parser.base == page["Head"].get("Base", "")
        metas = page["Head"]["Metas"]
        assert [m["content"] for m in metas if m.get("name") == "HTML@/lang"] == parser.languages["html"]
        assert [m["content"] for m in metas if m.get("http-equiv") == "content-language"] == parser.languages["meta"]
        pages += 1
    assert pages == 100


def test_each_page_states_its_language_in_one_place(small_web: MiniWeb) -> None:
    noted = {uri: json.loads(said["languages-cld2"]) for uri, said in notes(small_web)}
    places = Counter[str]()
    for uri, about in described(small_web):
        response = about["Envelope"]["Payload-Metadata"].get("HTTP-Response-Metadata")
        if response is None:
            continue
        metas = response["HTML-Metadata"]["Head"]["Metas"]
        said = {
            "html": [m["content"] for m in metas if m.get("name") == "HTML@/lang"],
            "meta": [m["content"] for m in metas if m.get("http-equiv") == "content-language"],
            "header": [v for k, v in response["Headers"].items() if k == "Content-Language"],
            "cld2": [found["code"] for found in noted[uri]["languages"]] if uri in noted else [],
        }
        ((place, (_language,)),) = ((p, tuple(v)) for p, v in said.items() if v)
        places[place] += 1
    assert sum(places.values()) == 100 and min(places.values()) >= 20


def test_crawler_notes_follow_their_page_in_warc_and_wat(small_web: MiniWeb) -> None:
    for path in [*small_web.warcs, *map(str, sorted(Path(small_web.wats).iterdir()))]:
        last, seen = None, 0
        with Path(path).open("rb") as f:
            for record in ArchiveIterator(f):
                content = record.reader.read()
                uri = record.headers.get("WARC-Target-URI")
                if b"languages-cld2" in content:
                    assert uri == last
                    seen += 1
                    if record.headers["Content-Type"] == "application/warc-fields":
                        fields = dict(line.split(": ", 1) for line in content.decode().splitlines())
                        assert json.loads(fields["languages-cld2"])["reliable"] is True
                last = uri
        assert seen >= 5


def test_wats_say_where_each_record_lies(small_web: MiniWeb) -> None:
    checked = 0
    for uri, about in described(small_web):
        container, envelope = about["Container"], about["Envelope"]
        path = Path(small_web.folder) / "warc" / container["Filename"]
        sizes = container["Gzip-Metadata"]
        with path.open("rb") as f:
            f.seek(int(container["Offset"]))
            member = f.read(int(sizes["Deflate-Length"]))
        unzip = zlib.decompressobj(31)
        record = unzip.decompress(member)
        assert unzip.eof and not unzip.unused_data
        assert len(record) == int(sizes["Inflated-Length"])
        assert zlib.crc32(record) == int(sizes["Inflated-CRC"]) % 2**32
        head = int(envelope["WARC-Header-Length"])
        assert (
            record[:head].endswith(b"\r\n\r\n") and envelope["WARC-Header-Metadata"]["WARC-Record-ID"].encode() in record[:head]
        )
        if envelope["WARC-Header-Metadata"]["WARC-Type"] != "warcinfo":
            assert f"WARC-Target-URI: {uri}\r\n".encode() in record[:head]
        checked += 1
    # Of each of 100 pages its request and its response, of some the crawler's notes, of both files the warcinfo.
    assert checked == 2 * 100 + len(dict(notes(small_web))) + 2


def test_warcs_hold_one_gzip_member_a_record(small_web: MiniWeb) -> None:
    ids = []
    for path in small_web.warcs + [str(p) for p in sorted(Path(small_web.wats).iterdir())]:
        rest, members = Path(path).read_bytes(), 0
        while rest:
            unzip = zlib.decompressobj(31)
            assert unzip.decompress(rest).startswith(b"WARC/1.0\r\n")
            rest, members = unzip.unused_data, members + 1
        with Path(path).open("rb") as f:
            found = [r.record_id for r in ArchiveIterator(f)]
        assert len(found) == members
        ids += found
    assert len(set(ids)) == len(ids)
