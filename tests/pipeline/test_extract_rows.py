"""Compiled code and Python find the same in a WAT: what `wat.parse` says of a record is right, and compiled code must say it
too, of one record and of a whole file."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.extract import scan, walk, walked, warc, wat
from pipeline.extract.page import Wanted
from pipeline.extract.scan import Scan
from pipeline.extract.walked import Rows
from tests.pipeline import wats
from tests.pipeline.wats import page_json

PAGE = "https://shop.example/a/b.html?x=1"


def record(content: bytes, url: str = PAGE) -> warc.Record:
    head = f"WARC/1.0\r\nWARC-Type: metadata\r\nWARC-Target-URI: {url}\r\n\r\n".encode()
    return warc.Record(head + content, len(head), len(head) + len(content), 0, 0)


Found = tuple[Counter[tuple[Any, ...]], Counter[str]]


def by_python(records: list[warc.Record], wanted: Wanted) -> Found:
    found: Counter[tuple[Any, ...]] = Counter()
    counts: Counter[str] = Counter()
    for one in records:
        try:
            page = wat.parse(one.content, one.target, wanted)
        except wat.BadRecord:
            counts["bad"] += 1
            continue
        if page is not None:
            counts.update(page.counts, pages=1)
            of_page = (page.title, page.url, page.language, page.opt_out)
            for url, alt, caption in page.candidates:
                found[(hashlib.md5((alt + url).encode()).hexdigest(), url, alt, caption, *of_page)] += 1
    return found, +counts


def by_rows(records: list[warc.Record], wanted: Wanted) -> Found:
    found: Counter[tuple[Any, ...]] = Counter()
    counts: Counter[str] = Counter()
    collected = Rows(wanted)

    def take() -> None:
        for r in collected.take().to_pylist():
            found[(r["uid"].hex(), *(r[n] for n in NAMES))] += 1

    for one in records:
        try:
            page = collected.add_wat(one)
        except wat.BadRecord:
            counts["bad"] += 1
            continue
        if page is not None:
            counts.update(page.counts, pages=1)
        if collected.full:
            take()
    take()
    return found, +counts


def packed(*records: bytes) -> bytes:
    return b"".join(gzip.compress(one, 1, mtime=0) for one in records)


def by_file(file: bytes, wanted: Wanted = Wanted()) -> Found:  # noqa: B008
    found: Counter[tuple[Any, ...]] = Counter()
    one = Scan("file", io.BytesIO(file), wanted)
    for batch in one.batches():
        for r in batch.to_pylist():
            found[(r["uid"].hex(), *(r[n] for n in NAMES))] += 1
    counts = Counter(one.outcome().counts)
    assert not one.outcome().problems
    assert counts.pop("kept") == sum(found.values())
    counts["bad"] = counts.pop("bad_record")
    return found, +counts


NAMES = ("url", "alt", "caption", "page_title", "page_url", "content_language", "opt_out")


def same(records: list[warc.Record], wanted: Wanted = Wanted()) -> Found:  # noqa: B008
    expected = by_python(records, wanted)
    assert by_rows(records, wanted) == expected
    found, counts = by_file(packed(*(wats.warc_record(r.content, uri=r.target) for r in records)), wanted)
    assert counts.pop("records") == len(records)
    assert (found, counts) == expected
    return expected


@pytest.mark.shared
@pytest.mark.parametrize("documents", ["image", "image_only"])
def test_published_wats(shared_data: Path, documents: Any) -> None:
    for opted_out in (False, True):
        records = []
        for path in [*(shared_data / "wat").glob("*wa*"), *(shared_data / "wat-generated").glob("*")]:
            with path.open("rb") as file:
                records += [r for r in warc.read(file) if isinstance(r, warc.Record) and r.type == "metadata"]
        found, counts = same(records, Wanted(documents, opted_out))
        assert len(found) > 900
        assert counts["in"] > 1500


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Records that Python has to parse, as they come."""
    slow: list[bytes] = []
    parse = wat.parse

    def noted(content: bytes, *rest: Any) -> Any:
        slow.append(content)
        return parse(content, *rest)

    monkeypatch.setattr(wat, "parse", noted)
    return slow


