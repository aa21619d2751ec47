"""`winnow pool verify`: each kind of damage is found and named, and a whole pool is called whole."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.pool.verify import check_checksums, verify, write_checksums
from pools.errors import InputError
from pools.layout import Pool
from tests.pipeline.made_pools import make_pool, picture, uid, write_tar
from tests.pipeline.test_cli import call

HERE = Options(workers=0, quiet=True)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    return make_pool(tmp_path / "pool", {"a": [1, 2, 3], "sub/b": [4, 5]})


def problems(pool: Path, **options: bool) -> list[str]:
    return list(verify(Pool.open(str(pool)), options=HERE, **options).problems)


def test_a_whole_pool_is_whole(pool: Path) -> None:
    outcome = verify(Pool.open(str(pool)), options=HERE)
    assert outcome.problems == ()
    assert outcome.counts == {"files": 6, "rows": 5, "shards": 2, "samples": 5, "served_bytes": 5, "problems": 0}
    assert problems(pool, quick=True) == []


def test_pictures_that_were_encoded_anew_are_no_damage(pool: Path) -> None:
    samples = [(uid(i), picture(i), f"text {i}") for i in (1, 2, 3)]
    write_tar(pool / "shards/a.tar", samples)
    with tarfile.open(pool / "shards/a.tar") as tar:
        members = [(m, tar.extractfile(m).read()) for m in tar.getmembers()]  # type: ignore[union-attr]
    with tarfile.open(pool / "shards/a.tar", "w") as tar:
        for member, data in members:
            member.size = len(data := data + b"more" if member.name.endswith("jpg") else data)
            tar.addfile(member, io.BytesIO(data))
    outcome = verify(Pool.open(str(pool)), options=HERE)
    assert (outcome.problems, outcome.counts["served_bytes"]) == ((), 2)


def cut(path: Path, to: int) -> None:
    path.write_bytes(path.read_bytes()[:to])


def retold(pool: Path, **said: int) -> None:
    path = pool / "shards/a_stats.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **said}))


def other_uids(path: Path, numbers: list[int]) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "uid", pa.array([uid(i) for i in numbers])), path)


def begun(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{}")


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + 40] = bytes(40)
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut tar": (lambda p: cut(p / "shards/a.tar", 2000), r"shards/a\.tar: (cut|damaged)"),
    "no tar": (lambda p: (p / "shards/a.tar").unlink(), r"metadata/a\.parquet: 3 rows, and no shard a\.tar"),
    "fewer samples": (
        lambda p: write_tar(p / "shards/a.tar", [(uid(i), picture(i), f"text {i}") for i in (1, 3)]),
        rf"a\.tar: 1 uids of the metadata are not in it: {uid(2)}",
    ),
    "foreign sample": (
        lambda p: write_tar(p / "shards/a.tar", [(uid(i), picture(i), f"text {i}") for i in (1, 2, 3, 9)]),
        rf"a\.tar: 1 samples whose uids are not in the metadata: {uid(9)}",
    ),
    "another status": (
        lambda p: write_tar(p / "shards/a.tar", [(uid(i), picture(i), f"text {i}") for i in (1, 2)]),
        r"a\.tar: 2 samples, its status tells of 3",
    ),
    "no picture": (
        lambda p: write_tar(p / "shards/a.tar", [(uid(i), picture(i) if i > 1 else b"<html>", f"text {i}") for i in (1, 2, 3)]),
        rf"a\.tar: 1 samples with a picture that is no jpg: {uid(1)}",
    ),
    "another caption": (
        lambda p: other_uids(p / "metadata/a.parquet", [2, 1, 3]),
        r"a\.tar: 2 samples with another sha256 in the json than in the metadata",
    ),
    "statistics": (lambda p: retold(p, count=7), r"a_stats\.json: count 7, the status table has 4"),
    "cut metadata": (lambda p: cut(p / "metadata/a.parquet", 700), r"metadata/a\.parquet: unreadable"),
    "spoilt metadata": (lambda p: spoil(p / "metadata/a.parquet", 4), r"metadata/a\.parquet: unreadable"),
    "a bad uid": (
        lambda p: pq.write_table(
            pq.read_table(p / "metadata/a.parquet").set_column(0, "uid", pa.array([uid(1), "17", None])),
            p / "metadata/a.parquet",
        ),
        r"metadata/a\.parquet: row 1: uid '17'",
    ),
    "annotation of others": (lambda p: other_uids(p / "annotations/b32/a.parquet", [1, 3, 2]), r"b32/a\.parquet.*other uids"),
    "fewer annotations": (
        lambda p: pq.write_table(pq.read_table(p / "annotations/b32/a.parquet").slice(1), p / "annotations/b32/a.parquet"),
        r"b32/a\.parquet: 2 rows, the metadata has 3",
    ),
    "spoilt features": (lambda p: spoil(p / "annotations/b32/a.npz", 120), r"b32/a\.npz"),
    "fewer features": (lambda p: np.savez(p / "annotations/b32/a.npz", b32_img=np.zeros((2, 3))), r"b32/a\.npz: 2 rows"),
    "no annotation": (lambda p: shutil.rmtree(p / "annotations/b32/sub"), r"b32/sub/b\.parquet: not there"),
    "stray annotation": (
        lambda p: (p / "annotations/b32/c.parquet").write_bytes((p / "annotations/b32/a.parquet").read_bytes()),
        r"annotations/b32/c\.parquet: no metadata file of this name",
    ),
    "stray tar": (lambda p: write_tar(p / "shards/c.tar", [(uid(7), picture(7), "t")]), r"shards/c\.tar: no metadata file"),
    "an unfinished run": (
        lambda p: begun(p / "shards/.winnow/run.json"),
        r"shards: a run began here and has not ended",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGES))
def test_damage_is_named(pool: Path, damage: str) -> None:
    act, message = DAMAGES[damage]
    act(pool)
    found = problems(pool)
    assert any(re.search(message, line) for line in found), found
    assert all("sub/b" not in line for line in found) or "sub/b" in message.replace("\\", "")


def test_shards_that_were_packed_anew_are_not_held_against_the_metadata_s_files(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"x": [1, 2, 3]}, tars=False)
    write_tar(root / "shards/00000000.tar", [(uid(2), picture(2), "text 2")])
    assert problems(root) == []


def test_exit_status_and_names(pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, capsys, "pool", "verify", str(pool), "--workers", "0")[0] == 0
    cut(pool / "shards/a.tar", 2000)
    status, _, said = call(monkeypatch, capsys, "pool", "verify", str(pool), "--workers", "0")
    assert (status, "shards/a.tar" in said) == (1, True)
    status, said, _ = call(monkeypatch, capsys, "pool", "verify", str(pool), "--quick", "--workers", "0", "--json")
    assert (status, json.loads(said)["problems"]) == (0, [])


def test_checksums_are_those_of_sha256sum(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "sums")
    assert write_checksums(Pool.open(str(pool)), path, HERE) == 12
    subprocess.run(["sha256sum", "--check", "--strict", path], cwd=pool, check=True, capture_output=True)
    assert check_checksums(Pool.open(str(pool)), path, HERE).problems == ()
    data = bytearray((pool / "shards/a.tar").read_bytes())
    data[600] ^= 1  # within a picture: nothing else would see it
    (pool / "shards/a.tar").write_bytes(data)
    (pool / "shards/a_stats.json").unlink()
    status, _, said = call(monkeypatch, capsys, "pool", "verify", str(pool), "--checksums", path, "--workers", "0")
    assert status == 1
    assert "shards/a.tar: other bytes than before" in said
    assert "shards/a_stats.json: gone" in said
    Path(path).write_text("no list\n")
    with pytest.raises(InputError, match="line 1"):
        check_checksums(Pool.open(str(pool)), path, HERE)
