"""The report on a demo says what the truth about its web says."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.report import compare, distributions, figures
from pipeline.report.download import download_page
from pipeline.report.page import Figure, Page, Section, Table
from pipeline.report.reading import Numbers, read
from pipeline.report.runs import runs_page
from pools.layout import Pool
from pools.outputs import Selection
from tests.demos import Demo

pytestmark = pytest.mark.xdist_group("demo")
RECIPES = ("basic", "clip_score")
FAILED = {"dead_link": "http_status", "html_answer": "not_an_image", "truncated": "truncated_image", "opt_out": "opt_out"}


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"/>'
    monkeypatch.setattr(figures, "draw", lambda name, title, alt, table, *_, **__: Figure(name, title, alt, svg, table))


@pytest.fixture(scope="module")
def numbers(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    """Of the demo's pool, whose rows are told their flaw and family as an annotation of the user's own would."""
    root, truth = tmp_path_factory.mktemp("report") / "pool", demo.truth()
    shutil.copytree(demo.folder / "pool" / "metadata", root / "metadata")
    shutil.copytree(demo.folder / "pool" / "annotations", root / "annotations")
    for path in (root / "metadata").glob("*.parquet"):
        told = pq.read_table(path, columns=["uid"])
        for name in ("flaw", "family"):
            told = told.append_column(name, [[truth[uid][name] or "none" for uid in told["uid"].to_pylist()]])
        (root / "annotations" / "truth").mkdir(exist_ok=True)
        pq.write_table(told, root / "annotations" / "truth" / path.name)
    selections = [Selection(str(demo.folder / "selections" / name)) for name in RECIPES]
    return read(Pool.open(str(root)), selections, options=Options(workers=0, quiet=True))


def tables(parts: Page | list[Section]) -> dict[str, Table]:
    """Tables by their captions, those of pictures too."""
    sections = parts.sections if isinstance(parts, Page) else parts
    found = [part for section in sections for part in section.parts if isinstance(part, Table | Figure)]
    return {t.caption: t for t in (p.table if isinstance(p, Figure) else p for p in found)}


def counts(table: Table, column: int) -> dict[Any, int]:
    return {row[0]: row[column] for row in table.rows if row[column]}  # type: ignore[misc]


def downloaded(demo: Demo) -> dict[str, Mapping[str, Any]]:
    return {uid: row for uid, row in demo.truth().items() if row["flaw"] not in FAILED}


def test_languages_are_those_of_the_truth(demo: Demo, numbers: Numbers) -> None:
    truth = downloaded(demo)
    shown = tables(distributions.selection_sections(numbers, 0))["Languages that pages state"]
    kept = [truth[uid] for uid in demo.kept("basic")]
    assert {name.split()[0]: n for name, n in counts(shown, 1).items()} == Counter(r["page_language"] for r in truth.values())
    assert {name.split()[0]: n for name, n in counts(shown, 2).items()} == Counter(r["page_language"] for r in kept)
    # What was found out from the captions is right but for a few.
    found = numbers.counted.labels["language"].counts
    english = sum(r["language"] == "en" for r in truth.values())
    assert abs(int(found["en"][0]) - english) < 0.05 * english and int(found["en"][1]) == len(kept)


def test_what_each_stage_dropped_is_what_the_truth_foretells(demo: Demo, numbers: Numbers) -> None:
    truth = downloaded(demo)
    flaws = Counter(r["flaw"] or "none" for r in truth.values())
    shown = tables(distributions.selection_sections(numbers, 0))["Rows that each stage dropped, by flaw"]
    assert shown.header == ("", "all rows", "0 image_size", "1 caption", "2 language", "kept")
    assert counts(shown, 1) == flaws
    by_size = counts(shown, 2)
    by_size.pop("eval_copy", None)  # which is as large as the evaluation image
    assert by_size == {flaw: flaws[flaw] for flaw in ("too_small", "banner")}
    by_caption = counts(shown, 3)
    assert {flaw: by_caption[flaw] for flaw in ("file_name", "one_word")} == {f: flaws[f] for f in ("file_name", "one_word")}
    assert counts(shown, 5) == Counter(truth[uid]["flaw"] or "none" for uid in demo.kept("basic"))
    manifest = json.loads((demo.folder / "selections" / "basic" / "_manifest.json").read_text())["counts"]
    by_stage = [sum(counts(shown, i).values()) for i in (2, 3, 4)]
    assert by_stage == [manifest[f"dropped:{i}-{name}"] for i, name in enumerate(("image_size", "caption", "language"))]


def test_diversity_falls_as_the_truth_says(demo: Demo, numbers: Numbers) -> None:
    truth = downloaded(demo)
    low = ("bn", "fil", "hi", "he", "mi", "sw", "te")
    before = sum(r["page_language"] in low for r in truth.values())
    after = sum(truth[uid]["page_language"] in low for uid in demo.kept("basic"))
    shown = tables(distributions.selection_sections(numbers, 0))["Taken together"]
    place = next(i for i, row in enumerate(shown.rows) if str(row[0]).startswith("pages in low-resource languages"))
    kept = len(demo.kept("basic"))
    assert tuple(shown.rows[place][1:3]) == (before, after) and place in shown.marks
    assert shown.rows[place][5] == pytest.approx((after / kept) / (before / len(truth)), abs=1e-4)


def test_duplicates_are_those_of_the_truth(demo: Demo, numbers: Numbers) -> None:
    urls = Counter(row["url"] for row in downloaded(demo).values())
    shown = tables(distributions.pool_sections(numbers))["Rows that have something in common"]
    twice = [n for n in urls.values() if n > 1]
    assert next(tuple(row[1:]) for row in shown.rows if row[0] == "addresses") == (len(urls), len(twice), sum(twice))


def test_recipes_beside_each_other(demo: Demo, numbers: Numbers) -> None:
    one, other = (set(demo.kept(name)) for name in RECIPES)
    shown = tables(compare.compare_page(numbers))["Rows that two selections keep (Jaccard: both ÷ either)"]
    assert tuple(shown.rows[0][1:5]) == (len(one & other), len(one - other), len(other - one), len(one | other))


def test_the_downloads_reasons_are_those_of_the_truth(demo: Demo) -> None:
    page = download_page(str(demo.folder / "pool" / "shards"))
    flaws = Counter(FAILED[row["flaw"]] for row in demo.truth().values() if row["flaw"] in FAILED)
    assert counts(tables(page)["Rows that failed, by reason"], 1) == flaws
    assert counts(tables(page)["Rows by what came of them"], 1)["an image"] == len(downloaded(demo))


def test_runs_of_the_demo(demo: Demo) -> None:
    page = runs_page([str(demo.folder / "runs" / name) for name in RECIPES])
    board = json.loads((demo.folder / "leaderboard.json").read_text())
    shown = next(t for caption, t in tables(page).items() if caption.startswith("Main metric of each task"))
    for i, name in enumerate(RECIPES, 1):
        scores = next(row["scores"] for row in board["rows"] if row["recipe"] == name)
        assert {row[0]: row[i] for row in shown.rows}["miniweb-objects-en"] == pytest.approx(scores["objects_en"], abs=1e-6)
    assert Path(page.name).name == "runs"
