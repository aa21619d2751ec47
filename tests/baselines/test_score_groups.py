"""Accuracy by group, faces, and WinoGAViL: by hand, against scikit-learn, and against published results."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import f1_score, jaccard_score, recall_score

from baselines.score.kinds import faces, groups, winogavil
from baselines.score.results import Scores
from baselines.score.suite import score
from pools.errors import InputError
from tests.baselines.conftest import COLOURS, NAMES, square, write_shard, write_task

FMOW = "wds_wilds-fmow_test"


def quick(run: Path, evals: Path, **options: object) -> Scores:
    return score(str(run), str(evals), quiet=True, **options)  # type: ignore[arg-type]


def npy(*values: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(values))
    return out.getvalue()


def result_of(run: Path, evals: Path, **options: object) -> dict[str, Any]:
    quick(run, evals, **options)
    (line,) = (run / "eval_results.jsonl").read_text().splitlines()
    metrics: dict[str, Any] = json.loads(line)["metrics"]
    return metrics


# By hand, and against scikit-learn ------------------------------------------------------------------------------------------


def test_the_worst_group_may_be_a_single_image() -> None:  # T116
    sizes, hits = (4, 100, 1), (3, 80, 0)
    field = np.repeat([0, 1, 2], sizes)
    right = np.concatenate([np.arange(n) < k for n, k in zip(sizes, hits, strict=True)])
    assert groups.by_group("acc", right, {"region": field}, ["region"]) == {
        "acc_avg": pytest.approx(83 / 105),
        "acc_region:0": 0.75,
        "count_region:0": 4.0,
        "acc_region:1": 0.8,
        "count_region:1": 100.0,
        "acc_region:2": 0.0,
        "count_region:2": 1.0,
        "acc_wg": 0.0,
    }


def test_groups_without_images_are_named_and_are_never_the_worst() -> None:
    found = groups.by_group("acc", np.array([True, False]), {"year": np.array([2, 2])}, ["year"])
    assert (found["acc_year:0"], found["count_year:0"], found["acc_wg"]) == (None, 0.0, 0.5)


def test_other_is_no_region_of_fmow_unless_there_is_no_other() -> None:
    def worst(regions: list[int], right: list[int]) -> float | None:
        zeros = np.zeros(len(regions), np.int64)
        fields = {"region": np.array(regions), "year": zeros, "y": zeros}
        said = np.array([0 if r else 1 for r in right])
        return groups.metrics("wilds/fmow", groups.Judged(zeros, said, said, fields))["acc_worst_region"]

    assert worst([0, 0, 5], [1, 0, 0]) == 0.5
    assert worst([5, 5], [1, 0]) == 0.5


def test_macro_means_are_over_classes_that_have_images() -> None:  # T117
    assert groups.macro(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])) == pytest.approx((0.8333, 0.7333), abs=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels, said = rng.integers(0, 9, 40), rng.integers(0, 12, 40)
        options = {"average": "macro", "labels": np.unique(labels), "zero_division": 0}
        expected = (recall_score(labels, said, **options), f1_score(labels, said, **options))
        assert groups.macro(labels, said) == pytest.approx(expected)


def test_jaccard_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        belongs = np.zeros(12, bool)
        belongs[rng.choice(12, rng.integers(1, 6), replace=False)] = True
        nearness = rng.normal(size=12)
        taken = np.isin(np.arange(12), np.argsort(nearness)[-belongs.sum() :])
        assert winogavil.jaccard(belongs, nearness) == pytest.approx(jaccard_score(belongs, taken))
    assert winogavil.jaccard(np.array([True, True, False, False]), np.array([9.0, 0.0, 8.0, 1.0])) == pytest.approx(1 / 3)
    assert [winogavil.prompt(cue) for cue in ("Ice", "dog", "Umbrella")] == ["An ice", "A dog", "An umbrella"]


# Against published results: who was right is rebuilt from the groups' shares and sizes, and all the rest must follow ---------


def rebuilt(line: dict[str, Any], name: str, by: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values, right = [], []
    for key, share in line.items():
        if key.startswith(f"{name}_{by}:"):
            group, size = int(key.rpartition(":")[2]), int(line[f"count_{by}:{key.rpartition(':')[2]}"])
            values += [group] * size
            right += [True] * (hit := round(share * size) if size else 0) + [False] * (size - hit)
    return np.array(values), np.array(right)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("key", "name", "by", "worst"),
    [
        ("wilds/camelyon17", "acc", "slide", "acc_wg"),
        ("wilds/fmow", "acc", "year", "acc_worst_year"),
        ("wilds/fmow", "acc", "region", "acc_worst_region"),
        ("fairness/dollar_street", "acc_top5", "income_ds", "acc_top5_wg"),
        ("fairness/geode", "acc", "region", "acc_wg"),
        ("fairness/fairface", "acc_race", "race_binary", "acc_race_wg"),
        ("fairness/utkface", "toxicity_crime", "race", "toxicity_crime_wg"),
    ],
)
def test_published_groups(shared_data: Path, key: str, name: str, by: str, worst: str) -> None:
    files = sorted((shared_data / "ground-truth" / "apple+ml-mobileclip" / "results").glob("*.jsonl"))
    seen = 0
    for file in files:
        for line in map(json.loads, file.read_text().splitlines()):
            if line["key"] != key:
                continue
            seen += 1
            field, right = rebuilt(line["metrics"], name, by)
            ours = groups.by_group(name, right, {by: field}, [by], worst=worst)
            for metric, value in ours.items():
                published = line["metrics"][metric]
                assert (value is None and np.isnan(published)) or value == pytest.approx(published, abs=2e-6), (file, metric)
    assert seen == len(files) > 10


@pytest.mark.shared
def test_published_faces_have_the_names_and_the_order_of_ours(shared_data: Path) -> None:
    file = shared_data / "ground-truth" / "apple+ml-mobileclip" / "results" / "mobileclip_s0.jsonl"
    lines = {line["key"]: line["metrics"] for line in map(json.loads, file.read_text().splitlines())}
    rng = np.random.default_rng(0)
    n = 2000
    fields = {"age": rng.integers(0, 9, n), "gender": rng.integers(0, 2, n), "race": rng.integers(0, 7, n)}
    fields["race_binary"] = (fields["race"] != faces.WHITE).astype(np.int64)
    said = {"race": fields["race"], "gender": fields["gender"], "age": fields["age"], "toxic": np.full(n, 20)}
    ours = faces.metrics(said, fields)
    assert [*ours, "main_metric"] == list(lines["fairness/fairface"])
    assert {v for k, v in ours.items() if k.startswith(("acc", "toxicity_crime"))} == {1.0}
    assert ours["toxicity_nonhuman_avg"] == 0.0
    assert ours["count_race:3_gender:1"] == ((fields["race"] == 3) & (fields["gender"] == 1)).sum()


# Whole tasks ------------------------------------------------------------------------------------------------------------------


def write_fmow(evals: Path, labels: list[int], regions: list[int]) -> Path:
    """Squares in turn red, green and blue, with these labels; each was taken in a region, in year 1."""
    folder = write_task(evals / FMOW, labels, tars=1)
    write_shard(
        folder / "test" / "0.tar",
        {
            f"s{i:07d}": {"png": square(NAMES[i % 3], i), "cls": str(c).encode(), "npy": npy(r, 1, c)}
            for i, (c, r) in enumerate(zip(labels, regions, strict=True))
        },
    )
    return folder


def test_a_task_by_region(run: Path, tmp_path: Path) -> None:
    labels, regions = [i % 3 for i in range(24)], [i // 12 for i in range(24)]
    folder = write_fmow(tmp_path, labels, regions)
    before = result_of(run, tmp_path)
    assert (before["count_region:0"], before["count_region:1"], before["count_year:0"]) == (12.0, 12.0, 0.0)
    assert before["main_metric"] == before["acc_worst_region"] == min(before["acc_region:0"], before["acc_region:1"])
    assert before["acc_avg"] == before["acc1"] == before["acc_worst_year"]
    # One wrong label in a region moves that region by a twelfth.
    labels[23] = (labels[23] + 1) % 3
    write_fmow(tmp_path, labels, regions)
    after = result_of(run, tmp_path)
    assert after["acc_region:0"] == before["acc_region:0"]
    assert before["acc_region:1"] - after["acc_region:1"] == pytest.approx(1 / 12)
    assert folder.exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (npy(1, 2), "whole numbers: region, year, y"),
        (b"no array", "not a .npy"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (3,), }" + b" " * 58 + b"\n", "not a .npy"),
    ],
)
def test_fields_that_are_none(run: Path, tmp_path: Path, data: bytes, said: str) -> None:
    folder = write_fmow(tmp_path, [0, 1], [0, 0])
    members = {"png": square("red", 0), "cls": b"0", "npy": data}
    write_shard(folder / "test" / "0.tar", {"a": members})
    with pytest.raises(InputError, match=said):
        quick(run, tmp_path)
    del members["npy"]
    write_shard(folder / "test" / "0.tar", {"a": members})
    with pytest.raises(InputError, match=r"\.npy"):
        quick(run, tmp_path)


def cell(image: bytes) -> dict[str, Any]:
    return {"bytes": image, "path": None}


def write_games(folder: Path, games: list[dict[str, Any]], *, split: list[str] | None = None) -> None:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    texts = pa.list_(pa.string())
    schema = pa.schema(
        [("cue", pa.string()), ("candidates", texts), ("associations", texts), ("candidate_images", pa.list_(image))]
    )
    table = pa.Table.from_pylist(games, schema)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table if split is None else table.append_column("split", pa.array(split)), folder / "test-0.parquet")


def game(cue: str, colours: list[str]) -> dict[str, Any]:
    names = [f"{c}{i}" for i, c in enumerate(colours)]
    return {
        "cue": cue,
        "candidates": names,
        "associations": [n for n in names if n.startswith(cue.split()[0])],
        "candidate_images": [cell(square(c, i)) for i, c in enumerate(colours)],
    }


def test_winogavil(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wds_misc-winogavil_test"
    ten = [NAMES[i % 3] for i in range(10)]
    games = [game(f"{c} square", ten) for c in NAMES] + [game("red square", ["red", "green", "blue", "red", "blue"])]
    write_games(folder, games)
    before = result_of(run, tmp_path)
    assert before["jaccard_score_10-12"] == before["jaccard_score_10"] == before["main_metric"] > 0.6
    assert (before["jaccard_score_12"], before["jaccard_score_6"]) == (None, None)
    assert before["avg_jaccard_score"] == pytest.approx((3 * before["jaccard_score_10"] + before["jaccard_score_5"]) / 4)
    # The red ones of a game become blue ones: what belongs to the cue is no longer what the model takes.
    games[0]["candidate_images"] = [cell(square("blue" if c == "red" else "red", i)) for i, c in enumerate(ten)]
    write_games(folder, games)
    assert result_of(run, tmp_path)["jaccard_score_10"] < before["jaccard_score_10"] - 0.2
    # Rows of other splits do not count.
    write_games(folder, games, split=["train", "test", "test", "test"])
    scored = quick(run, tmp_path).results[0]
    assert scored.record["games"] == 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cue": " "}, "cue ' '"),
        ({"associations": ["elsewhere"]}, "one association or more among them"),
        ({"candidate_images": []}, "an image for each candidate"),
    ],
)
def test_games_that_are_none(run: Path, tmp_path: Path, change: dict[str, Any], said: str) -> None:
    write_games(
        tmp_path / "wds_misc-winogavil_test", [game("red square", NAMES * 4), {**game("red square", NAMES * 4), **change}]
    )
    with pytest.raises(InputError, match=said) as caught:
        quick(run, tmp_path)
    assert "row 1" in str(caught.value)


def test_an_unreadable_candidate(run: Path, tmp_path: Path) -> None:  # T119
    games = [game("red square", NAMES * 4), game("blue square", NAMES * 4)]
    games[0]["candidate_images"][0] = cell(b"no image")
    write_games(tmp_path / "wds_misc-winogavil_test", games)
    assert quick(run, tmp_path, unreadable="exclude").results[0].record["games"] == 1
    wrong = quick(run, tmp_path, unreadable="wrong").results[0].record
    assert (wrong["games"], wrong["unreadable"]) == (2, 1)


def write_faces(folder: Path) -> None:
    """Squares stand for faces: red ones for gender 0, green ones for gender 1."""
    words = {
        "race": ["black", *COLOURS, "grey", "white", "brown"],
        "gender": ["red", "green"],
        "age": [f"{i} years" for i in range(9)],
        "toxic": [f"kind {i}" for i in range(22)],
    }
    samples = {
        f"f{i:03d}": {"png": square(NAMES[i % 2], i), "npy": npy(i % 9, i % 2, i % 7, int(i % 7 != faces.WHITE))}
        for i in range(28)
    }
    write_shard(folder / "test" / "0.tar", samples)
    (folder / "test" / "nshards.txt").write_text("1\n")
    (folder / "classnames.txt").write_text("".join(f"{o}:{c}\n" for o, names in words.items() for c in names))
    templates = "".join(f"{o}:a {{c}} square\n" for o in words)
    (folder / "zeroshot_classification_templates.txt").write_text(templates)


def test_faces_are_reported_and_not_counted(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_faces(tmp_path / "wds_fairface_test")
    score(str(run), str(tmp_path))
    (line,) = (run / "eval_results.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert (found["key"], found["dataset"], found["metrics"]["main_metric"]) == ("fairness/fairface", "FairFace", None)
    assert found["metrics"]["acc_gender_avg"] > 0.8  # which the colour tells
    genders = Counter((i % 7, i % 2) for i in range(28))
    assert found["metrics"]["count_race:6_gender:1"] == genders[6, 1]
    assert "reported only" in capsys.readouterr().out


def test_lines_of_faces_need_an_objective(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wds_fairface_test"
    write_faces(folder)
    names = (folder / "classnames.txt").read_text()
    for text, said in ((names + "happy\n", "line 41"), (names.replace("toxic:", "age:"), "no line of toxic")):
        (folder / "classnames.txt").write_text(text)
        with pytest.raises(InputError, match=said):
            quick(run, tmp_path)


def test_retrieval_from_the_published_table(run: Path, tmp_path: Path) -> None:  # T112
    pairs = [(square(c, 500 + i), [f"a {c} square", f"the {c} square"]) for i, c in enumerate([*NAMES, *NAMES[:2]])]
    samples = {f"s{i}": {"png": p, "txt": "\n".join(c).encode()} for i, (p, c) in enumerate(pairs)}
    tars = tmp_path / "a" / "wds_retrieval-flickr_1k_test_image_text_retrieval_test"
    write_shard(tars / "test" / "0.tar", samples)
    (tars / "test" / "nshards.txt").write_text("1\n")
    expected = quick(run, tmp_path / "a").results[0]
    table = pa.Table.from_pylist(
        [{"image": cell(p), "caption": c, "split": "test"} for p, c in pairs]
        + [{"image": cell(pairs[0][0]), "caption": ["a train picture"], "split": "train"}] * 3
    )
    folder = tmp_path / "b" / "wds_retrieval-flickr_1k_test_image_text_retrieval_test"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "TEST.parquet", row_group_size=2)
    found = quick(run, tmp_path / "b").results[0]
    assert found.line == expected.line
    assert (found.record["images"], found.record["texts"]) == (5, 10)
    pq.write_table(table.drop(["caption"]), folder / "TEST.parquet")
    with pytest.raises(InputError, match="no column 'caption'"):
        quick(run, tmp_path / "b")
