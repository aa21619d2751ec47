"""Runs of a download after the first: what failed asked for again, new rows added; on Spark and on object stores as here."""

from __future__ import annotations

import errno
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest

pytest.importorskip("cv2")

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules
from pipeline.download.job import download
from pipeline.engine import Options
from pools import shards
from pools.errors import DiskFull, InputError
from tests.pipeline.downloading import (
    HERE,
    broken,
    candidates,
    consistent,
    healed,
    manifest,
    members,
    metadata,
    picture,
    run,
    samples,
    settings,
    status,
    web,
)
from tests.pipeline.server import Answer, Server
from tests.pipeline.trees import tree

# Retried ------------------------------------------------------------------------------------------------------------------


# T28
@pytest.mark.parametrize("size", [5, 2])
def test_just_the_failed_requests_are_made_again(tmp_path: Path, pool: Path, server: Server, size: int) -> None:
    rows = web(server, 5)
    source = candidates(tmp_path / "c.parquet", rows)
    run(source, tmp_path / "whole", server, shard_size=size)
    lost = broken(server, rows, 1, 4)
    assert run(source, pool, server, shard_size=size).counts == {"in": 5, "kept": 3, "failed:http_status": 2, "http_404": 2}
    before = samples(pool)

    healed(server, rows, lost)
    again = run(source, pool, server, shard_size=size, retry_failed=True)
    assert again.counts == {"in": 5, "kept": 5}
    assert sorted(server.requests) == sorted([rows[1]["url"], rows[4]["url"]])
    after = samples(pool)
    assert list(after) == [r["uid"] for r in rows]
    assert {key: after[key] for key in before} == before
    consistent(pool)
    assert manifest(pool)["counts"] == again.counts
    # Nothing tells it from a run in which nothing failed.
    assert tree(pool) == tree(tmp_path / "whole")

    server.requests.clear()
    assert run(source, pool, server, shard_size=size, retry_failed=True) == again == run(source, pool, server, shard_size=size)
    assert server.requests == []


def test_what_cannot_heal_is_not_asked_for_again(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 7)
    whole = picture(9, (200, 100))
    answers = [
        Answer(b"", 503),
        Answer(whole, headers=[("X-Robots-Tag", "noai")]),
        Answer(b"<html>"),
        Answer(whole[:500]),
        Answer(picture(1, (10, 10))),
        Answer(whole, reset=True),
    ]
    for row, answer in zip(rows, answers, strict=False):
        server.on(row["url"], answer)
    source = candidates(tmp_path / "c.parquet", [*rows, {"uid": "e", "url": "ftp://h/a", "text": "t", "crawl": None}])
    rules = ImageRules(min_side=20)
    run(source, pool, server, images=rules)
    reasons = ["http_status", "opt_out", "not_an_image", "truncated_image", "too_small", "connection", None, "bad_url"]
    assert [r["reason"] for r in status(pool)] == reasons
    server.requests.clear()
    run(source, pool, server, images=rules, retry_failed=True)
    assert set(server.requests) == {rows[n]["url"] for n in (0, 3, 5)}
    assert [r["reason"] for r in status(pool)] == reasons
    with pytest.raises(InputError, match="image_size 512"):
        run(source, pool, server, images=ImageRules(min_side=20, image_size=256), retry_failed=True)


def test_a_retry_keeps_what_stands_in_a_shard_of_failures_and_successes(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 6)
    for i, row in enumerate(rows):
        row |= {"sha256": "0" * 64, "face_bboxes": [[0.1, 0.1, 0.4, 0.4]], "score": i / 3}
    source = candidates(tmp_path / "c.parquet", rows)
    lost = broken(server, rows, 0, 1, 2, 5)
    run(source, pool, server, shard_size=3)
    assert not (pool / "shards/00000000.tar").exists()
    # One heals, one fails in another way.
    healed(server, rows, {1: lost[1]})
    server.on(rows[5]["url"], Answer(b"<html>"))
    run(source, pool, server, shard_size=3, retry_failed=True)
    consistent(pool)
    found = status(pool)
    assert [r["reason"] for r in found] == ["http_status", None, "http_status", None, None, "not_an_image"]
    assert [r["score"] for r in found] == [i / 3 for i in range(6)]
    sample = json.loads(samples(pool)[rows[1]["uid"]]["json"])
    assert (sample["input_sha256"], sample["sha256_expected"], sample["face_bboxes"]) == (
        "0" * 64,
        False,
        [[0.1, 0.1, 0.4, 0.4]],
    )
    # The box was blurred as it would have been at the first time.
    run(source, tmp_path / "whole", server, shard_size=3)
    assert samples(tmp_path / "whole")[rows[1]["uid"]] == samples(pool)[rows[1]["uid"]]