def images(*links: dict[str, Any], **more: Any) -> bytes:
    """A record as the extractor writes it: an image says first that it is one."""
    head = {
        "Metas": [{"name": "a", "content": "b"}],
        "Title": "Chairs",
        "Link": [{"path": "LINK@/href", "url": 'x]y"}]'}],
        **more,
    }
    page = {"Head": head, "Links": [{"path": "IMG@/src", **x} if "path" not in x else x for x in links]}
    response = {"Headers": {"Server": "x"}, "HTML-Metadata": page}
    text = json.dumps({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": response}}}, separators=(",", ":"))
    return text.replace('x]y\\"}]', "x]y").encode()


def test_what_most_pages_hold_is_not_parsed_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"path": "A@/href", "url": "x.html", "text": 'an {odd} [text], \\ "quoted"'}
    content = images(
        other,
        {"url": "http://e.example/1.jpg", "alt": "one"},
        {"url": "/2.jpg?w=3", "alt": "two ñ 椅子"},
        other,
        {"url": "3.jpg", "alt": "three", "srcset": "3.jpg 2x"},
        {"url": "//cdn.example/4.jpg", "alt": "four"},
        {"url": "data:image/gif;base64,AAAA", "alt": "five"},
        {"url": "6.jpg", "alt": ""},
        {"url": "7.jpg"},
        {"url": "../8.jpg", "alt": "eight &amp; more"},
        other,
    )
    slow = parsed(monkeypatch)
    found, counts = by_rows([record(content)], Wanted())
    assert not slow
    assert {f[1:4] for f in found} == {
        ("http://e.example/1.jpg", "one", "one"),
        ("https://shop.example/2.jpg?w=3", "two ñ 椅子", "two ñ 椅子"),
        ("https://shop.example/a/3.jpg", "three", "three"),
        ("https://cdn.example/4.jpg", "four", "four"),
        ("https://shop.example/8.jpg", "eight &amp; more", "eight & more"),
    }
    assert counts == {"in": 8, "dropped:scheme": 1, "dropped:no_text": 2, "pages": 1}
    assert {f[4:6] for f in found} == {("Chairs", PAGE)}


@pytest.mark.parametrize(
    "content",
    [
        images({"url": "1.jpg", "alt": "x"})
        .replace(b'"path":"IMG@/src","url"', b'"url"')
        .replace(b'"alt":"x"', b'"alt":"x","path":"IMG@/src"'),
        images({"url": "1.jpg", "alt": "x"}, {"path": "A@/href", "url": 'a"}]'}),
        images({"url": "1.jpg", "alt": "x"}, {"path": "A@/href", "n": 1}),
        images({"url": "1.jpg", "alt": "x"}, {"path": "A@/href", "n": [{"a": "b"}]}, {"path": "A@/href", "url": "x"}),
        images(
            {"url": 1, "alt": "x"},
            {"url": {}, "alt": "y"},
            {"url": "z.jpg", "alt": ["z"]},
            {"url": None, "alt": "n"},
            {"url": [], "alt": None},
        ),
        images({"url": "1.jpg", "alt": "x\ud800"}, {"url": "2\u0000.jpg", "alt": "y"}),
        images({"url": "1.jpg", "alt": "x"}).replace(b'"x"', b'"\xff"'),
        images({"url": "1.jpg", "alt": "x"}).replace(b"Chairs", b"\xff"),
        images({"url": "1.jpg", "alt": "x"}, Title="a\nb &amp; c", Base="//cdn.example/d/"),
        images({"url": "1.jpg", "alt": "x"}, Title=7, Base=["/"]),
        images({"url": "1.jpg", "alt": "x"}, Metas=[{"name": "robots", "content": "noai"}]),
        images({"url": "1.jpg", "alt": "x"}, Metas=[{"Name": "x"}, {"name": "HTML@/lang", "content": "de"}]),
        images({"url": "1.jpg", "alt": "x"}, Metas=[{"http-equiv": "Content-Language", "content": "en, fr"}]),
        images({"url": "1.jpg", "alt": "x"}, Metas={"name": "robots"}),
        images({"url": "1.jpg", "alt": "x"}).replace(b'"Server":"x"', b'"x-Robots-TAG":["noindex","noai"]'),
        images({"url": "1.jpg", "alt": "x"}).replace(b'"Server":"x"', b'"content-languag\\u0065":"nl"'),
        images({"url": "1.jpg", "alt": "x"}, {"url": "@", "alt": "y"}).replace(b'"@"', b"[" * 20000 + b"]" * 20000),
        images({"url": "1.jpg", "alt": "x"})[:-20],
        images({"url": "1.jpg", "alt": "x"})[: -len('"x"}]}}}}}') + 2],
        images({"url": "1.jpg", "alt": "x"}).replace(b":", b" : ").replace(b",", b" ,\n"),
        images({"url": "1.jpg", "alt": '"IMG@/src"'}),
        images({"path": "A@/href", "url": "IMG@/src"}),
        images(),
        page_json([("1.jpg", "x")]),
        b'{"IMG@/src":1}',
        b'["IMG@/src"]',
        b'"IMG@/src',
        b"IMG@/src",
    ],
)
@pytest.mark.parametrize("page", [PAGE, "dns:shop.example", "http://b\u00fccher.example/ \u00fc/x"])
def test_records_of_every_build(content: bytes, page: str) -> None:
    for wanted in (Wanted(), Wanted("image_only"), Wanted(opted_out=True)):
        same([record(content, page)], wanted)


# Bits of addresses and of alt texts, put together in every way.
SIGNS = list("/.:;?#&=@[]\\\"<>'-_~% \n")
STARTS = ["http://", "https://", "HTTP://", "//", "/.", "data:", "ftp:", "e.example"]
ADDRESSES = st.lists(st.sampled_from([*STARTS, *SIGNS, "a", "B", "9", "é", "\u3000"]), max_size=7).map("".join)
SPACES = list("\x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000")
OTHERS = list("\u200b\u3001\x00\x7f\ud800é椅\U0001f600")
ALTS = st.lists(st.sampled_from(["&amp;", "&amp", "  ", "Bc", *'a \t\n&;"\\/', *SPACES, *OTHERS]), max_size=6).map("".join)
PAGES = [PAGE, "http://h.example", "http://h.example/x//y/../z;p?q#f"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(ADDRESSES, ALTS), max_size=6),
    st.sampled_from(PAGES),
    st.booleans(),
)
@example([("http://a.b/", "x")], PAGE, True)
@example([("a//b", "x"), ("a?", "x"), ("?", "y"), ("a#", "x"), ("/./a", "z"), ("a:b", "x"), ("http:/a.b/c", "x")], PAGE, True)
def test_links_of_every_spelling(links: list[tuple[str, str]], page: str, raw: bool) -> None:
    content = images(*({"url": url, "alt": alt} for url, alt in links))
    if raw:  # as the extractor writes it: whatever is no control character stands as itself
        content = json.dumps(json.loads(content), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    for wanted in (Wanted(), Wanted("image_only")):
        same([record(content, page)], wanted)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_records(data: st.DataObject) -> None:
    """Compiled code never reads beyond a record, and where Python parses what is left, both say the same."""
    content = bytearray(
        images({"url": "1.jpg", "alt": "one"}, {"path": "A@/href", "url": "x"}, {"url": "/2.jpg", "alt": "two"})
    )
    content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 2))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'"\\{}[],: x\x00\xff'))
    one = [record(bytes(content))]
    found, counts = by_rows(one, Wanted())
    expected, theirs = by_python(one, Wanted())
    if not theirs["bad"]:
        # Of damage in other links only Python takes notice.
        assert (found, counts) == (expected, theirs)


