"""The rule on the cluster that an image falls into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from filters import arrays, vectors
from filters.nearest import Ids
from filters.registry import Filter, Of, Scan, register


@register("nearest_cluster")
@dataclass(frozen=True, kw_only=True)
class NearestCluster:
    """Rows whose nearest centroid, by the inner product with `features`, is among the `targets`.

    `centroids` is a `.npy` (k, d), own or published (`winnow cluster`); `targets` a `.npy` of features, each of which makes
    the cluster of its nearest centroid one of the targets, or the numbers of clusters (a `.npy`, or one a line). The nearest
    is exact; of equally near ones it is the first. A row without features, or with a NaN, is not judged. DataComp (section 3,
    image-based): 100,000 centroids of the pool, the targets the ImageNet-1k training images, OpenAI's CLIP ViT-L/14.
    """

    features: str
    centroids: str = field(metadata={"file": True})
    targets: str = field(metadata={"file": True})
    of: ClassVar[Of | None] = None

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.features,)

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        vectors.check_width(types, self.features, self.centroids)

    def fit(self, scan: Scan) -> Filter:
        count = len(vectors.load_centroids(self.centroids).centroids)
        wanted = np.zeros(count, bool)
        wanted[vectors.load_clusters(self.targets, self.centroids)] = True
        return InClusters(
            self.features, vectors.absolute(self.centroids), count, int(wanted.sum()), np.packbits(wanted).tobytes()
        )


@dataclass(frozen=True)
class InClusters:
    """Rows whose nearest of `count` centroids is one of those with a bit in `wanted`."""

    features: str
    centroids: str = field(repr=False)
    count: int
    targets: int
    wanted: bytes = field(repr=False)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.features,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return self._mask(self._clusters(batch))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return _said(self._clusters(batch))

    def judge(self, batch: pa.RecordBatch) -> tuple[pa.BooleanArray, pa.Array]:
        """Mask and values at once, as finding a cluster is what takes the time."""
        clusters = self._clusters(batch)
        return self._mask(clusters), _said(clusters)

    def _clusters(self, batch: pa.RecordBatch) -> Ids:
        return vectors.nearest_of_column(batch, self.features, self.centroids)

    def _mask(self, clusters: Ids) -> pa.BooleanArray:
        wanted = np.unpackbits(np.frombuffer(self.wanted, np.uint8), count=self.count).astype(bool)
        return arrays.booleans(wanted[clusters], clusters < 0)


def _said(clusters: Ids) -> pa.Array:
    return arrays.numbers(clusters, clusters < 0).cast(pa.string())
