"""What filters learn of a whole pool: the same from any number of files, workers, runs and ranges, and on Spark."""

from __future__ import annotations

import functools
import gc
import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filters.frequency import Paired, Tokens
from filters.registry import FILTERS
from filters.score import Threshold
from pipeline import exchange, scan
from pipeline.engine import Local, Options
from pipeline.scan import PoolScan
from pipeline.selection import select
from pools import hashes, uids
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from tests.pipeline.trees import tree

ROOT = Path(__file__).resolve().parent.parent.parent


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    words = np.array([f"w{i}" for i in range(3000)])[np.minimum(rng.zipf(1.3, (n, 6)), 3000) - 1]
    return pa.table(
        {
            "uid": [f"{high:016x}{low:016x}" for high, low in rng.integers(0, 2**63, (n, 2))],
            "url": [f"u{i}" for i in np.minimum(rng.zipf(1.4, n), n)],
            "text": [" ".join(w) for w in words],
            "sha256": [f"{i:064x}" for i in rng.integers(0, n, n)],
            "phash": rng.integers(0, 2**64, n, dtype=np.uint64) & np.uint64(0xFFFFFF << 20),
            "score": rng.random(n),
        }
    )


def write(table: pa.Table, folder: Path, files: int) -> Pool:
    (folder / "metadata").mkdir(parents=True)
    cuts = np.linspace(0, len(table), files + 1).astype(int).tolist()
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        pq.write_table(table.slice(start, end - start), folder / "metadata" / f"{i:03}.parquet")
    return Pool.open(str(folder))


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return rows(5000, 0)


@pytest.fixture(scope="module")
def pool(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return write(table, tmp_path_factory.mktemp("scan"), 7)


def narrow(pool: Pool, scratch: Path, workers: int = 0) -> PoolScan:
    """A scan that spills after some hundred rows, and merges over many ranges."""
    return PoolScan(pool, Local(workers), scratch=str(scratch), run_bytes=4096, range_bytes=8192)


def hashed(keys: list[str]) -> list[int]:
    return sorted(hashes.of_column(pa.array(keys)).tolist())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("more_than", [0, 1, 7])
def test_frequent_keys_are_those_of_counting_in_one_dictionary(
    table: pa.Table, pool: Pool, tmp_path: Path, workers: int, more_than: int
) -> None:
    counts = Counter(word for text in table["text"].to_pylist() for word in text.split())
    pairs = [a + " " + b for t in table["text"].to_pylist() for a, b in zip(t.split(), t.split()[1:], strict=False)]
    found = narrow(pool, tmp_path, workers).frequent(Tokens("text"), more_than).records.tolist()
    assert found == sorted(found)
    single = hashed([word for word, n in counts.items() if n > more_than])
    assert set(single) <= set(found)
    assert len(found) == len(single) + sum(n > more_than for n in Counter(pairs).values())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("more_than", [1, 2, 20])
def test_pairs_count_once(table: pa.Table, pool: Pool, tmp_path: Path, workers: int, more_than: int) -> None:
    pairs = set(zip(table["url"].to_pylist(), table["text"].to_pylist(), strict=True))
    expected = hashed([url for url, n in Counter(url for url, _ in pairs).items() if n > more_than])
    assert narrow(pool, tmp_path, workers).frequent(Paired("url", "text"), more_than).records.tolist() == expected
    assert 0 < len(expected) < 2000


@pytest.mark.parametrize("k", [1, 333, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 10, 5000, 10**6))])
def test_the_top_keys_are_those_of_sorting_all(pool: Pool, tmp_path: Path, table: pa.Table, k: int) -> None:
    key = Tokens("text")
    counts = Counter(h for batch in table.to_batches() for h in key(batch).tolist())
    expected = sorted(sorted(counts, key=lambda h: (-counts[h], h))[:k])
    for workers in (0, 2):
        assert narrow(pool, tmp_path, workers).top(key, k).records.tolist() == expected


def test_only_rows_that_the_stages_keep_are_counted(pool: Pool, tmp_path: Path, table: pa.Table) -> None:
    after = narrow(pool, tmp_path).through((Threshold("score", min=0.5),))
    kept = table.filter(pa.array(table["score"].to_numpy() >= 0.5))
    expected = hashed([v for v, n in Counter(kept["url"].to_pylist()).items() if n > 1])
    repeated = after.frequent(OneColumn("url"), 1).records.tolist()
    assert repeated == expected


