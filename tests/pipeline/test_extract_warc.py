"""Reading WARC records out of whole and damaged files."""

from __future__ import annotations

import gzip
import io
import random
import re
import tracemalloc
from pathlib import Path

import pytest

from pipeline.extract import warc
from pipeline.extract.warc import Damage, Record
from tests.pipeline.wats import members, numbered, warc_record

RECORDS = [numbered(i) for i in range(5)]
NO_LENGTHS = [b"WARC/1.0\r\nContent-Length: %b\r\n\r\n" % n for n in (b"x", b"-1", b"1e3", b"9" * 5000, "١".encode())]
TARGETS = [f"http://e.example/page{i}" for i in range(5)]


def read(data: bytes) -> list[Record | Damage]:
    return list(warc.read(io.BytesIO(data)))


def summary(data: bytes) -> list[str]:
    """Target of each record, kind of each damage."""
    return [r.target if isinstance(r, Record) else r.kind for r in read(data)]


def test_each_gzip_member_is_read_and_not_only_the_first() -> None:  # T10
    found = read(b"".join(members(numbered(i) for i in range(300))))
    assert [r.target for r in found if isinstance(r, Record)] == [f"http://e.example/page{i}" for i in range(300)]


def test_one_member_for_all_plain_and_padded_files_read_alike() -> None:
    whole = b"".join(RECORDS)
    packed = members(RECORDS)
    for data in (whole, gzip.compress(whole), b"".join(packed), b"\0\0\0".join(packed), b"\r\n\r\n" + whole):
        assert summary(data) == TARGETS


def test_line_feeds_alone_are_read_too() -> None:
    assert summary(b"".join(warc_record(b"{}", uri=t, line_end=b"\n") for t in TARGETS)) == TARGETS


def test_a_record_larger_than_a_read_is_whole() -> None:
    content = bytes(range(256)) * 8192  # 2 MiB
    for data in (warc_record(content) + RECORDS[0], b"".join(members([warc_record(content), RECORDS[0]]))):
        first, second = read(data)
        assert isinstance(first, Record)
        assert isinstance(second, Record)
        assert (first.content, second.target) == (content, TARGETS[0])


def test_a_record_above_the_limit_is_stepped_over() -> None:
    data = warc_record(b"x" * 3_000_000) + RECORDS[1]
    found = list(warc.read(io.BytesIO(data), limit=1 << 20))
    assert [r.kind if isinstance(r, Damage) else r.target for r in found] == ["size", TARGETS[1]]


def test_a_gzip_file_cut_anywhere_gives_the_records_before_the_cut() -> None:  # T09
    packed = members(RECORDS)
    data = b"".join(packed)
    ends = [sum(len(m) for m in packed[: i + 1]) for i in range(5)]
    for cut in range(1, len(data)):
        found = read(data[:cut])
        whole = sum(end <= cut for end in ends)
        if cut in ends:
            assert [type(r) for r in found] == [Record] * whole
            continue
        *before, last = found
        # The bytes after the last of a member's data are its checksum: then the record itself is there.
        assert len(before) in (whole, whole + 1)
        assert all(isinstance(r, Record) for r in before)
        assert isinstance(last, Damage)
        assert (last.kind, last.offset) == ("cut", ends[whole - 1] if whole else 0)
        assert f"truncated at byte {cut}," in str(last)
        if len(before) > whole:
            assert ends[whole] - cut <= 8 + 4


def test_a_plain_file_cut_anywhere_gives_the_records_before_the_cut() -> None:  # T09
    data = b"".join(RECORDS)
    starts = [sum(len(r) for r in RECORDS[:i]) for i in range(6)]
    for cut in range(1, len(data)):
        found = read(data[:cut])
        # Without the four bytes behind its content a record is still whole.
        whole = sum(end - 4 <= cut for end in starts[1:])
        records = [r for r in found if isinstance(r, Record)]
        assert len(records) == whole
        at_border = cut <= starts[whole]
        assert len(found) - whole == (0 if at_border else 1)
        if not at_border:
            last = found[-1]
            assert isinstance(last, Damage)
            assert (last.kind, last.offset) == ("cut", starts[whole])


def test_a_big_member_cut_in_the_middle_gives_what_was_inflated() -> None:
    noise = random.Random(0)
    records = [warc_record(noise.randbytes(100_000), uri=f"http://e.example/{i}") for i in range(20)]
    data = gzip.compress(b"".join(records))
    cut = len(data) // 20 * 9 + 50_000  # noise does not compress: nine and a half records
    assert summary(data[:cut]) == [f"http://e.example/{i}" for i in range(9)] + ["cut"]


@pytest.mark.parametrize("length", [0, 5, 150, 400, 40_000, 1_000_000_000])
@pytest.mark.parametrize("compress", [False, True])
def test_a_wrong_length_costs_one_record(length: int, compress: bool) -> None:  # T11
    wrong = warc_record(b"{" + b" " * 200 + b"}", uri="http://e.example/wrong", length=length)
    records = [RECORDS[0], wrong, RECORDS[2]]
    data = b"".join(members(records) if compress else records)
    (first, damage, third) = read(data)
    assert isinstance(damage, Damage)
    assert isinstance(first, Record)
    assert isinstance(third, Record)
    assert (first.target, damage.kind, third.target) == (TARGETS[0], "record", TARGETS[2])
    assert damage.offset == len(members(records)[0] if compress else records[0])


