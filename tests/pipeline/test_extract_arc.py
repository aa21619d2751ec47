"""ARC files, read as WARC files are: whole and damaged."""

from __future__ import annotations

import gzip
import io
import itertools
from pathlib import Path

import pytest

from pipeline.archive import Archive
from pipeline.extract import markup, warc
from pipeline.extract.page import Wanted
from pipeline.extract.warc import Damage, Record

BLOCK = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n"
BLOCK_2 = b"2 0 Test\nURL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length\n"
URLS = [f"http://e.example/page{i}.html" for i in range(5)]


def filedesc(block: bytes = BLOCK) -> bytes:
    return b"filedesc://test.arc 0.0.0.0 20080430204825 text/plain %d\n%b\n" % (len(block), block)


def document(url: str, body: bytes = b"<img src=i.jpg alt=chair>", *, length: int | str | None = None, line: str = "") -> bytes:
    """A response as version 1 has it; `line` in place of what stands between the address and the length."""
    content = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    between = line or "192.0.2.7 20080430204825 text/html"
    return f"{url} {between} {len(content) if length is None else length}\n".encode() + content + b"\n"


RECORDS = [filedesc(), *map(document, URLS)]


def packed(records: list[bytes]) -> bytes:
    return b"".join(gzip.compress(r, mtime=0) for r in records)


def read(data: bytes) -> list[Record | Damage]:
    return list(warc.read(io.BytesIO(data)))


def summary(data: bytes) -> list[str]:
    return [r.target if isinstance(r, Record) else r.kind for r in read(data)]


@pytest.mark.parametrize("pack", [b"".join, packed, lambda records: gzip.compress(b"".join(records))])
def test_plain_and_packed_files_read_alike(pack: object) -> None:
    assert callable(pack)
    first, *others = read(pack(RECORDS))
    assert isinstance(first, Record)
    assert (first.type, first.target, first.content) == ("warcinfo", "filedesc://test.arc", BLOCK)
    assert [r.target for r in others if isinstance(r, Record)] == URLS
    one = others[0]
    assert isinstance(one, Record)
    assert one.type == "response"
    assert one.headers == {
        "warc-type": "response",
        "warc-target-uri": URLS[0],
        "warc-ip-address": "192.0.2.7",
        "warc-date": "2008-04-30T20:48:25Z",
        "content-type": "text/html",
        "content-length": str(len(one.content)),
    }
    assert one.content.endswith(b"\r\n\r\n<img src=i.jpg alt=chair>")


def test_a_page_gives_its_candidates() -> None:
    _, record = read(b"".join(RECORDS[:2]))
    assert isinstance(record, Record)
    page = markup.parse(record)
    assert page is not None
    assert [(c.url, c.alt) for c in page.candidates] == [("http://e.example/i.jpg", "chair")]


