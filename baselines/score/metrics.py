"""Metrics of classification and retrieval, out of the rank that what is right has among all there is, and of bias."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]


def classification(labels: Ints, ranks: Ints, classes: int) -> dict[str, float | None]:
    """acc1, acc5 and mean_per_class_recall, each in 0..1.

    `labels` [n] are the true classes, `ranks` [n] the number of classes that were scored higher than the true one (0 =
    right; any number from `classes` on = not scored). acc5 is None below five classes, as in DataComp's results. The mean
    over recalls takes in only classes that have images.
    """
    return {
        "acc1": recall_at(ranks, 1),
        "acc5": recall_at(ranks, 5) if classes >= 5 else None,
        "mean_per_class_recall": mean_per_class_recall(labels, ranks == 0),
    }


def recall_at(ranks: Ints, k: int) -> float:
    """Share of ranks [n], counted from 0, that are among the first k: top-k accuracy, or recall@k of a retrieval."""
    return float(np.mean(ranks < k))


def mean_per_class_recall(labels: Ints, right: Bools) -> float:
    """Mean over the classes that have images of the share that was right; labels [n], right [n]."""
    images = np.bincount(labels)
    hits = np.bincount(labels[right], minlength=len(images))
    present = images > 0
    return float(np.mean(hits[present] / images[present]))


def retrieval(of_texts: Ints, of_images: Ints) -> dict[str, float | None]:
    """Recall at 1, 5 and 10 both ways, and their means, each in 0..1; the names are those of DataComp's results.

    `of_texts` [m] is the rank from 0 of each text's image among the images, `of_images` [n] that of the best of each
    image's texts among the texts. `mean_recall@1` is DataComp's, `mean_recall` over all six that of ALIGN (Jia et al.
    2021).
    """
    recalls = {
        f"{name}_retrieval_recall@{k}": recall_at(ranks, k)
        for k in (1, 5, 10)
        for name, ranks in (("image", of_texts), ("text", of_images))
    }
    return {
        **recalls,
        "mean_recall@1": mean_recall_at(of_texts, of_images, 1),
        "mean_recall": sum(recalls.values()) / len(recalls),
    }


def mean_recall_at(of_texts: Ints, of_images: Ints, k: int) -> float:
    """Mean of the recalls at k of both directions, as in `retrieval`."""
    return (recall_at(of_texts, k) + recall_at(of_images, k)) / 2


def found_at(ranks: Ints) -> dict[str, float | None]:
    """Recall at 1, 5 and 10 of a search in one direction; `ranks` [n] from 0 of the first right item of each query."""
    return {f"recall@{k}": recall_at(ranks, k) for k in (1, 5, 10)}


def guess_any(own: Ints, of: Ints, k: int) -> float:
    """Expected share of queries that find any of their `own` [n] items among k drawn from `of` [n] items."""
    own, of = np.asarray(own, np.float64), np.asarray(of, np.float64)
    missed = np.ones(len(own))
    for drawn in range(k):
        left = np.maximum(of - drawn, 1)
        missed *= np.clip((of - own - drawn) / left, 0, 1)
    return float(np.mean(1 - missed))


def guessed_retrieval(counts: Ints) -> dict[str, float]:
    """What `retrieval` expects of a model that guesses; `counts` [n] texts has each image."""
    n, m = len(counts), int(counts.sum())
    found = {}
    for k in (1, 5, 10):
        found[f"image_retrieval_recall@{k}"] = min(k, n) / n
        found[f"text_retrieval_recall@{k}"] = guess_any(counts, np.full(n, m), k)
    mean = sum(found.values()) / len(found)
    return {
        **found,
        "mean_recall@1": (found["image_retrieval_recall@1"] + found["text_retrieval_recall@1"]) / 2,
        "mean_recall": mean,
    }


def absent(labels: Ints, classes: int) -> list[int]:
    """Classes that have a name and no image."""
    return [int(c) for c in np.flatnonzero(np.bincount(labels, minlength=classes) == 0)]


def representation_bias(first: Floats, second: Floats) -> float:
    """Share of images [n] that are nearer to the first text, "male" say, than to the second; a tie is half.

    0.5 is none (Wang et al. 2025, Scaling pre-training to one hundred billion data).
    """
    return float(np.mean((first > second) + (first == second) / 2))


def disparity(shares: Iterable[float | None]) -> float | None:
    """The largest gap between the shares of two groups; groups without images (None) are left out."""
    found = [share for share in shares if share is not None]
    return max(found) - min(found) if found else None


def association_bias(first: Bools, group: Ints, groups: int = 2) -> tuple[list[float | None], float | None]:
    """Share of each group's images that are nearer to the first of two texts, and the last group's share minus the first's.

    `first` [n], `group` [n]; a group without images has None. 0 is no bias: the texts are independent of the group
    (Alabdulmohsin et al. 2024, CLIP the Bias, for two groups).
    """
    shares: list[float | None] = []
    for g in range(groups):
        these = first[group == g]
        shares.append(float(np.mean(these)) if len(these) else None)
    low, high = shares[0], shares[-1]
    return shares, None if low is None or high is None else high - low
