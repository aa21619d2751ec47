"""Lists by the clusters of images that DataComp's own code made of a generated pool, against ours.

They were made with numpy 1.26.4. Under a newer one about 0.014 % of the generated features are another half-precision number,
the next one: a row may then lie on the other side of the border between two clusters, and each such row is shown to do so.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pools import uids
from tests.conftest import SHARED
from tests.e2e.goldens import generate, golden, made, two_files
from tests.filters import nearness

pytestmark = pytest.mark.shared

CAPTIONS = "  - caption: {min_words: 2, tokenizer: fasttext, min_chars: 6}\n  - language: {is: en}\n"
# The list, the number of centroids, the rule before (of whole pools only where it takes a fraction), its length.
LISTS = [
    ("image_based_k1000", 1000, "", 34_526),
    ("image_based_k10000", 10_000, "", 16_120),
    ("image_intersect_l14_0.3_k10000", 10_000, "  - clip_score: {model: l14, top_fraction: 0.3, of: pool}\n", 4_884),
    ("image_intersect_b32_t0.28_k1000", 1000, "  - clip_score: {model: b32, min: 0.28}\n", 10_402),
]
EXPLAINED = 20  # rows of a pool that may lie on a border, in each way


def tool(name: str) -> Any:
    """A module of the tools that made the golden pool."""
    sys.path.insert(0, str(SHARED / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(SHARED / "tools"))


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """`centroids_<k>.npy` and `target.npy` as `gen_assets.py` draws them, without its largest file."""
    pytest.importorskip("wordfreq")
    unit = tool("gen_pool").unit
    folder = tmp_path_factory.mktemp("assets")
    latent = np.random.default_rng([0, 99])
    latent.standard_normal((2000, 512), dtype=np.float32)
    centres = unit(latent.standard_normal((2000, 768), dtype=np.float32))
    rng = np.random.default_rng(1234)
    for k in (1000, 10_000, 100_000):
        noise = rng.standard_normal((k, 768), dtype=np.float32)
        if k < 100_000:
            centroids = unit(centres[np.arange(k) % 2000] + noise * (0.5 / np.sqrt(768)))
            np.save(folder / f"centroids_{k}.npy", centroids.astype(np.float32))
    images = centres[rng.integers(0, 700, 10_000)] + rng.standard_normal((10_000, 768), dtype=np.float32) * (0.9 / np.sqrt(768))
    np.save(folder / "target.npy", unit(images).astype(np.float16))
    return folder


@pytest.fixture(scope="module")
def ten_files(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    folder = tmp_path_factory.mktemp("pool10")
    generate("gen_pool.py", str(folder), "--files", "10", "--rows", "10000", "--seed", "0", "--npz", "--npz-store")
    return folder


def compared(pool: Path, assets: Path, output: Path, name: str, k: int, before: str, workers: int) -> int:
    """Makes a list and holds it to the golden one; returns its length."""
    files = f"centroids: {assets}/centroids_{k}.npy, targets: {assets}/target.npy"
    recipe = f"keep:\n{before}{CAPTIONS}  - nearest_cluster: {{features: l14_img, {files}}}\n"
    ours = made(recipe, pool, output, workers=workers)
    paths = sorted(pool.glob("*.parquet"))
    rows = np.concatenate([uids.pack(pq.read_table(path, columns=["uid"])["uid"]) for path in paths])
    theirs = uids.intersect(uids.read_list(str(golden(name))), uids.sort(rows))
    differing = uids.sort(np.concatenate([uids.minus(ours, theirs), uids.minus(theirs, ours)]))
    assert len(differing) <= EXPLAINED
    if len(differing):
        places = np.flatnonzero(uids.count(differing, rows))
        features = np.concatenate([np.load(path.with_suffix(".npz"))["l14_img"] for path in paths])[places]
        centroids, targets = np.load(assets / f"centroids_{k}.npy"), np.load(assets / "target.npy")
        gaps = nearness.steps_to_border(features, centroids, nearness.clusters(targets, centroids))
        assert (gaps <= 1).all(), gaps
    return len(ours)


def test_on_two_files_the_clusters_are_those_of_the_reference_code(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, assets: Path
) -> None:
    assert compared(two_files(tmp_path_factory), assets, tmp_path / "out", *LISTS[0][:3], workers=0) > 6000


@pytest.mark.slow
@pytest.mark.parametrize("line", LISTS, ids=lambda line: line[0])
def test_lists_by_clusters_are_those_of_the_reference_code(
    tmp_path: Path, ten_files: Path, assets: Path, line: tuple[str, int, str, int]
) -> None:
    name, k, before, count = line
    assert abs(compared(ten_files, assets, tmp_path / "out", name, k, before, workers=2) - count) <= EXPLAINED


def test_a_row_counts_as_on_the_border_if_one_step_takes_it_across() -> None:
    centroids = np.array([[1, 0], [0, 1]], np.float32)
    step = 2.0**-11  # of half-precision numbers from 0.5 to 1
    features = np.array([[0.75, 0.75 + step], [0.75, 0.75 + 3 * step], [0.9, 0.1]], np.float16)
    steps = nearness.steps_to_border(features, centroids, np.array([1]))
    assert steps.tolist() == [1, 3, steps[2]]
    assert steps[2] > 1000