@pytest.mark.parametrize(
    ("url", "line", "media"),
    [
        ("http://e.example/a b?c=Live Web&d", "192.0.2.7 20080430204825 text/html", "text/html"),
        ("http://e.example/a 1.2 b", "2001:db8::1 20080430204825 text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("http://e.example/é", "- 20080430204825 ", ""),
        ("http://e.example/x", "192.0.2.7 20080430204825 text/html 200 CHECK - 12345678 test.arc", "text/html"),
        (
            "http://e.example/y",
            "192.0.2.7 20080430204825 text/html; x 404 - http://e.example/z 12345678 test.arc",
            "text/html; x",
        ),
    ],
)
def test_a_header_line_of_either_version_may_hold_spaces(url: str, line: str, media: str) -> None:
    found = read(filedesc(BLOCK_2) + document(url, line=line) + document(URLS[0]))
    assert [r.target for r in found if isinstance(r, Record)] == ["filedesc://test.arc", url, URLS[0]]
    assert isinstance(found[1], Record)
    assert found[1].headers["content-type"] == media
    assert found[1].headers["warc-date"] == "2008-04-30T20:48:25Z"


@pytest.mark.parametrize("pack", [b"".join, packed])
@pytest.mark.parametrize("length", [0, 20, 90, 200, 4_000, 1_000_000_000, -1, "abc", "9" * 50])
def test_a_wrong_length_costs_one_record(length: int | str, pack: object) -> None:
    assert callable(pack)
    records = [*RECORDS[:2], document("http://e.example/wrong", b"x" * 80, length=length), *RECORDS[3:]]
    assert summary(pack(records)) == ["filedesc://test.arc", URLS[0], "record", *URLS[2:]]


def test_a_line_end_is_missing_or_there_are_several() -> None:
    assert summary(RECORDS[0] + RECORDS[1][:-1] + RECORDS[2] + b"\n\r\n\n" + RECORDS[3]) == ["filedesc://test.arc", *URLS[:3]]


@pytest.mark.parametrize(
    "middle", [b"<html>503 slow down</html>\n", b"\0" * 1000 + b"\n", b"http://e.example/ null text/html 3\n"]
)
def test_garbage_between_records_costs_nothing_else(middle: bytes) -> None:
    parts = [*RECORDS[:2], middle, *RECORDS[3:]]
    for data in (b"".join(parts), packed(parts)):
        assert summary(data) == ["filedesc://test.arc", URLS[0], "record", *URLS[2:]]


@pytest.mark.parametrize("before_the_border", range(0, 100, 7))
def test_a_header_across_the_border_of_two_reads_is_found(before_the_border: int) -> None:
    garbage = b"x" * ((1 << 19) - len(RECORDS[0]) - before_the_border) + b"\n"
    assert summary(RECORDS[0] + garbage + RECORDS[1]) == ["filedesc://test.arc", "record", URLS[0]]


@pytest.mark.parametrize("pack", [b"".join, packed])
def test_a_file_cut_anywhere_gives_the_records_before_the_cut(pack: object) -> None:
    assert callable(pack)
    data = pack(RECORDS[:4])
    ends = list(itertools.accumulate(len(pack([r])) for r in RECORDS[:4]))
    names = ["filedesc://test.arc", *URLS]
    for cut in range(ends[0], len(data)):
        *found, last = summary(data[:cut])
        if cut in ends:
            assert [*found, last] == names[: ends.index(cut) + 1]
            continue
        whole = sum(end <= cut for end in ends)
        assert found in (names[:whole], names[: whole + 1])  # what lies behind a document may be all that is missing
        assert last in ("cut", names[whole])
        assert last == "cut" or ends[whole] - cut <= 1


def test_damage_inside_a_gzip_member_costs_that_member() -> None:
    members = [gzip.compress(r, mtime=0) for r in RECORDS]
    for place in (12, 60, len(members[2]) - 6):
        broken = bytearray(members[2])
        broken[place] ^= 0xFF
        assert summary(b"".join([*members[:2], bytes(broken), *members[3:]])) == [
            "filedesc://test.arc",
            URLS[0],
            "gzip",
            *URLS[2:],
        ]


def test_a_record_above_the_limit_is_stepped_over() -> None:
    data = b"".join([RECORDS[0], document(URLS[0], b"x" * 3_000_000), RECORDS[2]])
    found = list(warc.read(io.BytesIO(data), limit=1 << 20))
    assert [r.kind if isinstance(r, Damage) else r.target for r in found] == ["filedesc://test.arc", "size", URLS[1]]


def test_lines_of_addresses_in_a_warc_are_no_records() -> None:
    content = b"http://e.example/ 192.0.2.7 20080430204825 text/html 3\nabc\n"
    good = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://e.example/\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    wrong = good % (5, content)
    assert summary(wrong + good % (len(content), content)) == ["record", "http://e.example/"]


@pytest.mark.timeout(30)
def test_a_hostile_line_is_told_quickly() -> None:
    for part in (b"1.1 12345678 ", b"a: ", b"http://e.example/ 1.1 12345678 x", b"x" * 300 + b" "):
        line = b"http: " + part * (1_000_000 // len(part)) + b"\n"
        assert summary(RECORDS[0] + line * 3 + RECORDS[1])[-1] == URLS[0]


@pytest.mark.parametrize("name", ["x.arc", "x.arc.gz"])
def test_an_arc_is_replayed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(packed(RECORDS) if name.endswith(".gz") else b"".join(RECORDS))
    archive = Archive([str(tmp_path)])
    assert (archive.urls, archive.problems) == (URLS, [])
    for url in URLS:
        assert archive.get(url) == (200, (("Content-Type", "text/html"),), b"<img src=i.jpg alt=chair>")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("warcio/example.arc", ["filedesc://live-web-example.arc.gz", "http://example.com/"]),
        ("warcio/example.arc.gz", ["filedesc://live-web-example.arc.gz", "http://example.com/"]),
        # Its line ends were changed, so the document is shorter than it says.
        ("warcio/example-space-in-url.arc", ["filedesc://live-web-example.arc.gz", "cut"]),
        ("warcio/bad.arc", ["record", "record", "http://example.com/", "record"]),
        (
            "badexample.arc.gz",
            # A date that is `null`; a length of 680 twice, where the file has less.
            [
                "filedesc://IAH-20080430204825-00000-blackbook.arc",
                "dns:www.archive.org",
                "http://www.archive.org/robots.txt",
                "record",
                "record",
                "cut",
            ],
        ),
    ],
)
def test_real_files(shared_data: Path, name: str, expected: list[str]) -> None:
    assert summary((shared_data / "warc" / name).read_bytes()) == expected


@pytest.mark.shared
def test_a_real_page_is_told_as_by_the_extractor(shared_data: Path) -> None:
    record = read((shared_data / "warc" / "warcio" / "example.arc.gz").read_bytes())[1]
    assert isinstance(record, Record)
    assert len(record.content) == 1591
    assert markup.parse(record, Wanted("image_only")) is None  # its one link leads to a page
