"""Candidates to shards and metadata through a real forward proxy on loopback."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("img2dataset")

import fsspec
from PIL import Image

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules
from pipeline.download.job import DownloadSettings, download
from pipeline.engine import Options
from pools import shards, uids
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.manifest import Outcome
from pools.schema import METADATA, STATUS, Reason, check_columns
from tests.pipeline.downloading import HERE, candidates, members, picture, settings, start, web
from tests.pipeline.server import Answer, Server
from tests.pipeline.trees import tree


def test_every_row_is_accounted_for(tmp_path: Path, server: Server) -> None:
    rows = web(server, 3)
    whole = picture(50, (300, 200))
    bad = {
        "http_status": Answer(b"no", 404),
        "not_an_image": Answer(b"<html>gone</html>"),  # T36
        "truncated_image": Answer(whole[: len(whole) // 2]),
        "timeout_total": Answer(whole, drip=0.3),
        "opt_out": Answer(whole, headers=[("X-Robots-Tag", "noai")]),
        "too_small": Answer(picture(3, (10, 10))),
        "empty": Answer(b""),
    }
    for name, answer in bad.items():
        url = server.on(f"http://bad.invalid/{name}.jpg", answer)
        rows.insert(1, {"uid": uids.new(url, name), "url": url, "text": name, "crawl": None})
    rows.append({"uid": uids.new("", "nothing"), "url": None, "text": "nothing", "crawl": None})
    rows.append({"uid": uids.new("ftp://h/a", "ftp"), "url": "ftp://h/a", "text": "ftp", "crawl": None})

    pool = tmp_path / "pool"
    source = candidates(tmp_path / "c.parquet", rows)
    used = settings(server, images=ImageRules(min_side=20))
    outcome = download(source, str(pool / "shards"), settings=used, options=HERE)

    expected = {"in": 12, "kept": 3, "failed:bad_url": 2, **{f"failed:{name}": 1 for name in bad}, "http_404": 1}
    assert outcome.counts == expected
    status = pq.read_table(pool / "shards/00000000.parquet").to_pylist()
    assert [r["uid"] for r in status] == [r["uid"] for r in rows]
    for row in status:
        assert (row["reason"] is None) == (row["status"] == "success")
        if row["text"] in bad:
            assert row["reason"] == row["text"]
    on_resize = {"not_an_image", "truncated_image", "too_small"}
    assert {r["reason"] for r in status if r["status"] == "failed_to_resize"} == on_resize

    # T41
    tar = members(pool / "shards/00000000.tar")
    metadata = pq.read_table(pool / "metadata/00000000.parquet").to_pylist()
    wanted = [r["uid"] for r in status if r["status"] == "success"]
    assert [json.loads(m["json"])["uid"] for m in tar.values()] == wanted == [r["uid"] for r in metadata] == list(tar)
    stats = json.loads((pool / "shards/00000000_stats.json").read_text())
    assert (stats["count"], stats["successes"], stats["failed_to_download"], stats["failed_to_resize"]) == (12, 3, 6, 3)
    assert sum(stats["status_dict"].values()) == 12
    assert stats["status_dict"]["HTTP 404"] == 1
    assert Pool.open(str(pool)).stems == ("00000000",)


def test_what_a_sample_holds(tmp_path: Path, server: Server) -> None:
    served = picture(1, (1024, 512), "PNG")
    url = server.on("https://a.invalid/p.png", Answer(served))
    row = {
        "uid": "0" * 31 + "e",  # T98
        "url": url,
        "text": "ein Stuhl – 50 %",
        "original_width": 7,
        "sha256": "of another time",
        "clip_l14_similarity_score": float("nan"),
        "face_bboxes": [[0.1, 0.2, 0.5, 0.75]],
    }
    pool = tmp_path / "pool"
    download(candidates(tmp_path / "c.parquet", [row]), str(pool / "shards"), settings=settings(server), options=HERE)
    tar = members(pool / "shards/00000000.tar")
    sample = tar["0" * 31 + "e"]
    assert list(sample) == ["jpg", "txt", "json"]
    assert sample["txt"].decode() == row["text"]
    with Image.open(io.BytesIO(sample["jpg"])) as stored:
        assert (stored.format, stored.size) == ("JPEG", (512, 256))
    # T38: the hash is that of the bytes as served
    assert json.loads(sample["json"]) == {
        "uid": row["uid"],
        "url": url,
        "caption": row["text"],
        "key": row["uid"],
        "status": "success",
        "reason": None,
        "error_message": None,
        "width": 512,
        "height": 256,
        "original_width": 1024,
        "original_height": 512,
        "sha256": hashlib.sha256(served).hexdigest(),
        "frames": 1,
        "final_url": url,
        "sha256_expected": False,
        "text": row["text"],
        "input_original_width": 7,
        "input_sha256": "of another time",
        "clip_l14_similarity_score": None,
        "face_bboxes": [[0.1, 0.2, 0.5, 0.75]],
    }
    metadata = pq.read_table(pool / "metadata/00000000.parquet")
    assert metadata.schema.names[: len(METADATA.columns)] == METADATA.schema.names
    assert metadata.schema.field("original_width").type == pa.int32()
    assert metadata.to_pylist()[0]["face_bboxes"] == [[0.1, 0.2, 0.5, 0.75]]
    assert metadata.to_pylist()[0]["input_sha256"] == "of another time"
    status = pq.read_table(pool / "shards/00000000.parquet")
    assert check_columns(STATUS, status.schema) == []
    assert "clip_l14_similarity_score" in status.schema.names


# T42
def test_shard_size_and_workers_change_no_sample(tmp_path: Path, server: Server) -> None:
    rows = web(server, 9)
    del server.routes["http://h1.invalid/4.jpg"]
    source = candidates(tmp_path / "c.parquet", rows)
    found = {}
    for size, workers in ((2, 0), (5, 0), (5, 4)):
        pool = tmp_path / f"{size}-{workers}"
        chosen = settings(server, shard_size=size)
        download(source, str(pool / "shards"), settings=chosen, options=Options(workers=workers, quiet=True))
        found[size, workers] = tree(pool)
    assert found[5, 0] == found[5, 4]
    samples = [
        {k: v for tar in sorted((tmp_path / name / "shards").glob("*.tar")) for k, v in members(tar).items()}
        for name in ("2-0", "5-0")
    ]
    kept = [r["uid"] for i, r in enumerate(rows) if i != 4]
    assert samples[0] == samples[1]
    assert list(samples[0]) == kept
    assert kept[0] == hashlib.md5(b"picture 0http://h0.invalid/0.jpg").hexdigest()
    assert len(list((tmp_path / "2-0" / "shards").glob("*.tar"))) == 5
    assert len(list((tmp_path / "5-0" / "shards").glob("*.tar"))) == 2


def test_slow_answers_do_not_change_the_order(tmp_path: Path, server: Server) -> None:
    rows = web(server, 30)
    for i in (0, 7, 8):
        server.on(rows[i]["url"], Answer(picture(i), delay=0.4))
    start = time.monotonic()
    pool = tmp_path / "pool"
    download(candidates(tmp_path / "c.parquet", rows), str(pool / "shards"), settings=settings(server), options=HERE)
    tar = members(pool / "shards/00000000.tar")
    assert {k: m["jpg"] for k, m in tar.items()} == {r["uid"]: picture(i) for i, r in enumerate(rows)}
    assert list(tar) == [r["uid"] for r in rows]
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("batch", [2, 8192])
def test_rows_of_several_files_and_row_groups(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr("pipeline.download.sources.rows.BATCH_ROWS", batch)
    rows = web(server, 11)
    folder = tmp_path / "candidates"
    (folder / "part").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows[:4]), folder / "a.parquet", row_group_size=3)
    pq.write_table(pa.Table.from_pylist([{**r, "crawl": None} for r in rows[4:10]]), folder / "b.parquet", row_group_size=4)
    last = [{"crawl": "C", "text": r["text"], "url": r["url"], "uid": r["uid"], "extra": 5} for r in rows[10:]]
    pq.write_table(pa.Table.from_pylist(last), folder / "part" / "c.parquet")
    pool = tmp_path / "pool"
    chosen = settings(server, shard_size=3)
    assert download(str(folder), str(pool / "shards"), settings=chosen, options=HERE).counts == {"in": 11, "kept": 11}
    tables = [pq.read_table(p) for p in sorted((pool / "shards").glob("*.parquet"))]
    assert [r["uid"] for t in tables for r in t.to_pylist()] == [r["uid"] for r in rows]
    assert [len(t) for t in tables] == [3, 3, 3, 2]
    assert len({str(t.schema) for t in tables}) == 1
    assert [r["extra"] for r in tables[3].to_pylist()] == [None, 5]


def test_uids_and_keys(tmp_path: Path, server: Server) -> None:
    server.on("http://h.invalid/a.jpg", Answer(picture(1)))
    given: list[str | None] = ["a", "a", "a-1", "../b.c", None, "ü", "x" * 200]
    rows: list[dict[str, Any]] = [{"uid": u, "url": "http://h.invalid/a.jpg", "text": "t"} for u in given]
    pool = tmp_path / "pool"
    download(candidates(tmp_path / "c.parquet", rows), str(pool / "shards"), settings=settings(server), options=HERE)
    tar = members(pool / "shards/00000000.tar")
    made = uids.new("http://h.invalid/a.jpg", "t")

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    assert list(tar) == ["a", "a-1", "a-1-1", md5("../b.c"), made, md5("ü"), md5("x" * 200)]
    assert [json.loads(m["json"])["uid"] for m in tar.values()] == [made if u is None else u for u in given]

    bare: list[dict[str, Any]] = [
        {"url": "http://h.invalid/a.jpg", "text": "t"},
        {"url": "http://h.invalid/a.jpg", "text": None},
    ]
    download(candidates(tmp_path / "d.parquet", bare), str(tmp_path / "q/shards"), settings=settings(server), options=HERE)
    assert list(members(tmp_path / "q/shards/00000000.tar")) == [made, uids.new("http://h.invalid/a.jpg", "")]


# T30
def test_a_shard_without_images_has_no_tar(tmp_path: Path, server: Server) -> None:
    rows = web(server, 6)
    for r in rows[2:4]:
        del server.routes[r["url"]]
    pool = tmp_path / "pool"
    stale = pool / "shards/00000001.tar"
    outcome = download(
        candidates(tmp_path / "c.parquet", rows), str(pool / "shards"), settings=settings(server, shard_size=2), options=HERE
    )
    assert outcome.counts == {"in": 6, "kept": 4, "failed:http_status": 2, "http_404": 2}
    assert not stale.exists()
    assert Pool.open(str(pool)).stems == ("00000000", "00000002")
    assert [r["reason"] for r in pq.read_table(pool / "shards/00000001.parquet").to_pylist()] == ["http_status"] * 2
    assert json.loads((pool / "shards/00000001_stats.json").read_text())["failed_to_download"] == 2


def test_webdataset_reads_the_shards(tmp_path: Path, server: Server) -> None:
    webdataset = pytest.importorskip("webdataset")
    rows = web(server, 5)
    pool = tmp_path / "pool"
    chosen = settings(server, shard_size=3)
    download(candidates(tmp_path / "c.parquet", rows), str(pool / "shards"), settings=chosen, options=HERE)
    urls = [str(p) for p in sorted((pool / "shards").glob("*.tar"))]
    data = webdataset.WebDataset(urls, shardshuffle=False).decode("pil").to_tuple("__key__", "jpg", "txt", "json")
    assert [(k, j.size, t, m["uid"]) for k, j, t, m in data] == [(r["uid"], (64, 48), r["text"], r["uid"]) for r in rows]


# T32
def test_a_full_disk_is_named_and_a_rerun_completes(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    source = candidates(tmp_path / "c.parquet", web(server, 4))
    pool = tmp_path / "pool"
    chosen = settings(server, shard_size=2)
    real, added = shards.Writer.add, []

    def add(self: shards.Writer, key: str, members: dict[str, bytes]) -> None:
        added.append(key)
        if len(added) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, key, members)

    with monkeypatch.context() as patch, pytest.raises(WorkFailed, match=r"00000001.*No space left"):
        patch.setattr(shards.Writer, "add", add)
        download(source, str(pool / "shards"), settings=chosen, options=HERE)
    left = sorted(p.name for p in (pool / "shards").iterdir())
    assert left == [".winnow", "00000000.parquet", "00000000.tar", "00000000_stats.json"]
    assert not (pool / "shards/_manifest.json").exists()
    assert download(source, str(pool / "shards"), settings=chosen, options=HERE).counts == {"in": 4, "kept": 4}


# T46
def test_object_stores(tmp_path: Path, server: Server) -> None:
    store = fsspec.filesystem("memory")
    source = candidates(tmp_path / "c.parquet", web(server, 2))
    download(source, "memory://bucket/out/shards/", settings=settings(server), options=HERE)
    try:
        found = sorted(store.find("/bucket"))
        assert not [f for f in found if "//" in f]
        assert "/bucket/out/shards/00000000.tar" in found
        assert "/bucket/out/metadata/00000000.parquet" in found
    finally:
        store.rm("/bucket", recursive=True)


# T29, T31
def test_a_killed_run_is_completed_to_the_same_bytes(tmp_path: Path, server: Server) -> None:
    rows = web(server, 6)
    source = candidates(tmp_path / "c.parquet", rows)
    chosen = settings(server, shard_size=2)
    clean, killed = tmp_path / "clean", tmp_path / "killed"
    download(source, str(clean / "shards"), settings=chosen, options=HERE)

    server.requests.clear()
    server.on(rows[3]["url"], Answer(picture(3), delay=30), Answer(picture(3)))
    process = start(source, killed, server, shard_size=2, policy=replace(chosen.policy, deadline=60))
    try:
        begin = time.monotonic()
        while not (killed / "shards/.00000001.tar.partial").exists():
            assert process.poll() is None
            assert time.monotonic() - begin < 120
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (killed / "shards/00000000.tar").exists()
    assert not (killed / "shards/00000001.tar").exists()

    outcome = download(source, str(killed / "shards"), settings=chosen, options=HERE)
    assert outcome == Outcome({"in": 6, "kept": 6})
    assert tree(killed) == tree(clean)
    # Shard 2 was begun while a row of shard 1 was waited for.
    assert [server.count(r["url"]) for r in rows] == [1, 1, 2, 2, 2, 2]

    server.requests.clear()
    assert download(source, str(killed / "shards"), settings=chosen, options=HERE) == outcome
    assert server.requests == []


def test_outputs_of_two_downloads_are_not_mixed(tmp_path: Path, server: Server) -> None:
    rows = web(server, 4)
    source = candidates(tmp_path / "c.parquet", rows)
    pool = tmp_path / "pool"
    chosen = settings(server, shard_size=1)
    download(source, str(pool / "shards"), settings=chosen, options=HERE)
    with pytest.raises(InputError, match="shard_size"):
        download(source, str(pool / "shards"), settings=settings(server, shard_size=2), options=HERE)
    again = replace(HERE, overwrite=True)
    download(source, str(pool / "shards"), settings=settings(server, shard_size=2), options=again)
    assert Pool.open(str(pool)).stems == ("00000000", "00000001")

    foreign = tmp_path / "published"
    (foreign / "metadata").mkdir(parents=True)
    published = candidates(foreign / "metadata/abc.parquet", rows)
    for options in (HERE, again):
        with pytest.raises(InputError, match="metadata"):
            download(str(foreign), str(foreign / "shards"), settings=chosen, options=options)
    assert Path(published).exists()
    assert not (foreign / "shards").exists()


def test_wrong_input_is_refused(tmp_path: Path, server: Server) -> None:
    good = candidates(tmp_path / "c.parquet", web(server, 1))
    out = str(tmp_path / "pool/shards")

    def refused(source: str, output: str = out) -> str:
        with pytest.raises(InputError) as e:
            download(source, output, settings=settings(server), options=HERE)
        return str(e.value)

    assert "--output" in refused(good, str(tmp_path / "pool"))
    assert "pool/shards" in refused(good, str(tmp_path / "pool"))
    assert "no such file" in refused(str(tmp_path / "absent.parquet"))
    assert "'url'" in refused(candidates(tmp_path / "d.parquet", [{"URL": "u", "text": "t"}]))
    assert "'text'" in refused(candidates(tmp_path / "e.parquet", [{"url": "u", "TEXT": "t"}]))
    assert "'uid'" in refused(candidates(tmp_path / "f.parquet", [{"url": "u", "text": "t", "uid": 5}]))
    (tmp_path / "g.parquet").write_text("no parquet")
    assert "unreadable" in refused(str(tmp_path / "g.parquet"))
    assert server.requests == []
    with pytest.raises(InputError):
        DownloadSettings(shard_size=0)
    with pytest.raises(InputError):
        Policy(deadline=0)


# T45
def test_many_failed_names_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import socket

    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    rows = [{"url": f"http://n{i}.invalid/", "text": "t"} for i in range(3)]
    chosen = DownloadSettings(policy=Policy(retries=0))
    out = str(tmp_path / "pool/shards")
    outcome = download(candidates(tmp_path / "c.parquet", rows), out, settings=chosen, options=Options(workers=0))
    assert outcome.counts == {"in": 3, "kept": 0, f"failed:{Reason.NAME_RESOLUTION}": 3}
    said = capsys.readouterr().err
    assert "DNS" in said
    assert "--workers" in said
