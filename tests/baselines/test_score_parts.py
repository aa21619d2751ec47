"""The scorer's parts against scikit-learn, published files, and numbers worked out by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import recall_score, top_k_accuracy_score

from baselines.score.metrics import absent, classification
from baselines.score.tasks import load_tasks, task_of
from baselines.score.zeroshot import class_vectors, ranks


def test_metrics_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for classes in (3, 7, 40):
        labels = rng.integers(0, classes - 1, 200)  # the last class has no image
        logits = rng.normal(size=(200, classes)).astype(np.float32)
        logits[np.arange(200), labels] += 1
        found = classification(labels, ranks(torch.from_numpy(logits), torch.from_numpy(labels)).numpy(), classes)
        assert found["acc1"] == pytest.approx(top_k_accuracy_score(labels, logits, k=1, labels=range(classes)))
        if classes >= 5:
            assert found["acc5"] == pytest.approx(top_k_accuracy_score(labels, logits, k=5, labels=range(classes)))
        present = sorted(set(labels))
        expected = recall_score(labels, logits.argmax(1), labels=present, average="macro", zero_division=0)
        assert found["mean_per_class_recall"] == pytest.approx(expected)


def test_mean_recall_is_over_classes_that_have_images() -> None:  # T117
    # Truth 0, 0, 0, 1 and predictions 0, 0, 1, 1: recalls 2/3 and 1, their mean 5/6.
    labels = np.array([0, 0, 0, 1])
    found = classification(labels, np.array([0, 0, 1, 0]), 3)
    assert found == {"acc1": 0.75, "acc5": None, "mean_per_class_recall": pytest.approx(0.8333, abs=1e-4)}
    assert absent(labels, 3) == [2]


def test_equal_scores_are_no_win_for_every_class() -> None:
    logits = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    assert ranks(logits, torch.tensor([0, 1, 0])).tolist() == [0, 1, 2]


def test_class_vectors_are_means_of_normalised_prompts() -> None:  # T121
    texts: list[str] = []

    def tokenizer(prompts: list[str]) -> torch.Tensor:
        texts.extend(prompts)
        return torch.arange(len(prompts))

    known = torch.tensor([[3.0, 0.0], [0.0, 0.5]])  # of lengths 3 and 1/2: they must count alike
    vectors = class_vectors(lambda tokens: known[tokens], tokenizer, ["cat"], ["a {c}.", "the {c}, {c}."])
    assert texts == ["a cat.", "the cat, cat."]
    assert vectors.tolist() == [[pytest.approx(0.5**0.5), pytest.approx(0.5**0.5)]]


def test_tasks_are_the_suites() -> None:
    tasks = load_tasks()
    assert len(tasks) == 40 and sum(t.counted for t in tasks.values()) == 38
    assert [k for k, t in tasks.items() if not t.counted] == ["fairness/fairface", "fairness/utkface"]
    assert [k for k, t in tasks.items() if t.main_metric == "mean_per_class_recall"] == [
        "vtab/caltech101", "fgvc_aircraft", "vtab/flowers", "vtab/pets"
    ]  # fmt: skip
    assert sum(t.is_classification for t in tasks.values()) == 31
    assert task_of("vtab-caltech101") is task_of("vtab/caltech101") is tasks["vtab/caltech101"]
    own = task_of("our-own")
    assert (own.key, own.main_metric, own.counted) == ("our-own", "acc1", False)


@pytest.mark.shared
def test_tasks_agree_with_published_results(shared_data: Path) -> None:
    published = shared_data / "ground-truth" / "apple+ml-mobileclip" / "results" / "mobileclip_b.jsonl"
    rows = [json.loads(line) for line in published.read_text().splitlines()]
    tasks = load_tasks()
    assert [(r["key"], r["dataset"]) for r in rows] == [(t.key, t.name) for t in tasks.values()]
    for row in rows:
        task = tasks[row["key"]]
        if task.is_classification:
            assert row["metrics"]["main_metric"] == row["metrics"][task.main_metric]
            assert (row["metrics"]["acc5"] is None) == (task.classes is not None and task.classes < 5)


@pytest.mark.shared
def test_tasks_agree_with_the_table_of_facts(shared_data: Path) -> None:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:g}"

    columns = ("key", "name", "size", "main_metric", "classes", "chance", "tags", "counted")
    with (shared_data.parent / "spec" / "tasks.csv").open() as f:
        facts = [tuple(row[c] for c in columns) for row in csv.DictReader(f)]
    ours = []
    for t in load_tasks().values():
        counted, tags = "yes" if t.counted else "no", " ".join(t.tags)
        ours.append((t.key, t.name, str(t.size), t.main_metric or "", number(t.classes), number(t.chance), tags, counted))
    assert facts == ours
