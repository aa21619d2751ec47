"""Centroids of a pool: which rows they are made of, and that they come out the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from pipeline import cluster as job
from pipeline.cli import app
from pipeline.cluster import Settings, cluster
from pipeline.engine import Options
from pools.errors import InputError
from pools.part import Part

QUIET = Options(workers=0, quiet=True)
Array = NDArray[Any]


def write_pool(root: Path, features: Array, files: int = 1, texts: list[str] | None = None) -> str:
    """A pool of these rows, every `files`-th in one file; the uid is the row's number."""
    (root / "metadata").mkdir(parents=True)
    numbers = np.arange(len(features))
    for i in range(files):
        own = numbers[i::files]
        said = [texts[j] if texts else "a caption" for j in own]
        table = pa.table({"uid": [f"{j:032x}" for j in own], "text": pa.array(said, pa.string())})
        pq.write_table(table, root / "metadata" / f"{i}.parquet")
        np.savez(root / "metadata" / f"{i}.npz", img=features[own])
    return str(root)


def run(tmp_path: Path, features: Array, name: str = "c", files: int = 1, options: Options = QUIET, **settings: Any) -> Array:
    pool = tmp_path / f"pool-{name}"
    if not pool.exists():
        write_pool(pool, features, files)
    output = str(tmp_path / f"{name}.npy")
    cluster(str(pool), output, Settings("img", **settings), options=options)
    centroids: Array = np.load(output)
    return centroids


def side(tmp_path: Path, name: str = "c") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / f"{name}.npy.json").read_text())
    return found


def blobs(rows: int, width: int = 8) -> Array:
    """Rows around four far corners, a quarter at each."""
    rng = np.random.default_rng(0)
    corners = 10 * np.eye(4, width)
    blobs_: Array = (corners[np.arange(rows) % 4] + 0.1 * rng.standard_normal((rows, width))).astype(np.float32)
    return blobs_


# T78
def test_fewer_rows_than_clusters_is_an_error_that_says_so(tmp_path: Path) -> None:
    five = np.eye(5, dtype=np.float32)
    with pytest.raises(InputError, match=r"5 rows for 8 clusters: 5 < 8"):
        run(tmp_path, five, clusters=8)
    assert not (tmp_path / "c.npy").exists()
    clipped = run(tmp_path, five, clusters=8, clip=True)
    assert sorted(clipped.tolist()) == sorted(five.tolist())
    assert side(tmp_path)["counts"]["clusters"] == 5


# T78
def test_of_as_many_rows_as_clusters_each_is_a_centroid(tmp_path: Path) -> None:
    five = np.arange(20, dtype=np.float16).reshape(5, 4)
    centroids = run(tmp_path, five, clusters=5)
    assert centroids.dtype == np.float32
    assert sorted(centroids.tolist()) == five.tolist()


# T79
def test_what_is_used_is_said_and_written_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    features = blobs(10_000)
    run(tmp_path, features, clusters=10, options=Options(workers=0))
    assert "cluster: 2,560 of 10,000 rows used, 256 for each of 10 clusters; 0 not finite" in capsys.readouterr().err
    told = side(tmp_path)
    assert told["counts"] == {
        "in": 10_000,
        "dropped:recipe": 0,
        "dropped:sampling": 7_440,
        "dropped:not_finite": 0,
        "kept": 2_560,
        "clusters": 10,
    }
    assert {k: told["made_of"][k] for k in ("features", "clusters", "seed", "iterations", "max_per_centroid")} == {
        "features": "img",
        "clusters": 10,
        "seed": 0,
        "iterations": 20,
        "max_per_centroid": 256,
    }
    run(tmp_path, features, "all", clusters=10, max_per_centroid=None, options=Options(workers=0))
    assert "cluster: 10,000 of 10,000 rows used; 0 not finite" in capsys.readouterr().err
    assert side(tmp_path, "all")["counts"]["kept"] == 10_000


def test_the_centroids_are_the_means_of_what_lies_together(tmp_path: Path) -> None:
    features = blobs(400)
    centroids = run(tmp_path, features, clusters=4, seed=1)
    means = [features[i::4].mean(axis=0) for i in range(4)]
    nearest = [min(range(4), key=lambda j: float(np.linalg.norm(means[i] - centroids[j]))) for i in range(4)]
    assert sorted(nearest) == [0, 1, 2, 3]
    assert np.allclose(centroids[nearest], means, atol=1e-4)
    spread = sum(((features[i::4] - means[i]) ** 2).sum() for i in range(4))
    assert side(tmp_path)["objective"] == pytest.approx(spread, rel=1e-3)


# T80
def test_a_seed_gives_one_result_however_the_pool_is_cut(tmp_path: Path) -> None:
    features = np.random.default_rng(1).standard_normal((3000, 8)).astype(np.float32)
    settings: dict[str, Any] = {"clusters": 6, "max_per_centroid": 100, "seed": 3}
    one = run(tmp_path, features, "one", files=1, **settings)
    assert np.array_equal(one, run(tmp_path, features, "many", files=7, **settings))
    other = run(tmp_path, features, "other", **{**settings, "seed": 4})
    assert not np.array_equal(one, other)
    assert side(tmp_path, "other")["made_of"]["seed"] == 4


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    features = np.random.default_rng(1).standard_normal((3000, 8)).astype(np.float32)
    runs = [
        run(tmp_path, features, str(n), files=3, clusters=6, max_per_centroid=100, options=Options(workers=n, quiet=True))
        for n in (0, 2)
    ]
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_same(tmp_path: Path, spark: Any) -> None:
    features = np.random.default_rng(1).standard_normal((600, 8)).astype(np.float32)
    local = run(tmp_path, features, "local", files=3, clusters=5, max_per_centroid=50)
    on_spark = run(tmp_path, features, "spark", files=3, clusters=5, max_per_centroid=50, options=Options("spark", quiet=True))
    assert np.array_equal(local, on_spark)


