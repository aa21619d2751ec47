"""How near a row is to a border between clusters, in plain double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def clusters(vectors: Array, centroids: Array) -> Array:
    """The nearest centroids, each once, ascending."""
    blocks = (vectors[i : i + 512].astype(np.float64) @ centroids.T for i in range(0, len(vectors), 512))
    found: Array = np.unique(np.concatenate([block.argmax(axis=1) for block in blocks]))
    return found


def steps_to_border(features: Array, centroids: Array, targets: Array) -> Array:
    """(n,) how many half-precision steps of the one number that matters most a row is away from where its verdict turns.

    The verdict turns where the nearest centroid among the `targets` is as near as the nearest of the others.
    """
    among = np.isin(np.arange(len(centroids)), targets)
    found = []
    for row in features:
        products = centroids.astype(np.float64) @ row.astype(np.float64)
        best = [int(np.flatnonzero(side)[products[side].argmax()]) for side in (among, ~among)]
        apart = np.abs(centroids[best[0]].astype(np.float64) - centroids[best[1]])
        found.append(abs(products[best[0]] - products[best[1]]) / (apart * np.abs(np.spacing(row)).astype(np.float64)).max())
    return np.array(found)
