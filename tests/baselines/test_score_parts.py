"""The scorer's parts against scikit-learn, published files, and numbers worked out by hand."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import recall_score, top_k_accuracy_score

from baselines.score.encode import Encoder, FeatureCache
from baselines.score.kinds.zeroshot import class_vectors
from baselines.score.metrics import absent, classification, retrieval
from baselines.score.ranking import ranks
from baselines.score.tasks import load_tasks, task_of
from baselines.train.decode import Raw
from pools.errors import WorkFailed
from tests.baselines.conftest import NAMES, square


def test_metrics_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for classes in (3, 7, 40):
        labels = rng.integers(0, classes - 1, 200)  # the last class has no image
        logits = rng.normal(size=(200, classes)).astype(np.float32)
        logits[np.arange(200), labels] += 1
        own = torch.from_numpy(labels)
        found = classification(labels, ranks(torch.from_numpy(logits), own, own + 1).numpy(), classes)
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
    assert ranks(logits, torch.tensor([0, 1, 0]), torch.tensor([1, 2, 1])).tolist() == [0, 1, 2]


def test_class_vectors_are_means_of_normalised_prompts() -> None:  # T121
    texts: list[str] = []

    def tokenizer(prompts: list[str]) -> torch.Tensor:
        texts.extend(prompts)
        return torch.arange(len(prompts))

    known = torch.tensor([[3.0, 0.0], [0.0, 0.5]])  # of lengths 3 and 1/2: they must count alike
    encoder = Encoder(fake(encode_text=lambda tokens: known[tokens], tokenizer=tokenizer))
    vectors = class_vectors(encoder.texts, ["cat"], ["a {c}.", "the {c}, {c}."], 8)
    assert texts == ["a cat.", "the cat, cat."]
    assert vectors.tolist() == [[pytest.approx(0.5**0.5), pytest.approx(0.5**0.5)]]


@pytest.mark.parametrize(("batch_size", "batches"), [(1, [1] * 10), (3, [2] * 5), (4, [4, 4, 2]), (99, [10])])
def test_prompts_of_several_classes_make_a_batch(batch_size: int, batches: list[int]) -> None:
    """Classes stay together as long as a batch can hold one; the vectors are the same."""
    sizes: list[int] = []

    def encode(tokens: torch.Tensor) -> torch.Tensor:
        sizes.append(len(tokens))
        return torch.stack([torch.stack([t.cos(), t.sin(), t * 0 + 1]) for t in tokens.float()])

    def tokenizer(texts: list[str]) -> torch.Tensor:
        return torch.tensor([sum(map(ord, t)) for t in texts])

    encoder = Encoder(fake(encode_text=encode, tokenizer=tokenizer), batch_size=batch_size)
    found = class_vectors(encoder.texts, list("abcde"), ["a {c}.", "the {c}"], batch_size)
    assert sizes == batches
    single = [class_vectors(Encoder(encoder.loaded).texts, [c], ["a {c}.", "the {c}"], 99) for c in "abcde"]
    torch.testing.assert_close(found, torch.cat(single))


# Images -----------------------------------------------------------------------------------------------------------------


def fake(**parts: Any) -> Any:
    """A model whose features of an image are its mean colour; `seen` counts the images that were encoded."""
    seen: list[int] = []

    def encode_image(pixels: torch.Tensor) -> torch.Tensor:
        seen.append(len(pixels))
        return pixels.mean(dim=(2, 3))

    model = SimpleNamespace(encode_image=encode_image, encode_text=parts.get("encode_text"))
    return SimpleNamespace(model=model, tokenizer=parts.get("tokenizer"), transform=to_tensor, seen=seen)


def to_tensor(image: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image, np.float32)).permute(2, 0, 1)


def pictures(numbers: list[int]) -> list[Raw]:
    """The i-th square; one that is no picture for a negative number. The target is the place in the list."""
    made = [square(NAMES[i % 3], i) if i >= 0 else b"no picture %d" % i for i in numbers]
    return [Raw(f"picture {i}", image, place) for place, (i, image) in enumerate(zip(numbers, made, strict=True))]


def collect(encoder: Encoder, raws: list[Raw]) -> tuple[list[tuple[int, bool]], torch.Tensor]:
    """(target, whether it failed) of all items, and all features."""
    batches = list(encoder.images(raws, "task"))
    items = [(i.target, bool(i.failed)) for items, _ in batches for i in items]
    return items, torch.cat([f for _, f in batches if len(f)])


def test_known_images_are_not_encoded_again_and_nothing_changes() -> None:
    first, second = list(range(70)), [3, 99, -1, 0, 69, *range(100, 140), 5, -2, 6]
    encoder = Encoder(fake(), batch_size=32, unreadable="wrong")
    collect(encoder, pictures(first))
    assert sum(encoder.loaded.seen) == 70  # type: ignore[attr-defined]
    items, features = collect(encoder, pictures(second))
    assert sum(encoder.loaded.seen) == 70 + 41  # type: ignore[attr-defined]
    alone = Encoder(fake(), batch_size=32, unreadable="wrong", cache=FeatureCache(0))
    expected_items, expected = collect(alone, pictures(second))
    assert items == expected_items == [(i, number < 0) for i, number in enumerate(second)]
    assert torch.equal(features, expected)
    collect(alone, pictures(second))
    assert sum(alone.loaded.seen) == 2 * 46  # type: ignore[attr-defined]
    items, again = collect(encoder, pictures(second[3:5]))  # nothing left to encode
    assert items == [(0, False), (1, False)] and torch.equal(again, expected[2:4])


def test_images_are_told_apart_by_their_bytes_not_their_names() -> None:
    red, blue = square("red", 1), square("blue", 1)
    encoder = Encoder(fake())
    _, one = collect(encoder, [Raw("0.tar: s0", red, 0)])
    _, other = collect(encoder, [Raw("0.tar: s0", blue, 0)])
    assert one[0, 0] > one[0, 2] and other[0, 0] < other[0, 2]


def test_what_is_kept_is_bounded() -> None:
    cache = FeatureCache(limit=3 * (4 * 256 + 1024))
    for i in range(5):
        cache.put(str(i), torch.full((256,), float(i)))
        assert cache.get("0") is not None  # used all the time
    assert [cache.get(str(i)) is not None for i in range(5)] == [True, False, False, True, True]
    assert cache.held == cache.limit


def test_a_batch_of_unreadable_images_has_no_features() -> None:
    encoder = Encoder(fake(), batch_size=1, unreadable="exclude")
    items, features = collect(encoder, pictures([*[-1 - i for i in range(40)], 1]))
    assert len(items) == 41 and sum(failed for _, failed in items) == 40 and features.shape == (1, 3)
    with pytest.raises(WorkFailed, match="task: none of 40 images can be read"):
        collect(encoder, pictures([-1 - i for i in range(40)]))


@pytest.mark.slow
def test_workers_change_nothing() -> None:
    numbers = [i % 90 for i in range(200)]  # a worker is at work on images that come again
    _, expected = collect(Encoder(fake(), batch_size=16, cache=FeatureCache(0)), pictures(numbers))
    encoder = Encoder(fake(), batch_size=16, workers=2)
    for _ in range(2):
        items, found = collect(encoder, pictures(numbers))
        assert items == [(i, False) for i in range(200)] and torch.equal(found, expected)


# The suite ----------------------------------------------------------------------------------------------------------------


def test_tasks_are_the_suites() -> None:
    tasks = load_tasks()
    assert len(tasks) == 40 and sum(t.counted for t in tasks.values()) == 38
    assert [k for k, t in tasks.items() if not t.counted] == ["fairness/fairface", "fairness/utkface"]
    assert [k for k, t in tasks.items() if t.main_metric == "mean_per_class_recall"] == [
        "vtab/caltech101", "fgvc_aircraft", "vtab/flowers", "vtab/pets"
    ]  # fmt: skip
    assert Counter(t.kind for t in tasks.values()) == {"classification": 35, "retrieval": 2, "associations": 1, "faces": 2}
    assert [k for k, t in tasks.items() if t.kind == "retrieval"] == [
        "retrieval/flickr_1k_test_image_text_retrieval", "retrieval/mscoco_2014_5k_test_image_text_retrieval"
    ]  # fmt: skip
    assert task_of("dollar_street") is task_of("fairness-dollar_street") is tasks["fairness/dollar_street"]
    assert task_of("vtab-caltech101") is task_of("vtab/caltech101") is tasks["vtab/caltech101"]
    own = task_of("our-own")
    assert (own.key, own.main_metric, own.counted) == ("our-own", "acc1", False)
    own = task_of("our-own", "retrieval")
    assert (own.key, own.main_metric, own.counted) == ("our-own", "mean_recall@1", False)
    assert task_of("our-own", "multilabel").kind is None


@pytest.mark.shared
def test_tasks_agree_with_published_results(shared_data: Path) -> None:
    published = shared_data / "ground-truth" / "apple+ml-mobileclip" / "results" / "mobileclip_b.jsonl"
    rows = [json.loads(line) for line in published.read_text().splitlines()]
    tasks = load_tasks()
    assert [(r["key"], r["dataset"]) for r in rows] == [(t.key, t.name) for t in tasks.values()]
    for row in rows:
        task = tasks[row["key"]]
        if task.kind == "retrieval":
            means = retrieval(np.arange(10), np.arange(10))
            assert list(row["metrics"]) == [name for name in [*means, "main_metric"] if name != "mean_recall"]
            pair = (row["metrics"]["image_retrieval_recall@1"], row["metrics"]["text_retrieval_recall@1"])
            assert row["metrics"]["main_metric"] == row["metrics"]["mean_recall@1"] == pytest.approx(sum(pair) / 2)
        if task.kind == "classification":
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
