"""`winnow pool info`: what a pool holds is said as it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.engine import Options
from pipeline.pool import command as pools_command
from pipeline.pool.info import QUANTILES, Column, info
from pools.layout import Pool
from tests.pipeline.made_pools import HEADER, make_pool, uid
from tests.pipeline.test_cli import call

HERE = Options(workers=0, quiet=True)
COMMANDS = [c.name or str(c.callback.__name__) for c in pools_command.app.registered_commands if c.callback]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_sub_command_explains_itself_with_an_example(command: str) -> None:
    done = CliRunner().invoke(app, ["pool", command, "--help"], prog_name="winnow")
    assert done.exit_code == 0
    assert f"Example: winnow pool {command}" in " ".join(done.output.split())


def test_rows_columns_annotators_bytes_and_pictures(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": list(range(6)), "sub/b": list(range(6, 10))})
    found = info(Pool.open(str(root)), options=HERE)
    assert (found.files, found.rows, found.shards, found.pictures, found.looked_at) == (2, 10, 2, 10, 10)
    assert found.columns["original_width"] == Column("int32", "metadata", 2)
    assert found.columns["clip_b32_similarity_score"] == Column("float", "annotations/b32", 2)
    assert found.columns["b32_img"].place == "annotations/b32 (npz)"
    assert found.annotators == {"b32": [HEADER]}
    folders = {
        "metadata": "metadata/**/*.parquet",
        "annotations/b32": "annotations/b32/**/*.parquet",
        "shards": "shards/**/*.tar",
    }
    for place, pattern in folders.items():
        assert found.bytes[place] == sum(p.stat().st_size for p in root.glob(pattern))
    assert found.languages == {"content_language": {"de": 4, "en": 3, "none": 3}}
    scores = np.array([i / 100 for i in range(10)], np.float32)
    assert found.quantiles["clip_b32_similarity_score"] == pytest.approx(np.quantile(scores, QUANTILES))
    assert found.quantiles["original_width"][4] == 104.5


def test_of_a_large_pool_some_files_are_looked_at(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {f"{i:02d}": [10 * i, 10 * i + 1] for i in range(8)}, tars=False)
    found = info(Pool.open(str(root)), rows=8, options=HERE)
    assert (found.rows, found.looked_at) == (16, 8)
    assert found.quantiles["original_width"][0] == 100  # files 0, 2, 4, 6
    assert found.quantiles["original_width"][-1] == 161
    assert info(Pool.open(str(root)), rows=0, options=HERE).looked_at == 16


def test_what_is_not_in_every_file_and_what_is_null(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": [1, 2, 3]}, annotation=None, tars=False)
    make_pool(tmp_path / "pool", {"b": [4]}, annotation="l14", tars=False)
    scores = {"uid": [uid(1), uid(2), uid(3)], "score": pa.array([0.5, None, float("nan")], pa.float64())}
    (root / "annotations" / "x").mkdir()
    pq.write_table(pa.table(scores), root / "annotations" / "x" / "a.parquet")
    found = info(Pool.open(str(root)), options=HERE)
    assert found.columns["clip_l14_similarity_score"].files == found.columns["score"].files == 1
    assert (found.scored["score"], found.quantiles["score"][0]) == (1, 0.5)
    assert (found.shards, found.pictures) == (0, None)
    assert found.annotators["x"] == [{}]


def test_pictures_are_counted_where_no_file_tells_of_them(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": [1, 2, 3]})
    (root / "shards" / "a_stats.json").unlink()
    assert info(Pool.open(str(root)), options=HERE).pictures == 3
    (root / "shards" / "a.parquet").unlink()
    assert info(Pool.open(str(root)), options=HERE).pictures == 3


def test_the_command_prints_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(make_pool(tmp_path / "pool", {"a": [1, 2, 3]}))
    status, said, _ = call(monkeypatch, capsys, "pool", "info", root, "--workers", "0")
    assert status == 0
    for line in ("3 rows in 1 files", "3 samples in 1 shards", '"model": "ViT-B-32"', "de 1, en 1, none 1"):
        assert line in said
    told = json.loads(call(monkeypatch, capsys, "pool", "info", root, "--workers", "0", "--json")[1])
    assert (told["rows"], told["columns"]["uid"]["place"]) == (3, "metadata")
