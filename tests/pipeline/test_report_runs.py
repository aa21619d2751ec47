"""Pages on downloads, training runs, leaderboards and submissions, of files that are written here."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from baselines.score.aggregate import aggregate
from baselines.score.tasks import load_tasks
from baselines.submission.leaderboard import boards, find
from pipeline.report import figures, markdown, runs
from pipeline.report.download import download_page, read_failures, read_shards
from pipeline.report.leaderboard import leaderboard_page, submission_page
from pipeline.report.page import Figure, Page, Table, Text
from pipeline.report.runs import band, choices, read_runs, runs_page
from pools.errors import InputError
from tests.baselines.test_leaderboard import write as write_submission


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures without a picture, which takes a third of a second each; the series that it would show is in its alt."""
    svg = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    monkeypatch.setattr(figures, "draw", lambda name, title, alt, table, *_, **__: Figure(name, title, alt, svg, table))


def parts(page: Page, kind: type[Any]) -> list[Any]:
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def figure(page: Page, name: str) -> Figure:
    found: Figure = next(f for f in parts(page, Figure) if f.name == name)
    return found


def rows(table: Table) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in table.rows}


def said(page: Page) -> str:
    return "\n".join(p for text in parts(page, Text) for p in text.paragraphs)


# Downloads ----------------------------------------------------------------------------------------------------------


def write_shard(folder: Path, name: str, reasons: Sequence[str | None], *, foreign: bool = False, **more: Any) -> None:
    """A shard's status and statistics; None is a success. `foreign`: as img2dataset writes it."""
    status = ["success" if r is None else "failed_to_resize" if r == "not_an_image" else "failed_to_download" for r in reasons]
    table = {
        "url": [f"http://img{i}.host{i % 2}.de/x" for i in range(len(reasons))],
        "status": status,
        "error_message": [None if r is None else "HTTP 404" if r == "http_status" else f"because {r}" for r in reasons],
    }
    table |= {} if foreign else {"reason": list(reasons)}
    pq.write_table(pa.table(table), folder / f"{name}.parquet")
    counts = {"count": len(reasons), "successes": status.count("success")}
    counts |= {s: status.count(s) for s in ("failed_to_download", "failed_to_resize")}
    (folder / f"{name}_stats.json").write_text(json.dumps({**counts, **more}))


def test_a_download_by_shard_reason_and_domain(tmp_path: Path) -> None:
    write_shard(tmp_path, "00000000", [None, None, "http_status", "not_an_image"])
    write_shard(tmp_path, "00000001", [None, None, None, None])
    write_shard(tmp_path, "00000002", ["http_status", "http_status", "opt_out", None])
    (tmp_path / "_manifest.json").write_text(json.dumps({"counts": {"in": 13, "kept": 7, "placeholders": 2}}))
    page = download_page(str(tmp_path))
    assert page.lead == "7 of 12 rows have an image (58.3 %), in 3 shards."
    assert rows(parts(page, Table)[0]) == {
        "all": (12, 100.0),
        "an image": (7, 58.333),
        "failed to download": (4, 33.333),
        "failed to resize (no image, or refused)": (1, 8.333),
    }
    shards = figure(page, "download-shards")
    assert rows(shards.table)["00000002"] == (4, 1, 3, 0, 25.0) and shards.table.marks == {2}
    assert "58.3 % on average, from 25.0 % (00000002) to 100.0 % (00000001)" in shards.alt
    assert rows(figure(page, "download-reasons").table) == {
        "http_status": (3, 60.0),
        "not_an_image": (1, 20.0),
        "opt_out": (1, 20.0),
    }
    assert rows(figure(page, "download-messages").table) == {"HTTP 404": (3, 100.0)}
    # Of each shard the rows 0 and 2 are of host0; failed are rows 2, 3 of the first and 0, 1, 2 of the last.
    assert rows(parts(page, Table)[-1]) == {"host0.de": (6, 3, 50.0), "host1.de": (6, 2, 33.333)}
    assert "13 rows in, the shards 12" in said(page) and "2 pictures came from several urls" in said(page)