def test_a_batch_is_full_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walked, "ROWS", 40)
    collected, taken = Rows(Wanted()), []
    for n in range(30):
        links = [{"url": f"{n}-{k}.jpg", "alt": f"picture {n} {k}" + "&amp;" * (k == 3)} for k in range(5)]
        collected.add_wat(record(images(*links), f"https://shop.example/{n}/"))
        if collected.full:
            taken.append(collected.take())
    taken.append(collected.take())
    assert [len(t) for t in taken] == [40, 40, 40, 30]
    urls = {(r["url"], r["page_url"]) for t in taken for r in t.to_pylist()}
    assert urls == {
        (f"https://shop.example/{n}/{n}-{k}.jpg", f"https://shop.example/{n}/") for n in range(30) for k in range(5)
    }
    monkeypatch.setattr(walked, "BYTES", 3000)
    collected = Rows(Wanted())
    assert not collected.full
    collected.add_wat(record(images({"url": "1.jpg", "alt": "x" * 3000})))
    assert collected.full


def test_a_record_too_large_to_be_walked_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walked, "LARGEST", 2000)
    slow = parsed(monkeypatch)
    found, _ = by_rows(
        [record(images({"url": "1.jpg", "alt": "x" * 3000})), record(images({"url": "2.jpg", "alt": "y"}))], Wanted()
    )
    assert len(slow) == 1
    assert len(found) == 2


