"""Scores of one's own: joined by uid, whatever their order and number."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.annotate import sorted_scores
from pipeline.annotate.own_scores import join
from pipeline.annotate.sorted_scores import SortedScores
from pipeline.engine import Options
from pools import uids
from pools.errors import InputError
from pools.layout import Pool
from tests.pipeline.annotating import family

QUIET = Options(quiet=True)


def uid(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15 % (1 << 128):032x}"


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    folder = tmp_path / "pool"
    (folder / "metadata").mkdir(parents=True)
    pq.write_table(pa.table({"uid": [uid(i) for i in (0, 1, 2)], "text": ["a"] * 3}), folder / "metadata/a.parquet")
    pq.write_table(pa.table({"uid": [uid(i) for i in (3, 1)], "text": ["a"] * 2}), folder / "metadata/b.parquet")
    return folder


def table(path: Path, numbers: list[int], **columns: Any) -> str:
    pq.write_table(pa.table({**columns, "uid": [uid(i) for i in numbers]}), path)
    return str(path)


# T53
def test_rows_are_joined_and_those_without_a_score_are_null(tmp_path: Path, pool: Path) -> None:
    source = table(tmp_path / "s.parquet", [3, 9, 1, 2, 8], mine=pa.array([0.5, 1, 0.0, None, 2], pa.float32()))
    outcome = join(str(pool), source, "own", options=QUIET)
    assert family(pool, "own", "a") == [
        {"uid": uid(0), "mine": None, "own_reason": "no_score"},
        {"uid": uid(1), "mine": 0.0, "own_reason": None},
        {"uid": uid(2), "mine": None, "own_reason": "null_score"},
    ]
    assert [r["mine"] for r in family(pool, "own", "b")] == [0.5, 0.0]
    assert outcome.counts == {"in": 5, "kept": 3, "failed:no_score": 1, "failed:null_score": 1, "unknown_uids": 2}
    header = json.loads(pq.read_schema(pool / "annotations/own/a.parquet").metadata[b"winnow"])
    assert header["columns"] == {"mine": "float"}
    assert len(header["source_sha256"]) == 64
    read = [b["mine"].to_pylist() for p in Pool.open(str(pool)).parts for b in p.batches(["mine"])]
    assert read == [[None, 0.0, None], [0.5, 0.0]]


def test_a_rerun_does_nothing_and_a_new_file_only_what_is_new(
    tmp_path: Path, pool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = table(tmp_path / "s.parquet", [0, 1, 5], mine=[1, 2, 3])
    loud = replace(QUIET, quiet=False)
    first = join(str(pool), source, "own", options=loud)
    assert join(str(pool), source, "own", options=loud) == first
    assert "nothing to do" in capsys.readouterr().err
    pq.write_table(pa.table({"uid": [uid(5)], "text": ["a"]}), pool / "metadata/c.parquet")
    assert join(str(pool), source, "own", options=loud).counts["unknown_uids"] == 0
    assert "2 of 3 units done before, 1 to do" in capsys.readouterr().err
    table(tmp_path / "s.parquet", [0], mine=[7])
    with pytest.raises(InputError, match="belongs to another run"):
        join(str(pool), source, "own", options=QUIET)
    join(str(pool), source, "own", options=replace(QUIET, overwrite=True))
    assert family(pool, "own", "a")[0]["mine"] == 7


def test_values_of_any_kind_come_as_they_are(tmp_path: Path, pool: Path) -> None:
    boxes = pa.array([[[0.0, 0.5]], []], pa.list_(pa.list_(pa.float32())))
    source = table(tmp_path / "s.parquet", [1, 0], boxes=boxes, word=["a", None], day=pa.array([1, 2], pa.date32()))
    join(str(pool), source, "own", options=QUIET)
    found = pq.read_table(pool / "annotations/own/a.parquet")
    assert found.schema.field("boxes").type == boxes.type
    assert found["boxes"].to_pylist() == [[], [[0.0, 0.5]], None]
    assert found["word"].to_pylist() == [None, "a", None]
    assert found["own_reason"].to_pylist() == [None, None, "no_score"]


def test_csv_and_npz(tmp_path: Path, pool: Path) -> None:
    with (tmp_path / "s.csv").open("w", newline="") as f:
        csv.writer(f).writerows([["uid", "mine"], [uid(1), "0.25"], ["0" * 32, "1"]])
    assert join(str(pool), str(tmp_path / "s.csv"), "c", options=QUIET).counts["kept"] == 3  # uid(0) is all zeros
    assert [r["mine"] for r in family(pool, "c", "a")] == [1.0, 0.25, None]
    packed = uids.pack([uid(2), uid(0)])
    for name, ids in (("words", packed), ("texts", np.array([uid(2), uid(0)]))):
        arrays: dict[str, Any] = {"uid": ids, name: np.array([[1, 2], [3, 4]], np.float16)}
        np.savez(tmp_path / f"{name}.npz", **arrays)
        join(str(pool), str(tmp_path / f"{name}.npz"), f"n{name}", options=QUIET)
        assert [r[name] for r in family(pool, f"n{name}", "a")] == [[3, 4], None, [1, 2]]


def test_what_is_wrong_is_named(tmp_path: Path, pool: Path) -> None:
    def refused(source: str, name: str = "own", options: Options = QUIET) -> str:
        with pytest.raises(InputError) as e:
            join(str(pool), source, name, options=options)
        assert not list(pool.glob("annotations/*/*.parquet"))
        return str(e.value)

    both = refused(table(tmp_path / "s.parquet", [1, 2, 1], mine=[1, 2, 3]))
    assert f"uid {uid(1)} stands twice, with mine 1 and 3" in both
    assert "column 'text' exists already" in refused(table(tmp_path / "s.parquet", [1], text=["b"]))
    assert "own_reason" in refused(table(tmp_path / "s.parquet", [1], own_reason=["b"]))
    assert "expected uid and at least one more" in refused(table(tmp_path / "s.parquet", [1]))
    pq.write_table(pa.table({"uid": [uid(1), "xyz"], "mine": [1, 2]}), tmp_path / "s.parquet")
    assert "xyz" in refused(str(tmp_path / "s.parquet"))
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    assert "unreadable" in refused(str(tmp_path / "junk.parquet"))
    assert "no such file" in refused(str(tmp_path / "absent.parquet"))
    assert "unknown kind of file .xlsx" in refused(str(Path(table(tmp_path / "s.parquet", [1])).rename(tmp_path / "s.xlsx")))
    good = table(tmp_path / "s.parquet", [1], mine=[1])
    assert "on this machine" in refused(good, options=Options(engine="spark"))
    assert "lower-case" in refused(good, "A b")


def test_equal_values_of_a_uid_are_one(tmp_path: Path, pool: Path) -> None:
    source = table(tmp_path / "s.parquet", [1, 9, 1, 9], mine=[0.5, float("nan"), 0.5, float("nan")])
    assert join(str(pool), source, "own", options=QUIET).counts["unknown_uids"] == 1


def test_scores_of_another_pool_are_a_problem(tmp_path: Path, pool: Path) -> None:
    source = table(tmp_path / "s.parquet", [77], mine=[0.5])
    assert "are these the pool's uids?" in join(str(pool), source, "own", options=QUIET).problems[0]


def test_any_number_of_buckets_gives_the_same(tmp_path: Path, pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = table(tmp_path / "s.parquet", list(range(100, 0, -1)), mine=list(range(100)))
    join(str(pool), source, "one", options=QUIET)
    monkeypatch.setattr(sorted_scores, "BUCKET_ROWS", 8)
    source = table(tmp_path / "t.parquet", list(range(100, 0, -1)), many=list(range(100)))
    assert join(str(pool), source, "many", options=QUIET).counts["unknown_uids"] == 97
    for stem in ("a", "b"):
        assert [r["mine"] for r in family(pool, "one", stem)] == [r["many"] for r in family(pool, "many", stem)]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.integers(0, 60), st.integers(-5, 5) | st.none(), min_size=1),
    st.lists(st.integers(0, 60), max_size=30),
    st.integers(0, 4),
)
def test_lookups_are_those_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[int, int | None], asked: list[int], bits: int
) -> None:
    rows = pa.table({"uid": [uid(i) for i in scores], "v": pa.array(scores.values(), pa.int8())})
    batches = rows.to_batches(max_chunksize=7)
    folder = str(tmp_path_factory.mktemp("scores"))
    built = SortedScores.build(batches, rows.schema, (1 << bits) * sorted_scores.BUCKET_ROWS // 2, folder, "here")
    assert built.bits == bits
    values, found = built.take(uids.pack([uid(i) for i in asked]))
    assert values["v"].to_pylist() == [scores.get(i) for i in asked]
    assert found.tolist() == [i in scores for i in asked]
    assert built.count == len(scores)
