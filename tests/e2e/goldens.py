"""Uid lists that DataComp's own code made of a generated pool, and the recipe that must make the same of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from pipeline.engine import Options
from pipeline.selecting.command import recipe_path
from pipeline.selection import Settings, select
from pools import uids
from tests.conftest import SHARED

# Recipe (a name, or YAML), the list `pool10_<list>.npy`, its length. A rule set that has a golden list adds a line.
GOLDEN = [
    ("no_filter", "no_filter", 100_000),
    ("basic", "basic_filter", 35_512),
    ("clip_score_l14_30", "clip_score_frac", 30_003),
    ("keep:\n  - clip_score: {model: b32, min: 0.28}\n", "clip_score_thr", 30_142),
]
# Those on two files of the pool: what is said of a row must not rest on the others.
BY_ROW = [line for line in GOLDEN if "frac" not in line[1]]


def name_of(line: object) -> str:
    return line[1] if isinstance(line, tuple) else ""


def generate(tool: str, *args: str) -> None:
    subprocess.run([sys.executable, str(SHARED / "tools" / tool), *args], check=True, capture_output=True, timeout=280)


def two_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 rows of the pool in two files with features, each made for itself; made once, by whichever process is first."""
    pytest.importorskip("wordfreq")
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder, whole = base / "golden-pool", base / "golden-pool-is-whole"
    with FileLock(base / "golden-pool.lock"):
        if not whole.exists():
            generate("gen_pool.py", str(folder), "--files", "2", "--rows", "10000", "--seed", "0", "--npz", "--npz-store")
            whole.touch()
    return folder


def golden(name: str) -> Path:
    return SHARED / "golden" / f"pool10_{name}.npy"


def made(recipe: str, pool: Path, output: Path, *, workers: int, settings: Settings | None = None) -> uids.Uids:
    """The list that a recipe makes of a pool."""
    if "\n" in recipe:
        output.mkdir()
        (output / "recipe.yaml").write_text(recipe)
        recipe = str(output / "recipe.yaml")
    options = Options(workers=workers, quiet=True)
    select(recipe_path(recipe), str(pool), str(output / "selection"), options=options, settings=settings)
    return uids.read_list(str(output / "selection" / "uids.npy"))
