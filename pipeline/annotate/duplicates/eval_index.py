"""The index of evaluation images: their descriptions, what each is called, and by which model they were described.

`descriptors.npy` has a row or two an image, `images.parquet` a row (`dataset`, `key`), `phash.npy` the perceptual hashes
that the filter `eval_phash` takes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from filters.vectors import load_array
from pipeline.annotate.duplicates.descriptors import Descriptor, Metric, Rows
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST, digest_of

STAGE = "decontaminate index"
VECTORS, IMAGES, PHASHES = "descriptors.npy", "images.parquet", "phash.npy"
_AN_INDEX = "what `winnow decontaminate index` writes"
_BLOCK = 1 << 15  # rows compared at once; the file is mapped, so that processes share it and none holds it


def read_manifest(folder: str) -> Mapping[str, Any]:
    """Of a finished index. Raises InputError."""
    path = store.join(folder, MANIFEST)
    if not store.exists(path):
        raise InputError("no finished index of evaluation images", where=folder, expected=_AN_INDEX)
    manifest: Mapping[str, Any] = store.read_json(path)
    if manifest.get("stage") != STAGE:
        raise InputError(f"the output of {manifest.get('stage')!r}", where=folder, expected=_AN_INDEX)
    return manifest


def identity_of(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model's, by which an index was made."""
    found: Mapping[str, Any] = manifest["options"]["descriptor"]
    return found


def digest_of_index(manifest: Mapping[str, Any]) -> str:
    return digest_of([manifest["stage_version"], manifest["options"], manifest["units"], manifest["counts"]])


def check(manifest: Mapping[str, Any], descriptor: Descriptor, folder: str) -> None:
    """Raises InputError if the index is another model's, or the same model's with other weights or another size."""
    theirs, ours = dict(identity_of(manifest)), dict(descriptor.identity())
    if theirs != ours:
        name = next(n for n in (*ours, *theirs) if theirs.get(n) != ours.get(n))
        raise InputError(
            f"this index is another model's: its {name} is {theirs.get(name)!r}, here {ours.get(name)!r}",
            where=folder,
            expected="an index that the same model made",
            fix="name the model and weights of the index, or make an index with these",
        )


@dataclass(frozen=True)
class Index:
    """Opened, for looking up the nearest image."""

    vectors: Rows
    datasets: Any  # arrow arrays, as long as there are images
    keys: Any
    metric: Metric
    rows: int  # an image

    @classmethod
    def open(cls, folder: str, descriptor: Descriptor) -> Index:
        manifest = read_manifest(folder)
        check(manifest, descriptor, folder)
        return _opened(folder, descriptor.metric, descriptor.rows, digest_of_index(manifest))

    def nearest(self, wanted: Rows) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """(n,) similarity of the nearest image, and its number: the cosine, or the share of bits that are the same."""
        best = np.full(len(wanted), -np.inf, np.float32)
        places = np.zeros(len(wanted), np.int64)
        for start in range(0, len(self.vectors), _BLOCK):
            block = np.ascontiguousarray(self.vectors[start : start + _BLOCK])
            similar, found = _agreeing(wanted, block) if self.metric == "hamming" else _cosines(wanted, block)
            better = similar > best
            best[better], places[better] = similar[better], start + found[better]
        return best, places // self.rows

    def name(self, image: int) -> str:
        """`dataset/key`."""
        return f"{self.datasets[image].as_py()}/{self.keys[image].as_py()}"


def _agreeing(wanted: Rows, block: Rows) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The largest share of equal bits, and whose it is."""
    import faiss

    bits, found = faiss.knn_hamming(wanted, block, 1)
    return 1 - bits[:, 0].astype(np.float32) / np.float32(8 * block.shape[1]), found[:, 0]


def _cosines(wanted: Rows, block: Rows) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The same of cosines; by numpy's BLAS, six times as fast as faiss's on one core."""
    found = wanted @ block.T
    nearest = found.argmax(axis=1)
    return found[np.arange(len(found)), nearest], nearest


@functools.lru_cache(maxsize=2)
def _opened(folder: str, metric: Metric, rows: int, _: str) -> Index:
    with store.open_input(store.join(folder, IMAGES)) as f:
        images = pq.read_table(f)
    vectors = load_array(store.join(folder, VECTORS), _AN_INDEX)
    if len(vectors) != rows * len(images) or vectors.ndim != 2:
        raise InputError(f"{len(vectors)} descriptions of {len(images)} images", where=folder, expected=_AN_INDEX)
    return Index(vectors, images["dataset"].combine_chunks(), images["key"].combine_chunks(), metric, rows)