@pytest.mark.parametrize("middle", [b"<html>503 slow down</html>", b"\0" * 1000, *NO_LENGTHS])
@pytest.mark.parametrize("compress", [False, True])
def test_garbage_between_records_costs_nothing_else(middle: bytes, compress: bool) -> None:  # T11
    parts = [RECORDS[0], middle, RECORDS[2]]
    assert summary(b"".join(members(parts) if compress else parts)) == [TARGETS[0], "record", TARGETS[2]]


@pytest.mark.parametrize("before_the_border", range(0, 24, 3))
def test_a_header_across_the_border_of_two_reads_is_found(before_the_border: int) -> None:
    garbage = b"x" * ((1 << 19) - before_the_border)
    assert summary(garbage + RECORDS[0]) == ["record", TARGETS[0]]


def test_a_record_that_came_whole_before_its_checksum_failed_is_not_given_out() -> None:
    before, broken, after = members(RECORDS[:3])
    broken = broken[:-8] + b"\0\0\0\0" + broken[-4:]
    # The checksum lies in the second read of the file, the record in the first.
    padding = bytes((1 << 18) - len(before) - (len(broken) - 8))
    assert summary(before + padding + broken + after) == [TARGETS[0], "gzip", TARGETS[2]]


def test_damage_inside_a_gzip_member_costs_that_member() -> None:
    packed = members(RECORDS)
    for place in (12, 60, len(packed[2]) - 6, len(packed[2]) - 2):  # data, data, checksum, length
        broken = bytearray(packed[2])
        broken[place] ^= 0xFF
        found = read(b"".join([*packed[:2], bytes(broken), *packed[3:]]))
        assert [r.target for r in found if isinstance(r, Record)] == [*TARGETS[:2], *TARGETS[3:]]
        (damage,) = [r for r in found if isinstance(r, Damage)]
        assert (damage.kind, damage.offset) == ("gzip", len(packed[0]) + len(packed[1]))


def test_bytes_that_are_no_member_between_members_cost_nothing_else() -> None:
    packed = members(RECORDS[:3])
    assert summary(packed[0] + b"noise \x1f\x8b\x08 noise" + packed[1] + packed[2]) == [TARGETS[0], "gzip", *TARGETS[1:3]]


def test_data_that_inflate_a_thousandfold_are_read_in_bounded_pieces() -> None:
    data = gzip.compress(b"\0" * (200 << 20)) + members(RECORDS[:1])[0]
    tracemalloc.start()
    assert summary(data) == ["record", TARGETS[0]]
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("data", [b"", b"\r\n"])
def test_an_empty_file_gives_nothing(data: bytes) -> None:
    assert read(data) == []


def test_a_record_can_be_read_again_from_its_place() -> None:
    whole = b"".join(RECORDS)
    for data in (whole, gzip.compress(whole), b"".join(members(RECORDS))):
        for record in read(data):
            assert isinstance(record, Record)
            again = warc.read_at(io.BytesIO(data), record.offset, record.skip)
            assert isinstance(again, Record)
            assert (again.headers, again.content) == (record.headers, record.content)


def test_fields_may_be_folded_repeated_and_in_brackets() -> None:
    head = b"WARC/1.1\r\nwarc-type: Metadata\r\nWARC-Target-URI: <http://e.example/a>\r\nX: one\r\n two\r\nX: three\r\n"
    (record,) = read(head + b"Content-Length: 2\r\n\r\n{}\r\n\r\n")
    assert isinstance(record, Record)
    assert (record.type, record.target, record.headers["x"]) == ("metadata", "http://e.example/a", "one two")


@pytest.mark.shared
def test_every_published_wat_reads_without_a_loss(shared_data: Path) -> None:
    files = [*shared_data.glob("wat/*"), *shared_data.glob("wat-generated/*")]
    assert len(files) == 33
    for file in files:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        version_lines = len(re.findall(rb"^WARC/1\.0\r?$", raw, re.MULTILINE))
        with file.open("rb") as f:
            found = list(warc.read(f))
        assert [type(r) for r in found] == [Record] * version_lines, file.name


@pytest.mark.shared
def test_published_damaged_files_are_read_up_to_and_after_their_damage(shared_data: Path) -> None:
    def kinds(name: str) -> list[str]:
        data = (shared_data / "warc" / name).read_bytes()
        return [r.kind if isinstance(r, Damage) else r.type for r in read(data)]

    assert kinds("clipped.warc.gz") == ["cut"]
    assert kinds("warcio/example.arc.gz") == ["warcinfo", "response"]
    # Its second record's Content-Length is too small; fourth and last of the file is whole.
    assert kinds("warcio/example-trunc.warc") == ["warcinfo", "warcinfo", "record", "request"]
    assert kinds("warcio/example-wget-bad-target-uri.warc.gz") == [
        "warcinfo",
        *("request", "response"),
        "metadata",
        *("resource", "resource"),
    ]
