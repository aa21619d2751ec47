"""Averages of results: against published tables and files, and by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from baselines.score.aggregate import COLUMNS, aggregate, read, same_suite
from baselines.score.tasks import Task, load_tasks
from pools.errors import InputError

COUNTED = [t for t in load_tasks().values() if t.counted]
THREE = [Task(key, key, None, "acc1", None, None, (), counted=True) for key in ("a", "b", "c")]


def line(task: Task, value: float | None, **more: Any) -> str:
    metrics = {**more, "main_metric": value}
    return json.dumps({"key": task.key, "dataset": task.name, "metrics": metrics}) + "\n"


def write(folder: Path, lines: list[str], **manifest: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval_results.jsonl").write_text("".join(lines))
    if manifest:
        (folder / "eval_manifest.json").write_text(json.dumps(manifest))
    return folder


def whole(value: float = 0.5) -> list[str]:
    return [line(t, value if t.counted else None) for t in load_tasks().values()]


# Published results --------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_mean_of_the_38_is_the_published_average(shared_data: Path) -> None:
    keys = {t.name: t.key for t in COUNTED}
    table = shared_data / "ground-truth" / "mlfoundations+open_clip" / "docs" / "openclip_results.csv"
    with table.open() as f:
        rows = list(csv.DictReader(f))
    assert len(rows) == 121 and keys.keys() <= rows[0].keys()
    for row in rows:
        found = aggregate({key: float(row[name]) for name, key in keys.items()})
        assert found.average == pytest.approx(float(row["Average perf. on 38 datasets"]), abs=1e-4), row["pretrained"]
        assert found.column("ImageNet") == float(row["ImageNet 1k"])


@pytest.mark.shared
def test_published_files_are_read_as_they_are(shared_data: Path) -> None:
    folder = shared_data / "ground-truth" / "apple+ml-mobileclip" / "results"
    averages = {"mobileclip_b": 0.6515, "mobileclip_s0": 0.5812, "mobileclip_s1": 0.6125, "mobileclip_s2": 0.6366}
    # Of 50 rows, as pandas reads them: the mean of the 38 rows by hand, and that of all that have a main metric.
    averages |= {"mobileclip2_b": 0.6576, "mobileclip2_s2": 0.6405}
    for name, average in averages.items():
        found = read(str(folder / f"{name}.jsonl"))
        assert (found.suite_version, found.weights_sha256) == (None, None)
        assert found.aggregate().average == pytest.approx(average, abs=5e-5), name
        plain = [s for s in found.scores.values() if s is not None]
        assert (len(found.metrics), len(plain)) == ((50, 48) if name.startswith("mobileclip2") else (40, 38))
        if len(plain) == 48:
            assert sum(plain) / 48 > average + 0.02


@pytest.mark.shared
def test_groups_are_datacomps(shared_data: Path) -> None:
    """By the names that DataComp's own aggregate_scores.py lists."""
    file = read(str(shared_data / "ground-truth" / "apple+ml-mobileclip" / "results" / "mobileclip_b.jsonl"))
    names = {load_tasks()[key].name: score for key, score in file.scores.items()}
    shifts = ["ImageNet Sketch", "ImageNet v2", "ImageNet-A", "ImageNet-O", "ImageNet-R", "ObjectNet"]
    vtab = ["Caltech-101", "CIFAR-100", "CLEVR Counts", "CLEVR Distance", "Describable Textures", "EuroSAT"]
    vtab += ["KITTI Vehicle Distance", "Oxford Flowers-102", "Oxford-IIIT Pet", "PatchCamelyon", "RESISC45", "SVHN", "SUN397"]
    found = file.aggregate()
    for column, members in {
        "ImageNet dist. shifts": shifts,
        "VTAB": vtab,
        "Retrieval": ["Flickr", "MSCOCO", "WinoGAViL"],
    }.items():
        scores = [s for m in members if (s := names[m]) is not None]
        assert found.column(column) == pytest.approx(sum(scores) / len(members)), column
    assert list(COLUMNS) == ["ImageNet", "ImageNet dist. shifts", "VTAB", "Retrieval", "Average"]


# Missing tasks ------------------------------------------------------------------------------------------------------------