class OneColumn:
    """The values of a column, each time they stand."""

    paired = False

    def __init__(self, column: str) -> None:
        self.needs = (column,)

    def __call__(self, batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.uint64]]:
        return hashes.of_column(batch[self.needs[0]], *self.needs)


RULES: dict[str, dict[str, Any]] = {
    "exact_duplicates": {},
    "images_per_text": {"max": 1},
    "phash_duplicates": {"max_distance": 3, "rule": "compare-with-kept"},
    "rare_tokens": {"top": 2000},
    "texts_per_image": {"max": 20},
}


@pytest.mark.parametrize("name", list(RULES))
def test_the_cut_of_the_pool_its_order_and_the_sizes_of_runs_change_nothing(
    name: str, table: pa.Table, pool: Pool, tmp_path: Path
) -> None:
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(len(table))))
    whole = PoolScan(write(shuffled, tmp_path / "other", 2), Local(0), scratch=str(tmp_path / "scratch"))
    kept = []
    for one in (whole, narrow(pool, tmp_path / "scratch", 2)):
        rule = FILTERS.build(name, RULES[name]).fit(one)  # type: ignore[union-attr]
        (batch,) = table.combine_chunks().to_batches()
        kept.append(rule.keep(batch).to_pylist())
    assert kept[0] == kept[1]
    assert {True, False} == set(kept[0])


