"""How a download ends early, how it gets past slow rows, and what a person sees of it."""

from __future__ import annotations

import errno
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cv2")

from pipeline.download.advice import advice
from pipeline.download.fetching.fetch import Fetcher, FetchFailed, Policy
from pipeline.download.shards import flow
from pipeline.engine import Options
from pools import shards
from pools.errors import DiskFull, WorkFailed
from pools.schema import Reason
from tests.pipeline.downloading import (
    broken,
    candidates,
    consistent,
    healed,
    picture,
    run,
    samples,
    web,
)
from tests.pipeline.server import Answer, Server
from tests.pipeline.trees import tree

# Ends ---------------------------------------------------------------------------------------------------------------------


# T32
def test_a_full_disk_says_what_is_needed(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any) -> None:
    source = candidates(tmp_path / "c.parquet", web(server, 8))
    real, added = shards.Writer.add, []

    def add(self: shards.Writer, key: str, members: dict[str, bytes]) -> None:
        added.append(sum(-(-len(m) // 512) * 512 + 512 for m in members.values()))
        if len(added) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, key, members)

    with monkeypatch.context() as patch, pytest.raises(DiskFull) as e:
        patch.setattr(shards.Writer, "add", add)
        run(source, pool, server, shard_size=4)
    said = str(e.value)
    assert str(pool / "shards/00000000.tar") in said
    needed = int(re.search(r"needs about ([\d,]+) bytes", said)[1].replace(",", ""))  # type: ignore[index]
    assert abs(needed - sum(added) * 4 / 3) <= 4
    assert e.value.exit_code == 1
    assert len(added) == 3, "no other shard was tried"
    assert not (pool / "shards/.winnow/done").exists()
    assert run(source, pool, server, shard_size=4).counts == {"in": 8, "kept": 8}
    consistent(pool)


def test_a_run_in_which_nearly_everything_fails_stops(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 60)
    lost = broken(server, rows, *range(20, 60))
    source = candidates(tmp_path / "c.parquet", rows)
    chosen: dict[str, Any] = {"shard_size": 10, "max_failed_rows": 10, "threads": 1}
    with pytest.raises(WorkFailed, match=r"10 of 10 urls in a row failed: http_status 100 %(.|\n)*run again") as e:
        run(source, pool, server, **chosen)
    assert e.value.exit_code == 1
    assert len(server.requests) < 40
    assert sorted(p.name for p in (pool / "shards").glob("*.tar")) == ["00000000.tar", "00000001.tar"]
    assert not (pool / "shards/_manifest.json").exists()
    healed(server, rows, lost)
    assert run(source, pool, server, **chosen).counts == {"in": 60, "kept": 60}
    assert len(server.requests) == 40

    for where, more in (("never", {"max_failed": None}), ("seldom", {"max_failed_rows": 1000})):
        broken(server, rows, *range(20, 60))
        assert run(source, tmp_path / where, server, **{**chosen, **more}).counts["kept"] == 20
        healed(server, rows, lost)


def test_workers_are_all_stopped_by_the_first_that_gives_up(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 40)
    for row in rows[20:]:
        server.on(row["url"], Answer(picture(1), delay=1.0))
    broken(server, rows, *range(20))
    source = candidates(tmp_path / "c.parquet", rows)
    start = time.monotonic()
    with pytest.raises(WorkFailed, match="in a row failed"):
        chosen: dict[str, Any] = {"shard_size": 20, "max_failed_rows": 10, "threads": 1}
        run(source, pool, server, Options(workers=2, quiet=True), **chosen)
    assert time.monotonic() - start < 15
    assert len(server.requests) < 28


# Slow rows ----------------------------------------------------------------------------------------------------------------


def test_slow_rows_hold_up_neither_the_others_nor_the_next_shard(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 60)
    for i in (0, 10, 20, 30, 40, 50):
        server.on(rows[i]["url"], Answer(picture(i), delay=0.8))
    start = time.monotonic()
    run(candidates(tmp_path / "c.parquet", rows), pool, server, shard_size=10, threads=8)
    # One after the other they would take six times as long.
    assert time.monotonic() - start < 3 * 0.8
    assert list(samples(pool)) == [r["uid"] for r in rows]
    consistent(pool)


def test_images_that_wait_lie_in_a_file_beyond_some_megabytes(
    tmp_path: Path, pool: Path, server: Server, monkeypatch: Any
) -> None:
    rows = web(server, 40)
    source = candidates(tmp_path / "c.parquet", rows)
    run(source, tmp_path / "plain", server, shard_size=20)
    for i in (0, 21):
        server.on(rows[i]["url"], Answer(picture(i), delay=0.3))
    spilled = []
    real = flow._Waiting._spill

    def spill(self: Any, number: int, image: Any) -> Any:
        spilled.append(number)
        return real(self, number, image)

    monkeypatch.setattr(flow, "HELD_BYTES", 2500)
    monkeypatch.setattr(flow._Waiting, "_spill", spill)
    run(source, pool, server, shard_size=20)
    assert len(spilled) > 10
    assert tree(pool) == tree(tmp_path / "plain")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(DiskFull, match=r"shards: No space left on device, for images that wait"):
        run(source, tmp_path / "full", server, shard_size=20)


@pytest.mark.slow
def test_thousands_of_dead_hosts_do_not_stall_a_run(tmp_path: Path, pool: Path, server: Server) -> None:
    rows = web(server, 100)
    dead = [
        {"uid": None, "url": server.on(f"http://dead{i}.invalid/", Answer(delay=60)), "text": "t", "crawl": None}
        for i in range(2000)
    ]
    source = candidates(
        tmp_path / "c.parquet", [row for i, d in enumerate(dead) for row in ([d, rows[i // 20]] if i % 20 == 0 else [d])]
    )
    start = time.monotonic()
    policy = Policy(proxy=server.root, deadline=0.5, retries=0, per_host=1000)
    done = run(source, pool, server, shard_size=300, threads=50, max_failed=None, policy=policy)
    assert done.counts == {"in": 2100, "kept": 100, "failed:timeout_total": 2000}
    assert time.monotonic() - start < 1.5 * (2000 * 0.5 / 50)


# What a person sees -------------------------------------------------------------------------------------------------------


def test_the_line_moves_within_a_shard(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any, capsys: Any) -> None:
    rows = web(server, 40, delay=0.1)
    broken(server, rows, 1, 2)
    monkeypatch.setattr("pipeline.progress.LOG_EVERY", 0.0)
    monkeypatch.setattr("pipeline.download.shards.live.EVERY", 0.1)
    run(candidates(tmp_path / "c.parquet", rows), pool, server, Options(workers=0))
    lines = [line for line in capsys.readouterr().err.splitlines() if " rows in " in line]
    shown = [int(re.match(r"download: (\d+) of 40 rows", line)[1]) for line in lines]  # type: ignore[index]
    assert shown == sorted(shown)
    assert len({n for n in shown if 0 < n < 40}) >= 3
    assert shown[-1] == 40
    assert re.search(r"\d+ images/s, \d+\.\d MB/s, 95 % ok, http_status 5 %$", lines[-1])


def test_workers_tell_the_line_too(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any, capsys: Any) -> None:
    rows = web(server, 40, delay=0.2)
    monkeypatch.setattr("pipeline.progress.LOG_EVERY", 0.0)
    run(candidates(tmp_path / "c.parquet", rows), pool, server, Options(workers=2), shard_size=20, threads=2)
    shown = [int(n) for n in re.findall(r"download: (\d+) of 40 rows", capsys.readouterr().err)]
    assert any(n % 20 for n in shown)
    assert shown[-1] == 40


# T45
def test_the_summary_has_shares_and_advice(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any, capsys: Any) -> None:
    rows = web(server, 10)
    broken(server, rows, 7, 8)
    real = Fetcher.fetch

    def fetch(self: Fetcher, url: str) -> Any:
        unknown = url in {r["url"] for r in rows[:7]}
        return FetchFailed(Reason.NAME_RESOLUTION, "Name or service not known") if unknown else real(self, url)

    monkeypatch.setattr(Fetcher, "fetch", fetch)
    policy = Policy(proxy=server.root, deadline=1.1, retries=0)
    run(candidates(tmp_path / "c.parquet", rows), pool, server, Options(workers=0), policy=policy)
    said = capsys.readouterr().err
    assert "DNS" in said and "--workers" in said
    summary = json.loads((pool / "shards/_summary.json").read_text())
    assert summary["rows"] == 10
    assert summary["reasons"] == {
        "name_resolution": {"rows": 7, "share": 0.7},
        "http_status": {"rows": 2, "share": 0.2},
        "kept": {"rows": 1, "share": 0.1},
    }
    assert list(summary["reasons"]) == ["name_resolution", "http_status", "kept"]
    assert summary["http"] == {"404": 2}
    assert len(summary["advice"]) == 1 and "DNS" in summary["advice"][0]


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ({"failed:name_resolution": 20}, "DNS"),
        ({"failed:timeout_total": 3, "failed:timeout_connect": 2}, "--timeout"),
        ({"http_403": 5}, "--user-agent"),
        ({"http_429": 5}, "too many requests"),
        ({"failed:private_address": 5}, "--allow-private"),
        ({"failed:opt_out": 5}, "object"),
        ({"other_sha256": 5}, "sha256_expected"),
    ],
)
def test_advice(counts: dict[str, int], word: str) -> None:
    (sentence,) = advice({"in": 100, "kept": 50, **counts})
    assert word in sentence
    assert advice({"in": 100, "kept": 50, **{name: n - 4 for name, n in counts.items() if n < 20}}) == [] or "DNS" in sentence
