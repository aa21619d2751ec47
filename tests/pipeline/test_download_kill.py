"""A download that is killed at any file it writes, renames or removes ends as if it had not been."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cv2")

from tests.pipeline.downloading import consistent, manifest, samples
from tests.pipeline.trees import tree

ROOT = Path(__file__).resolve().parents[2]


# T29, T31
@pytest.mark.parametrize(("seed", "number"), [(0, 1), pytest.param(1, 20, marks=pytest.mark.slow)])
def test_a_run_killed_anywhere_ends_equal_to_the_clean_one(tmp_path: Path, seed: int, number: int) -> None:
    program = [sys.executable, "-m", "tests.pipeline.kill_download", str(tmp_path), str(seed), str(number)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *fatal, files = done.stdout.split()
    assert len(fatal) == number
    assert int(files) > 80
    whole = tree(tmp_path / "whole")
    for n in fatal:
        assert tree(tmp_path / n) == whole, f"killed at file {n}"
    pool = tmp_path / "whole"
    consistent(pool)
    assert manifest(pool)["counts"] == {"in": 14, "kept": 10, "dropped:placeholder": 4, "placeholders": 1}
    assert len(samples(pool)) == 10
