"""The made-up web on disk: read back with other people's parsers, and checked against its truth table."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pyarrow.parquet as pq
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType
from PIL import Image

from baselines.miniweb.scenes import COLOURS, CONCEPTS
from baselines.miniweb.web import MiniWeb, build
from pipeline.engine import Options
from pools.errors import InputError

PICTURES = 200
QUIET = Options(workers=0, quiet=True)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> MiniWeb:
    return build(str(tmp_path_factory.mktemp("web") / "w"), pictures=PICTURES, options=QUIET)


def files(folder: str) -> dict[str, str]:
    root = Path(folder)
    found = sorted(p for p in root.rglob("*") if p.is_file())
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def described(web: MiniWeb) -> Iterator[tuple[str, dict[str, Any]]]:
    """(target address, JSON) of each metadata record of the WATs."""
    for path in sorted(Path(web.wats).iterdir()):
        with path.open("rb") as f:
            for record in ArchiveIterator(f, record_types=WarcRecordType.metadata):
                yield record.headers["WARC-Target-URI"], json.loads(record.reader.read())


def page_links(web: MiniWeb) -> Iterator[tuple[str, dict[str, Any]]]:
    for uri, about in described(web):
        response = about["Envelope"]["Payload-Metadata"].get("HTTP-Response-Metadata")
        if response is not None:
            yield uri, response["HTML-Metadata"]


def alts(web: MiniWeb) -> dict[str, str]:
    """Absolute address → alt text of every image link that has one, resolved by the standard library."""
    found = {}
    for uri, page in page_links(web):
        base = urljoin(uri, page["Head"].get("Base", ""))
        for link in page["Links"]:
            if link["path"] == "IMG@/src" and link.get("alt"):
                found[urljoin(base, link["url"])] = link["alt"]
    return found


def served(web: MiniWeb) -> dict[str, tuple[str, bytes]]:
    """Address → (content type, body) of every recorded answer."""
    found = {}
    for path in web.warcs:
        with Path(path).open("rb") as f:
            for record in ArchiveIterator(f, record_types=WarcRecordType.response, verify_digests=True):
                assert record.http_headers.status_code == 200
                found[record.headers["WARC-Target-URI"]] = (record.http_content_type or "", record.reader.read())
    return found


def test_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    first, again, workers = (str(tmp_path / name) for name in "abc")
    build(first, pictures=30, options=QUIET)
    build(again, pictures=30, options=QUIET)
    build(workers, pictures=30, options=Options(workers=2, quiet=True))
    assert files(first) == files(again) == files(workers)
    other = str(tmp_path / "d")
    build(other, pictures=30, seed=1, options=QUIET)
    differ = {name for name, digest in files(other).items() if files(first)[name] != digest}
    assert {n.split("/")[0] for n in differ} >= {"wat", "warc", "truth.parquet"}
    # What is scored on does not change with the web.
    assert not any(n.startswith("evals/") for n in differ)


def test_building_again_does_nothing_and_another_size_is_refused(web: MiniWeb) -> None:
    before = {p: p.stat().st_mtime_ns for p in Path(web.folder).rglob("*")}
    build(web.folder, pictures=PICTURES, options=QUIET)
    assert {p: p.stat().st_mtime_ns for p in Path(web.folder).rglob("*")} == before
    with pytest.raises(InputError, match="pictures"):
        build(web.folder, pictures=PICTURES + 1, options=QUIET)
    with pytest.raises(InputError, match="expected 1 or more"):
        build(web.folder + "-none", pictures=0, options=QUIET)


def test_truth_has_one_row_a_picture_with_the_shares_asked_for(web: MiniWeb) -> None:
    rows = pq.read_table(web.truth).to_pylist()
    assert len(rows) == PICTURES == len({r["uid"] for r in rows}) == len({r["url"] for r in rows})
    # Two blocks of 100.
    assert Counter(r["flaw"] for r in rows) == {
        None: 136,
        "mismatched": 24,
        "file_name": 8,
        "one_word": 6,
        "too_small": 8,
        "banner": 6,
        "dead_link": 8,
        "html_answer": 4,
    }
    assert set(Counter(r["concept"] for r in rows).values()) == {20}
    languages = Counter(r["language"] for r in rows)
    assert set(languages) == {"en", "es", "de", "fr", "sw", "hi", None}
    assert languages[None] == 14
    assert 140 <= languages["en"] <= 170


def test_uids_and_addresses_are_those_of_the_links(web: MiniWeb) -> None:
    rows = pq.read_table(web.truth).to_pylist()
    found = alts(web)
    assert set(found) == {r["url"] for r in rows}
    for row in rows:
        alt = found[row["url"]]
        assert row["uid"] == hashlib.md5((alt + row["url"]).encode(), usedforsecurity=False).hexdigest()


def test_alts_are_what_the_truth_says(web: MiniWeb) -> None:
    found = alts(web)
    for row in pq.read_table(web.truth).to_pylist():
        alt, flaw = found[row["url"]], row["flaw"]
        colour = next(c for c in COLOURS if f"/{c}-" in row["url"])
        if flaw == "file_name":
            assert alt.lower().endswith((".jpg", ".png")) and row["language"] is None
        elif flaw == "one_word":
            assert len(alt.split()) == 1 and row["language"] is None
        elif row["language"] == "en":
            said = {c for c in CONCEPTS if c in alt.lower()}
            if flaw == "mismatched":
                assert len(said) == 1 and row["concept"] not in said and f" {colour} " not in f" {alt.lower()} "
            else:
                assert said == {row["concept"]} and f" {colour} " in f" {alt.lower()} "
        else:
            assert len(alt) >= 20


def test_answers_are_what_the_truth_says(web: MiniWeb) -> None:
    answers = served(web)
    for row in pq.read_table(web.truth).to_pylist():
        if row["flaw"] == "dead_link":
            assert row["url"] not in answers
            continue
        kind, body = answers[row["url"]]
        if row["flaw"] == "html_answer":
            assert kind == "text/html" and body.startswith(b"<!DOCTYPE html>") and row["url"].endswith(".jpg")
            continue
        assert kind == "image/jpeg"
        with Image.open(io.BytesIO(body)) as image:
            image.load()
            short, long = sorted(image.size)
        if row["flaw"] == "too_small":
            assert long < 200
        elif row["flaw"] == "banner":
            assert short >= 200 and long / short > 3.1
        else:
            assert short >= 224 and long <= 640 and long / short <= 1.51


def test_links_are_written_in_every_way(web: MiniWeb) -> None:
    ways = Counter[str]()
    for _, page in page_links(web):
        source = page["Links"][3]["url"]
        if "Base" in page["Head"]:
            ways["base"] += 1
        elif source.startswith("//"):
            ways["protocol-relative"] += 1
        elif source.startswith("/"):
            ways["root-relative"] += 1
        else:
            ways["absolute" if source.startswith("https://") else "relative"] += 1
    assert ways == dict.fromkeys(["base", "protocol-relative", "root-relative", "absolute", "relative"], 8)


class _Images(HTMLParser):
    """The (src, alt) of each <img>, the <base> and the language of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str | None, str | None]] = []
        self.base = self.language = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "img":
            self.found.append((named["src"], named.get("alt")))
        self.base = named["href"] or "" if tag == "base" else self.base
        self.language = named["lang"] or "" if tag == "html" else self.language


