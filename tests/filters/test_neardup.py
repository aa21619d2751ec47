"""Near-duplicates of evaluation images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from filters.registry import FILTERS, Filter
from pools.errors import InputError
from tests.filters.scans import batch


def rule(name: str, **options: Any) -> Filter:
    built = FILTERS.build(name, options)
    assert isinstance(built, Filter)
    return built


# T73
def test_a_similarity_at_the_bound_of_datacomp_is_a_duplicate() -> None:
    for kind in (pa.float32(), pa.float64()):
        rows = batch(eval_similarity=pa.array([0.604168, 0.604169, 0.60417, None, float("nan")], kind))
        assert rule("eval_similarity", below=0.604169).keep(rows).to_pylist() == [True, False, False, None, None]


def test_a_similarity_at_the_bound_of_align_is_none() -> None:
    rows = batch(s=pa.array([0.974, 0.975, 0.9751], pa.float32()))
    assert rule("eval_similarity", max=0.975, column="s").keep(rows).to_pylist() == [True, True, False]
    assert rule("eval_similarity", max=0.975, column="s").measure(rows).to_pylist()[0] == "0.974"


# T72
def test_all_rows_near_an_evaluation_image_go(tmp_path: Path) -> None:
    np.save(tmp_path / "evals.npy", np.array([0xFF00], np.uint64))
    rows = batch(phash=["000000000000ff00", "000000000000ff03", "00000000ffffffff", None])
    near = rule("eval_phash", index=str(tmp_path / "evals.npy"), max_distance=2)
    assert near.keep(rows).to_pylist() == [False, False, True, None]
    assert near.measure(rows).to_pylist() == ["0", "2", None, None]
    assert np.load(tmp_path / "evals.npy").tolist() == [0xFF00]


@pytest.mark.parametrize("distance", [0, 2, 6])
def test_looking_up_is_comparing_with_each(tmp_path: Path, distance: int) -> None:
    rng = np.random.default_rng(1)
    index = rng.integers(0, 2**64, 2000, dtype=np.uint64)
    index[1000:] = index[:1000] ^ np.uint64(0xFF00FF)  # so that many meet in one table or another
    np.save(tmp_path / "evals.npy", index)
    wanted = np.concatenate([rng.integers(0, 2**64, 100, dtype=np.uint64), index[850:1150]])
    for _ in range(5):
        wanted ^= np.uint64(1) << rng.integers(0, 64, 400).astype(np.uint64) * (rng.random(400) < 0.6)
    nearest = np.bitwise_count(wanted[:, None] ^ index).min(axis=1)
    near = rule("eval_phash", index=str(tmp_path / "evals.npy"), max_distance=distance)
    kept = near.keep(batch(phash=pa.array(wanted))).to_pylist()
    assert kept == (nearest > distance).tolist()
    assert distance == 0 or 20 < kept.count(False) < 380


def test_bad_options_and_files_are_named(tmp_path: Path) -> None:
    for options in ({}, {"below": 0.5, "max": 0.5}):
        with pytest.raises(ValueError, match="takes one of below"):
            FILTERS.build("eval_similarity", options)
    rows = batch(phash=pa.array([1], pa.uint64()))
    with pytest.raises(InputError, match=r"absent\.npy: no such file"):
        rule("eval_phash", index=str(tmp_path / "absent.npy"), max_distance=2).keep(rows)
    np.save(tmp_path / "floats.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"floats\.npy: dtype float64, 1 dimension.*expected a list of dtype u8"):
        rule("eval_phash", index=str(tmp_path / "floats.npy"), max_distance=2).keep(rows)
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(InputError, match=r"text\.npy: unreadable \.npy"):
        rule("eval_phash", index=str(tmp_path / "text.npy"), max_distance=2).keep(rows)
