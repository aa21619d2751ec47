"""Subsets of a pool are decided by the uid alone: nested, of the right size, and no recipe's sample."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pools import uids
from pools.subsets import SEED, Within

MANY = uids.pack([f"{i:032x}" for i in range(20_000)])


def test_the_smaller_is_part_of_the_larger() -> None:
    small, medium, large = (Within(Fraction(n, 1000)).keep(MANY) for n in (1, 10, 100))
    assert not (small & ~medium).any()
    assert not (medium & ~large).any()
    assert [int(m.sum()) for m in (small, medium, large)] == pytest.approx([20, 200, 2000], rel=0.4)


def test_each_uid_is_judged_alone() -> None:
    tenth = Within(Fraction(1, 10))
    order = np.random.default_rng(0).permutation(len(MANY))
    assert (tenth.keep(MANY)[order] == tenth.keep(MANY[order])).all()
    assert (tenth.keep(MANY[:7]) == tenth.keep(MANY)[:7]).all()


def test_all_of_it_is_all_and_the_limit_is_exact() -> None:
    assert Within(Fraction(1)).keep(MANY).all()
    hashes = sorted(uids.hash64(MANY, SEED).tolist())
    kept = Within(Fraction(hashes[5], 1 << 64)).keep(MANY)  # below that hash, and not at it
    assert int(kept.sum()) == 5


def test_what_a_recipe_draws_from_a_subset_is_not_what_is_there_already() -> None:
    tenth = MANY[Within(Fraction(1, 10)).keep(MANY)]
    drawn = uids.hash64(tenth, 0) < np.uint64(2**64 // 10)
    assert 0.05 < drawn.mean() < 0.2
