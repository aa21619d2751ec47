"""Choices among images that are the same on every machine."""

from __future__ import annotations

import numpy as np

from baselines.score.metrics import Ints
from pools import uids


def draw(labels: Ints, number: Ints, seed: int) -> Ints:
    """Rows, sorted, of `number` [classes] images of each class of labels [n], or of all where there are fewer.

    Which ones is decided by the row and the seed alone.
    """
    words = np.zeros((len(labels), 2), np.uint64)
    words[:, 1] = np.arange(len(labels))
    order = np.lexsort((uids.hash64(words.view(uids.UID).reshape(-1), seed), labels))
    counts = np.bincount(labels, minlength=len(number))
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)  # of each in its class
    chosen: Ints = np.sort(order[place < np.asarray(number)[labels[order]]])
    return chosen