# T81
def test_rows_that_are_not_finite_are_left_out_and_counted(tmp_path: Path) -> None:
    features = blobs(20)
    features[3, 5] = np.nan
    features[17, 0] = np.inf
    centroids = run(tmp_path, features, clusters=4, files=3)
    assert np.isfinite(centroids).all()
    assert side(tmp_path)["counts"]["dropped:not_finite"] == 2
    assert side(tmp_path)["counts"]["kept"] == 18


# T81
def test_equal_rows_give_finite_centroids(tmp_path: Path) -> None:
    centroids = run(tmp_path, np.ones((10, 4), np.float32), clusters=2)
    assert centroids.shape == (2, 4)
    assert np.isfinite(centroids).all()


# T82
def test_files_with_vectors_of_two_lengths_are_named_before_any_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Path(write_pool(tmp_path / "pool-c", blobs(8), files=2))
    np.savez(pool / "metadata" / "1.npz", img=blobs(4, 12))
    message = r"1\.parquet: 'img' has vectors of 12 numbers, in .*0\.parquet of 8"
    with monkeypatch.context() as patched:
        patched.setattr(Part, "batches", lambda *_: pytest.fail("read"))
        with pytest.raises(InputError, match=message):
            run(tmp_path, blobs(8), clusters=2)
    # Of lists in parquet no type tells it.
    for i, width in enumerate((8, 12)):
        (pool / "metadata" / f"{i}.npz").unlink()
        path = pool / "metadata" / f"{i}.parquet"
        pq.write_table(pq.read_table(path).append_column("img", pa.array(blobs(4, width).tolist())), path)
    with pytest.raises(InputError, match=message):
        run(tmp_path, blobs(8), clusters=2)


def test_only_rows_that_the_recipe_keeps_are_used(tmp_path: Path) -> None:
    features = np.concatenate([np.zeros((5, 4)), np.ones((5, 4))]).astype(np.float32)
    pool = write_pool(tmp_path / "pool", features, 3, ["one"] * 5 + ["two words"] * 5)
    (tmp_path / "r.yaml").write_text("name: r\nkeep:\n  - caption: {min_words: 2}\n")
    output = str(tmp_path / "c.npy")
    outcome = cluster(pool, output, Settings("img", 1), recipe=str(tmp_path / "r.yaml"), options=QUIET)
    assert np.load(output).tolist() == [[1, 1, 1, 1]]
    assert (outcome.counts["in"], outcome.counts["dropped:recipe"], outcome.counts["kept"]) == (10, 5, 5)
    assert side(tmp_path)["made_of"]["recipe"] == "r"


def test_what_is_there_is_not_made_again_nor_replaced_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = blobs(40)
    first = run(tmp_path, features, clusters=4)
    with monkeypatch.context() as without:
        without.setattr(job, "train", lambda *_: pytest.fail("made again"))
        assert np.array_equal(run(tmp_path, features, clusters=4), first)
    with pytest.raises(InputError, match=r"c\.npy: there are other centroids"):
        run(tmp_path, features, clusters=3)
    np.savez(tmp_path / "pool-c" / "metadata" / "0.npz", img=features[::-1])  # another pool
    with pytest.raises(InputError, match=r"c\.npy: there are other centroids"):
        run(tmp_path, features, clusters=4)
    assert len(run(tmp_path, features, clusters=3, options=Options(workers=0, quiet=True, overwrite=True))) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"clusters": 0}, "clusters: 0"), ({"clusters": 1, "seed": -1}, "seed: -1"), ({"clusters": 1, "iterations": 0}, "iter")],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings("img", **settings)


def test_the_command_makes_centroids_and_their_targets(tmp_path: Path) -> None:
    features = blobs(40)
    pool = write_pool(tmp_path / "pool", features, 2)
    np.save(tmp_path / "aims.npy", features[[1, 5, 9]])
    centroids, ids = str(tmp_path / "c.npy"), str(tmp_path / "ids.npy")
    result = CliRunner().invoke(
        app,
        ["cluster", pool, "--features", "img", "--k", "4", "--seed", "0", "--output", centroids, "--workers", "0", "--json"],
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["counts"]["kept"] == 40
    result = CliRunner().invoke(app, ["cluster", "targets", str(tmp_path / "aims.npy"), "--centroids", centroids, "-o", ids])
    assert "1 of 4 clusters" in result.stdout
    # All three lie at the second corner.
    products = features[1] @ np.load(centroids).T
    assert np.load(ids).tolist() == [int(products.argmax())]


def test_another_name_of_the_output_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file whose name ends in \.npy"):
        cluster(write_pool(tmp_path / "pool", blobs(4)), str(tmp_path / "c"), Settings("img", 2), options=QUIET)
