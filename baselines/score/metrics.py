"""Metrics of classification and retrieval, out of the rank that what is right has among all there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def classification(labels: Ints, ranks: Ints, classes: int) -> dict[str, float | None]:
    """acc1, acc5 and mean_per_class_recall, each in 0..1.

    `labels` [n] are the true classes, `ranks` [n] the number of classes that were scored higher than the true one (0 =
    right; any number from `classes` on = not scored). acc5 is None below five classes, as in DataComp's results. The mean
    over recalls takes in only classes that have images.
    """
    images = np.bincount(labels, minlength=classes)
    right = np.bincount(labels[ranks == 0], minlength=classes)
    present = images > 0
    return {
        "acc1": float(np.mean(ranks < 1)),
        "acc5": float(np.mean(ranks < 5)) if classes >= 5 else None,
        "mean_per_class_recall": float(np.mean(right[present] / images[present])),
    }


def retrieval(of_texts: Ints, of_images: Ints) -> dict[str, float | None]:
    """Recall at 1, 5 and 10 both ways, and their means, each in 0..1; the names are those of DataComp's results.

    `of_texts` [m] is the rank from 0 of each text's image among the images, `of_images` [n] that of the best of each
    image's texts among the texts. `mean_recall@1` is DataComp's, `mean_recall` over all six that of ALIGN (Jia et al.
    2021).
    """
    recalls = {
        f"{name}_retrieval_recall@{k}": float(np.mean(ranks < k))
        for k in (1, 5, 10)
        for name, ranks in (("image", of_texts), ("text", of_images))
    }
    first = (recalls["image_retrieval_recall@1"] + recalls["text_retrieval_recall@1"]) / 2
    return {**recalls, "mean_recall@1": first, "mean_recall": sum(recalls.values()) / len(recalls)}


def absent(labels: Ints, classes: int) -> list[int]:
    """Classes that have a name and no image."""
    return [int(c) for c in np.flatnonzero(np.bincount(labels, minlength=classes) == 0)]
