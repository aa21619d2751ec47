"""Tables of what was scored, and the metrics behind them, against scikit-learn and by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score, jaccard_score, recall_score

from baselines.score import metrics
from baselines.score.aggregate import read
from baselines.score.kinds import groups, winogavil
from baselines.score.results import Ledger, Result, Scores
from baselines.score.tasks import load_tasks


def result(key: str, values: dict[str, float | None], **record: object) -> Result:
    told = {"images": 10, "chance": 0.1, **record}
    return Result.of(load_tasks()[key], "digest", values, [], **told)  # type: ignore[arg-type]


def test_the_worst_group_is_shown_with_its_size() -> None:  # T116
    # 3 of 4, 80 of 100 and 0 of 1 are right.
    right = np.array([1] * 3 + [0] + [1] * 80 + [0] * 20 + [0], bool)
    region = np.repeat([0, 1, 2], [4, 100, 1])
    found = groups.by_group("acc", right, {"region": region}, ["region"])
    assert found["acc_wg"] == 0.0
    sizes = {name: value for name, value in found.items() if name.startswith("count_")}
    assert sizes == {"count_region:0": 4.0, "count_region:1": 100.0, "count_region:2": 1.0}
    shown = Scores((result("fairness/geode", found, images=105),)).table()
    assert "0.0000" in shown and "105 of 12488: not the whole test set (the worst group, region:2: 1)" in shown


def test_the_worst_region_of_fmow_is_none_of_its_years() -> None:
    values = {"acc_year:0": 0.25, "count_year:0": 7.0, "acc_region:0": 0.5, "count_region:0": 9.0, "acc_region:1": 0.25}
    shown = Scores((result("wilds/fmow", {**values, "count_region:1": 3.0, "acc_worst_region": 0.25}, images=22108),)).table()
    assert "22108 (the worst group, region:1: 3)" in shown


def test_only_classes_with_images_count() -> None:  # T117
    labels, predictions = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    recall, f1 = groups.macro(labels, predictions)
    # Recalls 2/3 and 1; F1 of the first 2·2/(3+2), of the second 2·1/(1+2).
    assert recall == pytest.approx(0.8333, abs=1e-4) and f1 == pytest.approx(0.7333, abs=1e-4)
    assert metrics.mean_per_class_recall(labels, labels == predictions) == recall


def test_metrics_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 5, 30):
        labels, predictions = rng.integers(0, classes, 60), rng.integers(0, classes + 3, 60)
        present = np.unique(labels)
        expected = [f(labels, predictions, labels=present, average="macro", zero_division=0) for f in (recall_score, f1_score)]
        assert list(groups.macro(labels, predictions)) == pytest.approx(expected)
        assert metrics.mean_per_class_recall(labels, labels == predictions) == pytest.approx(expected[0])
    for _ in range(20):
        belongs, nearness = rng.random(10) < 0.4, rng.random(10)
        belongs[rng.integers(10)] = True
        taken = np.isin(np.arange(10), np.argsort(nearness)[-belongs.sum() :])
        assert winogavil.jaccard(belongs, nearness) == pytest.approx(jaccard_score(belongs, taken))


def test_recall_among_the_first() -> None:
    texts, images = np.array([0, 1, 4, 9]), np.array([0, 5])
    assert [metrics.recall_at(texts, k) for k in (1, 2, 5, 10)] == [0.25, 0.5, 0.75, 1.0]
    assert [metrics.mean_recall_at(texts, images, k) for k in (1, 5, 10)] == [0.375, 0.625, 1.0]


def test_bias() -> None:
    male, female = np.array([0.3, 0.2, 0.1, 0.5]), np.array([0.1, 0.2, 0.4, 0.1])
    assert metrics.representation_bias(male, female) == 0.625  # two of four, and half of the tie
    assert metrics.disparity([0.5, None, 0.75, 0.625]) == 0.25
    assert metrics.disparity([None]) is None


def test_the_results_that_a_manifest_is_of_are_known_by_their_hash(tmp_path: Path) -> None:
    ledger = Ledger.open(str(tmp_path), {"suite_version": 3}, overwrite=False)
    for key in ("mnist", "cifar10"):
        ledger.add(result(key, {"acc1": 0.5}))
        told = json.loads((tmp_path / "eval_manifest.json").read_text())
        assert told["results_sha256"] == hashlib.sha256((tmp_path / "eval_results.jsonl").read_bytes()).hexdigest()
    assert list(read(str(tmp_path)).scores) == ["cifar10", "mnist"]  # the suite's order
    again = Ledger.open(str(tmp_path), {"suite_version": 3}, overwrite=False)
    assert again.known("mnist", "digest") and again.known("mnist", "other data") is None
    assert Ledger.open(str(tmp_path), {"suite_version": 4}, overwrite=False).results == {}


def test_an_average_is_of_all_tasks_that_count() -> None:
    counted = [t for t in load_tasks().values() if t.counted]
    values = {t.key: i / 100 for i, t in enumerate(counted)}
    results = [result(t.key, {t.main_metric or "": values[t.key]}) for t in counted]
    some, every = Scores(tuple(results[:2])), Scores(tuple(results))
    assert "2 of the 38 tasks that count: no average, partial mean 0.0050" in some.table()
    assert some.summary("o")["aggregate"]["average"] is None
    assert every.summary("o")["aggregate"]["average"] == pytest.approx(0.185)  # the mean of 0 to .37
    assert every.table().splitlines()[-1].split() == ["Average", "0.1850"]
    faces = Scores((result("fairness/fairface", {"acc_race_avg": 0.5}),))
    assert "reported only" in faces.table() and "–" in faces.table()
    assert "aggregate" not in faces.summary("o")
