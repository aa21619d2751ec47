"""Resharding: the samples a list names, as often as it names them, byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import fsspec
import numpy as np
import pytest

from pipeline.engine import Options
from pipeline.reshard import reshard
from pools import shards, uids
from pools.errors import InputError, WorkFailed
from tests.pipeline.trees import tree

QUIET = Options(workers=0, quiet=True)


def uid(i: int) -> str:
    return f"{i * 7919 % 1000:032x}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three shards of 4, 0 and 3 samples; the keys are the same in each shard, as the field's downloaders make them."""
    folder = tmp_path / "shards"
    n = 0
    for s, size in enumerate((4, 0, 3)):
        with shards.write(str(folder / f"{s:05d}.tar")) as out:
            for k in range(size):
                n += 1
                out.add(
                    f"{k:06d}",
                    {"jpg": b"\xff\xd8" + bytes([n]) * 50, "txt": b"caption", "json": json.dumps({"uid": uid(n)}).encode()},
                )
    return folder


def write_list(tmp_path: Path, *samples: int) -> str:
    path = str(tmp_path / "list.npy")
    uids.write_list(path, uids.pack([uid(i) for i in samples]))
    return path


def written(folder: Path) -> list[tuple[str, str, int, dict[str, bytes]]]:
    """(shard, key, sample number, members) in order."""
    number = {uid(i): i for i in range(1, 8)}
    found = []
    for path in shards.list_shards(str(folder)):
        for key, members in shards.read_all(path):
            found.append((Path(path).stem, key, number[json.loads(members["json"])["uid"]], members))
    return found


# T90, T94
def test_each_uid_is_written_as_often_as_the_list_names_it(tmp_path: Path, source: Path) -> None:
    wanted = (5, 2, 5, 1, 5)
    outcome = reshard(str(source), write_list(tmp_path, *wanted), str(tmp_path / "out"), options=QUIET)
    samples = written(tmp_path / "out")
    assert Counter(n for _, _, n, _ in samples) == Counter(wanted)
    assert [key for _, key, _, _ in samples] == [f"{uid(1)}-0", f"{uid(2)}-0", *(f"{uid(5)}-{k}" for k in range(3))]
    assert outcome.counts == {"in": 5, "kept": 5, "dropped:missing": 0}
    for _, _, n, members in samples:
        assert members["jpg"] == b"\xff\xd8" + bytes([n]) * 50
        assert list(members) == ["jpg", "txt", "json"]
    ids = np.load(tmp_path / "out" / "sample_ids.npy")
    assert ids.tolist() == np.load(tmp_path / "list.npy").tolist()


# T91
def test_no_shard_is_empty_and_no_sample_is_doubled(tmp_path: Path, source: Path) -> None:
    reshard(str(source), write_list(tmp_path, *range(1, 8)), str(tmp_path / "out"), shard_size=3, options=QUIET)
    assert Counter(shard for shard, *_ in written(tmp_path / "out")) == {"00000000": 3, "00000001": 3, "00000002": 1}
    assert [n for _, _, n, _ in written(tmp_path / "out")] == list(range(1, 8))


@pytest.mark.parametrize("shard_size", [1, 2, 3, 4])
def test_repeats_go_on_over_the_border_of_a_shard(tmp_path: Path, source: Path, shard_size: int) -> None:
    reshard(str(source), write_list(tmp_path, 2, 2, 2, 2, 3), str(tmp_path / "out"), shard_size=shard_size, options=QUIET)
    assert [key for _, key, _, _ in written(tmp_path / "out")] == [*(f"{uid(2)}-{k}" for k in range(4)), f"{uid(3)}-0"]


# T89
def test_missing_uids_are_counted_and_listed(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1, 50, 50)
    outcome = reshard(str(source), listed, str(tmp_path / "out"), options=QUIET)
    assert outcome.counts == {"in": 3, "kept": 1, "dropped:missing": 2}
    assert outcome.problems == (f"in no shard: {uid(50)}",)
    missing = uids.read_list(str(tmp_path / "out" / "missing.npy"), kind="remove")
    assert uids.unpack(missing).to_pylist() == [uid(50)]
    with pytest.raises(WorkFailed, match="2 of 3 samples are in no shard"):
        reshard(str(source), listed, str(tmp_path / "strict"), strict=True, options=QUIET)


def test_a_uid_in_two_shards_is_taken_from_the_first(tmp_path: Path, source: Path) -> None:
    with shards.write(str(source / "99999.tar")) as out:
        out.add("x", {"jpg": b"other", "json": json.dumps({"uid": uid(1)}).encode()})
    reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)
    assert [m["jpg"][:2] for *_, m in written(tmp_path / "out")] == [b"\xff\xd8"]


def test_workers_and_reruns_change_no_byte(tmp_path: Path, source: Path) -> None:
    listed = write_list(tmp_path, 1, 2, 3, 6, 6, 7)
    for workers in (0, 2):
        reshard(str(source), listed, str(tmp_path / str(workers)), shard_size=2, options=Options(workers=workers, quiet=True))
    assert tree(tmp_path / "0") == tree(tmp_path / "2")
    lost = tmp_path / "0" / "00000001.tar"
    content = lost.read_bytes()
    for gone in (lost, tmp_path / "0" / ".winnow" / "done" / "00000001.json", tmp_path / "0" / "_manifest.json"):
        gone.unlink()
    reshard(str(source), listed, str(tmp_path / "0"), shard_size=2, options=QUIET)
    assert lost.read_bytes() == content
    assert tree(tmp_path / "0") == tree(tmp_path / "2")


def test_a_store_without_folders_holds_the_same_shards(tmp_path: Path, source: Path) -> None:
    memory = fsspec.filesystem("memory")
    for path in source.iterdir():
        memory.pipe_file(f"/rs/shards/{path.name}", path.read_bytes())
    listed = write_list(tmp_path, 1, 2, 6)
    reshard(str(source), listed, str(tmp_path / "out"), shard_size=2, options=QUIET)
    reshard("memory://rs/shards", listed, "memory://rs/out", shard_size=2, options=QUIET)
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


def test_an_unsorted_list_is_refused(tmp_path: Path, source: Path) -> None:
    np.save(
        tmp_path / "bad.npy",
        uids.pack([uid(2), uid(1)])[np.argsort([2, 1])][::-1] if uid(2) > uid(1) else uids.pack([uid(2), uid(1)])[::-1],
    )
    with pytest.raises(InputError, match="expected uids in sorted order"):
        reshard(str(source), str(tmp_path / "bad.npy"), str(tmp_path / "out"), options=QUIET)


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"[]", b'{"uid": 7}', b'{"uid": "7"}'])
def test_a_sample_without_a_uid_is_named(tmp_path: Path, source: Path, content: bytes) -> None:
    with shards.write(str(source / "99999.tar")) as out:
        out.add("x", {"jpg": b"", "json": content})
    with pytest.raises(InputError, match=r"99999\.tar: (sample 'x' has no uid|row 0)"):
        reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), options=QUIET)


def test_an_empty_list_makes_no_shard(tmp_path: Path, source: Path) -> None:
    outcome = reshard(str(source), write_list(tmp_path), str(tmp_path / "out"), options=QUIET)
    assert outcome.counts == {"in": 0, "kept": 0, "dropped:missing": 0}
    assert list((tmp_path / "out").glob("*.tar")) == []
