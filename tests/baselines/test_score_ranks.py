"""Ranks and recalls of retrieval by hand, and against a naive loop over the whole matrix."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
import torch

from baselines.score import metrics
from baselines.score.kinds.retrieval import both_ways
from baselines.score.ranking import ranks, search
from pools.errors import WorkFailed

MISSED = np.iinfo(np.int64).max


def ranked(scores: list[list[float]], counts: list[int], readable: list[bool] | None = None) -> tuple[list[int], list[int]]:
    """Ranks for a matrix of scores (a row an image): the features of the texts are the unit vectors."""
    images, texts = torch.tensor(scores), torch.eye(sum(counts))
    found = np.array([True] * len(counts) if readable is None else readable)
    of_texts, of_images = both_ways(images, texts, np.array(counts), found)
    return of_texts.tolist(), of_images.tolist()


def test_any_caption_of_an_image_will_do() -> None:  # T111
    of_texts, of_images = ranked([[0.9, 0.2, 0.8, 0.1], [0.3, 0.6, 0.5, 0.7]], [2, 2])
    # Text 1 scores .2 with its own image and .6 with the other, text 2 .5 and .8. Image 1's best text (.7) is the nearest.
    assert of_texts == [0, 1, 1, 0] and of_images == [0, 0]
    found = metrics.retrieval(np.array(of_texts), np.array(of_images))
    assert (found["image_retrieval_recall@1"], found["text_retrieval_recall@1"], found["mean_recall@1"]) == (0.5, 1.0, 0.75)


def test_three_images_and_four_texts_by_hand() -> None:
    scores = [
        [0.1, 0.5, 0.4, 0.3],  # has text 0, the last of its row
        [0.2, 0.6, 0.3, 0.7],  # has texts 1 and 2: .6 stands behind .7
        [0.3, 0.1, 0.2, 0.9],  # has text 3, the first of its row
    ]
    # Down the columns: text 0 has its .1 behind .2 and .3; text 1 its .6 first; text 2 its .3 behind .4; text 3 its .9 first.
    assert ranked(scores, [1, 2, 1]) == ([2, 0, 1, 0], [3, 1, 0])
    assert metrics.retrieval(np.array([2, 0, 1, 0]), np.array([3, 1, 0])) == {
        "image_retrieval_recall@1": 0.5,
        "text_retrieval_recall@1": pytest.approx(1 / 3),
        "image_retrieval_recall@5": 1.0,
        "text_retrieval_recall@5": 1.0,
        "image_retrieval_recall@10": 1.0,
        "text_retrieval_recall@10": 1.0,
        "mean_recall@1": pytest.approx(5 / 12),
        "mean_recall": pytest.approx((0.5 + 1 / 3 + 4) / 6),
    }


def test_recall_at_k_takes_the_first_k() -> None:
    found = metrics.retrieval(np.array([0, 4, 5, 9, 10, MISSED]), np.array([1]))
    assert [found[f"image_retrieval_recall@{k}"] for k in (1, 5, 10)] == [1 / 6, 2 / 6, 4 / 6]
    assert [found[f"text_retrieval_recall@{k}"] for k in (1, 5, 10)] == [0.0, 1.0, 1.0]


def test_images_without_features_are_missed_and_their_texts_stay() -> None:
    # Of three images the middle one cannot be read. Text 1, its own, is nearer to image 0 than text 0 is.
    scores = [[0.5, 0.6, 0.1], [0.1, 0.2, 0.4]]
    assert ranked(scores, [1, 1, 1], [True, False, True]) == ([0, MISSED, 0], [1, MISSED, 0])


@pytest.mark.parametrize("counts", [[1] * 37, [3, 1, 2, 5, 1, 1, 4]])
def test_a_model_that_scores_all_alike_guesses(counts: list[int]) -> None:
    n, m = len(counts), sum(counts)
    feature = torch.nn.functional.normalize(torch.rand(1, 61, generator=torch.Generator().manual_seed(0)), dim=-1)
    of_texts, of_images = both_ways(feature.repeat(n, 1), feature.repeat(m, 1), np.array(counts), np.ones(n, bool))
    found = metrics.retrieval(of_texts, of_images)
    # All have the same nearest image, which some own, and the same nearest text, which one image owns.
    assert found["image_retrieval_recall@1"] in [c / m for c in counts]
    assert found["text_retrieval_recall@1"] == pytest.approx(1 / n)


@pytest.mark.parametrize("seed", range(12))
def test_blocks_give_what_the_whole_matrix_gives(seed: int) -> None:
    """Small whole numbers: products are exact, and ties are many."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, rng.integers(1, 20))
    readable = rng.random(len(counts)) < 0.8
    images = rng.integers(-2, 3, (readable.sum(), 4)).astype(np.float32)
    texts = rng.integers(-2, 3, (counts.sum(), 4)).astype(np.float32)
    owner = [i for i, c in enumerate(counts) for _ in range(c)]
    rows = {int(image): row for row, image in enumerate(np.flatnonzero(readable))}

    def order(scores: np.ndarray) -> list[int]:
        return sorted(range(len(scores)), key=lambda i: (-scores[i], i))

    expected_texts = [order(images @ t).index(rows[o]) if o in rows else MISSED for t, o in zip(texts, owner, strict=True)]
    expected_images = [
        min(order(texts @ images[rows[i]]).index(t) for t, o in enumerate(owner) if o == i) if i in rows else MISSED
        for i in range(len(counts))
    ]
    of_texts, of_images = both_ways(torch.from_numpy(images), torch.from_numpy(texts), counts, readable)
    assert of_texts.tolist() == expected_texts and of_images.tolist() == expected_images
    own = [(rows[o], t) for t, o in zip(texts, owner, strict=True) if o in rows]
    first = torch.tensor([o for o, _ in own], dtype=torch.int64)
    queries = torch.tensor(np.array([t for _, t in own]).reshape(-1, 4))
    for block in (1, 7, 64):
        assert search(queries, torch.from_numpy(images), first, first + 1, block=block).tolist() == [
            r for r in expected_texts if r != MISSED
        ]