def test_tables_end_with_what_uses_them_and_runs_before(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "HELD_BYTES", 100)
    found = narrow(pool, tmp_path).top(Tokens("text"), 500)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["table.npy"]
    assert (found.count, len(found.records)) == (500, 500)
    del found
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_large_table_travels_as_a_file_and_equals_a_small_one(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = narrow(pool, tmp_path).top(Tokens("text"), 500)
    monkeypatch.setattr(scan, "HELD_BYTES", 100)
    large = narrow(pool, tmp_path).top(Tokens("text"), 500)
    held = narrow(pool, tmp_path).hold(np.arange(1000))
    assert small == large
    assert repr(small) == repr(large) == f"Table(count=500, digest='{small.digest}')"
    assert small.path is None and large.path is not None
    assert held.records.tolist() == list(range(1000))


def test_a_failure_leaves_nothing_behind_and_names_the_file(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"000\.parquet: column 'score' holds double"):
        narrow(pool, tmp_path).frequent(OneColumn("score"), 1)
    gc.collect()
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_an_empty_pool_has_empty_tables(tmp_path: Path, table: pa.Table) -> None:
    empty = narrow(write(table.slice(0, 0), tmp_path / "pool", 1), tmp_path / "scratch")
    (batch,) = table.slice(0, 9).combine_chunks().to_batches()
    assert empty.top(Tokens("text"), 5).records.tolist() == []
    for name, options in RULES.items():
        kept = set(FILTERS.build(name, options).fit(empty).keep(batch).to_pylist())  # type: ignore[union-attr]
        assert kept == {name != "rare_tokens"}


def test_runs_are_no_larger_than_asked_for() -> None:
    """Records that repeat are combined before they are spilled; those that do not are cut."""
    pieces = [np.zeros(100, np.uint64)] * 50
    assert [len(run) for run in exchange.gather(iter(pieces), np.unique, 1600)] == [1]
    pieces = [np.arange(i, i + 100, dtype=np.uint64) for i in range(0, 5000, 100)]
    runs = list(exchange.gather(iter(pieces), np.unique, 1600))
    assert max(run.nbytes for run in runs) <= 1600 + 800
    assert np.concatenate(runs).tolist() == list(range(5000))
    assert [len(run) for run in exchange.gather(iter(pieces), np.unique, None)] == [5000]


def test_a_vanished_table_is_said() -> None:
    from pools.tables import Table

    with pytest.raises(WorkFailed, match="is gone"):
        _ = Table(1, "", "no/such/table.npy").records


# T76
def test_without_duplicates_the_list_is_the_pool_and_the_count_is_zero(tmp_path: Path, table: pa.Table) -> None:
    rows_ = table.slice(0, 40).set_column(3, "sha256", pa.array([f"{i:064x}" for i in range(40)]))
    pool = write(rows_, tmp_path / "pool", 2)
    (tmp_path / "r.yaml").write_text("keep:\n  - exact_duplicates\n")
    outcome = select(str(tmp_path / "r.yaml"), pool.root, str(tmp_path / "out"), options=Options(workers=0, quiet=True))
    assert outcome.counts["dropped:0-exact_duplicates"] == 0
    assert outcome.counts["kept"] == outcome.counts["in"] == 40
    assert uids.unpack(uids.read_list(str(tmp_path / "out" / "uids.npy"))).to_pylist() == sorted(rows_["uid"].to_pylist())


RECIPE = "keep:\n" + "".join(f"  - {name}: {options}\n" for name, options in RULES.items()).replace("'", "")


@pytest.mark.spark
def test_spark_and_workers_change_no_byte(tmp_path: Path, pool: Pool, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE)
    run = functools.partial(select, str(tmp_path / "r.yaml"), pool.root)
    outcome = run(str(tmp_path / "local"), options=Options(workers=0, quiet=True))
    run(str(tmp_path / "two"), options=Options(workers=2, quiet=True))
    run(str(tmp_path / "spark"), options=Options(engine="spark", quiet=True))
    gc.collect()
    assert tree(tmp_path / "local") == tree(tmp_path / "two") == tree(tmp_path / "spark")
    assert 0 < outcome.counts["kept"] < 5000


def peak(folder: Path, pool: Pool, name: str) -> int:
    """MB at the peak of the whole process tree of a fit and its judging, as `tests.pipeline.scan_memory` tells."""
    command = [sys.executable, "-m", "tests.pipeline.scan_memory", pool.root, str(folder), name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["texts_per_image", "images_per_text", "rare_tokens"])
def test_ten_times_the_pool_takes_no_more_memory(tmp_path: Path, name: str) -> None:
    some = write(rows(60_000, 3), tmp_path / "some", 4)
    more = write(pa.concat_tables(rows(60_000, seed) for seed in range(10)), tmp_path / "more", 40)
    one, ten = peak(tmp_path / "scratch", some, name), peak(tmp_path / "scratch", more, name)
    assert ten <= 1.1 * one, f"{one} MB, {ten} MB"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_collects_no_rows(tmp_path: Path) -> None:
    """Two million rows, and no more than 64 MB of results on the driver."""
    base = rows(200_000, 5)
    folder = tmp_path / "pool" / "metadata"
    folder.mkdir(parents=True)
    for i in range(10):
        fresh = rows(200_000, 100 + i)
        pq.write_table(base.set_column(0, "uid", fresh["uid"]).set_column(2, "text", fresh["text"]), folder / f"{i}.parquet")
    (tmp_path / "r.yaml").write_text(
        "keep:\n  - texts_per_image: {max: 1000}\n  - images_per_text: {max: 10}\n  - rare_tokens: {top: 1000000}\n"
    )
    program = (
        "import sys\nfrom pyspark.sql import SparkSession\nfrom pipeline.java import find_java\n"
        "from pipeline.engine import Options\nfrom pipeline.selection import select\nfind_java().use()\n"
        "builder = SparkSession.builder.master('local[2]').config('spark.driver.maxResultSize', '64m')\n"
        "session = builder.config('spark.ui.enabled', 'false').config('spark.driver.host', '127.0.0.1').getOrCreate()\n"
        "recipe, pool, output = sys.argv[1:]\n"
        "print(select(recipe, pool, output, options=Options(engine='spark', quiet=True)).counts['kept'])\n"
    )
    arguments = [str(tmp_path / "r.yaml"), str(tmp_path / "pool"), str(tmp_path / "spark")]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = select(arguments[0], arguments[1], str(tmp_path / "local"), options=Options(workers=2, quiet=True))
    assert int(done.stdout.split()[-1]) == outcome.counts["kept"] > 0
    ours, theirs = (uids.read_list(str(tmp_path / engine / "uids.npy")) for engine in ("local", "spark"))
    assert ours.tobytes() == theirs.tobytes()