def test_a_missing_task_is_an_error_or_there_is_no_average() -> None:  # T115
    scores = {"a": 0.2, "b": 0.4, "c": None, "another": 0.9}
    with pytest.raises(InputError, match=r"x\.jsonl: 1 of the 3 tasks that count have no score: c;.*\n.*--allow-missing"):
        aggregate(scores, tasks=THREE, where="x.jsonl")
    found = aggregate(scores, tasks=THREE, allow_missing=True)
    assert found.content() == {
        **dict.fromkeys(COLUMNS[:-1]),
        **{"average": None, "partial_mean": pytest.approx(0.3), "scored": 2, "of": 3, "missing": ["c"]},
    }
    assert json.loads(json.dumps(found.content()))["average"] is None
    assert found.lines() == ["2 of the 3 tasks that count: no average, partial mean 0.3000", "missing: c"]
    assert aggregate({}, tasks=THREE, allow_missing=True).partial_mean is None
    complete = aggregate({**scores, "c": 0.0}, tasks=THREE)
    assert complete.average == pytest.approx(0.2) and (complete.partial_mean, complete.missing) == (None, ())


def test_a_group_lacks_no_task(tmp_path: Path) -> None:
    lines = [text for text in whole() if '"imagenet-a"' not in text]
    found = read(str(write(tmp_path, lines))).aggregate(allow_missing=True)
    assert found.groups == {"ImageNet": 0.5, "ImageNet dist. shifts": None, "VTAB": 0.5, "Retrieval": 0.5}
    assert found.missing == ("imagenet-a",)


def test_fairface_and_tasks_of_other_suites_count_for_nothing(tmp_path: Path) -> None:
    others = [Task("comp/own", "Own", None, "acc", None, None, (), counted=False)]
    faces = [t for t in load_tasks().values() if not t.counted]
    assert len(faces) == 2
    lines = [line(t, 0.5) for t in COUNTED] + [line(t, 0.9) for t in [*faces, *others]]
    found = read(str(write(tmp_path, lines))).aggregate()
    assert (found.average, found.of) == (0.5, 38)
    assert found.lines()[0] == "all 38 tasks that count" and found.lines()[-1].split() == ["Average", "0.5000"]


# Files --------------------------------------------------------------------------------------------------------------------


def test_nan_is_no_score_and_names_stand_for_keys(tmp_path: Path) -> None:
    lines = whole()
    lines[1] = '{"dataset": "CIFAR-10", "metrics": {"acc1": NaN, "main_metric": NaN}}\n'
    lines[2] = '{"key": "cifar-hundred", "dataset": "CIFAR-100", "metrics": {"main_metric": 0.25}}\n\n'
    found = read(str(write(tmp_path, lines) / "eval_results.jsonl"))
    assert found.aggregate(allow_missing=True).missing == ("cifar10",)
    assert found.scores["vtab/cifar100"] == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"eval_results\.jsonl:1: not a result: JSONDecodeError"),
        ("[]", "not a result"),
        ('{"key": "cifar10", "dataset": "CIFAR-10", "metrics": {"acc1": 1}}', "not a result: KeyError"),
        ('{"key": "cifar10", "dataset": "CIFAR-10", "metrics": {"main_metric": "x"}}', "not a result: ValueError"),
        ('{"key": "cifar10", "dataset": "CIFAR-10", "metrics": {"main_metric": 52.5}}', "cifar10 has 52.5; expected a share"),
        (
            '{"key": "wilds/fmow", "dataset": "FMoW", "metrics": {"acc1": 0.3, "acc_worst_region": 0.1, "main_metric": 0.3}}',
            r"main_metric is 0\.3, acc_worst_region 0\.1; expected one and the same",
        ),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(str(write(tmp_path, [text])))


def test_a_task_has_one_result(tmp_path: Path) -> None:
    assert read(str(write(tmp_path / "same", [*whole(), whole()[3]]))).aggregate().average == 0.5
    with pytest.raises(InputError, match=r"eval_results\.jsonl:41: a second result of vtab/clevr_count_all"):
        read(str(write(tmp_path / "two", [*whole(), whole(0.6)[3]])))
    with pytest.raises(InputError, match="no results"):
        read(str(tmp_path))


def test_versions_of_the_suite_are_not_mixed(tmp_path: Path) -> None:  # T120
    old = read(str(write(tmp_path / "old", whole(), suite_version=1, weights_sha256="ab")))
    new = read(str(write(tmp_path / "new", whole(), suite_version=2)))
    unsaid = read(str(write(tmp_path / "published", whole())))
    assert (old.suite_version, old.weights_sha256, unsaid.suite_version) == (1, "ab", None)
    with pytest.raises(
        InputError, match=r"version 1 \(.*old/eval_results\.jsonl\) and version 2 \(.*new/eval_results\.jsonl\)"
    ):
        same_suite([new, unsaid, old])
    assert same_suite([new, unsaid, new]) == 2 and same_suite([unsaid]) is None