def test_a_download_of_img2dataset_and_one_that_has_not_ended(tmp_path: Path) -> None:
    write_shard(tmp_path, "00000", [None, "http_status", "timeout"], foreign=True)
    page = download_page(str(tmp_path))
    assert rows(figure(page, "download-reasons").table) == {"HTTP 404": (1, 50.0), "because timeout": (1, 50.0)}
    assert "has not ended" in said(page)
    with pytest.raises(InputError, match="no statistics of shards"):
        download_page(str(tmp_path / "nowhere"))
    (tmp_path / "00000_stats.json").write_text('{"count": 3}')
    with pytest.raises(InputError, match=r"00000_stats\.json: not a shard's statistics"):
        read_shards(str(tmp_path))
    assert read_failures(str(tmp_path)).reasons.total() == 2


# Runs ---------------------------------------------------------------------------------------------------------------


def write_run(
    folder: Path,
    losses: Sequence[float],
    scores: dict[str, float] | None = None,
    *,
    seed: int = 0,
    ended: bool = True,
    **more: Any,
) -> str:
    folder.mkdir(parents=True)
    lines = [{"step": i + 1, "samples": 8 * (i + 1), "loss": loss, "lr": 0.1, "scale": 14.0} for i, loss in enumerate(losses)]
    lines = [{**line, **{k: v[i] for k, v in more.items()}} for i, line in enumerate(lines)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scale = {"name": "tiny", "model": "winnow-tiny", "batch_size": 8, "comparable": False}
    config = {"scale": scale, "seed": seed, "steps": len(losses), "comparable": False, "changed": ["samples_seen"]}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    if ended:
        told = {"options": {"seed": seed, "batch_size": 8}, "inputs": [folder.parent.name]}
        (folder / "_manifest.json").write_text(json.dumps(told))
    if scores is not None:
        results = [{"key": k, "dataset": k, "metrics": {"main_metric": v}} for k, v in scores.items()]
        (folder / "eval_results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in results))
        (folder / "eval_manifest.json").write_text(json.dumps({"tasks": {k: {"chance": 0.1} for k in scores}}))
    return str(folder)


def test_runs_beside_each_other(tmp_path: Path) -> None:
    one = write_run(tmp_path / "a", [5.0, 4.0, 3.0])
    two = write_run(
        tmp_path / "b", [5.0, 2.0], ended=False, samples_per_s=[100.0, 300.0], grad_norm=[1.0, 0.5], data_wait=[0, 0.5]
    )
    page = runs_page([one, two])
    settings = parts(page, Table)[0]
    assert settings.header == ("", "a", "b")
    found = rows(settings)
    assert found["scale"] == ("tiny", "tiny") and found["steps so far"] == (3, 2) and found["last loss"] == (3, 2)
    assert found["ended"] == ("yes", "no") and found["changed"] == ("samples_seen", "samples_seen")
    assert [settings.rows[i][0] for i in settings.marks] == ["steps"]
    assert "Not comparable with other runs of the benchmark: a, b." in said(page) and "Not scored yet" in said(page)
    loss = figure(page, "run-loss")
    assert loss.table.rows == [("a", 8, 5), ("a", 16, 4), ("a", 24, 3), ("b", 8, 5), ("b", 16, 2)]
    assert "a from 5 to 3, least 3, over 24 samples; b from 5 to 2, least 2, over 16 samples" in loss.alt
    # Of fields that only later versions write, as far as they are there; a scale that stays is no picture.
    assert figure(page, "run-samples-per-s").table.rows == [("b", 8, 100), ("b", 16, 300)]
    assert {f.name for f in parts(page, Figure)} == {
        *("run-loss", "run-lr", "run-grad-norm", "run-samples-per-s", "run-data-wait"),
    }


def test_long_runs_are_thinned_and_cut_lines_end_them(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "long", [1000 - i / 100 for i in range(5003)])
    (run,) = read_runs([folder])
    xs, ys = run.curves["loss"]
    assert len(xs) <= 2 * runs.POINTS + 1 and (xs[0], xs[-1]) == (8, 8 * 5003) and ys[-1] == pytest.approx(949.98)
    assert len({round(b - a) for a, b in itertools.pairwise(xs[:-1])}) == 1
    with (tmp_path / "long" / "metrics.jsonl").open("a") as f:
        f.write('{"step": 5004, "loss": 1')
    assert read_runs([folder])[0].last["step"] == 5003
    bad = write_run(tmp_path / "bad", [1.0, math.nan])
    assert "last loss" in rows(parts(runs_page([bad]), Table)[0])
    (tmp_path / "bad" / "metrics.jsonl").write_text('{"step": 1}\nno json}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: not a step"):
        read_runs([bad])
    with pytest.raises(InputError, match="no training run"):
        read_runs([str(tmp_path)])


def test_scores_with_the_noise_between_seeds(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "web0" / "basic", [1.0], {"t": 0.50, "u": 0.20}, seed=0),
        write_run(tmp_path / "web1" / "basic", [1.0], {"t": 0.56, "u": 0.30}, seed=1),
        write_run(tmp_path / "web0" / "best", [1.0], {"t": 0.58, "u": 0.60, "v": 0.1}, seed=0),
    ]
    found = choices(read_runs(folders))
    assert [(c.name, len(c.runs)) for c in found] == [("basic (2 seeds)", 2), ("best", 1)]
    assert band(found, "t") == pytest.approx(0.06) and band(found, "u") == pytest.approx(0.1) and band(found, "v") is None
    page = runs_page(folders)
    scores = figure(page, "run-scores")
    assert rows(scores.table) == {
        "t": (0.53, 0.58, 0.1, 0.06),
        "u": (0.25, 0.60, 0.1, 0.1),
        "v": (None, 0.1, 0.1, None),
    }
    # 0.58 − 0.53 is within the noise, 0.60 − 0.25 is not.
    assert scores.table.marks == {0}
    means = next(t for t in parts(page, Table) if t.caption.startswith("Mean"))
    assert means.caption.endswith("2 tasks that all runs have")
    assert means.rows == [("best", 1, 0.59, 0.59, 0.59), ("basic (2 seeds)", 2, 0.39, 0.35, 0.43)]
    assert "widest range of its scores over the seeds" in said(page)
    alone = runs_page(folders[:1])
    assert "One run" in said(alone) and figure(alone, "run-scores").table.marks == frozenset()
    (tmp_path / "web0" / "best" / "eval_results.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match=r"eval_results\.jsonl:1: not a result"):
        runs_page(folders)


# Submissions --------------------------------------------------------------------------------------------------------


def submit(folder: Path, method: str, score: float, **info: Any) -> Path:
    scores = {t.key: score for t in load_tasks().values() if t.counted and t.key not in info.get("lacks", ())}
    told = aggregate(scores, allow_missing=True).content()
    return write_submission(folder, method, score, aggregate=told, **info)


def test_a_leaderboard_ranks_as_the_command_does(tmp_path: Path) -> None:
    for seed, score in enumerate((0.30, 0.32)):
        submit(tmp_path / "all" / f"a{seed}", "apart", score, seed=seed)
    submit(tmp_path / "all" / "b", "beside", 0.3)
    submit(tmp_path / "all" / "c", "clear", 0.2)
    submit(tmp_path / "all" / "d", "equal", 0.2)
    submit(tmp_path / "all" / "e", "part", 0.9, lacks=("imagenet1k",))
    submit(tmp_path / "all" / "f", "own", 0.8, departures=["own seed"])
    submit(tmp_path / "all" / "g", "large", 0.4, scale="medium")
    submit(tmp_path / "all" / "h", "old", 0.4, suite_version=1)
    page = leaderboard_page(str(tmp_path / "all"))
    ranked = boards(find([str(tmp_path / "all")]))
    assert [s.title for s in page.sections] == [
        f"Scale {b.scale}, track {b.track}, suite version {b.suite_version}" for b in ranked
    ]
    for ours, theirs in zip((f for f in parts(page, Figure)), ranked, strict=True):
        assert f"{theirs.band:.4f}" in ours.table.caption
        assert [row[:2] for row in ours.table.rows] == [
            (r.method, "no rank" if r.rank is None else f"≈ {r.rank}" if r.noise else str(r.rank)) for r in theirs.rows
        ]
        assert [row[8] for row in ours.table.rows] == [
            None if r.scores["Average"] is None else round(r.scores["Average"], 4) for r in theirs.rows
        ]
        assert ours.table.marks == {i for i, r in enumerate(theirs.rows) if r.notes}
    small = parts(page, Figure)[1]
    assert rows(small.table)["apart"][-2] == "0.3000 to 0.3200" and rows(small.table)["own"][-1] == "own seed"
    with pytest.raises(InputError, match="no submission here"):
        leaderboard_page(str(tmp_path / "nothing"))


def test_the_demos_leaderboard(tmp_path: Path) -> None:
    held = {
        "columns": {"objects_en": {"chance": 0.0125}, "recall_5": {"chance": None}},
        "rows": [{"recipe": "basic", "samples": 9, "scores": {"objects_en": 0.5, "recall_5": None}}],
    }
    (tmp_path / "leaderboard.json").write_text(json.dumps(held))
    shown = parts(leaderboard_page(str(tmp_path)), Figure)[0]
    assert shown.table.rows == [("basic", 9, 50.0, None), ("guessing", None, 1.25, None)] and "basic 50.0 %" in shown.alt
    (tmp_path / "leaderboard.json").write_text("{}")
    with pytest.raises(InputError, match="not the leaderboard of a demo"):
        leaderboard_page(str(tmp_path))


def test_a_submission_with_its_card_and_datasheet(tmp_path: Path) -> None:
    folder = submit(tmp_path / "s", "mine", 0.25, model="ViT-B-32", departures=["own batch_size"], recipe="basic")
    (folder / "README.md").write_text(
        "---\ntags: [clip]\n---\n# mine\n\nA model.\n\n## Scores\n\n| over | score |\n| --- | --- |\n| a \\| b | 1 |\n"
    )
    (folder / "DATASHEET.md").write_text("# Sheet\n\n- Samples: 4\n\n```yaml\nkeep:\n  - caption: {}\n```\n")
    page = submission_page(str(folder))
    assert page.title == "Submission: mine" and page.lead == "ViT-B-32 at scale small, track filtering."
    assert rows(parts(page, Table)[0])["recipe"] == ("basic",) and rows(parts(page, Table)[1])["Average"] == (0.25,)
    assert all(words in said(page) for words in ("own batch_size", "A model.", "Samples: 4")) and "tags" not in said(page)
    assert len(figure(page, "submission-tasks").table.rows) == 38
    card = next(
        t for t in parts(page, Table) if t.caption == "Scores" and t.header == ("over", "score") and t.rows[0][0] == "a | b"
    )
    assert card.rows == [("a | b", "1")]
    assert next(t for t in parts(page, Table) if t.header == ("line", "code")).rows == [
        (1, "keep:"),
        (2, "\u00a0\u00a0- caption: {}"),
    ]
    with pytest.raises(InputError, match="no submission"):
        submission_page(str(tmp_path))


def test_markdown_that_does_not_end() -> None:
    text, code = markdown.parts("a <b>\n\n```\nx")
    assert text == Text(("a <b>",)) and isinstance(code, Table) and code.rows == [(1, "x")]
    assert markdown.parts("---\nno end") == (Text(("---", "no end")),)
    (table,) = markdown.parts("| a | b |\n|---|:-:|\n| 1 |\n")
    assert isinstance(table, Table) and table.rows == [("1", "")]
