"""One run a folder: a second process is refused, or does another part."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest

pytest.importorskip("cv2")

from pipeline import lease as leases
from pools import store
from pools.errors import InputError
from tests.pipeline.downloading import (
    HERE,
    candidates,
    picture,
    run,
    settings,
    start,
    until,
    web,
)
from tests.pipeline.server import Answer, Server
from tests.pipeline.trees import tree

# One run a folder ---------------------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_while_the_first_one_lives(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 4)
    source = candidates(tmp_path / "c.parquet", rows)
    run(source, tmp_path / "clean", server, shard_size=2)
    server.on(rows[3]["url"], Answer(picture(3), delay=60), Answer(picture(3)))
    slow = replace(settings(server).policy, deadline=90)
    server.requests.clear()
    first = start(source, pool, server, shard_size=2, policy=slow)
    try:
        until(lambda: rows[3]["url"] in server.requests or first.poll() is not None)
        second = start(source, pool, server, shard_size=2)
        said, _ = second.communicate(timeout=60)
        assert second.returncode == 2
        assert f"process {first.pid}" in said
        assert "--part" in said
        with pytest.raises(InputError, match="another run works here"):
            run(source, pool, server, replace(HERE, overwrite=True), shard_size=2)
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    # Its lease counts for nothing now.
    assert list((pool / "shards/.winnow/leases").iterdir())
    assert run(source, pool, server, shard_size=2).counts == {"in": 4, "kept": 4}
    assert tree(pool) == tree(tmp_path / "clean")


def test_two_processes_share_the_shards(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 12, delay=0.05)
    source = candidates(tmp_path / "c.parquet", rows)
    run(source, tmp_path / "clean", server, shard_size=2)
    server.requests.clear()
    both = [start(source, pool, server, (i, 2), shard_size=2) for i in range(2)]
    assert [p.wait(timeout=60) for p in both] == [0, 0]
    assert sorted(server.requests) == sorted(r["url"] for r in rows)
    said = [p.stdout.read() for p in both if p.stdout]
    assert any("'kept': 12" in text for text in said)
    assert tree(pool) == tree(tmp_path / "clean")


@pytest.mark.parametrize("root", ["", "memory://leases"])
def test_leases(tmp_path: Path, monkeypatch: Any, root: str) -> None:
    output = root or str(tmp_path / "out")
    monkeypatch.setattr(leases, "_SETTLE", 0.0)
    path = store.join(output, ".winnow/leases/0-1.json")
    mine = leases.Lease(output)

    def held_by(**of: Any) -> None:
        store.write_json(path, {"host": "elsewhere", "pid": 1, "boot": "b", "token": "t", "alive": time.time(), **of})

    try:
        held_by()
        with pytest.raises(InputError, match="process 1 on elsewhere"):
            mine.take()
        held_by(alive=time.time() - leases.STALE - 1)
        with leases.held(mine):
            assert store.read_json(path)["pid"] == os.getpid()
            # A part beside the whole is refused, and parts of another number.
            store.write_json(store.join(output, ".winnow/leases/1-2.json"), {**store.read_json(path), "host": "elsewhere"})
            with pytest.raises(InputError):
                leases.Lease(output).take()
            store.remove_tree(path)
            with leases.held(leases.Lease(output, (0, 2))):
                pass
            with pytest.raises(InputError):
                leases.Lease(output, (1, 2)).take()
            with pytest.raises(InputError):
                leases.Lease(output, (0, 3)).take()
        assert not store.exists(path)
    finally:
        if root:
            fsspec.filesystem("memory").rm("/leases", recursive=True)


def test_a_lease_shows_signs_of_life(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT", 0.02)
    path = tmp_path / ".winnow/leases/0-1.json"
    with leases.held(leases.Lease(str(tmp_path))):
        first = json.loads(path.read_text())
        until(lambda: json.loads(path.read_text())["alive"] > first["alive"])
    assert not path.exists()
