"""What a download finds out about images: hashes, sizes, faces, the same bytes under many urls."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("cv2")

from pipeline.download.images.prepare import ImageRules
from pipeline.engine import Options
from pools import uids
from pools.errors import InputError
from tests.pipeline.downloading import (
    Columns,
    Rows,
    candidates,
    consistent,
    manifest,
    picture,
    run,
    samples,
    status,
    web,
)
from tests.pipeline.server import Answer, Server
from tests.pipeline.trees import tree

# Placeholders -------------------------------------------------------------------------------------------------------------


def placeholders(server: Server) -> Rows:
    rows = web(server, 6)
    for i in (0, 2, 3, 5):
        server.on(rows[i]["url"], Answer(picture(99)))
    return rows


def report(pool: Path) -> Rows:
    return [json.loads(line) for line in (pool / "shards/_placeholders.jsonl").read_text().splitlines()]


# T37
def test_the_same_bytes_under_many_urls_are_reported(tmp_path: Path, pool: Path, server: Server, capsys: Any) -> None:
    rows = placeholders(server)
    source = candidates(tmp_path / "c.parquet", rows)
    done = run(source, pool, server, Options(workers=0), shard_size=2)
    assert done.counts == {"in": 6, "kept": 6, "placeholders": 1}
    sha256 = hashlib.sha256(picture(99)).hexdigest()
    assert report(pool) == [{"sha256": sha256, "urls": 4, "rows": 4, "examples": [rows[i]["url"] for i in (0, 2, 3, 5)]}]
    assert manifest(pool)["placeholders"] == {"least_urls": 4, "dropped": False, "hashes": 1, "rows": 4}
    assert "--drop-placeholders" in capsys.readouterr().err

    server.requests.clear()
    dropped = run(source, pool, server, shard_size=2, drop_placeholders=True)
    assert dropped.counts == {"in": 6, "kept": 2, "dropped:placeholder": 4, "placeholders": 1}
    assert server.requests == []
    consistent(pool)
    assert list(samples(pool)) == [rows[1]["uid"], rows[4]["uid"]]
    found = status(pool)
    assert [r["reason"] for r in found] == [None if i in (1, 4) else "placeholder" for i in range(6)]
    assert all(r["sha256"] and r["original_width"] == 64 for r in found)
    assert len(report(pool)) == 1
    # As if it had been asked for at once, and not undone by a retry or a rerun.
    run(source, tmp_path / "at-once", server, shard_size=2, drop_placeholders=True)
    assert tree(pool) == tree(tmp_path / "at-once")
    server.requests.clear()
    assert run(source, pool, server, shard_size=2, retry_failed=True).counts == dropped.counts
    assert run(source, pool, server, shard_size=2, drop_placeholders=True).counts == dropped.counts
    assert tree(pool) == tree(tmp_path / "at-once")
    assert server.requests == []


def test_urls_are_counted_not_rows(tmp_path: Path, pool: Path, server: Server, monkeypatch: Any) -> None:
    rows = placeholders(server)
    # Two texts to a url, over shards; few counters and few pairs at once, so that other hashes fall into one slot.
    twice = [{**r, "uid": uids.new(r["url"], f"{text} {r['text']}")} for text in ("a", "b") for r in rows]
    source = candidates(tmp_path / "c.parquet", twice)
    monkeypatch.setattr("pipeline.download.shards.placeholders._SLOTS", (2, 2))
    monkeypatch.setattr("pipeline.download.shards.placeholders._PAIRS", 3)
    assert "placeholders" not in run(source, pool, server, shard_size=5, placeholder_urls=5).counts
    assert report(pool) == []
    assert run(source, pool, server, shard_size=5, placeholder_urls=4).counts["placeholders"] == 1
    assert [(of["urls"], of["rows"], len(of["examples"])) for of in report(pool)] == [(4, 8, 4)]
    assert run(source, pool, server, shard_size=5, placeholder_urls=3, retry_failed=True).counts["placeholders"] == 1


# Hashes -------------------------------------------------------------------------------------------------------------------


# T38
@pytest.mark.parametrize("verify", ["warn", "drop", "off"])
def test_expected_hashes(tmp_path: Path, pool: Path, server: Server, verify: str) -> None:
    big = [picture(i, (800, 600)) for i in range(4)]  # made smaller: what is stored has another hash
    rows = []
    for i, body in enumerate(big):
        url = server.on(f"http://h.invalid/{i}.jpg", Answer(body))
        rows.append({"url": url, "text": "t", "sha256": hashlib.sha256(body).hexdigest(), "checksum": None})
    rows[0]["sha256"] = str(rows[0]["sha256"]).upper()
    rows[1]["sha256"] = rows[2]["sha256"]
    rows[3]["sha256"] = None
    source = candidates(tmp_path / "c.parquet", rows)
    done = run(source, pool, server, verify=verify)
    found = status(pool)
    expected = {"warn": [True, False, True, None], "drop": [True, False, True, None], "off": [None] * 4}[verify]
    assert [r["sha256_expected"] for r in found] == expected
    reasons = [None, "hash_mismatch" if verify == "drop" else None, None, None]
    assert [r["reason"] for r in found] == reasons
    assert [r["sha256"] for r in found] == [hashlib.sha256(body).hexdigest() for body in big]
    assert len(samples(pool)) == (3 if verify == "drop" else 4)
    told = {"warn": {"other_sha256": 1}, "drop": {"failed:hash_mismatch": 1}, "off": {}}[verify]
    assert {n: c for n, c in done.counts.items() if n not in ("in", "kept")} == told

    # Of another field: the one that is named counts.
    named = [{**r, "checksum": hashlib.sha256(body).hexdigest(), "sha256": "f" * 64} for r, body in zip(rows, big, strict=True)]
    other = tmp_path / "other"
    chosen: dict[str, Any] = {"verify": verify, "columns": Columns(sha256="checksum")}
    assert run(candidates(tmp_path / "d.parquet", named), other, server, **chosen).counts["kept"] == 4
    assert [r["sha256_expected"] for r in status(other)] == ([None] * 4 if verify == "off" else [True] * 4)


# T43, T44
def test_every_row_tells_the_size_as_served(tmp_path: Path, pool: Path, server: Server) -> None:
    bodies = [picture(1), picture(2, (200, 50)), picture(3, (30, 40)), b"\xff\xd8 broken", picture(4, (900, 600))]
    urls = [server.on(f"http://h.invalid/{i}.jpg", Answer(body)) for i, body in enumerate(bodies)]
    moved = server.on("http://h.invalid/moved", Answer.redirect(urls[0]))
    source = candidates(tmp_path / "c.parquet", [{"url": u, "text": "t"} for u in [*urls, moved]])
    run(source, pool, server, images=ImageRules(max_ratio=3, min_side=40))
    found = status(pool)
    assert [(r["original_width"], r["original_height"]) for r in found[:3]] == [(64, 48), (200, 50), (30, 40)]
    assert [r["reason"] for r in found[:3]] == [None, "aspect_ratio", "too_small"]
    assert found[3]["reason"] in ("truncated_image", "not_an_image")
    assert (found[4]["original_width"], found[4]["width"], found[4]["height"]) == (900, 512, 341)
    assert (found[5]["final_url"], found[5]["url"]) == (urls[0], moved)  # T26
    assert next(iter(samples(pool).values()))["jpg"] == bodies[0]
    assert [r["frames"] for r in found if r["reason"] is None] == [1, 1, 1]


def test_boxes_are_blurred(tmp_path: Path, pool: Path, server: Server) -> None:
    out = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    Image.fromarray(noise).save(out, "JPEG", quality=95)
    url = server.on("http://h.invalid/a.jpg", Answer(out.getvalue()))
    rows = [{"url": url, "text": str(i), "face_bboxes": boxes} for i, boxes in enumerate([[[0.0, 0.0, 0.5, 0.5]], [], None])]
    source = candidates(tmp_path / "c.parquet", rows)
    run(source, pool, server)

    def spread(sample: dict[str, bytes]) -> tuple[float, float]:
        pixels = np.asarray(Image.open(io.BytesIO(sample["jpg"]))).astype(float)
        return float(pixels[20:80, 20:80].std()), float(pixels[120:180, 120:180].std())

    blurred, *others = samples(pool).values()
    inside, outside = spread(blurred)
    assert inside < outside / 3
    assert all(other["jpg"] == out.getvalue() for other in others)
    run(source, tmp_path / "plain", server, blur=False)
    assert all(sample["jpg"] == out.getvalue() for sample in samples(tmp_path / "plain").values())
    pixels = candidates(
        tmp_path / "p.parquet", [*rows, {**rows[0], "text": "in pixels", "face_bboxes": [[20.0, 20.0, 80.0, 80.0]]}]
    )
    with pytest.raises(
        InputError, match=r"face_bboxes of [0-9a-f]{32}: face box \[20\.0, 20\.0, 80\.0, 80\.0\] is not relative"
    ):
        run(pixels, tmp_path / "pixels", server)
    assert not (tmp_path / "pixels/shards/00000000.tar").exists()
    assert run(pixels, tmp_path / "unblurred", server, blur=False).counts["kept"] == 4
    with pytest.raises(InputError, match="face_bboxes"):
        run(candidates(tmp_path / "d.parquet", [{**rows[0], "face_bboxes": "x"}]), tmp_path / "bad", server)