def test_a_page_that_objects_gives_nothing_and_leaves_nothing_behind() -> None:
    objecting = record(
        images({"url": "1.jpg", "alt": "x"}, {"url": "1.jpg"}, Metas=[{"name": "robots", "content": "noimageai"}])
    )
    fine = record(images({"url": "2.jpg", "alt": "y"}))
    found, counts = same([fine, objecting, fine])
    assert {f[1] for f in found} == {"https://shop.example/a/2.jpg"}
    assert counts == {"in": 4, "dropped:opt_out": 2, "pages": 3}


def test_the_tables_of_characters_are_those_of_the_patterns() -> None:
    """A path or query that compiled code passes, `urls` passes unchanged, for each byte at each place."""
    for octet in range(1, 127):
        c = chr(octet)
        same(
            [
                record(
                    images(
                        *(
                            {"url": u.replace("@@", c), "alt": "x"}
                            for u in (
                                "http://a@@.example/",
                                "http://a.example/@@b",
                                "/@@a",
                                "/a@@",
                                "@@a",
                                "a@@b",
                                "a?@@",
                                "//a.@@b/",
                            )
                        )
                    )
                )
            ]
        )


def python_only(monkeypatch: pytest.MonkeyPatch, few: int = 1 << 30) -> None:
    """Of the next files, compiled code only goes through what lies behind so many records."""
    monkeypatch.setattr(scan, "_WALKED", "no such module")
    monkeypatch.setattr(scan, "_FEW", few)


WORDS = st.sampled_from(
    ["", "en", "de-CH", " fr ", "a&amp;b", "noai", "index, NoImageIndex", "nofollow", "other: noai", "\u2019", "é"]
)
KEYS = st.sampled_from(
    ["name", "http-equiv", "content", "property", "HTML@/lang", "html@/LANG", "html`/lang", "robots", " Robots", "winnow", "x"]
)
METAS = st.lists(
    st.one_of(
        st.dictionaries(st.sampled_from(["name", "http-equiv", "content", "property"]), st.one_of(KEYS, WORDS), max_size=4),
        st.builds(lambda name, said: {"name": name, "content": said}, KEYS, st.one_of(WORDS, st.none(), st.just(3))),
        st.builds(lambda said: {"http-equiv": "Content-Language", "content": said}, WORDS),
        st.just("no object"),
    ),
    max_size=4,
)
HEADERS = st.dictionaries(
    st.sampled_from(["Server", "Content-Language", "content-language", "X-Robots-Tag", "x-ROBOTS-tag", "Vary"]),
    st.one_of(WORDS, st.just("Content-Language"), st.lists(WORDS, max_size=2), st.none()),
    max_size=3,
)
TITLES = st.sampled_from([None, "", " ", "A title", "A  title", "Ö — 椅子", "a &lt; b", "x\u0000y"])
SITES = ["http://h.example/", "https://h.example/a/b?c=d/e", "http://h.example/a//b", "http://H.example/", "http://localhost/x"]


