"""The nearest centroid against exact arithmetic, by floats and by whole numbers."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from filters import nearest
from filters.nearest import Nearest

Array = NDArray[Any]


@pytest.fixture(params=["floats", "whole numbers"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of computing, whatever the number of rows."""
    monkeypatch.setattr(nearest, "COMPILED_FROM", 0 if request.param == "whole numbers" else 1 << 62)
    return str(request.param)


def exactly(features: Array, centroids: Array) -> list[int]:
    """By fractions: the first of the centroids with the greatest inner product."""
    found = []
    for row in features.tolist():
        sums = [sum((Fraction(a) * Fraction(b) for a, b in zip(row, c, strict=True)), Fraction(0)) for c in centroids.tolist()]
        found.append(sums.index(max(sums)))
    return found


def unit(rng: np.random.Generator, rows: int, width: int) -> Array:
    vectors = rng.standard_normal((rows, width))
    unit_vectors: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit_vectors


@pytest.mark.parametrize(("rows", "count", "width"), [(1, 1, 1), (5, 3, 16), (9, 130, 17), (7, 65, 40)])
def test_it_is_the_one_of_exact_arithmetic(way: str, rows: int, count: int, width: int) -> None:
    rng = np.random.default_rng(width)
    centroids = unit(rng, count, width).astype(np.float32)
    features = unit(rng, rows, width).astype(np.float16)
    assert Nearest(centroids)(features).tolist() == exactly(features, centroids)


def test_many_rows_agree_with_double_precision(way: str) -> None:
    rng = np.random.default_rng(0)
    centroids, features = unit(rng, 501, 64).astype(np.float32), unit(rng, 3001, 64).astype(np.float32)
    products = features.astype(np.float64) @ centroids.T.astype(np.float64)
    assert Nearest(centroids)(features).tolist() == products.argmax(axis=1).tolist()


def test_of_equally_near_ones_the_first_is_nearest(way: str) -> None:
    centroids = np.array([[0, 1], [1, 0], [1, 0], [-1, 0]], np.float32)
    features = np.array([[2, 0], [1, 1], [-1, 0], [-1, -1], [0, 0]], np.float32)
    # (1, 1) has the product 1 with the first three, (−1, −1) −1 with those and 1 with the last; (0, 0) has 0 with all.
    assert Nearest(centroids)(features).tolist() == [1, 0, 3, 3, 0]
    many = np.repeat(np.array([[1, 0], [0, 1]], np.float32), 600, axis=0)
    assert Nearest(many)(np.array([[1, 0], [0, 1], [1, 1]], np.float32)).tolist() == [0, 600, 0]


def test_differences_that_no_float_shows_decide(way: str) -> None:
    # The products with row (1, 1, 1) are 1 + 2^-60 and 1, and as floats both 1, in whatever precision.
    centroids = np.array([[1, 0, 0], [1, 2.0**-60, 0], [0.5, 0.5, 0]], np.float32)
    features = np.array([[1, 1, 1]], np.float32)
    assert np.float64(1) + np.float64(2.0**-60) == 1
    assert exactly(features, centroids) == [1]
    assert Nearest(centroids)(features).tolist() == [1]


def test_close_candidates_are_told_apart(way: str) -> None:
    # Eleven centroids within a ten-thousandth of each other: a few bits cannot order them.
    rng = np.random.default_rng(3)
    centre = unit(rng, 1, 48)
    centroids = (centre + 1e-6 * rng.standard_normal((11, 48))).astype(np.float32)
    features = np.repeat(centre, 6, axis=0).astype(np.float32) * np.array([[1], [2], [1e-20], [1e15], [-1], [3]], np.float32)
    assert Nearest(centroids)(features).tolist() == exactly(features, centroids)


def test_what_rounding_turns_round_is_put_right(way: str) -> None:
    # Centroids that differ in the last bits alone, so that products of floats come out in another order.
    rng = np.random.default_rng(1)
    centre = unit(rng, 1, 48)
    centroids = (centre + 3e-8 * rng.standard_normal((9, 48))).astype(np.float32)
    features = (centre + 0.02 * rng.standard_normal((20, 48))).astype(np.float32)
    expected = exactly(features, centroids)
    assert (features @ centroids.T).argmax(axis=1).tolist() != expected
    assert Nearest(centroids)(features).tolist() == expected


def test_rows_that_are_not_finite_have_no_cluster(way: str) -> None:
    features = np.array([[1, 0], [math.nan, 1], [math.inf, 0], [0, 1]], np.float16)
    assert Nearest(np.eye(2, dtype=np.float32))(features).tolist() == [0, -1, -1, 1]
    assert Nearest(np.eye(2, dtype=np.float32))(features[:0]).tolist() == []


def test_neither_length_nor_batch_matters(way: str) -> None:
    rng = np.random.default_rng(5)
    centroids = (unit(rng, 77, 32) * rng.uniform(0.2, 3, (77, 1))).astype(np.float32)
    features = (unit(rng, 40, 32) * 10.0 ** rng.integers(-4, 4, (40, 1))).astype(np.float32)
    search = Nearest(centroids)
    whole = search(features).tolist()
    assert whole == exactly(features, centroids)
    assert [search(features[i : i + 1])[0] for i in range(40)] == whole


def test_it_does_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "COMPILED_FROM", 0)
    for module in [m for m in sys.modules if m == "filters.products"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "numba", None)
    assert Nearest(np.eye(2, dtype=np.float32))(np.array([[0, 1]], np.float32)).tolist() == [1]


@pytest.mark.parametrize(("said", "number"), [("3", 3), ("0", None), ("", None), ("two", None)])
def test_threads_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch, said: str, number: int | None) -> None:
    import os

    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert nearest.threads() == (number or len(os.sched_getaffinity(0)))