def test_only_a_run_that_is_done_can_be_changed(tmp_path: Path, pool: Path, server: Server) -> None:
    source = candidates(tmp_path / "c.parquet", web(server, 2))
    changes: list[dict[str, Any]] = [{"retry_failed": True}, {"extend": True}]
    for change in changes:
        with pytest.raises(InputError, match="no download"):
            run(source, pool, server, **change)
        assert not (pool / "shards").exists()
        with pytest.raises(InputError, match="as a whole"):
            run(source, pool, server, replace(HERE, part=(0, 2)), **change)
    run(source, pool, server, replace(HERE, part=(0, 2)), shard_size=1)
    for change in changes:
        with pytest.raises(InputError, match="has not ended"):
            run(source, pool, server, shard_size=1, **change)
    with pytest.raises(InputError, match="retry-failed, --extend"):
        settings(server, retry_failed=True, extend=True)


# Extended -----------------------------------------------------------------------------------------------------------------


# T48
def test_new_rows_come_as_new_shards(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 7)
    first, second = candidates(tmp_path / "a.parquet", rows[:4]), candidates(tmp_path / "b.parquet", [rows[1], *rows[4:]])
    run(first, pool, server, shard_size=2)
    before = {name: data for name, data in tree(pool).items() if name.startswith(("shards/0000", "metadata"))}
    assert len([name for name in before if name.endswith(".tar")]) == 2

    server.requests.clear()
    extended = (
        run(second, pool, server, shard_size=3, extend=False) if False else run(second, pool, server, shard_size=2, extend=True)
    )
    assert extended.counts == {"in": 7, "kept": 7}
    assert sorted(server.requests) == sorted(r["url"] for r in rows[4:])
    after = tree(pool)
    assert {name: after[name] for name in before} == before
    assert [r["uid"] for r in status(pool)] == [r["uid"] for r in rows] == list(samples(pool))
    consistent(pool)
    told = manifest(pool)
    assert [(g["first"], g["shards"], g["rows"], g["known"]) for g in told["generations"]] == [(2, 2, 3, 1)]
    assert (told["shards"], told["counts"]) == (4, extended.counts)

    # Nothing is left to do, by whichever command.
    server.requests.clear()
    assert run(second, pool, server, shard_size=2, extend=True) == extended == run(first, pool, server, shard_size=2)
    assert tree(pool) == after
    assert server.requests == []


def test_one_extension_after_another(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 6)
    # Without uids, which are made as at the first time; with another column, and one row twice.
    bare = [{"url": r["url"], "text": r["text"], "score": i} for i, r in enumerate(rows)]
    run(candidates(tmp_path / "a.parquet", rows[:2]), pool, server)
    run(candidates(tmp_path / "b.parquet", bare[:4]), pool, server, extend=True)
    lost = broken(server, rows, 5)
    done = run(candidates(tmp_path / "c.parquet", [*bare, bare[4]]), pool, server, extend=True)
    assert done.counts == {"in": 7, "kept": 6, "failed:http_status": 1, "http_404": 1}
    assert [(g["first"], g["rows"], g["known"]) for g in manifest(pool)["generations"]] == [(1, 2, 2), (2, 3, 4)]
    assert [r.get("score") for r in status(pool)] == [None, None, 2, 3, 4, 5, 4]
    healed(server, rows, lost)
    assert run("", pool, server, retry_failed=True).counts == {"in": 7, "kept": 7}
    assert server.requests == [rows[5]["url"]]
    assert len(manifest(pool)["generations"]) == 2
    consistent(pool)
    with pytest.raises(InputError, match="user_agent"):
        policy = Policy(proxy=server.root, user_agent="another")
        run(candidates(tmp_path / "d.parquet", bare), pool, server, extend=True, policy=policy)