@st.composite
def records_of_a_page(draw: st.DrawFn) -> list[bytes]:
    uri = draw(st.sampled_from(SITES))
    links: list[Any] = draw(st.lists(st.sampled_from([("1.jpg", "x"), ("/2.jpg",), ("../3.jpg", "z"), ("d.jpg", "a &amp; b")])))
    page = wats.page(
        uri,
        [*links, ("last.jpg", "one")],
        metas=draw(METAS),
        headers=draw(HEADERS),
        title=draw(TITLES),
        base=draw(st.sampled_from([None, None, "", "/base/", "x"])),
    )
    found = [
        wats.detection(u, *codes) for u, codes in draw(st.lists(st.tuples(st.sampled_from([uri, SITES[0]]), CODES), max_size=2))
    ]
    return [page, *draw(st.permutations([*found, wats.request(uri)]))]


CODES = st.sampled_from([(), ("es",), ("un",), ("un", "pt"), ("zh-Hant", "en"), ("a",), ("xxxxxxxxxxxxxxxx",)])


@settings(max_examples=150, deadline=None)
@given(st.lists(records_of_a_page(), min_size=1, max_size=4), st.booleans(), st.integers(0, 12), st.integers(1, 12))
def test_pages_of_every_kind(pages: list[list[bytes]], opted_out: bool, few: int, rows: int) -> None:
    """A file gives the same by Python, by compiled code, by one behind the other, and in batches of any size."""
    file, wanted = packed(*(record for page in pages for record in page)), Wanted(opted_out=opted_out)
    with pytest.MonkeyPatch.context() as patch:
        python_only(patch)
        expected = by_file(file, wanted)
    assert by_file(file, wanted) == expected
    with pytest.MonkeyPatch.context() as patch:
        python_only(patch, few)
        patch.setattr(walked, "ROWS", rows)
        assert by_file(file, wanted) == expected


@pytest.mark.parametrize("limit", [("ROWS", 3), ("BYTES", 20), ("PAGES", 2), ("PAGE_BYTES", 30)])
def test_batches_of_compiled_code_are_bounded(monkeypatch: pytest.MonkeyPatch, limit: tuple[str, int]) -> None:
    records = [wats.page(f"http://h.example/{n}/", [("1.jpg", f"number {n}"), ("2.jpg", "x")], title="T") for n in range(9)]
    monkeypatch.setattr(walked, *limit)
    batches = [len(b) for b in Scan("file", io.BytesIO(packed(*records)), Wanted()).batches()]
    assert sum(batches) == 18
    assert 2 <= max(batches) <= 4


@pytest.mark.parametrize("where", range(0, 153, 6))
def test_headers_of_every_kind(monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    """What compiled code makes of a record's header is what Python makes of it, whatever byte is another."""
    whole = wats.page("http://h.example/", [("1.jpg", "x")])
    assert whole.index(b"\r\n\r\n") in range(149, 155)
    for octet in b"\r\n :A<z0\xff":
        damaged = bytearray(whole)
        damaged[where] = octet
        file = packed(
            wats.page("http://a.example/", [("0.jpg", "y")]), bytes(damaged), whole, wats.detection("http://h.example/", "es")
        )
        found = Scan("file", io.BytesIO(file), Wanted())
        rows = [r for batch in found.batches() for r in batch.to_pylist()]
        with pytest.MonkeyPatch.context() as patch:
            python_only(patch)
            expected = Scan("file", io.BytesIO(file), Wanted())
            assert rows == [r for batch in expected.batches() for r in batch.to_pylist()]
        assert found.outcome() == expected.outcome()


def test_no_image_takes_fewer_bytes_than_room_is_made_for() -> None:
    smallest = json.dumps({"path": "IMG@/src"}, separators=(",", ":"))
    assert len(smallest) == walk.SMALLEST
