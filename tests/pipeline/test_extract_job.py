"""The extract job on files one can look through: which rows, which counts, and what damage leaves of them."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.extract.job import Settings, Text
from pipeline.extract.page import Documents
from pipeline.extract.scan import COUNTS
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome
from pools.schema import CANDIDATES
from tests.pipeline import wats
from tests.pipeline.extracting import by_alt, candidates, left_behind, order, rows, run, splitmix

A, B = "http://e.example/a", "http://e.example/b"
IMAGE = "http://i.example/1.jpg"


def one(tmp_path: Path, *records: bytes, settings: Settings = Settings(), name: str = "a.wat.gz") -> Outcome:  # noqa: B008
    """The job on one file with these records, into `tmp_path/out`, whatever was there."""
    return run(wats.write(tmp_path / name, records), tmp_path / "out", settings, overwrite=True)


def seen(outcome: Outcome) -> dict[str, int]:
    return {name: n for name, n in outcome.counts.items() if n}


# Rows -----------------------------------------------------------------------------------------------------------------


def test_a_wat_becomes_candidates(tmp_path: Path) -> None:
    links = [("red.jpg", "a red\nchair"), ("red.jpg", "a red\nchair"), ("data:,", "x"), ("b.jpg", "")]
    page = wats.page("http://shop.example/a/", links, title="Chairs", headers={"Content-Language": "en"})
    outcome = one(tmp_path, page, name="CC-MAIN-2025-33/CC-MAIN-20250801000000-00007.warc.wat.gz")
    assert outcome == Outcome(
        dict.fromkeys(COUNTS, 0)
        | {"in": 4, "kept": 1, "dropped:no_text": 1, "dropped:scheme": 1, "dropped:duplicate": 1, "records": 1, "pages": 1}
    )
    assert Pool.open(str(tmp_path / "out")).stems == ("00000",)
    table = candidates(tmp_path / "out")
    assert table.schema == CANDIDATES.schema
    assert table.to_pylist() == [
        {
            "uid": "6534f59f3a29d346de1a9fcdca95fee6",  # printf 'a red\nchairhttp://shop.example/a/red.jpg' | md5sum
            "url": "http://shop.example/a/red.jpg",
            "text": "a red chair",
            "alt": "a red\nchair",
            "page_title": "Chairs",
            "page_url": "http://shop.example/a/",
            "content_language": "en",
            "opt_out": None,
            "crawl": "CC-MAIN-2025-33",
            "source_file": "CC-MAIN-20250801000000-00007.warc.wat.gz",
        }
    ]


def test_the_crawl_is_null_where_the_path_does_not_name_it(tmp_path: Path) -> None:
    one(tmp_path, wats.numbered(1), name="CC-MAIN-20250801000000-00007.warc.wat.gz")
    assert rows(tmp_path / "out")[0]["crawl"] is None


def test_rows_are_in_the_order_of_a_hash_of_their_uids(tmp_path: Path) -> None:
    one(tmp_path, *(wats.numbered(i) for i in range(50)))
    found = [row["uid"] for row in rows(tmp_path / "out")]
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the first number of the published generator
    assert found == sorted(found, key=order)
    assert found != sorted(found)


# T06
def test_a_pair_is_written_once_and_the_first_file_record_and_link_has_it(tmp_path: Path) -> None:
    def page(name: str, *alts: str) -> bytes:
        return wats.page(f"http://e.example/{name}", [(IMAGE, alt) for alt in alts], title=name)

    wats.write(
        tmp_path / "in/x/1.wat.gz", [page("1a", "a dog", "a dog", "A dog"), page("1b", "my dog", "a dog"), page("1c", "my dog")]
    )
    wats.write(tmp_path / "in/y/1.wat.gz", [page("2a", "a dog", "my dog", "a dog "), page("2b", "our dog")])
    wats.write(tmp_path / "in/0.wat", [page("0a", "our dog")])
    outcome = run(tmp_path / "in", tmp_path / "out")
    assert by_alt(tmp_path / "out", "page_title") == {
        "a dog": "1a",
        "A dog": "1a",
        "my dog": "1b",
        "a dog ": "2a",
        "our dog": "0a",
    }
    assert by_alt(tmp_path / "out", "source_file")["our dog"] == "0.wat"
    assert by_alt(tmp_path / "out", "page_url")["my dog"] == "http://e.example/1b"
    assert seen(outcome) == {"in": 11, "kept": 5, "dropped:duplicate": 6, "records": 6, "pages": 6}


def test_the_first_page_has_it_also_where_the_second_writes_the_same_address_more_plainly(tmp_path: Path) -> None:
    def page(name: str, address: str) -> bytes:
        return wats.page(f"http://e.example/{name}", [(address, "a dog")], title=name)

    for address in ("http://i.example/1.jpg?a=1&amp;b=2", " http://i.example/1.jpg?a=1&b=2"):
        one(tmp_path, page("first", address), page("second", "http://i.example/1.jpg?a=1&b=2"))
        assert [(row["url"], row["page_title"]) for row in rows(tmp_path / "out")] == [
            ("http://i.example/1.jpg?a=1&b=2", "first")
        ]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_warc_of_html_gives_the_rows_that_its_wat_gives(tmp_path: Path, name: str) -> None:
    links = {
        A: [("1.jpg", "one & two"), ("2.jpg", ""), ("data:,", "x")],
        B: [("http://i.example/3.jpg", "ñ 狗"), ("1.jpg", "one & two")],
    }
    wat = [wats.page(url, found, title="T", headers={"Content-Language": "es"}) for url, found in links.items()]
    warc = [wats.response(url, found, title="T", head="Content-Language: es\r\n") for url, found in links.items()]
    counts = one(tmp_path, *wat)
    expected = candidates(tmp_path / "out").drop_columns("source_file")
    assert len(expected) == 2
    request = wats.warc_record(b"GET / HTTP/1.1\r\n\r\n", uri=A, kind="request", media="application/http; msgtype=request")
    assert one(tmp_path, request, *warc, name=name) == counts
    assert candidates(tmp_path / "out").drop_columns("source_file") == expected
    assert {row["source_file"] for row in rows(tmp_path / "out")} == {name}
    objecting = [wats.response(A, links[A], head="X-Robots-Tag: noai\r\n"), warc[1]]
    assert seen(one(tmp_path, *objecting, name=name)) == {"in": 5, "kept": 2, "dropped:opt_out": 3, "records": 2, "pages": 2}


# T04, T05, T12, T15, T16, T18
@pytest.mark.parametrize(
    ("links", "texts", "counts"),
    [
        (
            [("data:image/png;base64,AAAA", "a"), ("javascript:void(0)", "b"), ("", "c")],
            [],
            {"in": 3, "dropped:scheme": 2, "dropped:empty_url": 1},
        ),
        ([("1.jpg",), ("2.jpg", ""), ("3.jpg", "   "), ("4.jpg", "0")], ["0"], {"in": 4, "dropped:no_text": 3, "kept": 1}),
        (None, [], {}),
        ([], [], {}),
        ([("1.jpg", "CLR® stain – 50%")], ["CLR® stain – 50%"], {"in": 1, "kept": 1}),
        ([("1.jpg", "a\x00b\ud83d"), ("2.jpg", "c")], ["a\ufffdb\ufffd", "c"], {"in": 2, "kept": 2}),
        ([({"a": 1}, "x"), (5, "y"), ("1.jpg", ["z"]), ("2.jpg", "w")], ["w"], {"in": 4, "dropped:bad_link": 3, "kept": 1}),
        ([("http://a b\x7f[/1.jpg", "x")], [], {"in": 1, "dropped:bad_url": 1}),
    ],
    ids=["T04", "T05", "T12-null", "T12", "T15", "T16", "T18", "bad url"],
)
def test_links_of_all_kinds_are_rows_or_counted(
    tmp_path: Path, links: list[wats.Link] | None, texts: list[str], counts: dict[str, int]
) -> None:
    outcome = one(tmp_path, wats.page(A, links))
    assert sorted(row["text"] for row in rows(tmp_path / "out")) == sorted(texts)
    assert seen(outcome) == counts | {"records": 1} | ({"pages": 1} if counts else {})


def test_a_file_without_candidates_gives_an_empty_table(tmp_path: Path) -> None:
    for records in ([wats.request(A)], [wats.page(A, [("1.jpg", "")])]):
        outcome = one(tmp_path, *records)
        assert (outcome.counts["kept"], outcome.problems) == (0, ())
        table = candidates(tmp_path / "out")
        assert (len(table), table.schema) == (0, CANDIDATES.schema)


# T12
@pytest.mark.parametrize(
    "payload", [b"{}", b'{"Payload-Metadata":{"HTTP-Response-Metadata":{"Headers":{"Content-Type":"image/png"}}}}']
)
def test_a_record_of_no_page_gives_no_rows_and_no_error(tmp_path: Path, payload: bytes) -> None:
    assert seen(one(tmp_path, wats.warc_record(b'{"Envelope":' + payload + b"}"))) == {"records": 1}


# What is asked for ----------------------------------------------------------------------------------------------------


# T07, T08
def test_pages_that_object_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    said: dict[str, dict[str, Any]] = {
        "meta": {"metas": [{"name": "robots", "content": "noimageai"}]},
        "header": {"headers": {"X-Robots-Tag": "noai"}},
        "list": {"headers": {"X-Robots-Tag": ["noindex", "noai"]}},
        "other": {"headers": {"X-Robots-Tag": "otherbot: noai"}},
        "none": {},
    }
    # Those with a link that is no row either: what is dropped for one reason is counted for no other.
    records = [wats.page(f"{A}/{name}", [("1.jpg", name), ("2.jpg", "")], **more) for name, more in said.items()]
    outcome = one(tmp_path, *records)
    assert by_alt(tmp_path / "out", "opt_out") == {"other": None, "none": None}
    assert seen(outcome) == {"in": 10, "kept": 2, "dropped:opt_out": 6, "dropped:no_text": 2, "records": 5, "pages": 5}
    outcome = one(tmp_path, *records, settings=Settings(opted_out=True))
    assert by_alt(tmp_path / "out", "opt_out") == {
        "meta": "noimageai",
        "header": "noai",
        "list": "noai,noindex",
        "other": None,
        "none": None,
    }
    assert seen(outcome) == {"in": 10, "kept": 5, "dropped:no_text": 5, "records": 5, "pages": 5}


@pytest.mark.parametrize(
    ("documents", "alts"),
    [
        ("image", ["a picture"]),
        ("image_only", ["", "a picture"]),
        ("audio", ["a song", ""]),
        ("video", ["a film"]),
        ("text", ["a book"]),
    ],
)
def test_links_of_one_kind_are_wanted(tmp_path: Path, documents: Documents, alts: list[str]) -> None:
    others = [
        {"path": "A@/href", "url": url, "text": text}
        for url, text in [
            ("s.mp3", "a song"),
            ("t.OGG?x=1", None),
            ("f.webm", "a film"),
            ("b.pdf#p2", "a book"),
            ("m.mp3.html", "a page"),
        ]
    ]
    page = wats.page(A, [("1.jpg", "a picture"), ("2.jpg", "")], others=others)
    outcome = one(tmp_path, page, settings=Settings(documents))
    assert sorted(row["alt"] for row in rows(tmp_path / "out")) == sorted(alts)
    assert {row["text"] for row in rows(tmp_path / "out")} == set(alts)
    missing = {"dropped:no_text": 1} if documents == "image" else {}
    assert seen(outcome) == {"in": len(alts) + len(missing), "kept": len(alts), "records": 1, "pages": 1, **missing}


def test_the_text_is_the_alt_the_title_or_both_and_nothing_else_changes(tmp_path: Path) -> None:
    records = [
        wats.page(A, [("1.jpg", " a &amp; b "), ("2.jpg", "")], title=" T &lt; "),
        wats.page(B, [("3.jpg", "c"), ("4.jpg", "")]),
    ]
    texts: dict[Text, list[str]] = {
        "alt": ["a & b", "", "c", ""],
        "title": ["T <", "T <", "", ""],
        "both": ["a & b T <", "T <", "c", ""],
    }
    tables = {}
    for text, wanted in texts.items():
        one(tmp_path, *records, settings=Settings("image_only", text))
        tables[text] = candidates(tmp_path / "out").drop_columns("text")
        found = {row["url"]: row["text"] for row in rows(tmp_path / "out")}
        assert [found[f"http://e.example/{n}.jpg"] for n in range(1, 5)] == wanted
    assert tables["alt"] == tables["title"] == tables["both"]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"documents": "pictures"}, "--documents"), ({"text": "caption"}, "--text"), ({"parts": 0}, "--parts")],
)
def test_settings_that_are_none_are_refused(wrong: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as told:
        Settings(**wrong)
    assert told.value.where == where


# Languages ------------------------------------------------------------------------------------------------------------


def languages(tmp_path: Path, *records: bytes) -> dict[str, str | None]:
    """{alt: content_language} of a WAT with these records, none of which is bad."""
    outcome = one(tmp_path, *records)
    assert (outcome.counts["bad_record"], outcome.counts["records"]) == (0, len(records))
    return by_alt(tmp_path / "out", "content_language")


@pytest.mark.parametrize("many", [1 << 15, 1])
def test_the_detected_language_is_that_of_the_page_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("pipeline.extract.rows.MANY", many)  # of 1: each page is a batch
    a, b = (wats.page(u, [("1.jpg", f"{u[-1]} 1"), ("2.jpg", f"{u[-1]} 2")]) for u in (A, B))
    found = wats.detection(A, "es", "en")
    assert languages(tmp_path, wats.request(A), a, found, wats.request(B), b) == {
        "a 1": "es",
        "a 2": "es",
        "b 1": None,
        "b 2": None,
    }
    assert set(languages(tmp_path, a, b, found).values()) == {None}  # another page came between
    assert set(languages(tmp_path, a, wats.detection(B, "es")).values()) == {None}  # it is of another page
    assert set(languages(tmp_path, found, a).values()) == {None}
    assert set(languages(tmp_path, a, wats.page(A, None), found).values()) == {"es"}
    # The first that names a language counts.
    assert set(languages(tmp_path, a, wats.detection(A), found, wats.detection(A, "fr")).values()) == {"es"}
    assert languages(tmp_path, a, found, b, wats.detection(B, "fr")) == {"a 1": "es", "a 2": "es", "b 1": "fr", "b 2": "fr"}


def test_a_page_that_was_read_twice_has_each_time_its_own_language(tmp_path: Path) -> None:
    first, second = (wats.page(A, [(f"{n}.jpg", n)]) for n in ("one", "two"))
    assert languages(tmp_path, first, wats.detection(A, "es"), wats.request(A), second, wats.detection(A, "fr")) == {
        "one": "es",
        "two": "fr",
    }


def test_what_the_page_says_goes_before_what_was_detected(tmp_path: Path) -> None:
    said: dict[str, dict[str, Any]] = {
        "html": {"metas": [{"name": "HTML@/lang", "content": "pt"}]},
        "meta": {"metas": [{"http-equiv": "content-language", "content": "ja"}]},
        "header": {"headers": {"Content-Language": "fr"}},
        "nothing": {"metas": [{"name": "HTML@/lang", "content": " "}]},
    }
    records = [
        record
        for name, more in said.items()
        for record in (wats.page(f"{A}/{name}", [("1.jpg", name)], **more), wats.detection(f"{A}/{name}", "es"))
    ]
    assert languages(tmp_path, *records) == {"html": "pt", "meta": "ja", "header": "fr", "nothing": "es"}


@pytest.mark.parametrize("value", ["{", "", 5, '{"languages":[]}'])
def test_a_broken_detection_is_no_bad_record(tmp_path: Path, value: Any) -> None:
    assert languages(tmp_path, wats.page(A, [("1.jpg", "x")]), wats.detection(A, value=value)) == {"x": None}


# Damage ---------------------------------------------------------------------------------------------------------------


# T10
def test_every_member_of_a_file_is_read(tmp_path: Path) -> None:
    outcome = one(tmp_path, *(wats.numbered(i) for i in range(300)))
    assert seen(outcome) == {"in": 300, "kept": 300, "records": 300, "pages": 300}


# T09
def test_a_cut_file_gives_its_rows_and_a_problem_with_the_offset(tmp_path: Path) -> None:
    packed = wats.members(wats.numbered(i) for i in range(5))
    start = sum(map(len, packed[:3]))
    wat = tmp_path / "cut.wat.gz"
    wat.write_bytes(b"".join(packed)[: start + len(packed[3]) // 2])
    outcome = run(wat, tmp_path / "out")
    assert by_alt(tmp_path / "out", "text").keys() == {"picture 0", "picture 1", "picture 2"}
    (problem,) = outcome.problems
    assert problem.startswith(f"{wat}: truncated at byte {start + len(packed[3]) // 2}")
    assert problem.endswith(f"begins at byte {start}")
    assert outcome.counts["records"] == 3


# T11
def test_damaged_records_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    wrong = wats.warc_record(wats.page_json([("w.jpg", "lost")]), length=7)
    broken = wats.warc_record(b'{"Envelope": {"path": "IMG@/src", ')
    outcome = one(tmp_path, wats.numbered(0), wrong, wats.numbered(1), broken, b"<html>503</html>", wats.numbered(2))
    assert by_alt(tmp_path / "out", "text").keys() == {"picture 0", "picture 1", "picture 2"}
    assert (outcome.counts["bad_record"], outcome.problems) == (3, ())


def test_damaged_gzip_data_are_a_problem_each_up_to_ten(tmp_path: Path) -> None:
    packed = [bytearray(m) for m in wats.members(wats.numbered(i) for i in range(26))]
    for member in packed[1::2]:
        member[-6] ^= 0xFF
    (tmp_path / "a.wat.gz").write_bytes(b"".join(packed))
    outcome = run(tmp_path / "a.wat.gz", tmp_path / "out")
    assert (outcome.counts["kept"], outcome.counts["bad_record"]) == (13, 13)
    assert outcome.problems[0].startswith(f"{tmp_path}/a.wat.gz: damaged gzip data")
    assert outcome.problems[0].endswith(f"begins at byte {len(packed[0])}")
    assert outcome.problems[10:] == (f"{tmp_path}/a.wat.gz: 3 more damaged places",)


# T11
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<html>503 slow down</html>", "no WARC record"),
        (gzip.compress(b"<html>503 slow down</html>", mtime=0), "no WARC record"),
        (b"", "no WARC record"),
        (b"PK\x03\x04" + bytes(5000), "no WARC record"),
        (wats.warc_record(b"Some text", kind="conversion"), "records of type conversion"),
    ],
)
def test_what_is_no_archive_is_named_and_leaves_nothing(tmp_path: Path, content: bytes, what: str) -> None:
    wat = tmp_path / "a.wat.gz"
    wat.write_bytes(content)
    with pytest.raises(InputError, match=what) as error:
        run(wat, tmp_path / "out")
    assert error.value.where == str(wat)
    assert [p.name for p in (tmp_path / "out").iterdir()] == [".winnow"]
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_row_set_of_a_finished_job_is_all_that_is_left(tmp_path: Path) -> None:
    one(tmp_path, wats.numbered(1))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        ".winnow",
        "00000.parquet",
        "_manifest.json",
        "_sources.jsonl",
    ]
    assert left_behind(tmp_path) == []


# Published files ------------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # Links and links with alt as counted by those who collected the files.
        ("wat/wat-18.warc", {"records": 17, "in": 108, "dropped:no_text": 108 - 88}),
        ("wat/whirlwind.warc.wat", {"records": 1, "in": 0, "kept": 0}),
        ("wat/whirlwind.warc.wat.gz", {"records": 1, "in": 0, "kept": 0}),
        ("wat-generated/archive-org-2008.warc.wat.gz", {"in": 844, "dropped:no_text": 844 - 666, "kept": 99}),
        ("wat-generated/books.toscrape.warc.wat.gz", {"in": 20, "kept": 20, "bad_record": 0}),
    ],
)
def test_published_wats_give_the_known_counts(shared_data: Path, tmp_path: Path, name: str, counts: dict[str, int]) -> None:
    outcome = run(shared_data / name, tmp_path / "out")
    assert {key: outcome.counts[key] for key in counts} == counts


@pytest.mark.shared
def test_the_crawlers_own_detection_is_read_where_the_page_says_nothing(shared_data: Path, tmp_path: Path) -> None:
    wat = gzip.decompress((shared_data / "wat-generated" / "whirlwind.warc.wat.gz").read_bytes())
    for content, language in ((wat, "an"), (wat.replace(b'"content-language":"an"', b'"content-languagf":"an"'), "es")):
        (tmp_path / "a.wat").write_bytes(content.replace(b'"HTML@/lang"', b'"HTML@/lanf"'))
        outcome = run(tmp_path / "a.wat", tmp_path / "out", overwrite=True)
        assert outcome.counts["kept"] > 0
        assert {row["content_language"] for row in rows(tmp_path / "out")} == {language}


@pytest.mark.shared
def test_the_rows_of_a_page_are_its_images(shared_data: Path, tmp_path: Path) -> None:
    run(shared_data / "wat-generated" / "books.toscrape.warc.wat.gz", tmp_path / "out")
    found = rows(tmp_path / "out")
    # The page itself, from the WARC that the WAT was made of.
    page = (shared_data / "warc" / "books.toscrape.warc").read_bytes().decode("utf-8", "replace")
    images = re.findall(r'<img src="(media/[^"]+)" alt="([^"]+)"', page)
    assert len(images) == 20
    assert sorted((row["url"], row["text"]) for row in found) == sorted(
        (f"http://books.toscrape.com/{src}", html.unescape(alt)) for src, alt in images
    )
    assert {(row["opt_out"], row["content_language"]) for row in found} == {(None, "en-us")}


def named_in(wat: bytes) -> int:
    """Images that the JSON lines of an unpacked WAT name."""
    found = 0
    for line in re.split(rb"\r?\n", wat):
        if line.startswith(b"{") and b'"Envelope"' in line:
            page = json.loads(line)["Envelope"].get("Payload-Metadata", {}).get("HTTP-Response-Metadata", {})
            links: Sequence[Any] = page.get("HTML-Metadata", {}).get("Links", ())
            found += sum(link.get("path") == "IMG@/src" for link in links)
    return found


@pytest.mark.shared
@pytest.mark.parametrize(
    "patterns",
    [("wat/*.warc.wat", "wat/wat*.warc"), ("wat/*.wat.gz",), ("wat-generated/*.warc.wat.gz",), ("wat-generated/*.arc.wat.gz",)],
    ids=str,
)
def test_every_published_wat_is_accounted_for(shared_data: Path, tmp_path: Path, patterns: Sequence[str]) -> None:
    files = [file for pattern in patterns for file in shared_data.glob(pattern)]
    outcome = run([shared_data / pattern for pattern in patterns], tmp_path / "out", Settings(opted_out=True))
    assert outcome.problems == ()
    links = [named_in(gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes()) for f in files]
    found = [row["uid"] for row in rows(tmp_path / "out")]
    assert (outcome.counts["in"], outcome.counts["kept"]) == (sum(links), len(found))
    assert len(set(found)) == len(found)
    told = [json.loads(line) for line in (tmp_path / "out" / "_sources.jsonl").read_text().splitlines()]
    assert {line["source"]: line["counts"]["in"] for line in told} == dict(zip(map(str, files), links, strict=True))
