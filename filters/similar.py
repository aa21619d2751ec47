"""Duplicates within the pool by embeddings: rows of one cluster whose features point the same way."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays, vectors
from filters.registry import Filter, Of, Scan, register
from filters.visiting import VisitRule, kept_of_group
from pools import hashes, uids
from pools.errors import InputError
from pools.tables import Records, Table

_PAIRS = 4096  # compared at once in double precision


@register("feature_duplicates")
@dataclass(frozen=True, kw_only=True)
class FeatureDuplicates:
    """Rows whose `features` have a cosine below `min_similarity` with those of all other rows of their cluster.

    A row's cluster is that of the nearest of `centroids` (a `.npy` of k rows), by inner product. Within each, rows are
    visited from the farthest from the centre to the nearest, by cosine, those as far in the order of their uids, and `rule`
    says which stay: `compare-with-kept` drops a row that is similar to one which stays, `component` keeps one of all that a
    chain connects, `any-earlier` drops a row that is similar to any earlier one, as SemDeDup's published code does. With
    `same_text` rows are duplicates only if their texts are equal too. Features that are null, zero or not finite are not
    judged. While fitting, all features lie on disk, four bytes a number, and those of the largest cluster in memory. State:
    8 bytes for each row that goes.
    """

    features: str
    centroids: str = field(metadata={"file": True})
    min_similarity: float
    rule: VisitRule
    same_text: bool = False
    of: Of = "pool"

    def __post_init__(self) -> None:
        if not 0 < self.min_similarity <= 1:
            raise ValueError(f"min_similarity {self.min_similarity:g} is not in (0, 1]")

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.features, *(["text"] if self.same_text else []))

    def fit(self, scan: Scan) -> Filter:
        table = scan.grouped(Clusters(self.features, self.centroids, self.min_similarity, self.rule, self.same_text))
        return NotGone(self.needs, self.features, scan.hold(np.sort(table.records)))


@dataclass(frozen=True)
class NotGone:
    """Rows whose uid is not in the table of hashes."""

    needs: tuple[str, ...]
    features: str
    gone: Table

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        known = hashes.isin(uids.hash64(uids.pack(batch["uid"]), 0), self.gone.records)
        return arrays.booleans(~known, ~_usable(batch, self.features)[0])

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.nulls(len(batch), pa.string())


@dataclass(frozen=True)
class Clusters:
    """Rows with their features by cluster; the result are the hashes of the uids that go."""

    features: str
    centroids: str
    min_similarity: float
    rule: VisitRule
    same_text: bool
    result: ClassVar[np.dtype[Any]] = np.dtype("<u8")

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.features, *(["text"] if self.same_text else []))

    def records(self, batch: pa.RecordBatch) -> Records:
        usable, found = _usable(batch, self.features)
        nearest = vectors.load_centroids(self.centroids)
        width = nearest.centroids.shape[1]
        if len(found) and found.shape[1] != width:
            raise InputError(
                f"{self.features} has vectors of {found.shape[1]} numbers, the centroids in {self.centroids} are of {width}",
                expected="centroids of the same features",
            )
        batch = batch.filter(arrays.booleans(usable))
        kind = [
            ("group", "<u8"),
            ("high", "<u8"),
            ("low", "<u8"),
            ("text", "<u8"),
            ("cluster", "<i8"),
            ("vector", "<f4", (width,)),
        ]
        records = np.zeros(len(batch), kind)
        if len(batch) == 0:
            return records
        packed = uids.pack(batch["uid"])
        records["high"], records["low"], records["vector"] = packed["f0"], packed["f1"], found
        records["cluster"] = nearest(found)
        records["group"] = hashes.mix(records["cluster"].view(np.uint64).copy())
        if self.same_text:
            records["text"] = hashes.of_column(batch["text"], "text")
        return records

    def combine(self, records: Records) -> Records:
        combined: Records = records[np.lexsort((records["low"], records["high"], records["group"]))]
        return combined

    def finish(self, records: Records) -> Records:
        groups = records["group"]
        borders = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1), len(records)]
        gone = [self._gone(records[a:b]) for a, b in itertools.pairwise(borders) if a < b]
        return np.concatenate([np.empty(0, np.uint64), *gone])

    def _gone(self, cluster: Records) -> NDArray[np.uint64]:
        """Hashes of the uids that go from one cluster, whose rows are in the order of their uids."""
        ids = np.empty(len(cluster), uids.UID)
        ids["f0"], ids["f1"] = cluster["high"], cluster["low"]
        first = uids.first_occurrences(ids)
        cluster, ids = cluster[first], ids[first]
        units = cluster["vector"].astype(np.float64)
        units /= np.sqrt(np.einsum("ij,ij->i", units, units))[:, None]
        centre = vectors.load_centroids(self.centroids).centroids[cluster["cluster"][0]].astype(np.float64)
        order = np.argsort(np.einsum("ij,j->i", units, centre).astype(np.float32), kind="stable")
        similar = _Similar(units[order], cluster["text"][order], self.min_similarity)
        kept = kept_of_group(len(order), similar, self.rule)
        return uids.hash64(ids[order][~kept], 0)


class _Similar:
    """Whether unit vectors (n, d) have a cosine of the limit or more, in float32's precision, and equal texts."""

    def __init__(self, units: NDArray[np.float64], texts: NDArray[np.uint64], limit: float) -> None:
        self.units, self.texts, self.limit = units, texts, np.float32(limit)
        self.single = units.astype(np.float32)
        self.error = 2 * units.shape[1] * 2.0**-24 + 2.0**-20  # of products in float32, in whatever order they are summed

    def __call__(self, first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.bool_]:
        products = self.single[first] @ self.single[second].T
        similar: NDArray[np.bool_] = products >= self.limit
        rows, columns = np.nonzero(np.abs(products - self.limit) <= self.error)
        for start in range(0, len(rows), _PAIRS):
            i, j = rows[start : start + _PAIRS], columns[start : start + _PAIRS]
            exact = np.einsum("ij,ij->i", self.units[first[i]], self.units[second[j]])
            similar[i, j] = exact.astype(np.float32) >= self.limit
        similar &= self.texts[first][:, None] == self.texts[second]
        return similar


def _usable(batch: pa.RecordBatch, column: str) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """(n,) which rows have a vector with a direction, and those vectors (m, d)."""
    found, usable = vectors.of_column(batch, column)
    single = found.astype(np.float32)
    lengths = np.einsum("ij,ij->i", single, single, dtype=np.float64)
    good = np.isfinite(lengths) & (lengths > 0)
    usable = usable.copy()
    usable[usable] = good
    return usable, single[good]