def test_what_is_new_is_told_by_the_whole_uid(tmp_path: Path, pool: Path, server: Server) -> None:
    url = web(server, 1)[0]["url"]

    def of(*ids: str) -> str:
        return candidates(tmp_path / f"{len(ids)}.parquet", [{"uid": uid, "url": url, "text": "t"} for uid in ids])

    half, other = "0123456789abcdef", "f" * 16
    run(of(half + half, other + half, "any name", half + "0" * 16), pool, server)
    new = [half + other, other + other, "any other name", half + "0" * 15 + "1"]
    run(of(half.upper() + half.upper(), "any name", other + half, half + "0" * 16, *new), pool, server, extend=True)
    assert [r["uid"] for r in status(pool)][4:] == new


def test_an_extension_that_stopped_is_gone_on_with(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any) -> None:
    rows = web(server, 9)
    sources = [candidates(tmp_path / f"{i}.parquet", rows[3 * i : 3 * i + 3]) for i in range(3)]
    for where in (pool, tmp_path / "whole"):
        run(sources[0], where, server, shard_size=1)
    run(sources[1], tmp_path / "whole", server, shard_size=1, extend=True)

    real = shards.Writer.add

    def add(self: shards.Writer, key: str, members: dict[str, bytes]) -> None:
        if key == rows[4]["uid"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, key, members)

    with monkeypatch.context() as patch, pytest.raises(DiskFull):
        patch.setattr(shards.Writer, "add", add)
        run(sources[1], pool, server, shard_size=1, extend=True)
    assert not (pool / "shards/_manifest.json").exists()
    with pytest.raises(InputError, match="another source has not ended"):
        run(sources[2], pool, server, shard_size=1, extend=True)
    by_extension = tmp_path / "other"
    subprocess.run(["cp", "-r", pool, by_extension], check=True)
    run(sources[1], by_extension, server, shard_size=1, extend=True)
    run(sources[0], pool, server, shard_size=1)  # the first command does it as well
    assert tree(pool) == tree(by_extension) == tree(tmp_path / "whole")


# Elsewhere ------------------------------------------------------------------------------------------------------------------


# T46
def test_object_stores_are_retried_and_extended(tmp_path: Path, server: Server) -> None:
    memory = fsspec.filesystem("memory")
    rows = web(server, 5)
    source, more = candidates(tmp_path / "c.parquet", rows[:3]), candidates(tmp_path / "d.parquet", rows)
    lost = broken(server, rows, 1)
    output = "memory://bucket/out/shards/"
    try:
        chosen = settings(server, shard_size=2)
        download(source, output, settings=chosen, options=HERE)
        healed(server, rows, lost)
        download(source, output, settings=replace(chosen, retry_failed=True), options=HERE)
        assert server.requests == [rows[1]["url"]]
        done = download(more, output, settings=replace(chosen, extend=True), options=HERE)
        assert done.counts == {"in": 5, "kept": 5}
        found = memory.find("/bucket")
        assert not [f for f in found if "//" in f]
        assert not [f for f in found if "/changes/" in f or "/leases/" in f or f.endswith(("partial", "before.json"))]
        assert memory.exists("/bucket/out/shards/00000002.tar")
        memory.get("/bucket/out", str(tmp_path / "pool"), recursive=True)
    finally:
        memory.rm("/bucket", recursive=True)
    consistent(tmp_path / "pool")
    assert list(samples(tmp_path / "pool")) == [r["uid"] for r in rows]


@pytest.mark.slow
@pytest.mark.spark
def test_spark_writes_the_same_bytes(tmp_path: Path, server: Server, spark: Any) -> None:
    rows = web(server, 11)
    lost = broken(server, rows, 3, 9)
    source = candidates(tmp_path / "c.parquet", rows)
    on_spark = Options(engine="spark", workers=2, quiet=True)
    for again in (False, True):
        run(source, tmp_path / "local", server, shard_size=3, retry_failed=again)
        run(source, tmp_path / "spark", server, on_spark, shard_size=3, retry_failed=again)
        assert tree(tmp_path / "spark") == tree(tmp_path / "local")
        healed(server, rows, lost)
    assert len(samples(tmp_path / "spark")) == 11
    assert len(metadata(tmp_path / "spark")) == 11
    assert len(members(tmp_path / "spark/shards/00000001.tar")) == 3
    assert pq.read_table(tmp_path / "spark/metadata/00000003.parquet").num_rows == 2
