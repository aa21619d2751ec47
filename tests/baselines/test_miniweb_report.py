"""What the demo prints of its recipes: against a table of sixteen rows worked out by hand, and against a small web."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from baselines.miniweb.detectors import Detection, detections, detector_lines
from baselines.miniweb.flaws import Flaw
from baselines.miniweb.judged import Judged, read_judged, read_stages
from baselines.miniweb.quality import flaw_lines, group_lines, groups, quality, quality_lines
from baselines.miniweb.report import lines
from baselines.miniweb.truth import TRUTH
from baselines.miniweb.web import MiniWeb
from pipeline.engine import Options
from pipeline.extract.inputs import find
from pipeline.extract.job import Settings, extract
from pipeline.selection import select
from pools.errors import InputError
from pools.manifest import Outcome
from pools.schema import VERDICTS

# Flaw, language of the alt, family, whether the alt describes the picture; the stage of FOUR that dropped the row.
ROWS: dict[int, tuple[str | None, str | None, str, bool, int | None]] = {
    0: (None, "en", "common", True, None),
    1: (None, "en", "common", True, 3),
    2: (None, "es", "common", True, 2),
    3: (None, "hi", "cultural", True, 2),
    4: ("mismatched", "en", "common", False, 3),
    5: ("mismatched", "en", "common", False, None),
    6: ("file_name", None, "common", False, 1),
    7: ("one_word", None, "common", False, 1),
    8: ("boilerplate", None, "common", False, 2),
    9: ("too_small", "en", "common", True, 0),
    10: ("banner", "en", "common", True, None),
    11: ("eval_copy", "en", "common", True, 0),
    12: (None, "en", "common", True, 0),
    14: ("boilerplate", None, "cultural", False, None),
    15: ("one_word", None, "common", False, 2),
}
FOUR = """name: four
keep:
- image_size: {min_side: 200}
- caption: {min_words: 2}
- language: {is: [en]}
- clip_score: {model: tiny, min: 0.2}
"""
ALL = "name: all\nkeep: []\n"


def uid(i: int) -> str:
    return f"{i:032x}"


def write_truth(path: Path) -> str:
    """The rows in another order than the pool's, and one that was never downloaded."""
    rows = {13: ("dead_link", "hi", "cultural", False, None), **ROWS}
    names = ("flaw", "language", "family", "describes")
    records = [{"uid": uid(i), **dict(zip(names, row[:4], strict=True))} for i, row in rows.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([{name: r.get(name) for name in TRUTH.names} for r in records], TRUTH), path)
    return str(path)


def write_selection(folder: Path, recipe: str, dropped_by: dict[int, int | None]) -> str:
    """Verdicts in two files, the second in a folder of its own."""
    ids = list(dropped_by)
    for name, some in (("a", ids[:7]), ("b/c", ids[7:])):
        path = folder / "verdicts" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [{"uid": uid(i), "dropped_by": dropped_by[i], "reason": None, "value": None} for i in some]
        pq.write_table(pa.Table.from_pylist(records, VERDICTS.schema), path)
    (folder / "recipe.yaml").write_text(recipe)
    return str(folder)


def judge(root: Path, recipes: dict[str, tuple[str, dict[int, int | None]]]) -> list[Judged]:
    selections = {name: write_selection(root / name, text, dropped) for name, (text, dropped) in recipes.items()}
    return read_judged(write_truth(root / "truth.parquet"), selections)


def by_four() -> dict[int, int | None]:
    return {i: row[4] for i, row in ROWS.items()}


def by_none() -> dict[int, int | None]:
    return dict.fromkeys(ROWS)


@pytest.fixture
def two(tmp_path: Path) -> list[Judged]:
    return judge(tmp_path, {"four": (FOUR, by_four()), "all": (ALL, by_none())})


def split(found: list[str]) -> list[list[str]]:
    """The cells of a section's table, which stand two spaces or more apart."""
    return [re.split(" {2,}", line.strip()) for line in found[1:]]


def test_precision_and_recall_of_recipes(two: list[Judged]) -> None:
    four, every = map(quality, two)
    # Kept are 0, 5, 10, 14, of which 0 and 10 describe their picture, as do 8 rows of the pool.
    assert (four.pool, four.kept, four.right, four.describing) == (15, 4, 2, 8)
    assert (four.precision, four.recall, four.f1) == (0.5, 0.25, 4 / 12)
    assert (every.precision, every.recall, every.f1) == (8 / 15, 1.0, 16 / 23)
    assert split(quality_lines(two)) == [
        ["recipe", "kept", "of the pool", "precision", "recall", "F1"],
        ["four", "4", "26.7", "50.0", "25.0", "33.3"],
        ["all", "15", "100.0", "53.3", "100.0", "69.6"],
    ]


