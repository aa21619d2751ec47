"""Bounds and top fractions on numeric columns."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.score import ClipScore, Score, Threshold, top_threshold
from pools import uids
from pools.errors import InputError
from pools.uids import hash64
from tests.filters.scans import Rows, batch


def keep(rule: Score | ClipScore, rows: pa.RecordBatch) -> list[bool | None]:
    return list(rule.fit(Rows((rows,))).keep(rows).to_pylist())


# T68
def test_bounds_are_compared_in_the_precision_of_the_column() -> None:
    rows = batch(s=pa.array([0.1, 0.3, 0.3, 0.5], pa.float32()))
    assert keep(Score(column="s", min=0.3), rows) == [False, True, True, True]
    assert keep(Score(column="s", above=0.3), rows) == [False, False, False, True]
    assert keep(Score(column="s", max=0.3), rows) == [True, True, True, False]
    assert keep(Score(column="s", below=0.3), rows) == [True, False, False, False]
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        exact = batch(s=pa.array(np.array([0.7], kind.to_pandas_dtype())))
        assert keep(Score(column="s", min=0.7, max=0.7), exact) == [True]
    assert keep(Score(column="n", min=2.5, max=3), batch(n=pa.array([2, 3, 4]))) == [False, True, False]


# T69
def test_null_and_nan_are_not_judged() -> None:
    rows = batch(clip_m_similarity_score=pa.array([0.9, math.nan, None, 0.1], pa.float32()))
    assert keep(ClipScore(model="m", min=0.5), rows) == [True, None, None, False]
    # index int(4 · 0.5) = 2 lies past the two scored rows: all of them are kept
    assert keep(ClipScore(model="m", top_fraction=0.5, of="pool"), rows) == [True, None, None, True]
    # index int(4 · 0.25) = 1 is the second greatest, and >= keeps both
    assert keep(ClipScore(model="m", top_fraction=0.25, of="pool"), rows) == [True, None, None, True]
    assert keep(ClipScore(model="m", top_fraction=0.2, of="pool"), rows) == [True, None, None, False]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
@given(data=st.data())
def test_the_threshold_is_the_element_at_the_index_of_the_sorted_column(kind: type, data: st.DataObject) -> None:
    numbers = st.integers(-(2**40), 2**40) if kind is np.int64 else st.floats(width=np.dtype(kind).itemsize * 8)  # type: ignore[arg-type]
    column: np.ndarray[Any, Any] = np.array(data.draw(st.lists(numbers, min_size=1, max_size=60)), kind)
    fraction = data.draw(st.floats(0.01, 1))
    cut = data.draw(st.integers(0, len(column)))
    scan = Rows((batch(s=column[:cut]), batch(s=column[cut:])))
    scored = np.sort(column[~np.isnan(column)])[::-1]  # the independent way: sort everything
    index = int(len(column) * fraction)
    expected = float(scored[index]) if index < len(scored) else -math.inf
    assert top_threshold(scan, "s", fraction) == expected


def test_ties_at_the_threshold_are_all_kept() -> None:
    rows = batch(s=pa.array([0.5, 0.5, 0.5, 0.9, 0.1], pa.float32()))
    assert keep(Score(column="s", top_fraction=0.2, of="pool"), rows) == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, [3]), (2, [1, 3]), (3, [0, 1, 3]), (4, [0, 1, 2, 3]), (5, [0, 1, 2, 3, 6]), (9, [0, 1, 2, 3, 6])],
)
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_so_many_of_the_greatest_are_kept_and_of_those_that_tie_the_smallest_hashes(
    count: int, expected: list[int], kind: pa.DataType
) -> None:
    rows = batch(s=pa.array([0.5, 0.5, 0.5, 0.9, None, math.nan, 0.1], pa.float32()).cast(kind))
    # The uids 0, 1 and 2 have hashes that ascend; those of the first two rows are exchanged.
    given = rows["uid"].take(pa.array([1, 0, 2, 3, 4, 5, 6]))
    rows = rows.set_column(0, "uid", given)
    assert np.argsort(hash64(uids.pack(given), 0)[:3]).tolist() == [1, 0, 2]
    rule = Score(column="s", top_count=count, of="pool")
    mask = rule.fit(Rows((rows.slice(0, 2), rows.slice(2)))).keep(rows).to_pylist()
    assert [i for i, kept in enumerate(mask) if kept] == expected
    assert [i for i, kept in enumerate(mask) if kept is None] == [4, 5]
    assert rule.needs == rule.fit(Rows((rows,))).needs == ("s", "uid")


@given(data=st.data())
def test_the_number_that_is_kept_is_exact(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.sampled_from([None, math.nan, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf]), min_size=1))
    count = data.draw(st.integers(1, len(values)))
    rows = batch(s=pa.array(values, pa.float32()))
    kept = keep(Score(column="s", top_count=count, of="input"), rows)
    scored = [v for v in values if v is not None and not math.isnan(v)]
    assert kept.count(True) == min(count, len(scored))
    found = [v for v, k in zip(values, kept, strict=True) if k and v is not None]
    assert sorted(found, reverse=True) == sorted(scored, reverse=True)[:count]


def test_rows_with_equal_uids_stay_together() -> None:
    rows = batch(s=pa.array([1, 1, 1]))
    rows = rows.set_column(0, "uid", pa.array([rows["uid"][0].as_py()] * 3))
    assert keep(Score(column="s", top_count=2, of="pool"), rows) == [True] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no bound given"),
        ({"top_count": 0, "of": "pool"}, "top_count 0 is below 1"),
        ({"top_count": 3}, "top_count of what"),
        ({"top_count": 3, "min": 0.1, "of": "pool"}, "top_count and a bound"),
        ({"top_count": 3, "top_fraction": 0.1, "of": "pool"}, "top_fraction and top_count"),
        ({"min": 0.1, "of": "pool"}, "`of` belongs to top_fraction and top_count"),
    ],
)
def test_options_that_say_too_much_or_too_little_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Score(column="s", **options)


@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.list_(pa.float32(), 2)])
def test_a_column_without_numbers_is_refused_by_its_type(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match=f"column 's' holds {re.escape(str(kind))}; expected numbers"):
        Score(column="s", min=1).check({"s": kind})


def test_an_empty_pool_has_a_threshold_that_keeps_nothing_wrongly() -> None:
    assert top_threshold(Rows((batch(s=pa.array([], pa.float32())),)), "s", 0.5) == -math.inf


def test_a_threshold_shows_what_it_compared() -> None:
    rows = batch(s=pa.array([0.25, None], pa.float32()))
    assert Threshold("s", min=1).measure(rows).to_pylist() == ["0.25", None]
