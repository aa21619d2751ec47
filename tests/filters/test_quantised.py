"""Products from a few bits a number against double precision: never further off than they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from filters.quantised import Quantised

Array = NDArray[Any]


def even(rng: np.random.Generator, count: int, width: int) -> Array:
    return rng.standard_normal((count, width))


def with_a_mean(rng: np.random.Generator, count: int, width: int) -> Array:
    """As of CLIP: most of each is the same, and a few dimensions are far larger than the others."""
    common = rng.standard_normal(width)
    common[:2] *= 30
    return common + rng.standard_normal((count, width))


def sparse(rng: np.random.Generator, count: int, width: int) -> Array:
    return rng.standard_normal((count, width)) * (rng.random((count, width)) < 2 / width)


def of_all_sizes(rng: np.random.Generator, count: int, width: int) -> Array:
    return rng.standard_normal((count, width)) * 10.0 ** rng.uniform(-30, 0, (count, 1))


def all_the_same(rng: np.random.Generator, count: int, width: int) -> Array:
    return np.repeat(rng.standard_normal((1, width)), count, axis=0)


def lengths(vectors: Array) -> Array:
    return np.asarray(np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=1)))


@pytest.mark.parametrize("draw", [even, with_a_mean, sparse, of_all_sizes, all_the_same])
@pytest.mark.parametrize(("rows", "count", "width"), [(1, 1, 1), (5, 17, 16), (23, 300, 33), (64, 257, 768)])
def test_the_error_is_never_more_than_it_is_said_to_be(draw: Any, rows: int, count: int, width: int) -> None:
    rng = np.random.default_rng([rows, count])
    vectors = (3 * draw(rng, count, width)).astype(np.float32)
    longest = float(lengths(vectors).max()) or 1.0
    features = draw(rng, rows, width).astype(np.float32)
    features = (features[lengths(features) > 0] / lengths(features)[lengths(features) > 0, None]).astype(np.float32)
    quantised = Quantised.of(vectors, longest)
    found, error, added = quantised.products(features)
    true = features.astype(np.float64) @ (vectors.astype(np.float64) / longest).T
    assert found.shape == true.shape
    assert (np.abs(found + added[:, None] - true).max(axis=1, initial=0) <= error).all()
    assert (error < 0.12).all()  # a bound that bounds nothing would hold too


def test_the_greatest_numbers_do_not_overflow() -> None:
    # Every number is the greatest there is, in one sign and the other; sums of them fill 16 bits.
    width = 256
    signs = np.where(np.random.default_rng(0).random((32, width)) < 0.5, -1.0, 1.0)
    vectors = (np.concatenate([signs, -signs, np.ones((1, width)), -np.ones((1, width))]) / 16).astype(np.float32)
    found, error, added = Quantised.of(vectors, 1.0).products(vectors)
    true = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    assert np.abs(found + added[:, None] - true).max() <= error.max() < 1e-5
