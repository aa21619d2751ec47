"""Resharding: the samples a list names, as often as it names them, byte for byte."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import fsspec
import numpy as np
import pytest

from pipeline.engine import Options
from pipeline.reshard import job, plan
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import shards, uids
from pools.errors import InputError, WorkFailed
from tests.pipeline.resharding import QUIET, members, samples, sizes, uid, write_list, write_source, written
from tests.pipeline.test_cli import call
from tests.pipeline.trees import tree

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "shards", (4, 0, 3))


# T90, T94
def test_each_uid_is_written_as_often_as_the_list_names_it(tmp_path: Path, source: Path) -> None:
    wanted = (5, 2, 5, 1, 5)
    outcome = reshard(str(source), write_list(tmp_path, *wanted), str(tmp_path / "out"), options=QUIET)
    found = written(tmp_path / "out")
    assert Counter(n for _, _, n, _ in found) == Counter(wanted)
    assert [key for _, key, _, _ in found] == [f"{uid(1)}-0", f"{uid(2)}-0", *(f"{uid(5)}-{k}" for k in range(3))]
    assert outcome.counts == {"in": 5, "kept": 5, "dropped:missing": 0, "repeats": 2}
    for _, _, n, parts in found:
        assert parts == members(n)
        assert list(parts) == ["jpg", "txt", "json"]
    ids = np.load(tmp_path / "out" / "sample_ids.npy")
    assert ids.tolist() == np.load(tmp_path / "list.npy").tolist()
    about = json.loads((tmp_path / "out" / "meta.json").read_text())
    assert about == {**outcome.counts, "samples": 7, "shards": 1}
    assert json.loads((tmp_path / "out" / "00000000_stats.json").read_text())["successes"] == 5


# T89
def test_missing_uids_are_counted_and_listed(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = write_list(tmp_path, 1, 50, 50)
    outcome = reshard(str(source), listed, str(tmp_path / "out"), options=Options(workers=0))
    assert outcome.counts == {"in": 3, "kept": 1, "dropped:missing": 2, "repeats": 1}
    assert outcome.problems == ()
    assert f"reshard: in no shard: {uid(50)}\n" in capsys.readouterr().err
    missing = uids.read_list(str(tmp_path / "out" / "missing.npy"), kind="remove")
    assert uids.unpack(missing).to_pylist() == [uid(50)]
    with pytest.raises(WorkFailed, match="2 of 3 entries of the list are not written"):
        reshard(str(source), listed, str(tmp_path / "strict"), settings=Settings(strict=True), options=QUIET)


def test_the_command_exits_with_1_for_missing_uids_if_it_is_to_be_strict(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = write_list(tmp_path, 1, 50)
    command = ("reshard", str(source), listed, "--output", str(tmp_path / "out"), "--workers", "0")
    assert call(monkeypatch, capsys, *command)[0] == 0
    assert call(monkeypatch, capsys, *command, "--strict")[0] == 1
    status, _, err = call(monkeypatch, capsys, *command[:3])
    assert (status, "--output: no output" in err) == (2, True)


def test_a_uid_in_two_shards_is_taken_from_the_first(tmp_path: Path, source: Path) -> None:
    with shards.write(str(source / "99999.tar")) as out:
        out.add("x", {"jpg": b"other", "json": json.dumps({"uid": uid(1)}).encode()})
        out.add("y", {"jpg": b"another", "json": json.dumps({"uid": uid(8)}).encode()})
        out.add("z", {"jpg": b"last", "json": json.dumps({"uid": uid(8)}).encode()})
    outcome = reshard(str(source), write_list(tmp_path, 1, 8), str(tmp_path / "out"), options=QUIET)
    assert [parts["jpg"][:2] for *_, parts in written(tmp_path / "out")] == [b"\xff\xd8", b"an"]
    assert outcome.counts["twins"] == 2


@pytest.mark.parametrize("shuffle", ["none", "all"])
def test_workers_and_reruns_change_no_byte(tmp_path: Path, source: Path, shuffle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "COPIED", 1)  # as if processes paid
    monkeypatch.setattr(job, "LOOKED_OVER", 1)
    listed = write_list(tmp_path, 1, 2, 3, 6, 6, 7)
    settings = Settings(shard_size=2, shuffle=shuffle)  # type: ignore[arg-type]
    for workers in (0, 2):
        options = Options(workers=workers, quiet=True)
        reshard(str(source), listed, str(tmp_path / f"{workers}/out"), settings=settings, options=options)
    assert tree(tmp_path / "0" / "out") == tree(tmp_path / "2" / "out")
    lost = tmp_path / "0" / "out" / "00000001.tar"
    content = lost.read_bytes()
    for gone in (lost, tmp_path / "0/out/.winnow/done/00000001.json", tmp_path / "0/out/_manifest.json"):
        gone.unlink()
    reshard(str(source), listed, str(tmp_path / "0/out"), settings=settings, options=QUIET)
    assert lost.read_bytes() == content
    assert tree(tmp_path / "0" / "out") == tree(tmp_path / "2" / "out")


def test_a_store_without_folders_holds_the_same_shards(tmp_path: Path, source: Path) -> None:
    memory = fsspec.filesystem("memory")
    for path in source.iterdir():
        memory.pipe_file(f"/rs/shards/{path.name}", path.read_bytes())
    listed = write_list(tmp_path, 1, 2, 6, 6)
    settings = Settings(shard_size=2)
    reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)
    memory.pipe_file("/rs/list.npy", Path(listed).read_bytes())
    reshard("memory://rs/shards", "memory://rs/list.npy", "memory://rs/out", settings=settings, options=QUIET)
    for name in ("00000000.tar", "00000001.tar", "sample_ids.npy", "meta.json"):
        assert memory.cat_file(f"/rs/out/{name}") == (tmp_path / "out" / name).read_bytes()


def test_a_finished_run_is_not_done_again(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1, 2)
    first = reshard(str(source), listed, str(tmp_path / "out"), options=QUIET)
    before = tree(tmp_path / "out")
    (source / "00000.tar").touch()  # another time of change: another input
    with pytest.raises(InputError, match="its input files are others"):
        reshard(str(source), listed, str(tmp_path / "out"), options=QUIET)
    again = Options(workers=0, quiet=True, overwrite=True)
    assert reshard(str(source), listed, str(tmp_path / "out"), options=again).counts == first.counts
    assert reshard(str(source), listed, str(tmp_path / "out"), options=QUIET).counts == first.counts
    assert {k: v for k, v in tree(tmp_path / "out").items() if k.endswith(".tar")} == {
        k: v for k, v in before.items() if k.endswith(".tar")
    }


def test_another_list_finds_its_samples_by_the_index(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pools import shard_index

    reshard(str(source), write_list(tmp_path, 1, 2), str(tmp_path / "a"), options=QUIET)
    monkeypatch.setattr(shard_index, "read_index", None)
    reshard(str(source), write_list(tmp_path, 3, 5, name="b.npy"), str(tmp_path / "b"), options=QUIET)
    assert samples(tmp_path / "b") == [3, 5]


def test_an_empty_list_makes_no_shard(tmp_path: Path, source: Path) -> None:
    outcome = reshard(str(source), write_list(tmp_path), str(tmp_path / "out"), options=QUIET)
    assert outcome.counts == {"in": 0, "kept": 0, "dropped:missing": 0}
    assert list((tmp_path / "out").glob("*.tar")) == []


# What the reference resharder gets wrong -------------------------------------------------------------------------------------


def test_an_unsorted_list_is_refused(tmp_path: Path, source: Path) -> None:
    np.save(tmp_path / "bad.npy", np.load(write_list(tmp_path, 1, 2, 3))[::-1])
    with pytest.raises(InputError, match=r"row 1 is smaller than row 0; expected uids in sorted order\n.*winnow uids convert"):
        reshard(str(source), str(tmp_path / "bad.npy"), str(tmp_path / "out"), options=QUIET)
    assert not (tmp_path / "out").exists()


def test_overwriting_leaves_no_shard_of_the_run_before(tmp_path: Path, source: Path) -> None:
    out = tmp_path / "out"
    reshard(str(source), write_list(tmp_path, *range(1, 8)), str(out), settings=Settings(shard_size=1), options=QUIET)
    assert len(list(out.glob("*.tar"))) == 7
    few = write_list(tmp_path, 1, name="few.npy")
    with pytest.raises(InputError, match="belongs to another run"):
        reshard(str(source), few, str(out), options=QUIET)
    reshard(str(source), few, str(out), options=Options(workers=0, quiet=True, overwrite=True))
    assert [p.name for p in sorted(out.glob("*.tar"))] == ["00000000.tar"]
    assert samples(out) == [1]


def test_folders_that_are_not_there_are_made(tmp_path: Path, source: Path) -> None:
    reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "a" / "b" / "c"), options=QUIET)
    assert samples(tmp_path / "a" / "b" / "c") == [1]


def test_a_gap_in_the_numbers_of_shards_loses_none_behind_it(tmp_path: Path) -> None:
    source = write_source(tmp_path / "shards", (2, 2, 2, 2))
    (source / "00001.tar").unlink()
    outcome = reshard(str(source), write_list(tmp_path, 1, 5, 8), str(tmp_path / "out"), options=QUIET)
    assert samples(tmp_path / "out") == [1, 5, 8]
    assert outcome.counts["dropped:missing"] == 0


def test_of_a_cut_shard_the_whole_samples_are_written_and_it_is_a_failure(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = source / "00000.tar"
    cut.write_bytes(cut.read_bytes()[: 2 * 3072 + 700])  # a sample takes six blocks
    listed = write_list(tmp_path, *range(1, 8))
    status, said, err = call(
        monkeypatch, capsys, "reshard", str(source), listed, "-o", str(tmp_path / "out"), "--workers", "0", "--json"
    )
    assert status == 1
    assert samples(tmp_path / "out") == [1, 2, 5, 6, 7]
    assert json.loads(said)["counts"] == {"in": 7, "kept": 5, "dropped:missing": 2, "damaged_shards": 1}
    assert f"reshard: {cut}: cut" in err
    lines = [json.loads(line) for line in (tmp_path / "out" / "_problems.jsonl").read_text().splitlines()]
    assert [(line["shard"], line["kind"]) for line in lines] == [(str(cut), "damage")]


# Tars that break every rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"[]", b'{"uid": 7}', b'{"uid": "7"}', None])
def test_a_sample_without_a_uid_is_told_of_and_the_others_are_written(
    tmp_path: Path, source: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with shards.write(str(source / "99999.tar")) as out:
        out.add("x", {"jpg": b"", **({} if content is None else {"json": content})})
        out.add("y", members(9))
    outcome = reshard(str(source), write_list(tmp_path, 1, 9), str(tmp_path / "out"), options=Options(workers=0))
    assert samples(tmp_path / "out") == [1, 9]
    assert outcome.counts["nameless"] == 1
    assert "99999.tar: 'x'" in capsys.readouterr().err
    line = json.loads((tmp_path / "out" / "_problems.jsonl").read_text())
    assert (line["shard"], line["kind"]) == (str(source / "99999.tar"), "nameless")


def test_shards_without_any_uid_are_refused(tmp_path: Path) -> None:
    with shards.write(str(tmp_path / "s" / "0.tar")) as out:
        out.add("000001", {"jpg": b"", "txt": b""})
    with pytest.raises(InputError, match=r"0\.tar: no sample has a uid: '000001' has no \.json.*\n.*winnow pool import"):
        reshard(str(tmp_path / "s"), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)


# T93, T95
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_whatever_wrote_the_tar_the_members_come_out_equal(tmp_path: Path, form: int) -> None:
    given = {
        1: [("set.v1/0001.JPG", b"1" * 600), ("set.v1/0001.seg.png", b"2"), ("set.v1/0001.json", b"")],
        2: [("d" * 90 + "/" + "k" * 60 + ".jpeg", b"3"), ("d" * 90 + "/" + "k" * 60 + ".JSON", b"")],
        3: [("日本.webp", b"4" * 512), ("日本.json", b""), ("日本." + "e" * 80, b"5")],
    }
    (tmp_path / "s").mkdir()
    with tarfile.open(tmp_path / "s" / "0.tar", "w", format=form) as tar:
        folder = tarfile.TarInfo("set.v1")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for n, parts in given.items():
            for name, data in parts:
                body = data or json.dumps({"uid": uid(n)}).encode()
                info = tarfile.TarInfo(name)
                info.size, info.mtime = len(body), 1664030331.123 if form == tarfile.PAX_FORMAT else 1664030331
                tar.addfile(info, io.BytesIO(body))
    reshard(str(tmp_path / "s"), write_list(tmp_path, 1, 2, 3), str(tmp_path / "out"), options=QUIET)
    found = {n: parts for _, _, n, parts in written(tmp_path / "out")}
    for n, parts in given.items():
        expected = {name.rpartition("/")[2].partition(".")[2]: data for name, data in parts}
        assert found[n] == {e: data or json.dumps({"uid": uid(n)}).encode() for e, data in expected.items()}
    with tarfile.open(tmp_path / "out" / "00000000.tar") as tar:
        names = tar.getnames()
    assert names[0] == f"{uid(1)}-0.JPG"
    assert f"{uid(3)}-0.{'e' * 80}" in names


# T92
def test_members_that_stand_apart_are_refused_or_brought_together(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with tarfile.open(tmp_path / "s" / "0.tar", "w") as tar:
        for extension in ("jpg", "txt", "json"):
            for n in (1, 2, 3):
                data = members(n)[extension]
                info = tarfile.TarInfo(f"{n}.{extension}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    listed = write_list(tmp_path, 1, 3, 3)
    with pytest.raises(InputError, match=r"0\.tar: members of '1' stand apart"):
        reshard(str(tmp_path / "s"), listed, str(tmp_path / "out"), options=QUIET)
    for shuffle in ("none", "all", "buffer"):
        settings = Settings(regroup=True, shard_size=1, shuffle=shuffle)
        out = tmp_path / shuffle
        reshard(str(tmp_path / "s"), listed, str(out), settings=settings, options=QUIET)
        assert sorted((key, n) for _, key, n, _ in written(out)) == sorted(
            [(f"{uid(1)}-0", 1), (f"{uid(3)}-0", 3), (f"{uid(3)}-1", 3)]
        )
        assert all(parts == members(n) for _, _, n, parts in written(out))
        assert sizes(out) == [1, 1, 1]


# T97
def test_all_shards_that_cannot_be_used_are_named(tmp_path: Path, source: Path) -> None:
    for name, twice in (("a.tar", "x.jpg"), ("b.tar", "y.jpg")):
        with tarfile.open(source / name, "w") as tar:
            for _ in range(2):
                tar.addfile(tarfile.TarInfo(twice))
    with pytest.raises(InputError, match=r"(?s)2 shards cannot be used.*a\.tar: member 'x\.jpg' stands twice.*b\.tar: member"):
        reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)


def test_a_file_that_is_no_tar_is_one_damaged_shard_among_others(tmp_path: Path, source: Path) -> None:
    (source / "error.tar").write_bytes(b"<html>404</html>" * 100)
    (source / "none.tar").write_bytes(b"")
    outcome = reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)
    assert samples(tmp_path / "out") == [1]
    assert outcome.problems == (f"{source}/error.tar: not a tar", f"{source}/none.tar: not a tar")
    for path in source.glob("0*.tar"):
        path.unlink()
    with pytest.raises(InputError, match=r"error\.tar: not a tar"):
        reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "only"), options=QUIET)


def test_a_link_in_place_of_a_picture_and_bytes_behind_the_end_are_told_of(tmp_path: Path, source: Path) -> None:
    with tarfile.open(source / "link.tar", "w") as tar:
        link = tarfile.TarInfo("k.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere.jpg"
        tar.addfile(link)
        body = json.dumps({"uid": uid(9)}).encode()
        info = tarfile.TarInfo("k.json")
        info.size = len(body)
        tar.addfile(info, io.BytesIO(body))
    first = source / "00000.tar"
    first.write_bytes(first.read_bytes() + first.read_bytes())
    reshard(str(source), write_list(tmp_path, 1, 9), str(tmp_path / "out"), options=QUIET)
    told = [json.loads(line)["what"] for line in (tmp_path / "out" / "_problems.jsonl").read_text().splitlines()]
    assert told[0].startswith("bytes behind the archive's end")
    assert told[1] == "'k.jpg' is a symbolic link, which is not followed"


def test_a_shard_that_changes_after_it_was_looked_at_is_a_failure(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = plan.make_plan

    def changing(*args: object) -> object:
        made = make(*args)  # type: ignore[arg-type]
        path = source / "00000.tar"
        path.write_bytes(b"\1" * os.path.getsize(path))
        return made

    monkeypatch.setattr(job, "make_plan", changing)
    with pytest.raises(WorkFailed, match=r"00000\.tar: no sample at byte 0: the shard has changed"):
        reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)


def test_it_starts_without_what_it_does_not_need() -> None:
    code = "import sys, pipeline.cli, pipeline.reshard.job\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    # pyarrow alone takes as long to import as all else.
    assert not set(done.stdout.split()) & {"pyarrow", "pandas", "fsspec", "PIL", "numba", "torch"}