def test_a_recipe_that_keeps_nothing_has_no_precision(tmp_path: Path) -> None:
    (nothing,) = judge(tmp_path, {"nothing": (FOUR, dict.fromkeys(ROWS, 0))})
    found = quality(nothing)
    assert (found.precision, found.recall, found.f1) == (None, 0.0, 0.0)
    assert split(quality_lines([nothing]))[1] == ["nothing", "0", "0.0", "–", "0.0", "0.0"]


def test_rows_kept_of_each_flaw_and_group(two: list[Judged]) -> None:
    assert split(flaw_lines(two)) == [
        ["flaw", "in pool", "four", "all"],
        ["none", "5", "1", "5"],
        ["mismatched", "2", "1", "2"],
        ["file name", "1", "0", "1"],
        ["one word", "2", "0", "2"],
        ["boilerplate", "2", "1", "2"],
        ["too small", "1", "0", "1"],
        ["banner", "1", "1", "1"],
        ["eval copy", "1", "0", "1"],
    ]
    assert split(group_lines(two)) == [
        ["alt text in", "in pool", "four", "all"],
        ["English", "8", "37.5", "100.0"],
        ["other high-resource", "1", "0.0", "100.0"],
        ["low-resource", "1", "0.0", "100.0"],
        ["no language", "5", "20.0", "100.0"],
        ["(cultural pictures)", "2", "50.0", "100.0"],
    ]
    by_language = list(groups(two[0].facts).values())[:4]
    assert np.array_equal(np.sum(by_language, axis=0), np.ones(15))


def test_filters_as_detectors(two: list[Judged]) -> None:
    size, caption, language, score = detections(two[0])
    # 9, 11, 12 fell; the copy 11 counts neither way; of 9 and 10, which should fall, one did.
    assert size == Detection("four", "image_size", 15, 3, "too small, banner", 1 / 2, 1 / 2, 2 / 14)
    # 6 and 7 fell, 15 should have.
    assert caption == Detection("four", "caption", 12, 2, "file name, one word", 1.0, 2 / 3, 3 / 12)
    # 2, 3, 8, 15 fell; 14 speaks of no scene either.
    assert language == Detection("four", "language", 10, 4, "not en", 1.0, 4 / 5, 5 / 10)
    # 1 and 4 fell; 4, 5, 14 do not describe their picture.
    assert score == Detection("four", "clip_score", 6, 2, "not describing", 1 / 2, 1 / 3, 3 / 6)
    assert detections(two[1]) == []
    assert split(detector_lines(two))[1:3] == [
        ["four", "image_size", "too small, banner", "15", "3", "50.0", "50.0", "14.3"],
        ["caption", "file name, one word", "12", "2", "100.0", "66.7", "25.0"],
    ]
    assert detector_lines(two[1:])[1:] == ["  no recipe has a filter"]


OTHERS = """name: others
keep:
- my_rule: {}
- any: [{caption: {min_words: 2}}, {language: {is: [en]}}]
- score: {column: nsfw_score, below: 0.5}
- score: {column: clip_tiny_similarity_score, min: 0.1}
- random: {fraction: 0.5, seed: 0}
- language: {is: [tl, es]}
- caption: {min_words: 1}
- score: {column: clip_area, min: 0.1}
- score: {column: text_similarity_score, min: 0.1}
"""


def test_filters_that_are_for_nothing_known_are_counted_alone(tmp_path: Path) -> None:
    dropped = {**by_none(), 0: 0, 1: 1, 2: 2, 4: 3, 3: 4, 5: 4, 6: 5, 12: 5}
    (judged,) = judge(tmp_path, {"others": (OTHERS, dropped)})
    found = detections(judged)
    assert [d.stage for d in found] == ["my_rule", "any", "score", "score", "random", "language", "caption", "score", "score"]
    assert found[:3] == [Detection("others", n, r, 1) for n, r in (("my_rule", 15), ("any", 14), ("score", 13))]
    # Of the rows 3 to 15 in the pool seven do not describe theirs: 4, 5, 6, 7, 8, 14, 15.
    assert found[3] == Detection("others", "score", 12, 1, "not describing", 1.0, 1 / 7, 7 / 12)
    assert found[4] == Detection("others", "random", 11, 2, "not describing", 1 / 2, 1 / 6, 6 / 11)
    # Filipino goes by two codes; none of the nine rows that are left is in it, or in Spanish.
    assert found[5] == Detection("others", "language", 9, 2, "not fil, es", 1.0, 2 / 9, 1.0)
    # It dropped nothing, so there is no precision.
    assert found[6] == Detection("others", "caption", 7, 0, "file name, one word", None, 0.0, 2 / 7)
    assert found[7:] == [Detection("others", "score", 7, 0)] * 2
    assert detector_lines([judged])[2].split() == ["others", "my_rule", "–", "15", "1", "–", "–", "–"]
    assert detector_lines([judged])[8].split()[-3:] == ["–", "0.0", "28.6"]


