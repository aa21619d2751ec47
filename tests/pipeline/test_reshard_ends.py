"""Resharding that is killed, on Spark, in a store, and with lists that are longer than memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import shards, uids
from tests import stores
from tests.pipeline.resharding import QUIET, samples, uid, write_list, write_source
from tests.pipeline.trees import tree

ROOT = Path(__file__).resolve().parent.parent.parent


def run(module: str, *args: str) -> float:
    command = [sys.executable, "-m", module, *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    source = write_source(tmp_path / "shards", (4, 3))
    listed = write_list(tmp_path, 1, 2, 2, 5, 6, 77)
    boxes = pa.array([[[0.1, 0.1, 0.2, 0.2]], []], pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"uid": [uid(1), uid(5)], "face_bboxes": boxes}), tmp_path / "boxes.parquet")
    last = int(run("tests.pipeline.kill_reshard", str(source), listed, str(tmp_path / "boxes.parquet"), str(tmp_path / "runs")))
    # The run's name, two index files, three tables and the plan, three shards with their numbers and marks, lists, manifest.
    assert last >= 20
    whole = tree(tmp_path / "runs" / "whole" / "out")
    assert sorted(samples(tmp_path / "runs" / "whole" / "out")) == [1, 2, 2, 5, 6]
    for n in range(1, last + 1):
        assert tree(tmp_path / "runs" / str(n) / "out") == whole, n


def long_list(path: str, n: int) -> list[str]:
    """A list of `n` random uids, a few of them twice; returns some from all over it, and as many that are not in it."""
    rng, known = np.random.default_rng(n), []

    def pieces() -> Iterator[uids.Uids]:
        for i in range(n // 1_000_000):
            words = rng.integers(0, 2**64, (999_900, 2), np.uint64)
            words[:, 0] = words[:, 0] // (n // 1_000_000) + i * (2**64 // (n // 1_000_000))
            words = np.concatenate([words, words[:100]])
            known.append(words[::20_000])
            yield uids.sort(words.view(uids.UID).reshape(-1))

    uids.write_stream(path, pieces())
    some = rng.permutation(np.concatenate(known))[:900]
    others = np.stack([some[:, 0], ~some[:, 1]], axis=1)
    return uids.texts(np.concatenate([some, others]).view(uids.UID).reshape(-1))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_list(tmp_path: Path) -> None:
    taken = {}
    for n in (2_000_000, 40_000_000):
        path = str(tmp_path / f"{n}.npy")
        known = long_list(path, n)
        with shards.write(str(tmp_path / f"shards{n}" / "0.tar")) as out:
            for i, uid_ in enumerate(known):
                out.add(f"{i:06d}", {"jpg": b"x", "json": json.dumps({"uid": uid_}).encode()})
        taken[n] = run("tests.pipeline.reshard_memory", str(tmp_path / f"shards{n}"), path, str(tmp_path / f"out{n}"))
        meta = json.loads((tmp_path / f"out{n}" / "meta.json").read_text())
        assert 0 < len(known) // 2 <= meta["kept"] < len(known)
        assert meta["kept"] + meta["dropped:missing"] == n == meta["in"]
    # The longer list has 640 MB; of it a bit an entry (5 MB) and a key a page (2.5 MB) are held.
    assert taken[40_000_000] - taken[2_000_000] < 30
    assert taken[40_000_000] < 200


@pytest.mark.spark
def test_spark_writes_the_same_bytes(tmp_path: Path, spark: Any) -> None:
    source = write_source(tmp_path / "shards", (4, 3, 5))
    listed = write_list(tmp_path, 1, 2, 2, 9, 77)
    settings = Settings(shard_size=2, shuffle="all")
    for engine in ("local", "spark"):
        out = str(tmp_path / engine / "out")
        reshard(str(source), listed, out, settings=settings, options=Options(engine=engine, workers=2, quiet=True))
    assert tree(tmp_path / "local" / "out") == tree(tmp_path / "spark" / "out")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[stores.S3]:
    pytest.importorskip("s3fs")
    with stores.s3() as server:
        names = {"ENDPOINT_URL": server.url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "MAX_ATTEMPTS": "1"}
        for name, value in (*names.items(), ("DEFAULT_REGION", "us-east-1")):
            monkeypatch.setenv(f"AWS_{name}", value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        fsspec.filesystem("s3").makedirs("pool", exist_ok=True)
        yield server
        fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.slow
def test_from_one_bucket_to_another_the_same_shards_are_written(tmp_path: Path, s3: stores.S3) -> None:
    source = write_source(tmp_path / "shards", (4, 3))
    bucket = fsspec.filesystem("s3")
    bucket.put(str(source), "pool/shards", recursive=True)
    listed = write_list(tmp_path, 1, 2, 6, 6)
    bucket.put(listed, "pool/list.npy")
    settings = Settings(shard_size=3, shuffle="all")
    reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)
    reshard("s3://pool/shards", "s3://pool/list.npy", "s3://pool/out", settings=settings, options=QUIET)
    for name in ("00000000.tar", "00000001.tar", "sample_ids.npy", "missing.npy", "meta.json"):
        assert bucket.cat_file(f"pool/out/{name}") == (tmp_path / "out" / name).read_bytes()