def test_features_that_are_no_numbers_are_no_hits() -> None:
    with pytest.raises(WorkFailed, match="not finite"):
        ranks(torch.tensor([[torch.nan, 0.0]]), torch.tensor([0]), torch.tensor([1]))


def test_memory_does_not_hold_all_scores() -> None:
    """5,000 images and 25,000 texts have 125 million scores: 500 MB in one matrix, and as much again to compare them."""
    script = """
import resource, numpy as np, torch
from baselines.score.kinds.retrieval import both_ways
torch.set_num_threads(1)
images = torch.randn(5000, 16, generator=torch.Generator().manual_seed(0))
texts = images.repeat_interleave(5, dim=0)
both_ways(images[:9], texts[:45], np.full(9, 5), np.ones(9, bool))  # what the libraries themselves need
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
of_texts, of_images = both_ways(images, texts, np.full(5000, 5), np.ones(5000, bool))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024, len(of_texts), len(of_images))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    megabytes, texts, images = map(int, done.stdout.split())
    assert (texts, images) == (25000, 5000)
    assert megabytes < 100


def test_what_guessing_gives() -> None:
    """All 720 orders of texts with counts 1, 2, 3, and all 6 of images: the mean of both recalls at 1 is 1/3."""
    counts = np.array([1, 2, 3])
    owner = [0, 1, 1, 2, 2, 2]
    text = np.mean([[owner[order[0]] == i for i in range(3)] for order in permutations(range(6))])
    image = np.mean([[order[0] == o for o in owner] for order in permutations(range(3))])
    assert (text + image) / 2 == pytest.approx(1 / len(counts))