def test_wats_describe_the_pages_that_are_served(web: MiniWeb) -> None:
    answers = served(web)
    pages = 0
    for uri, page in page_links(web):
        kind, body = answers[uri]
        assert kind == "text/html"
        parser = _Images()
        parser.feed(body.decode())
        listed = [(n["url"], n.get("alt")) for n in page["Links"] if n["path"] == "IMG@/src"]
        assert parser.found == listed and len(listed) == 2 + 5
        assert parser.base == page["Head"].get("Base", "")
        assert {"name": "HTML@/lang", "content": parser.language} in page["Head"]["Metas"]
        pages += 1
    assert pages == PICTURES // 5


def test_wats_say_where_each_record_lies(web: MiniWeb) -> None:
    checked = 0
    for uri, about in described(web):
        container, envelope = about["Container"], about["Envelope"]
        path = Path(web.folder) / "warc" / container["Filename"]
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
    # Of each page its request and its response, of each file its warcinfo.
    assert checked == 2 * PICTURES // 5 + 3


def test_warcs_hold_one_gzip_member_a_record(web: MiniWeb) -> None:
    ids = []
    for path in web.warcs + [str(p) for p in sorted(Path(web.wats).iterdir())]:
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


def test_held_out_pictures_have_datacomp_s_form(web: MiniWeb) -> None:
    root = Path(web.evals) / "wds_miniweb-shapes_test"
    assert (root / "test" / "nshards.txt").read_text().strip() == "1"
    assert (root / "classnames.txt").read_text().splitlines() == list(CONCEPTS)
    assert all("{c}" in line for line in (root / "zeroshot_classification_templates.txt").read_text().splitlines())
    labels, pictures = Counter[int](), set()
    with tarfile.open(root / "test" / "0.tar") as tar:
        names = tar.getnames()
        for name in names:
            member = tar.extractfile(name)
            assert member is not None
            data = member.read()
            if name.endswith(".cls"):
                labels[int(data)] += 1
            else:
                pictures.add(hashlib.sha256(data).hexdigest())
    assert names[:2] == ["s0000000.jpg", "s0000000.cls"]
    assert labels == dict.fromkeys(range(10), 25) and len(pictures) == 250
    # Held out: none of them is served.
    assert not pictures & {hashlib.sha256(body).hexdigest() for _, body in served(web).values()}
