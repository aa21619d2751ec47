"""The demo's leaderboard, of one seed and of several: means and gaps worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from baselines.miniweb.columns import COLUMNS
from baselines.miniweb.languages import HIGH, LANGUAGES, LOW
from baselines.miniweb.leaderboard import (
    Row,
    compare,
    content,
    lines,
    read,
    spread,
    spread_content,
    spread_lines,
)
from pools import uids
from pools.errors import InputError

CHANCE = {"objects": 1 / 80, "cultural": 1 / 32, "retrieval": 1 / 300}


def task_metrics(english: float) -> dict[str, dict[str, float]]:
    """Objects: English as given, in the other high languages .5 .6 .7 .8, in the low ones .10 to .16; cultural .20 to .26."""
    found: dict[str, dict[str, float]] = {f"miniweb-objects-{code}": {"acc1": english} for code in LANGUAGES}
    for i, code in enumerate(code for code in HIGH if code != "en"):
        found[f"miniweb-objects-{code}"] = {"acc1": 0.5 + i / 10}
    for i, code in enumerate(LOW):
        found[f"miniweb-objects-{code}"] = {"acc1": 0.1 + i / 100}
        found[f"miniweb-cultural-{code}"] = {"acc1": 0.2 + i / 100}
    for i, code in enumerate(LANGUAGES):
        found[f"miniweb-retrieval-{code}"] = {
            "mean_recall@1": 0.05,
            "image_retrieval_recall@5": 0.02 * i,
            "text_retrieval_recall@5": 0.02 * i + 0.1,
        }
    return found


def write_run(folder: Path, recipe: str, metrics: dict[str, dict[str, float]], samples: int, **chances: float) -> None:
    run = folder / "runs" / recipe
    run.mkdir(parents=True)
    records = [{"key": key, "dataset": key, "metrics": values} for key, values in metrics.items()]
    (run / "eval_results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    tasks = {key: {"chance": {**CHANCE, **chances}[key.split("-")[1]]} for key in metrics}
    (run / "eval_manifest.json").write_text(json.dumps({"suite_version": 1, "tasks": tasks}))
    uids.write_list(str(folder / "selections" / recipe / "uids.npy"), uids.pack([f"{i:032x}" for i in range(samples)]))


@pytest.fixture
def board(tmp_path: Path) -> list[Row]:
    write_run(tmp_path, "no_filter", task_metrics(0.44), 1200)
    write_run(tmp_path, "clip_score", task_metrics(0.92), 360)
    partial = {key: values for key, values in task_metrics(0.6).items() if not key.endswith("-sw")}
    write_run(tmp_path, "basic", partial, 5)
    return read(str(tmp_path), ["no_filter", "absent", "basic", "clip_score"])


def test_means_over_languages(board: list[Row]) -> None:
    assert [row.recipe for row in board] == ["clip_score", "basic", "no_filter", "absent"]
    assert [row.samples for row in board] == [360, 5, 1200, None]
    # R@5 of language i is .02 i + .05: English is the first, the other high ones the second to fifth, mean .02 · 2.5 + .05.
    low = (0.13, 0.23, 0.05, 0.05, 0.1, 0.21)
    assert board[0].scores == pytest.approx(dict(zip([c.key for c in COLUMNS], (0.92, 0.65, *low), strict=True)))
    assert board[0].chances == pytest.approx(
        dict(zip([c.key for c in COLUMNS], [1 / 80] * 3 + [1 / 32, 1 / 300] + [5 / 300] * 3, strict=True))
    )


def test_a_mean_lacks_no_language(board: list[Row]) -> None:  # T115
    basic, absent = board[1], board[3]
    gaps = {"objects_low", "cultural_low", "recall_5_low"}
    assert {key for key, score in basic.scores.items() if score is None} == gaps
    assert basic.scores["objects_en"] == 0.6
    assert set(absent.scores.values()) == {None}


TABLE = """\
objects objects objects cultural R@1 R@5 R@5 R@5
recipe samples en high low low en en high low
(chance) 1.2 1.2 1.2 3.1 0.3 1.7 1.7 1.7
clip_score 360 92.0* 65.0* 13.0* 23.0* 5.0* 5.0* 10.0* 21.0*
basic 5 60.0 65.0* – – 5.0* 5.0* 10.0* –
no_filter 1,200 44.0 65.0* 13.0* 23.0* 5.0* 5.0* 10.0* 21.0*
absent – – – – – – – – –"""


def test_printed_leaderboard(board: list[Row]) -> None:
    printed = lines(board)
    assert "\n".join(" ".join(line.split()) for line in printed[1:8]) == TABLE
    assert printed[8] == "  high: mean over es, ru, de, fr; low: mean over hi, he, bn, fil, sw, te, mi"
    assert max(map(len, printed)) <= 100
    assert "*" not in "".join(lines(board[3:])[1:])
    # Numbers stand below each other, marked or not.
    assert printed[4].index("92.0") == printed[5].index("60.0") == printed[6].index("44.0")


def test_json(board: list[Row]) -> None:
    found = content(board)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [(r["recipe"], r["samples"], r["scores"]["objects_low"]) for r in found["rows"]] == [
        *(("clip_score", 360, pytest.approx(0.13)), ("basic", 5, None)),
        *(("no_filter", 1200, pytest.approx(0.13)), ("absent", None, None)),
    ]
    assert found["columns"]["recall_5_high"] == {
        "tasks": [f"miniweb-retrieval-{code}" for code in ("es", "ru", "de", "fr")],
        "metrics": ["image_retrieval_recall@5", "text_retrieval_recall@5"],
        "chance": pytest.approx(5 / 300),
    }


def test_runs_scored_on_other_sets_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path, "a", task_metrics(0.5), 3)
    write_run(tmp_path, "b", task_metrics(0.5), 3, cultural=1 / 16)
    with pytest.raises(InputError, match=r"cultural low: guessing gives 0\.03125 \(a\) and 0\.0625 \(b\)"):
        read(str(tmp_path), ["a", "b"])


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"key": "a"}', '{"key": "a", "metrics": {"acc1": "x"}}', '{"key": "a", "metrics": 3}']
)
def test_damaged_results_are_named(tmp_path: Path, line: str) -> None:
    write_run(tmp_path, "a", task_metrics(0.5), 3)
    (tmp_path / "runs/a/eval_results.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"eval_results\.jsonl: not results"):
        read(str(tmp_path), ["a"])


# Several seeds ------------------------------------------------------------------------------------------------------


def row(recipe: str, english: float | None, low: float | None = 0.1) -> Row:
    scores = {c.key: low for c in COLUMNS} | {"objects_en": english}
    return Row(recipe, 10, scores, {c.key: None for c in COLUMNS})


BOARDS = {
    2: [row("clip_score", 0.938, 0.2), row("no_filter", 0.44), row("random", 0.45)],
    0: [row("no_filter", 0.491), row("clip_score", 0.912), row("random", 0.30), row("mine", 0.95)],
    1: [row("clip_score", 0.925, None), row("no_filter", 0.461), row("random", None)],
}


def test_ranges_over_seeds() -> None:
    found = spread(BOARDS)
    assert list(found) == ["mine", "clip_score", "no_filter", "random"]
    english, low = found["clip_score"]["objects_en"], found["clip_score"]["objects_low"]
    assert english is not None and low is not None
    assert english.mean == pytest.approx(0.925) and (english.low, english.high, english.seeds) == (0.912, 0.938, 3)
    assert low.mean == pytest.approx(0.15) and (low.low, low.high, low.seeds) == (0.1, 0.2, 2)
    assert spread({0: [row("a", None)]})["a"]["objects_en"] is None
    # No score stands after a score of 0; of equals, what the smaller seed has comes first.
    assert list(spread({0: [row("a", None), row("b", 0.0)]})) == ["b", "a"]
    assert list(spread({1: [row("x", 0.5)], 0: [row("y", 0.5)]})) == ["y", "x"]
    assert spread_content(BOARDS)["seeds"] == [0, 1, 2]
    assert spread_content(BOARDS)["recipes"]["random"]["objects_en"] == {
        **{"mean": pytest.approx(0.375), "low": 0.3, "high": 0.45, "seeds": 2}
    }
    assert json.loads(json.dumps(spread_content(BOARDS))) == spread_content(BOARDS)


def test_recipes_are_told_apart_where_their_ranges_do_not_meet() -> None:
    found = spread(BOARDS)
    apart = "clip_score 91.2–93.8 over no_filter 44.0–49.1: apart"
    assert compare(found, "no_filter", "clip_score", "objects_en") == apart
    assert compare(found, "clip_score", "no_filter", "objects_en") == apart
    assert compare(found, "random", "no_filter", "objects_en") == "no_filter 44.0–49.1 over random 30.0–45.0: overlap"
    assert compare(found, "mine", "random", "objects_en").endswith(": one seed does not tell")
    # The greatest of the one is the least of the other.
    assert compare(found, "clip_score", "random", "objects_low") == "clip_score 10.0–20.0 over random 10.0–10.0: overlap"
    unscored = spread({0: [row("a", None), row("b", 0.5)], 1: [row("a", None), row("b", 0.6)]})
    assert compare(unscored, "a", "b", "objects_en") == "b 50.0–60.0 over a –: not scored"


def test_printed_spread() -> None:
    printed = spread_lines(BOARDS)
    assert printed[0].startswith("Over 3 seeds")
    assert printed[5].split() == ["clip_score", "92.5", *["15.0"] * 7]
    assert printed[6].split() == ["91.2–93.8", *["10.0–20.0"] * 7]
    assert "  clip_score, objects low: 2 of 3 seeds" in printed
    assert "  mine: 1 of 3 seeds" in printed
    assert printed[-1] == "  no_filter 44.0–49.1 over random 30.0–45.0: overlap"
    assert len([line for line in printed if " over " in line and line.startswith("  ")]) == 6
    assert max(map(len, printed)) <= 100
    assert spread_lines(dict(reversed(BOARDS.items()))) == printed
