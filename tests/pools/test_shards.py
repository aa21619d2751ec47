"""Tar shards: the field's rule of keys, damaged archives, the same bytes each time."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from pools import shards
from pools.errors import InputError, WorkFailed


def tar(path: Path, *members: tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> str:
    with tarfile.open(path, "w", format=form) as f:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1664030331.123  # a PAX header, as webdataset writes
            f.addfile(info, io.BytesIO(data))
    return str(path)


def test_what_is_written_is_read_and_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    samples = {"a" * 32: {"jpg": b"\xff\xd8", "txt": "ñ".encode(), "json": b"{}"}, "b" * 32: {"jpg": b"", "json": b"{}"}}
    paths = [str(tmp_path / n) for n in ("one.tar", "two.tar")]
    for path in paths:
        with shards.write(path) as out:
            for key, members in samples.items():
                out.add(key, members)
    assert dict(shards.read_all(paths[0])) == samples
    assert Path(paths[0]).read_bytes() == Path(paths[1]).read_bytes()
    with tarfile.open(paths[0]) as f:
        assert {m.mtime for m in f} == {0}


# T93, T95
def test_keys_end_at_the_first_dot_of_the_last_part(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("set.v1/0001.jpg", b"1"), ("set.v1/0001.seg.png", b"22"), ("x.JPG", b"3"), ("x.txt", b"4"))
    found = list(shards.samples(path))
    assert [(s.key, list(s.members), s.image_extension) for s in found] == [
        ("set.v1/0001", ["jpg", "seg.png"], "jpg"),
        ("x", ["JPG", "txt"], "JPG"),
    ]
    with Path(path).open("rb") as f:
        assert shards.read(f, found[0], "seg.png") == b"22"


def test_our_writer_makes_no_key_with_a_dot(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dot"), shards.write(str(tmp_path / "a.tar")) as out:
        out.add("a.b", {"jpg": b""})
    assert list(tmp_path.iterdir()) == []


# T92
def test_members_that_stand_apart_are_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("a.jpg", b""), ("b.jpg", b""), ("a.txt", b""), ("b.txt", b""))
    with pytest.raises(InputError, match=r"a\.tar: members of 'a' stand apart"):
        list(shards.samples(path))


# T97
def test_a_member_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("a.jpg", b""), ("a.jpg", b""))
    with pytest.raises(InputError, match=r"a\.tar: member 'a\.jpg' stands twice"):
        list(shards.samples(path))


def test_links_and_folders_are_passed_over(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as f:
        link = tarfile.TarInfo("a.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        f.addfile(link)
        info = tarfile.TarInfo("b.txt")
        info.size = 1
        f.addfile(info, io.BytesIO(b"x"))
    assert [s.key for s in shards.samples(str(tmp_path / "a.tar"))] == ["b"]


@pytest.mark.parametrize("cut", [600, 1000, 1100, 1500])
def test_a_cut_tar_is_a_failure_that_names_it(tmp_path: Path, cut: int) -> None:
    path = tar(tmp_path / "a.tar", ("a.txt", b"x" * 600), ("b.txt", b"y" * 600), form=tarfile.USTAR_FORMAT)
    Path(path).write_bytes(Path(path).read_bytes()[:cut])
    with pytest.raises(WorkFailed, match=r"a\.tar: (damaged|cut)"):
        list(shards.read_all(path))


def test_a_tar_that_was_cut_after_it_was_listed_is_a_failure(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar", ("a.txt", b"x" * 600))
    (sample,) = shards.samples(path)
    Path(path).write_bytes(Path(path).read_bytes()[: sample.members["txt"][0] + 100])
    with Path(path).open("rb") as f, pytest.raises(WorkFailed, match=r"a\.tar: cut within a\.txt at byte"):
        shards.read(f, sample, "txt")


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"PAR1" * 300)
    with pytest.raises(InputError, match=r"a\.tar: not a tar"):
        list(shards.samples(str(tmp_path / "a.tar")))


# T54
def test_a_folder_without_tars_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    with pytest.raises(InputError, match=r"no \.tar file here; expected a folder of webdataset shards"):
        shards.list_shards(str(tmp_path))


def test_what_is_written_is_on_its_way_to_the_disk_before_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("os.posix_fadvise", lambda _, start, length, __: asked.append((start, length)))
    monkeypatch.setattr(shards, "_SAVED_AT_ONCE", 3000)
    with shards.write(str(tmp_path / "0.tar")) as out:
        for key in "abc":
            out.add(key, {"jpg": b"x" * 1000})  # 512 of a header, and 1024
    assert asked == [(0, 3072), (3072, 7168)]  # what is there from the size on, at last with the record's rest
