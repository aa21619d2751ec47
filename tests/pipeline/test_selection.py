"""Filter runs: verdicts, lists, resume, and equality over engines and workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.selection import select
from pools import uids
from pools.errors import InputError
from pools.schema import VERDICTS
from tests.pipeline.trees import tree

QUIET = Options(workers=0, quiet=True)
RECIPE = """
name: mine
keep:
  - image_size: {min_side: 200}
  - any:
      - clip_score: {model: l14, top_fraction: 0.4, of: pool}
      - caption: {min_words: 4}
captions: {column: url}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "mine.yaml").write_text(RECIPE)
    return str(tmp_path / "mine.yaml")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Three metadata files of 40 rows with random widths, scores (some null) and captions; uids are not in order."""
    rng = np.random.default_rng(0)
    for f in range(3):
        n = 40
        table = {
            "uid": [f"{v:032x}" for v in rng.integers(0, 2**63, n).astype(object) * 2**60 + f],
            "url": [f"http://h.example/{f}/{i}.jpg" for i in range(n)],
            "text": [" ".join("abcdefg"[: rng.integers(1, 7)]) for _ in range(n)],
            "original_width": pa.array(rng.integers(100, 400, n), pa.int32()),
            "original_height": pa.array(rng.integers(100, 400, n), pa.int32()),
            "clip_l14_similarity_score": pa.array(rng.random(n).astype(np.float16), mask=rng.random(n) < 0.1).cast(
                pa.float32()
            ),
        }
        path = tmp_path / "pool" / "metadata" / "sub" / f"{f}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path, row_group_size=7)
    return tmp_path / "pool"


def by_hand(pool: Path) -> list[tuple[str, str | None]]:
    """(uid, name of the stage that drops it) of each row, in plain Python."""
    rows = [r for p in sorted((pool / "metadata").rglob("*.parquet")) for r in pq.read_table(p).to_pylist()]
    scores = sorted((r["clip_l14_similarity_score"] for r in rows if r["clip_l14_similarity_score"] is not None), reverse=True)
    threshold = scores[int(len(rows) * 0.4)]
    result = []
    for r in rows:
        score = r["clip_l14_similarity_score"]
        good = (score is not None and score >= threshold) or len(r["text"].split()) >= 4
        small = min(r["original_width"], r["original_height"]) < 200
        result.append((r["uid"], "image_size" if small else None if good else "any"))
    return result


def test_every_row_has_a_verdict_and_the_list_holds_the_kept_ones(tmp_path: Path, pool: Path, recipe: str) -> None:
    out = tmp_path / "out"
    outcome = select(recipe, str(pool), str(out), options=QUIET)
    expected = by_hand(pool)
    verdicts = [r for p in sorted((out / "verdicts").rglob("*.parquet")) for r in pq.read_table(p).to_pylist()]
    assert pq.read_schema(out / "verdicts" / "sub" / "0.parquet") == VERDICTS.schema
    assert [(v["uid"], v["reason"]) for v in verdicts] == expected
    assert all((v["dropped_by"] is None) == (v["reason"] is None) for v in verdicts)
    kept = sorted(u for u, reason in expected if reason is None)
    assert uids.unpack(uids.read_list(str(out / "uids.npy"))).to_pylist() == kept
    assert outcome.counts["in"] == 120
    assert outcome.counts["kept"] == len(kept)
    assert outcome.counts["dropped:0-image_size"] == sum(reason == "image_size" for _, reason in expected)
    assert 0 < len(kept) < 120


def test_the_number_of_workers_changes_no_byte(tmp_path: Path, pool: Path, recipe: str) -> None:
    for workers in (0, 3):
        select(recipe, str(pool), str(tmp_path / str(workers)), options=Options(workers=workers, quiet=True))
    assert tree(tmp_path / "0") == tree(tmp_path / "3")


def test_a_store_without_folders_holds_the_same_files(tmp_path: Path, pool: Path, recipe: str) -> None:
    memory = fsspec.filesystem("memory")
    for path in sorted(pool.rglob("*.parquet")):
        memory.pipe_file(f"/sel/pool/{path.relative_to(pool)}", path.read_bytes())
    select(recipe, str(pool), str(tmp_path / "local"), options=QUIET)
    select(recipe, "memory://sel/pool/", "memory://sel/out/", options=QUIET)
    local = {n: b for n, b in tree(tmp_path / "local").items() if not n.endswith(".json")}  # those hold times of change
    remote = {str(f).removeprefix("/sel/out/"): memory.cat_file(f) for f in memory.find("/sel/out")}
    assert {n: b for n, b in remote.items() if not n.endswith(".json")} == local
    assert set(remote) == set(tree(tmp_path / "local"))


@pytest.mark.spark
def test_spark_changes_no_byte(tmp_path: Path, pool: Path, recipe: str, spark: Any) -> None:
    select(recipe, str(pool), str(tmp_path / "local"), options=QUIET)
    select(recipe, str(pool), str(tmp_path / "spark"), options=Options(engine="spark", quiet=True))
    assert tree(tmp_path / "local") == tree(tmp_path / "spark")


def test_killed_at_any_file_and_rerun_it_gives_the_same_bytes(tmp_path: Path, pool: Path, recipe: str) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "tests.pipeline.kill", recipe, str(pool), str(runs)]
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    files = int(done.stdout)
    whole = tree(runs / "whole")
    assert files == len(whole) > 10
    for n in range(1, files + 1):
        assert tree(runs / str(n)) == whole, f"killed at file {n}"


def test_a_finished_run_is_not_done_again(tmp_path: Path, pool: Path, recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    first = select(recipe, str(pool), str(out), options=QUIET)
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    again = select(recipe, str(pool), str(out), options=Options(workers=0))
    assert again.counts == first.counts
    assert "done before, nothing to do" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == times


def test_columns_that_a_recipe_does_not_read_do_not_make_it_run_again(
    tmp_path: Path, pool: Path, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    select(recipe, str(pool), out, options=QUIET)
    for path in sorted((pool / "metadata" / "sub").glob("*.parquet")):
        target = pool / "annotations" / "later" / "sub" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(path, columns=["uid"]).append_column("aesthetic", pa.array([0.5] * 40)), target)
    select(recipe, str(pool), out, options=Options(workers=0))
    assert "done before, nothing to do" in capsys.readouterr().err
    Path(recipe).write_text("keep:\n  - score: {column: aesthetic, min: 0.6}\n")
    assert select(recipe, str(pool), str(tmp_path / "other"), options=QUIET).counts["kept"] == 0


def test_an_output_of_another_recipe_is_refused_and_replaced_on_request(tmp_path: Path, pool: Path, recipe: str) -> None:
    out = str(tmp_path / "out")
    select(recipe, str(pool), out, options=QUIET)
    Path(recipe).write_text(RECIPE.replace("200", "201"))
    with pytest.raises(InputError, match="the output folder belongs to another run"):
        select(recipe, str(pool), out, options=QUIET)
    select(recipe, str(pool), out, options=Options(workers=0, quiet=True, overwrite=True))


def test_parts_of_a_job_array_make_the_whole(tmp_path: Path, pool: Path, recipe: str) -> None:
    select(recipe, str(pool), str(tmp_path / "whole"), options=QUIET)
    for i in (1, 0):
        select(recipe, str(pool), str(tmp_path / "parts"), options=Options(workers=0, quiet=True, part=(i, 2)))
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")


def test_a_random_subset_is_the_same_however_the_pool_is_cut(tmp_path: Path, pool: Path, recipe: str) -> None:
    lists: list[list[str]] = []
    whole = pa.concat_tables(pq.read_table(p) for p in sorted((pool / "metadata" / "sub").glob("*.parquet")))
    (tmp_path / "other").mkdir()
    pq.write_table(whole.take(list(range(119, -1, -1))), tmp_path / "other" / "0.parquet")
    for rule in ("{fraction: 0.5, seed: 2}", "{count: 30, of: pool, seed: 2}"):
        Path(recipe).write_text(f"keep:\n  - random: {rule}\n")
        for root, workers in ((pool, 2), (tmp_path / "other", 0)):
            out = tmp_path / f"out{len(lists)}"
            select(recipe, str(root), str(out), options=Options(workers=workers, quiet=True))
            lists.append(uids.unpack(uids.read_list(str(out / "uids.npy"))).to_pylist())
    assert lists[0] == lists[1]
    assert lists[2] == lists[3]
    assert len(lists[2]) == 30
    assert set(lists[2]) < set(lists[0]) < set(whole["uid"].to_pylist())


# T83
def test_a_recipe_that_keeps_nothing_finishes_with_an_empty_list(tmp_path: Path, pool: Path, recipe: str) -> None:
    Path(recipe).write_text("keep:\n  - image_size: {min_side: 9999}\n  - caption: {min_words: 1}\n")
    outcome = select(recipe, str(pool), str(tmp_path / "out"), options=QUIET)
    assert outcome.counts["dropped:0-image_size"] == 120
    assert len(uids.read_list(str(tmp_path / "out" / "uids.npy"))) == 0


def test_a_pool_without_the_score_is_refused_before_any_work(tmp_path: Path, pool: Path, recipe: str) -> None:
    Path(recipe).write_text("keep:\n  - clip_score: {model: b32, min: 0.3}\n")
    with pytest.raises(InputError, match=r"no column 'clip_b32_similarity_score'(.|\n)*annotate POOL --with clip --name b32 "):
        select(recipe, str(pool), str(tmp_path / "out"), options=QUIET)
    assert not (tmp_path / "out").exists()


def test_a_file_of_no_rows_is_no_trouble(tmp_path: Path, pool: Path, recipe: str) -> None:
    first = pool / "metadata" / "sub" / "0.parquet"
    pq.write_table(pq.read_table(first).slice(0, 0), pool / "metadata" / "sub" / "9.parquet")
    outcome = select(recipe, str(pool), str(tmp_path / "out"), options=QUIET)
    assert outcome.counts["in"] == 120
    assert pq.read_table(tmp_path / "out" / "verdicts" / "sub" / "9.parquet").num_rows == 0


@pytest.mark.parametrize("keep", ["[]", "[random: {fraction: 0.1}]", "[random: {count: 9, of: pool}]"])
def test_a_uid_that_is_none_is_named_with_its_file_and_row(tmp_path: Path, pool: Path, recipe: str, keep: str) -> None:
    Path(recipe).write_text(f"keep: {keep}\n")
    path = pool / "metadata" / "sub" / "1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "uid", pa.array(["sample-7", *table["uid"].to_pylist()[1:]])), path)
    with pytest.raises(InputError, match=r"1\.parquet: row 0: uid 'sample-7'"):
        select(recipe, str(pool), str(tmp_path / "out"), options=QUIET)
