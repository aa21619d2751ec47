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
