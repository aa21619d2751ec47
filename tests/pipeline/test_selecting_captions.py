"""Captions beside a selection: which rows have one, in which files, and what says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline.cli import app
from pipeline.engine import Options
from pipeline.selection import Settings, select
from pools.errors import InputError
from pools.schema import CAPTIONS
from tests.pipeline.trees import tree

QUIET = Options(workers=0, quiet=True)
U = [f"{i:032x}" for i in range(5)]
KEEP = "keep:\n  - caption: {min_words: 2}\n"


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Five rows in two files; row 1 has a single word, row 3 no caption by the annotation `blip`."""
    texts, blip = ["a b", "one", "c d", "e f", "g h"], ["zero", "one", "two", None, "four"]
    for name, cut in (("x/0", slice(0, 3)), ("x/1", slice(3, 5))):
        write(tmp_path / "pool" / "metadata" / f"{name}.parquet", uid=U[cut], text=texts[cut])
        write(tmp_path / "pool" / "annotations" / "blip" / f"{name}.parquet", uid=U[cut], blip_caption=blip[cut])
    return tmp_path / "pool"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(KEEP + "captions: {from: blip}\n")
    return tmp_path / "mine.yaml"


def captions(out: Path) -> dict[str, list[tuple[str, str]]]:
    found = {}
    for path in sorted((out / "captions").rglob("*.parquet")):
        table = pq.read_table(path)
        assert table.schema == CAPTIONS.schema
        found[str(path.relative_to(out / "captions"))] = [tuple(r.values()) for r in table.to_pylist()]
    return found


EXPECTED = {"x/0.parquet": [(U[0], "zero"), (U[2], "two")], "x/1.parquet": [(U[4], "four")]}


def test_kept_rows_have_the_captions_of_the_annotation_and_no_others(tmp_path: Path, pool: Path, recipe: Path) -> None:
    outcome = select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    assert captions(tmp_path / "out") == EXPECTED
    assert (outcome.counts["kept"], outcome.counts["captions"]) == (4, 3)
    recipe.write_text(KEEP)
    outcome = select(str(recipe), str(pool), str(tmp_path / "none"), options=QUIET)
    assert "captions" not in outcome.counts
    assert not (tmp_path / "none" / "captions").exists()


def test_they_are_the_same_without_verdicts_and_with_those_taken_over(tmp_path: Path, pool: Path, recipe: Path) -> None:
    select(str(recipe), str(pool), str(tmp_path / "b" / "out"), options=QUIET, settings=Settings(verdicts=False))
    assert captions(tmp_path / "b" / "out") == EXPECTED
    recipe.write_text(KEEP)
    select(str(recipe), str(pool), str(tmp_path / "c" / "first"), options=QUIET)
    recipe.write_text(KEEP + "captions: {from: blip}\n")
    select(str(recipe), str(pool), str(tmp_path / "c" / "second"), options=QUIET)
    select(str(recipe), str(pool), str(tmp_path / "c" / "third"), options=QUIET, settings=Settings(reuse=False))
    assert captions(tmp_path / "c" / "second") == EXPECTED
    assert tree(tmp_path / "c" / "second") == tree(tmp_path / "c" / "third")


def test_other_captions_make_another_run(tmp_path: Path, pool: Path, recipe: Path) -> None:
    select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    recipe.write_text(KEEP + "captions: {column: text}\n")
    with pytest.raises(InputError, match="belongs to another run"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)


def test_a_dry_run_says_where_captions_come_from(pool: Path, recipe: Path) -> None:
    said = CliRunner().invoke(app, ["filter", str(recipe), str(pool), "--dry-run", "--workers", "0"]).stdout
    assert "captions of what is kept: from blip_caption\n" in said
    assert "columns read: uid, text, blip_caption\n" in said


def test_a_pool_without_the_annotation_is_told_so_before_any_work(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text(KEEP + "captions: {from: other}\n")
    with pytest.raises(InputError, match=r"0\.parquet: no column 'other_caption'"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    write(pool / "annotations" / "blip" / "x" / "1.parquet", uid=U[3:], blip_caption=[1.0, 2.0])
    recipe.write_text(KEEP + "captions: {from: blip}\n")
    with pytest.raises(InputError, match=r"1\.parquet: column 'blip_caption' holds double; expected captions"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    assert not (tmp_path / "out").exists()


def test_a_column_that_some_files_lack_gives_no_caption_there(tmp_path: Path, pool: Path, recipe: Path) -> None:
    (pool / "annotations" / "blip" / "x" / "0.parquet").unlink()
    select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET, settings=Settings(fill=True))
    assert captions(tmp_path / "out") == {"x/0.parquet": [], "x/1.parquet": [(U[4], "four")]}
