"""Tar headers: the same members as Python's tarfile finds, whatever wrote them; nothing made up of what is damaged."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools import tar_scan

FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
NAME = st.lists(st.sampled_from(["a", "0001", "ñ", "x" * 30, "日本", "b.c", "d" * 60]), min_size=1, max_size=5).map("/".join)


def archive(members: list[tuple[str, bytes]], form: int, mtime: float = 0.0) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def scanned(path: Path, content: bytes = b"") -> tuple[list[tuple[str, int, int]], tar_scan.Ending]:
    ending = tar_scan.Ending()
    found = [m for batch in tar_scan.scan(str(path), ending, content=content) for m in batch]
    return [(name.decode("utf-8", "surrogateescape"), offset, size) for name, _, offset, size, _ in found], ending


def by_tarfile(path: Path) -> list[tuple[str, int, int]]:
    with tarfile.open(path) as tar:
        return [(m.name, m.offset_data, m.size) for m in tar if m.isreg()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tars")


@settings(max_examples=60, deadline=None)
@given(
    members=st.lists(st.tuples(NAME, st.binary(max_size=1200)), max_size=8),
    form=st.sampled_from(["gnu", "pax"]),
    mtime=st.sampled_from([0.0, 1664030331.123]),
)
def test_members_are_those_that_tarfile_finds(folder: Path, members: list[tuple[str, bytes]], form: str, mtime: float) -> None:
    path = folder / "a.tar"
    path.write_bytes(archive(members, FORMS[form], mtime))
    found, ending = scanned(path)
    assert found == by_tarfile(path)
    assert (ending.damage, ending.notes) == ("", [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", [63, 64, 65, 700])
def test_many_members_are_verified_batch_by_batch(folder: Path, form: str, number: int) -> None:
    path = folder / "many.tar"
    path.write_bytes(archive([(f"{i:04}.json", b"x" * (i % 3)) for i in range(number)], FORMS[form]))
    assert scanned(path)[0] == by_tarfile(path)


def test_contents_come_with_members_that_are_asked_for_whatever_their_case(folder: Path) -> None:
    path = folder / "c.tar"
    members = [("a.jpg", b"j" * 9000), ("a.json", b"1" * 20_000), ("b.JSON", b"2"), ("b.txt", b"3")]
    path.write_bytes(archive(members, tarfile.PAX_FORMAT, 1.5))
    batches = list(tar_scan.scan(str(path), tar_scan.Ending(), content=b".json"))
    assert [m[4] for batch in batches for m in batch] == [None, b"1" * 20_000, b"2", None]


def test_a_run_begins_where_all_that_a_member_needs_begins(folder: Path) -> None:
    path = folder / "starts.tar"
    path.write_bytes(archive([("a.jpg", b"1"), ("n" * 120 + ".jpg", b"2")], tarfile.PAX_FORMAT, 1.5))
    starts = [(m[1], m[2]) for batch in tar_scan.scan(str(path), tar_scan.Ending()) for m in batch]
    # What pax says of the time alone (two blocks) is not needed; of the long name it is.
    assert starts == [(1024, 1536), (2048, 3584)]


def test_links_folders_and_devices_are_passed_over_and_said(folder: Path) -> None:
    path = folder / "kinds.tar"
    with tarfile.open(path, "w") as tar:
        for name, kind in (
            ("l.jpg", tarfile.SYMTYPE),
            ("h.jpg", tarfile.LNKTYPE),
            ("d", tarfile.DIRTYPE),
            ("p", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        tar.addfile(tarfile.TarInfo("z.txt"))
    found, ending = scanned(path)
    assert [name for name, *_ in found] == ["z.txt"]
    assert [note.split(",")[0] for note in ending.notes] == [
        "'l.jpg' is a symbolic link",
        "'h.jpg' is a hard link",
        "'p' is a special file (type '6')",
    ]


def test_old_headers_and_rare_spellings_of_numbers_are_read(folder: Path) -> None:
    info = tarfile.TarInfo("old.txt")
    info.size = 3
    old = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    old[257:265] = bytes(8)  # before ustar
    old[156] = 0
    old[124:136] = b"         3 \0"
    old[148:156] = b"        "
    old[148:156] = b"%06o\0 " % sum(old)
    binary = bytearray(old)
    binary[124:136] = b"\x80" + (3).to_bytes(11, "big")
    binary[0:3] = b"bin"
    binary[148:156] = b"        "
    binary[148:156] = b"%06o\0 " % sum(binary)
    path = folder / "old.tar"
    path.write_bytes(bytes(old) + b"abc".ljust(512, b"\0") + bytes(binary) + b"def".ljust(512, b"\0") + bytes(1024))
    assert scanned(path)[0] == by_tarfile(path) == [("old.txt", 512, 3), ("bin.txt", 1536, 3)]


def test_sums_of_signed_bytes_are_taken_too(folder: Path) -> None:
    block = bytearray(tarfile.TarInfo("é.txt").tobuf(tarfile.USTAR_FORMAT, "utf-8"))
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(b - 256 if b > 127 else b for b in block)
    path = folder / "signed.tar"
    path.write_bytes(bytes(block) + bytes(1024))
    assert scanned(path)[0] == by_tarfile(path) == [("é.txt", 512, 0)]


@pytest.mark.parametrize("form", FORMS)
def test_wherever_a_tar_is_cut_only_whole_members_are_found_and_it_is_said(folder: Path, form: str) -> None:
    path = folder / "cut.tar"
    whole = archive([(f"{i}.txt", b"x" * 700) for i in range(3)], FORMS[form], 1.5)
    path.write_bytes(whole)
    members = scanned(path)[0]
    end = whole.rindex(b"x") // 512 * 512 + 512
    for cut in range(1, end + 512, 37):
        path.write_bytes(whole[:cut])
        found, ending = scanned(path)
        assert found == [m for m in members if m[1] + m[2] <= cut], cut
        assert "cut" in ending.damage
        assert ending.empty == (cut < 512)


@pytest.mark.parametrize("at", [0, 100, 124, 130, 148, 156, 200, 300, 511])
def test_a_byte_that_has_changed_in_a_header_ends_the_reading_there(folder: Path, at: int) -> None:
    path = folder / "bad.tar"
    whole = bytearray(archive([(f"{i}.txt", b"x" * 700) for i in range(3)], tarfile.USTAR_FORMAT))
    second = 512 + 1024
    whole[second + at] ^= 0x01
    path.write_bytes(bytes(whole))
    found, ending = scanned(path)
    assert [name for name, *_ in found] == ["0.txt"]
    assert ending.damage.startswith(f"damaged at byte {second}")


def test_what_stands_behind_the_end_is_said(folder: Path) -> None:
    one, two = (archive([(n, b"1")], tarfile.USTAR_FORMAT) for n in ("a.txt", "b.txt"))
    path = folder / "strung.tar"
    path.write_bytes(one + two)  # cat a.tar b.tar
    found, ending = scanned(path)
    assert [name for name, *_ in found] == ["a.txt"]
    assert ending.notes == ["bytes behind the archive's end (byte 1024) are not read: the first at 10240"]
    path.write_bytes(one + bytes(100_000))
    assert scanned(path)[1].notes == []


@given(st.text("abcß/.", min_size=1, max_size=130), st.integers(0, 1 << 40))
@settings(max_examples=60, deadline=None)
def test_headers_that_we_write_are_those_of_tarfile(name: str, size: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    fits = len(name.encode()) <= 100 and size < 1 << 33
    expected = info.tobuf(tarfile.USTAR_FORMAT if fits else tarfile.PAX_FORMAT, "utf-8")
    assert tar_scan.header(name.encode(), size) == expected


def test_of_whole_members_in_memory_the_plain_ones_are_found_quickly() -> None:
    body = archive([("a.jpg", b"1" * 600), ("a.txt", b"2")], tarfile.PAX_FORMAT, 1.5)
    end = body.rindex(b"2") // 512 * 512 + 512
    assert tar_scan.plain_members(body, 0, end) == [(b"a.jpg", 1536, 600), (b"a.txt", 4096, 1)]
    for long in (archive([("n" * 120, b"")], FORMS["gnu"]), archive([("é", b"")], FORMS["pax"]), b"x" * 512):
        assert tar_scan.plain_members(long, 0, len(long) // 512 * 512) is None


def test_a_size_below_nothing_is_damage_and_no_endless_way_back(folder: Path) -> None:
    block = bytearray(tarfile.TarInfo("a.txt").tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = b"-0000007000\0"
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    path = folder / "negative.tar"
    path.write_bytes(archive([("0.txt", b"x")], tarfile.USTAR_FORMAT)[:1024] + bytes(block) + bytes(1024))
    found, ending = scanned(path)
    assert [name for name, *_ in found] == ["0.txt"]
    assert ending.damage == "damaged at byte 1024: no tar header"
    assert tar_scan.plain_members(bytes(block), 0, 512) is None


@pytest.mark.parametrize("number", [63, 64, 65])
def test_the_last_of_a_batch_is_not_given_if_it_is_cut(folder: Path, number: int) -> None:
    path = folder / "batch.tar"
    whole = archive([(f"{i}.txt", b"x" * 700) for i in range(number)], tarfile.USTAR_FORMAT)
    path.write_bytes(whole[: number * 1536 - 800])
    found, ending = scanned(path)
    assert len(found) == number - 1
    assert ending.damage.startswith(f"cut within {number - 1}.txt")