def test_verdicts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    truth = write_truth(tmp_path / "truth.parquet")
    one = write_selection(tmp_path / "one", FOUR, by_four())
    stranger = write_selection(tmp_path / "stranger", ALL, {**by_none(), 99: None})
    with pytest.raises(InputError, match=f"stranger: uid {uid(99)} is not in the truth"):
        read_judged(truth, {"stranger": stranger})
    turned = write_selection(tmp_path / "turned", ALL, dict(reversed(by_none().items())))
    with pytest.raises(InputError, match="turned: verdicts on other rows than those of one"):
        read_judged(truth, {"one": one, "turned": turned})
    Path(one, "recipe.yaml").write_text("name: two\nkeep:\n- a: {}\n- b: {}\n- c: {}\n")
    with pytest.raises(InputError, match="one: a row was dropped by stage 3; expected stages below 3"):
        read_judged(truth, {"one": one})
    for wrong in ("- 1\n", "keep: 3\n", "keep: [a]\n", "keep: [{a: {}, b: {}}]\n"):
        Path(one, "recipe.yaml").write_text(wrong)
        with pytest.raises(InputError, match="not a resolved recipe"):
            read_stages(one + "/recipe.yaml")
    with pytest.raises(InputError, match="no verdicts"):
        read_judged(truth, {"none": str(tmp_path / "none")})
    with pytest.raises(InputError, match=r"truth\.parquet: no column 'dropped_by'"):
        read_judged(truth, {"odd": str(odd_selection(tmp_path / "odd", Path(truth).read_bytes()))})
    with pytest.raises(InputError, match="unreadable"):
        read_judged(truth, {"cut": str(odd_selection(tmp_path / "cut", Path(truth).read_bytes()[:-9]))})


def odd_selection(folder: Path, data: bytes) -> Path:
    (folder / "verdicts").mkdir(parents=True)
    (folder / "verdicts" / "truth.parquet").write_bytes(data)
    return folder


# On a web -----------------------------------------------------------------------------------------------------------

BASIC = "name: basic\nkeep:\n- caption: {min_words: 3, min_chars: 6}\n- language: {is: en}\n"


def test_whole_report_on_a_small_web(small_web: MiniWeb, tmp_path: Path) -> None:
    """The candidates stand in for the pool: links that serve nothing are part of it here."""
    quiet = Options(workers=0, quiet=True)
    (tmp_path / "web").symlink_to(small_web.folder)
    (tmp_path / "basic.yaml").write_text(BASIC)
    got = extract(find([small_web.wats]), str(tmp_path / "candidates"), Settings(), options=quiet)
    kept = select(str(tmp_path / "basic.yaml"), str(tmp_path / "candidates"), str(tmp_path / "selections/basic"), options=quiet)
    outcomes = {"extract": got, "download": Outcome({"in": 500, "kept": 500}), "filter basic": kept, "filter other": Outcome()}
    printed = lines(str(tmp_path), outcomes, ["basic"])
    assert printed == lines(str(tmp_path), outcomes, ["basic"])
    assert max(map(len, printed)) <= 100

    truth = {r["uid"]: r for r in pq.read_table(small_web.truth).to_pylist()}
    verdicts = [r for p in sorted((tmp_path / "selections/basic/verdicts").iterdir()) for r in pq.read_table(p).to_pylist()]
    total = Counter(truth[v["uid"]]["flaw"] for v in verdicts)
    through = Counter(truth[v["uid"]]["flaw"] for v in verdicts if v["reason"] is None)
    assert total.total() == 500 and not through[Flaw.FILE_NAME] and not through[Flaw.ONE_WORD]
    for flaw in (None, *Flaw):
        row = f"{(flaw or 'none').replace('_', ' ')} {total[flaw]} {through[flaw]}"
        assert [" ".join(line.split()) for line in printed].count(row) == 1, row
    right = sum(truth[v["uid"]]["describes"] for v in verdicts if v["reason"] is None)
    describing = sum(r["describes"] for r in truth.values())
    numbers = [through.total(), through.total() / 5, 100 * right / through.total(), 100 * right / describing]
    assert " ".join(f"{n:.1f}" if i else str(n) for i, n in enumerate(numbers)) in " ".join(" ".join(printed).split())

    judged = read_judged(small_web.truth, {"basic": str(tmp_path / "selections/basic")})
    caption, language = detections(judged[0])
    by_caption = [v["uid"] for v in verdicts if v["reason"] == "caption"]
    short = [uid for uid in by_caption if truth[uid]["flaw"] in ("file_name", "one_word")]
    assert (caption.reached, caption.dropped, caption.recall) == (500, len(by_caption), 1.0)
    assert caption.precision == len(short) / len(by_caption) and caption.base == 15 / 500
    # Captions are long enough for lid.176 to know English from the rest, but for a few.
    assert language.precision is not None and language.precision > 0.9
    assert language.recall is not None and language.recall > 0.8
