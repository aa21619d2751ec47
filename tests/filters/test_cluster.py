"""Rows by the cluster that their features fall into."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from filters.cluster import InClusters, NearestCluster
from filters.combine import fit_rule
from filters.recipe import Recipe
from filters.registry import Filter
from pools.errors import InputError
from tests.filters.scans import Rows, batch

CENTROIDS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0]], np.float32)
# Nearest: 0, 3 (0.6 · 0.5 + 0.8 · 0.5 = 0.7), 2, 1, none, none.
FEATURES = pa.array(
    [[1, 0, 0], [0.5, 0.5, 0], [0, 0.1, 0.2], [-0.9, 0.9, 0], None, [float("nan"), 0, 0]], pa.list_(pa.float32(), 3)
)
KEPT = [True, False, True, False, None, None]  # of clusters 0 and 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    np.save(tmp_path / "centroids.npy", CENTROIDS)
    np.save(tmp_path / "ids.npy", np.array([2, 0, 2], np.int32))
    np.save(tmp_path / "features.npy", np.array([[2, 0, 0], [0, 0, 5], [9, 1, 0]], np.float16))
    (tmp_path / "ids.txt").write_text("2\n\n0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fitted(targets: str, centroids: str = "centroids.npy", features: str = "img") -> Filter:
    rule = NearestCluster(features=features, centroids=centroids, targets=targets)
    return fit_rule(rule, Rows(()), Rows(()))


@pytest.mark.parametrize("targets", ["ids.npy", "ids.txt", "features.npy"])
def test_rows_of_the_target_clusters_are_kept(folder: Path, targets: str) -> None:
    rule = fitted(targets)
    assert rule.keep(batch(img=FEATURES)).to_pylist() == KEPT
    assert rule.keep(batch(img=FEATURES).slice(2, 3)).to_pylist() == KEPT[2:5]
    assert rule.measure(batch(img=FEATURES)).to_pylist() == ["0", "3", "2", "1", None, None]
    assert isinstance(rule, InClusters)
    assert [a.to_pylist() for a in rule.judge(batch(img=FEATURES))] == [KEPT, ["0", "3", "2", "1", None, None]]
    assert repr(rule) == "InClusters(features='img', count=4, targets=2)"


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("size", [3, -1])
def test_any_list_of_floats_is_a_vector(folder: Path, kind: pa.DataType, size: int) -> None:
    values = FEATURES.cast(pa.list_(kind, size)) if size > 0 else FEATURES.cast(pa.list_(pa.float32())).cast(pa.list_(kind))
    assert fitted("ids.npy").keep(batch(img=values)).to_pylist() == KEPT


def test_a_null_within_a_vector_is_not_judged(folder: Path) -> None:
    values = pa.array([[1, None, 0], [1, 0, 0]], pa.list_(pa.float32(), 3))
    assert fitted("ids.npy").keep(batch(img=values)).to_pylist() == [None, True]


def test_a_batch_without_vectors_is_judged(folder: Path) -> None:
    assert fitted("ids.npy").keep(batch(img=FEATURES).slice(4, 1)).to_pylist() == [None]
    assert fitted("ids.npy").keep(batch(img=FEATURES).slice(0, 0)).to_pylist() == []


def test_it_finds_its_file_from_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = pickle.loads(pickle.dumps(fitted("ids.npy")))  # noqa: S301  (our own object, as the engine sends it)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert rule.keep(batch(img=FEATURES)).to_pylist() == KEPT


def test_a_file_that_has_changed_is_read_anew(folder: Path) -> None:
    assert fitted("ids.npy").keep(batch(img=FEATURES)).to_pylist() == KEPT
    np.save(folder / "centroids.npy", np.concatenate([CENTROIDS[[1, 0, 3]], CENTROIDS]))
    assert fitted("ids.npy").keep(batch(img=FEATURES)).to_pylist() == [False, True, False, True, None, None]


# T82
def test_vectors_of_another_length_are_named_with_the_file(folder: Path) -> None:
    rule = fitted("ids.npy")
    wide = batch(img=pa.array([[1, 0, 0, 0]], pa.list_(pa.float32(), 4)))
    with pytest.raises(InputError, match=r"'img' has vectors of 4 numbers, the centroids in .*centroids\.npy are of 3"):
        rule.keep(wide)
    np.save(folder / "wide.npy", np.ones((2, 5), np.float32))
    with pytest.raises(InputError, match=r"wide\.npy: vectors of 5 numbers, the centroids in centroids\.npy are of 3"):
        fitted("wide.npy")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([4]), "cluster 4; expected 0 to 3: centroids.npy has 4 centroids"),
        (np.array([1, -1]), "cluster -1; expected 0 to 3"),
        (np.array([], np.int64), "no cluster"),
        (np.array([0.0, 1.0]), r"dtype float64, shape \(2,\); expected numbers of clusters"),
        (np.array([[1, 2, 3]]), r"dtype int64, shape \(1, 3\)"),
        (np.array([[1, np.nan, 3]]), "1 of 1 vectors are not finite"),
        (np.array([None]), "unreadable"),
    ],
)
def test_targets_that_are_none_are_refused(folder: Path, values: Any, message: str) -> None:
    np.save(folder / "bad.npy", values, allow_pickle=True)
    with pytest.raises(InputError, match=r"bad\.npy: " + message):
        fitted("bad.npy")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3, np.float32), r"dtype float32, shape \(3,\); expected centroids"),
        (np.ones((2, 3), np.int64), "dtype int64"),
        (np.array([[1, 0], [np.inf, 0]], np.float32), "centroid 1 is not finite"),
        (np.array([[None]]), "unreadable"),
    ],
)
def test_centroids_that_are_none_are_refused(folder: Path, values: Any, message: str) -> None:
    np.save(folder / "bad.npy", values, allow_pickle=True)
    with pytest.raises(InputError, match=r"bad\.npy: " + message):
        fitted("ids.npy", "bad.npy")


def test_files_that_are_not_there_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"none\.npy: no such file; expected centroids"):
        fitted("ids.npy", "none.npy")
    with pytest.raises(InputError, match=r"none\.txt: no such file; expected numbers of clusters"):
        fitted("none.txt")
    (folder / "bad.txt").write_text("1\ntwo\n")
    with pytest.raises(InputError, match=re.escape("bad.txt:2: 'two'; expected numbers")):
        fitted("bad.txt")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, 2]), "column 'img' holds int64; expected vectors"),
        (pa.array([[1], [2]]), "holds list<"),
        (pa.array([[1.0], [2.0, 3.0]]), "holds vectors of 1 and of 2 numbers"),
    ],
)
def test_columns_that_hold_no_vectors_are_refused(folder: Path, column: pa.Array, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted("ids.npy").keep(batch(img=column))


def test_files_enter_the_digest_by_what_they_hold(folder: Path) -> None:
    text = "name: a\nkeep:\n  - nearest_cluster: {features: img, centroids: centroids.npy, targets: ids.npy}\n"
    before = Recipe.parse(text).digest
    (folder / "again").mkdir()
    (folder / "again" / "c.npy").write_bytes((folder / "centroids.npy").read_bytes())
    assert Recipe.parse(text.replace("centroids.npy", "again/c.npy")).digest == before
    np.save(folder / "ids.npy", np.array([1]))
    assert Recipe.parse(text).digest != before
    with pytest.raises(InputError, match=r"gone\.npy: no such file; expected the file that the recipe names"):
        _ = Recipe.parse(text.replace("ids.npy", "gone.npy")).digest
