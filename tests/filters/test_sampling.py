"""Random subsets: which rows, how many, nested."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters.recipe import Recipe
from filters.sampling import HashAtMost, Random
from pipeline.cli import recipe_path
from pools import uids
from pools.errors import InputError
from tests.filters.scans import Rows

RNG = random.Random(0)
UIDS = [f"{RNG.getrandbits(128):032x}" for _ in range(1000)]


def rows(of: list[str], **columns: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"uid": pa.array(of, pa.string()), **columns})


def kept(rule: Random, *lists: list[str]) -> list[str]:
    """Uids that the rule keeps of a pool of these files."""
    fitted = rule.fit(Rows(tuple(rows(u) for u in lists)))
    return [u for part in lists for u, k in zip(part, fitted.keep(rows(part)).to_pylist(), strict=True) if k]


def hash_of(uid: str, seed: int) -> int:
    return int(uids.hash64(uids.pack([uid]), seed)[0])


@pytest.mark.parametrize("fraction", [0.1, 0.25, 1e-30, 1 - 2**-53])
def test_a_row_is_kept_if_its_hash_lies_below_the_fraction(fraction: float) -> None:
    assert kept(Random(fraction=fraction, seed=3), UIDS) == [
        u for u in UIDS if Fraction(hash_of(u, 3), 2**64) < Fraction(fraction)
    ]


def test_a_bound_is_met_to_the_last_bit() -> None:
    uid = UIDS[0]
    here = hash_of(uid, 0)
    assert HashAtMost(here, 0).keep(rows([uid])).to_pylist() == [True]
    assert HashAtMost(here - 1, 0).keep(rows([uid])).to_pylist() == [False]
    assert Random(fraction=0.5).fit(Rows(())) == HashAtMost(2**63 - 1, 0)
    assert Random(fraction=1.0).fit(Rows(())) == HashAtMost(2**64 - 1, 0)
    assert Random(fraction=2**-64).fit(Rows(())) == HashAtMost(0, 0)
    assert Random(fraction=0.1).fit(Rows(())) == HashAtMost(1844674407370955263, 0)  # bc: 0.1 as a double · 2^64, less 1


def test_subsets_of_one_seed_are_nested_and_those_of_another_are_not() -> None:
    tenth, half, every = (kept(Random(fraction=f), UIDS) for f in (0.1, 0.5, 1.0))
    assert set(tenth) < set(half) < set(every) == set(UIDS)
    assert 60 < len(tenth) < 140
    assert 430 < len(half) < 570
    assert not set(tenth) <= set(kept(Random(fraction=0.5, seed=1), UIDS))
    assert set(kept(Random(count=50, of="pool"), UIDS)) < set(tenth)


@settings(deadline=None)  # the first example may import pandas
@given(count=st.integers(1, 130), cut=st.integers(0, 120), seed=st.integers(0, 2**64))
def test_a_count_keeps_the_rows_with_the_smallest_hashes(count: int, cut: int, seed: int) -> None:
    few = UIDS[:120]
    expected = set(sorted(few, key=lambda u: hash_of(u, seed))[:count])
    assert set(kept(Random(count=count, seed=seed, of="pool"), few[:cut], few[cut:])) == expected
    assert len(expected) == min(count, 120)


def test_rows_with_equal_uids_stay_together() -> None:
    a, b = sorted(UIDS[:2], key=lambda u: hash_of(u, 0))
    assert kept(Random(count=1, of="pool"), [a, b, a, a]) == [a, a, a]
    assert kept(Random(count=3, of="pool"), [a, b, a, a]) == [a, a, a]
    assert kept(Random(count=4, of="pool"), [a, b, a, a]) == [a, b, a, a]


def test_a_count_says_out_of_what() -> None:
    batch = rows(UIDS, s=pa.array(np.arange(1000) / 1000))
    recipe = "keep:\n  - score: {column: s, below: 0.5}\n  - random: {count: 100, of: %s}"
    numbers = {}
    for of in ("pool", "input"):
        fitted = Recipe.parse(recipe % of).fit(Rows((batch,)))
        numbers[of] = len(fitted.survivors(batch))
    smallest = sorted(UIDS, key=lambda u: hash_of(u, 0))[:100]
    assert numbers == {"pool": len(set(smallest) & set(UIDS[:500])), "input": 100}


def test_the_verdict_shows_the_hash_as_a_share() -> None:
    (shown,) = HashAtMost(0, 7).measure(rows(UIDS[:1])).to_pylist()
    assert float(shown) == pytest.approx(hash_of(UIDS[0], 7) / 2**64, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{}", "takes one of fraction and count"),
        ("{fraction: 0.1, count: 5, of: pool}", "takes one of fraction and count"),
        ("{fraction: 0}", r"fraction 0 is not in \(0, 1\]"),
        ("{fraction: 10}", r"fraction 10 is not in \(0, 1\]"),
        ("{fraction: .nan}", "fraction nan is not in"),
        ("{count: 0, of: pool}", "count 0 is below 1"),
        ("{count: 0.5, of: pool}", "count is 0.5, expected a whole number"),
        ("{count: 5}", "count out of what.*of: pool"),
        ("{fraction: 0.1, of: pool}", "`of` belongs to count"),
        ("{fraction: 0.1, seed: x}", "seed is 'x', expected a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"r\.yaml:2: random: {message}"):
        Recipe.parse(f"keep:\n  - random: {options}\n", "r.yaml")


def test_the_published_subsets_are_nested() -> None:
    batch = rows(UIDS)
    before: set[str] = set()
    for percent in (1, 10, 25, 50, 75):
        recipe = Recipe.load(recipe_path(f"random_{percent}"))
        now = set(recipe.fit(Rows((batch,))).survivors(batch)["uid"].to_pylist())
        assert before < now
        assert abs(len(now) - 10 * percent) < 50
        before = now
