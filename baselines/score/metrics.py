"""Metrics of classification, out of the rank that each image's own class has among all classes."""

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


def absent(labels: Ints, classes: int) -> list[int]:
    """Classes that have a name and no image."""
    return [int(c) for c in np.flatnonzero(np.bincount(labels, minlength=classes) == 0)]
