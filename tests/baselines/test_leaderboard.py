"""The leaderboard over submissions: ranks, noise, and who has no rank, worked out by hand."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from baselines.score.tasks import load_tasks
from baselines.submission import receipt
from baselines.submission.command import ranking
from baselines.submission.leaderboard import Board, as_csv, boards, find
from pools import uids
from pools.errors import InputError


def write(
    folder: Path, method: str, score: float, *, imagenet: float | None = None, lacks: tuple[str, ...] = (), **info: Any
) -> Path:
    """A submission, with one score in all tasks but ImageNet."""
    scale, seed = info.get("scale", "small"), info.get("seed", 0)
    inner = folder / f"{scale}_scale"
    inner.mkdir(parents=True)
    weights = f"{method} {seed}".encode()
    (inner / "checkpoint.pt").write_bytes(weights)
    digest = hashlib.sha256(weights).hexdigest()
    scores = {t.key: score for t in load_tasks().values() if t.counted and t.key not in lacks}
    scores |= {"imagenet1k": imagenet} if imagenet is not None else {}
    names = {t.key: t.name for t in load_tasks().values()}
    lines = [{"key": k, "dataset": names[k], "metrics": {"main_metric": s}} for k, s in scores.items()]
    (inner / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    suite = info.get("suite_version", 2)
    (inner / "eval_manifest.json").write_text(json.dumps({"suite_version": suite, "weights_sha256": digest}))
    listed = uids.pack([f"{i:032x}" for i in range(len(method))])
    uids.write_list(str(inner / "samples" / "uids.npy"), listed)
    name = {
        part: f"{scale}_scale/{part}" for part in ("checkpoint.pt", "results.jsonl", "eval_manifest.json", "samples/uids.npy")
    }
    told = {
        "method_name": method,
        "track": "filtering",
        "scale": scale,
        "dataset_size": len(listed),
        "seed": seed,
        "suite_version": suite,
        "departures": [],
        "weights_sha256": digest,
        "checkpoint": name["checkpoint.pt"],
        "results": name["results.jsonl"],
        "list": {"path": name["samples/uids.npy"], "sha256": uids.digest(listed)},
        "recipe_digest": f"digest of {method}",
        **info,
    }
    (folder / "submission.json").write_text(json.dumps(told))
    receipt.write(str(folder), ["submission.json", *name.values()])
    return folder


def board(*folders: Path, by: str = "Average") -> Board:
    (one,) = boards(find([str(f) for f in folders]), by)
    return one


def ranks(found: Board) -> list[tuple[str, int | None]]:
    return [(row.method, row.rank) for row in found.rows]


def test_submissions_are_ranked_by_their_average(tmp_path: Path) -> None:
    write(tmp_path / "all" / "x", "basic", 0.3, imagenet=0.9)
    write(tmp_path / "all" / "y", "clip", 0.4, imagenet=0.2)
    write(tmp_path / "z", "none", 0.3, imagenet=0.9)
    found = board(tmp_path / "all", tmp_path / "z")
    # (37 · .4 + .2) / 38 and (37 · .3 + .9) / 38; equal ones share a rank, by name.
    assert [r.scores["Average"] for r in found.rows] == pytest.approx([15 / 38, 12 / 38, 12 / 38])
    assert ranks(found) == [("clip", 1), ("basic", 2), ("none", 2)]
    assert ranks(board(tmp_path / "all", tmp_path / "z", by="ImageNet")) == [("basic", 1), ("none", 1), ("clip", 3)]
    assert found.rows[0].scores["VTAB"] == pytest.approx(0.4) and found.rows[0].dataset_size == 4
    assert ranks(board(tmp_path / "z", tmp_path / "z")) == [("none", 1)]
    with pytest.raises(InputError, match="no column 'x'; expected one of ImageNet, ImageNet dist"):
        board(tmp_path / "z", by="x")


def test_each_scale_track_and_suite_is_a_board_of_its_own(tmp_path: Path) -> None:  # T120
    write(tmp_path / "1", "a", 0.3, scale="medium")
    write(tmp_path / "2", "b", 0.2)
    write(tmp_path / "3", "c", 0.4, track="byod")
    write(tmp_path / "4", "d", 0.5, suite_version=1)
    found = boards(find([str(tmp_path)]))
    assert [(b.scale, b.track, b.suite_version, ranks(b)) for b in found] == [
        ("small", "byod", 2, [("c", 1)]),
        ("small", "filtering", 1, [("d", 1)]),
        ("small", "filtering", 2, [("b", 1)]),
        ("medium", "filtering", 2, [("a", 1)]),
    ]


def test_seeds_of_one_recipe_are_a_row_and_the_noise(tmp_path: Path) -> None:
    for i, score in enumerate((0.30, 0.32, 0.31)):
        write(tmp_path / f"a{i}", "apart", score, seed=i)
    write(tmp_path / "b", "beside", 0.295)
    write(tmp_path / "c", "clear", 0.27)
    write(tmp_path / "d", "apart", 0.5, recipe_digest="another recipe of that name")
    found = board(tmp_path)
    assert found.band == pytest.approx(0.02) and found.measured
    assert [(r.method, r.seeds, r.rank, r.noise) for r in found.rows] == [
        ("apart", 1, 1, False),
        ("apart", 3, 2, False),
        ("beside", 1, 3, True),  # .015 below
        ("clear", 1, 4, False),  # .025 below
    ]
    assert found.rows[1].scores["Average"] == pytest.approx(0.31)
    assert list(found.rows[1].ranges["Average"] or ()) == pytest.approx([0.30, 0.32])
    shown = found.lines()
    assert shown[0] == "scale small, track filtering, suite version 2, by Average"
    assert [line.split()[:4] for line in shown[2:6]] == [
        ["1", "apart", "5", "1"], ["2", "apart", "5", "3"], ["≈3", "beside", "6", "1"], ["4", "clear", "5", "1"]
    ]  # fmt: skip
    assert "  noise 0.0200 (seen here between seeds); ≈ is within it of the row above" in shown
    assert "  apart: 0.3000 to 0.3200 over 3 seeds" in shown


def test_without_seeds_the_noise_is_the_published_one(tmp_path: Path) -> None:
    for i, score in enumerate((0.30, 0.295, 0.288)):
        write(tmp_path / str(i), f"m{i}", score, recipe_digest=None)
    found = board(tmp_path)
    assert (found.band, found.measured, [r.noise for r in found.rows]) == (0.006, False, [False, True, False])
    assert board(tmp_path, by="ImageNet").band == 0.002 and board(tmp_path, by="VTAB").band is None
    # The same run twice is no second seed.
    write(tmp_path / "again", "m0", 0.30, recipe_digest=None)
    assert [r.seeds for r in board(tmp_path).rows] == [1, 1, 1]


def test_runs_that_cannot_be_compared_have_no_rank(tmp_path: Path) -> None:
    write(tmp_path / "good", "good", 0.1)
    write(tmp_path / "longer", "longer", 0.9, departures=["own samples_seen"])
    write(tmp_path / "part", "part", 0.9, lacks=("cifar10", "mnist"))
    write(tmp_path / "edited", "edited", 0.3)
    results = tmp_path / "edited" / "small_scale" / "results.jsonl"
    results.write_text(results.read_text().replace("0.3", "0.9"))
    write(tmp_path / "gone", "gone", 0.9)
    (tmp_path / "gone" / "small_scale" / "results.jsonl").unlink()
    write(tmp_path / "moved", "moved", 0.9)
    (tmp_path / "moved" / "small_scale" / "eval_manifest.json").write_text('{"suite_version": 2, "weights_sha256": "ab"}')
    receipt.write(str(tmp_path / "moved"), list(json.loads((tmp_path / "moved" / "receipt.json").read_text())["files"]))
    found = board(tmp_path)
    assert ranks(found)[0] == ("good", 1) and {rank for _, rank in ranks(found)[1:]} == {None}
    notes = {r.method: r.notes for r in found.rows}
    assert notes["good"] == () and notes["longer"] == ("own samples_seen",)
    assert notes["part"] == ("36 of the 38 tasks that count: no average, partial mean 0.9000",)
    assert notes["edited"] == ("another file than the receipt's: small_scale/results.jsonl",)
    assert notes["gone"] == ("the results are missing: small_scale/results.jsonl",)
    assert notes["moved"] == ("the results are of another checkpoint",)
    assert [r.scores["Average"] for r in found.rows if r.method in ("edited", "gone")] == [None, None]
    assert "  longer has no rank: own samples_seen" in found.lines()


def test_weights_are_not_read_for_a_leaderboard(tmp_path: Path) -> None:
    """They are large: their size is looked at."""
    write(tmp_path / "a", "a", 0.3)
    weights = tmp_path / "a" / "small_scale" / "checkpoint.pt"
    weights.write_bytes(weights.read_bytes()[::-1])
    assert ranks(board(tmp_path)) == [("a", 1)]
    weights.write_bytes(b"longer than it was")
    assert board(tmp_path).rows[0].notes == ("another file than the receipt's: small_scale/checkpoint.pt",)


def test_tables_for_programs(tmp_path: Path) -> None:
    write(tmp_path / "a0", 'the "first", of two', 0.25, seed=0)
    write(tmp_path / "a1", 'the "first", of two', 0.35, seed=1)
    write(tmp_path / "b", "second", 0.2, departures=["own batch_size"])
    rows = list(csv.DictReader(CliRunner().invoke(ranking, [str(tmp_path), "--csv"]).stdout.splitlines()))
    assert (
        as_csv(boards(find([str(tmp_path)])))
        .splitlines()[0]
        .startswith("rank,scale,track,suite_version,method,dataset_size,seeds,ImageNet,")
    )
    assert [(r["rank"], r["method"], r["seeds"], r["comparable"], r["notes"]) for r in rows] == [
        ("1", 'the "first", of two', "2", "True", ""), ("", "second", "1", "False", "own batch_size")
    ]  # fmt: skip
    assert [float(rows[0][c]) for c in ("Average", "Average low", "Average high")] == pytest.approx([0.3, 0.25, 0.35])
    (told,) = json.loads(CliRunner().invoke(ranking, [str(tmp_path), "--json"]).stdout)["boards"]
    assert (told["scale"], told["ranked_by"], told["noise"]) == (
        "small",
        "Average",
        {"band": pytest.approx(0.1), "measured": True},
    )
    assert [r["rank"] for r in told["rows"]] == [1, None] and told["rows"][0]["ranges"]["Retrieval"] == pytest.approx(
        [0.25, 0.35]
    )


def test_folders_without_submissions_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        find([str(tmp_path / "none")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no submission here"):
        find([str(tmp_path / "empty")])
