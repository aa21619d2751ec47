"""What the reference code makes of generated inputs, against ours, at full size."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.cli import recipe_path
from pipeline.engine import Options
from pipeline.extract.page import Documents, Wanted
from pipeline.extract.scan import Scan
from pipeline.reshard import reshard
from pipeline.selection import select
from pools import shards, uids
from tests.conftest import SHARED

pytestmark = [pytest.mark.slow, pytest.mark.shared]

QUIET = Options(workers=2, quiet=True)


def generate(tool: str, *args: str) -> None:
    subprocess.run([sys.executable, str(SHARED / "tools" / tool), *args], check=True, capture_output=True, timeout=280)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """100,000 rows in ten files."""
    path = tmp_path_factory.mktemp("pool10")
    generate("gen_pool.py", str(path), "--files", "10", "--rows", "10000", "--seed", "0")
    return path


@pytest.mark.parametrize(
    ("recipe", "golden", "count"),
    [
        ("no_filter", "no_filter", 100_000),
        ("basic", "basic_filter", 35_512),
        ("clip_score_l14_30", "clip_score_frac", 30_003),
        ("keep:\n  - clip_score: {model: b32, min: 0.28}\n", "clip_score_thr", 30_142),
    ],
    ids=lambda v: v if isinstance(v, str) and "\n" not in v else "",
)
def test_lists_are_those_of_the_reference_code(tmp_path: Path, pool: Path, recipe: str, golden: str, count: int) -> None:
    if "\n" in recipe:
        (tmp_path / "recipe.yaml").write_text(recipe)
        recipe = str(tmp_path / "recipe.yaml")
    outcome = select(recipe_path(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    ours, theirs = (Path(p) for p in (tmp_path / "out" / "uids.npy", SHARED / "golden" / f"pool10_{golden}.npy"))
    assert outcome.counts["kept"] == count
    assert ours.read_bytes() == theirs.read_bytes()


def test_repeats_and_missing_uids_are_resharded_as_the_reference_does(tmp_path: Path, shared_data: Path) -> None:
    """1000 uids, 300 of them twice, 100 of those three times, 50 absent, on shards as img2dataset writes them."""
    generate("gen_shards.py", str(tmp_path), "--shards", "4", "--rows", "1000", "--min-kb", "4", "--max-kb", "8")
    listed = str(tmp_path / "subset_dups.npy")
    outcome = reshard(str(tmp_path / "shards"), listed, str(tmp_path / "out"), shard_size=500, options=QUIET)
    assert outcome.counts == {"in": 1450, "kept": 1400, "dropped:missing": 50}
    source = {k: m for p in shards.list_shards(str(tmp_path / "shards")) for k, m in shards.read_all(p)}
    by_image = {m["jpg"]: m for m in source.values()}
    keys: Counter[int] = Counter()
    for path in shards.list_shards(str(tmp_path / "out")):
        for key, members in shards.read_all(path):
            keys[int(key.rpartition("-")[2])] += 1
            assert members == by_image[members["jpg"]]
            assert key.rpartition("-")[0] in members["json"].decode()
    assert keys == {0: 1000, 1: 300, 2: 100}
    written = np.load(tmp_path / "out" / "sample_ids.npy")
    wanted = uids.read_list(listed)
    assert len(written) == 1400
    assert len(uids.minus(written, wanted)) == 0


@pytest.fixture(scope="module")
def wat(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """4,000 pages."""
    path = tmp_path_factory.mktemp("wat")
    generate("gen_wat.py", str(path), "--files", "1", "--pages", "4000", "--procs", "1")
    (file,) = path.glob("*.wat.gz")
    return file


@pytest.mark.parametrize(
    ("documents", "blank"),
    [("image", 5), ("audio", 0), ("video", 0), ("text", 0)],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_candidates_are_those_of_cc2dataset_but_for_blank_captions(wat: Path, documents: Documents, blank: int) -> None:
    golden = pq.read_table(SHARED / "golden" / f"cc_00000_{documents}.parquet").to_pylist()
    theirs = Counter((r["uid"], r["url"], r["alt"], r["page_url"]) for r in golden)
    with wat.open("rb") as file:
        found = [r for batch in Scan(str(wat), file, Wanted(documents)).batches() for r in batch.to_pylist()]
    ours = Counter((r["uid"].hex(), r["url"], r["alt"], r["page_url"]) for r in found)
    assert not ours - theirs
    missing = list((theirs - ours).elements())
    assert len(missing) == blank
    assert not any(alt.strip() for _, _, alt, _ in missing)
