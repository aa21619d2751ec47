"""Vectors in columns and files: features of a batch, centroids, cluster ids."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays
from filters.nearest import Ids, Nearest
from pools import store
from pools.errors import InputError

CENTROIDS = "centroids: a .npy of k rows, as `winnow cluster` writes it, or `winnow cluster convert` from a published .pt"


def of_column(batch: pa.RecordBatch, column: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """(m, d) the vectors of the rows that have one, and (n,) which those are. Raises InputError if they differ in length."""
    values = batch[column]
    valid = arrays.numpy(values.is_valid())
    if values.null_count:
        values = values.drop_null()
    kind = values.type
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.unique(arrays.numpy(values.value_lengths()))
        if len(lengths) > 1:
            raise InputError(f"column {column!r} holds vectors of {lengths[0]} and of {lengths[1]} numbers")
        width = int(lengths[0]) if len(lengths) else 0
    else:
        raise InputError(f"column {column!r} holds {kind}", expected="vectors, such as those of l14_img")
    flat = values.flatten()
    if not pa.types.is_floating(flat.type):
        raise InputError(f"column {column!r} holds {kind}", expected="vectors of floats, such as those of l14_img")
    if flat.null_count:
        flat = flat.fill_null(float("nan"))
    return arrays.numpy(flat).reshape(len(values), width), valid


def check_width(types: Mapping[str, pa.DataType], column: str, path: str) -> None:
    """Raises InputError if a column's type tells that its vectors are not as long as the centroids of a file."""
    kind, width = types[column], load_centroids(path).centroids.shape[1]
    if pa.types.is_fixed_size_list(kind) and kind.list_size != width:
        raise _other_width(column, kind.list_size, path, width)


def _other_width(column: str, found: int, path: str, width: int) -> InputError:
    return InputError(
        f"{column!r} has vectors of {found} numbers, the centroids in {path} are of {width}",
        expected="centroids of the same features",
    )


def load_centroids(path: str) -> Nearest:
    """The centroids of a file, opened once in each process. Raises InputError."""
    path = absolute(path)
    if not store.exists(path):
        raise InputError("no such file", where=path, expected=CENTROIDS)
    return _centroids(path, store.digest(path))


def absolute(path: str) -> str:
    return os.path.abspath(store.local_path(path)) if store.is_local(path) else path


@functools.lru_cache(maxsize=2)
def _centroids(path: str, _: str) -> Nearest:
    values = load_array(path, CENTROIDS)
    if values.ndim != 2 or not np.issubdtype(values.dtype, np.floating) or 0 in values.shape:
        raise InputError(f"dtype {values.dtype}, shape {values.shape}", where=path, expected=CENTROIDS)
    # Of a float32 file this is the file itself, mapped: processes share it.
    centroids = np.ascontiguousarray(values, np.float32)
    for start in range(0, len(centroids), 1 << 14):
        if not (good := np.isfinite(centroids[start : start + (1 << 14)]).all(axis=1)).all():
            raise InputError(f"centroid {start + int(good.argmin())} is not finite", where=path, expected=CENTROIDS)
    return Nearest(centroids)


def load_array(path: str, expected: str) -> NDArray[Any]:
    """The array of a `.npy`; memory-mapped where the file is local."""
    try:
        if store.is_local(path):
            mapped: NDArray[Any] = np.load(store.local_path(path), mmap_mode="r", allow_pickle=False)
            return mapped
        with store.open_input(path) as f:
            return np.load(f, allow_pickle=False)  # type: ignore[no-any-return]
    except ValueError as e:
        raise InputError(f"unreadable .npy: {e}", where=path, expected=expected) from e


def save_array(path: str, values: NDArray[Any]) -> None:
    with store.atomic(path) as f:
        np.lib.format.write_array(f, values, version=(1, 0), allow_pickle=False)  # type: ignore[no-untyped-call]


def load_clusters(path: str, centroids: str) -> Ids:
    """The clusters that a file names, ascending: as their numbers, or as features, of which each names its nearest centroid's.

    A `.npy` of whole numbers (n,) or of features (n, d), or a text of numbers, one a line. Raises InputError.
    """
    expected = "numbers of clusters (a .npy, or one a line), or features of targets (a .npy)"
    nearest = load_centroids(centroids)
    count, width = nearest.centroids.shape
    if not store.exists(path):
        raise InputError("no such file", where=path, expected=expected)
    values: NDArray[Any] = load_array(path, expected) if path.endswith(".npy") else _numbers(path, expected)
    if values.ndim == 2 and np.issubdtype(values.dtype, np.floating):
        if values.shape[1] != width:
            raise InputError(f"vectors of {values.shape[1]} numbers, the centroids in {centroids} are of {width}", where=path)
        values = np.concatenate([np.empty(0, np.int64), *(nearest(values[i : i + 8192]) for i in range(0, len(values), 8192))])
        if (bad := int((values < 0).sum())) > 0:
            raise InputError(f"{bad} of {len(values)} vectors are not finite", where=path, expected=expected)
    elif values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
        raise InputError(f"dtype {values.dtype}, shape {values.shape}", where=path, expected=expected)
    found = np.unique(values).astype(np.int64)
    if not len(found):
        raise InputError("no cluster", where=path, expected=expected)
    if found[0] < 0 or found[-1] >= count:
        wrong = found[0] if found[0] < 0 else found[-1]
        raise InputError(f"cluster {wrong}", where=path, expected=f"0 to {count - 1}: {centroids} has {count:,} centroids")
    return found


def _numbers(path: str, expected: str) -> Ids:
    found = []
    for number, line in enumerate(store.read_lines(path), 1):
        if not (text := line.strip()):
            continue
        if not text.isdecimal():
            raise InputError(f"{text[:40]!r}", where=f"{path}:{number}", expected=expected)
        found.append(int(text))
    return np.array(found, np.int64)


def nearest_of_column(batch: pa.RecordBatch, column: str, path: str) -> Ids:
    """(n,) the cluster of each row, -1 where a vector is absent or not finite. Raises InputError if dimensions differ."""
    vectors, valid = of_column(batch, column)
    found = np.full(len(batch), -1, np.int64)
    nearest = load_centroids(path)
    if len(vectors):
        if vectors.shape[1] != nearest.centroids.shape[1]:
            raise _other_width(column, vectors.shape[1], path, nearest.centroids.shape[1])
        found[valid] = nearest(vectors)
    return found
