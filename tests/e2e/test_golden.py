"""What the reference code makes of generated inputs, against ours, at full size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.extract.page import Documents, Wanted
from pipeline.extract.scan import Scan
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings as Resharding
from pipeline.selection import Settings
from pools import shards, uids
from tests.conftest import SHARED
from tests.e2e.goldens import BY_ROW, GOLDEN, generate, golden, made, name_of, two_files

pytestmark = pytest.mark.shared

QUIET = Options(workers=2, quiet=True)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """100,000 rows in ten files."""
    path = tmp_path_factory.mktemp("pool10")
    generate("gen_pool.py", str(path), "--files", "10", "--rows", "10000", "--seed", "0")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("line", GOLDEN, ids=name_of)
def test_lists_are_those_of_the_reference_code(tmp_path: Path, pool: Path, line: tuple[str, str, int]) -> None:
    recipe, name, count = line
    ours = made(recipe, pool, tmp_path / "out", workers=2)
    assert len(ours) == count
    assert (tmp_path / "out" / "selection" / "uids.npy").read_bytes() == golden(name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("line", GOLDEN, ids=name_of)
def test_without_verdicts_the_lists_are_the_same(tmp_path: Path, pool: Path, line: tuple[str, str, int]) -> None:
    recipe, name, _ = line
    made(recipe, pool, tmp_path / "out", workers=0, settings=Settings(verdicts=False))
    assert (tmp_path / "out" / "selection" / "uids.npy").read_bytes() == golden(name).read_bytes()
    assert not (tmp_path / "out" / "selection" / "verdicts").exists()


@pytest.mark.parametrize("line", BY_ROW, ids=name_of)
def test_on_two_files_the_lists_are_those_of_the_reference_code(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, shared_data: Path, line: tuple[str, str, int]
) -> None:
    recipe, name, _ = line
    pool = two_files(tmp_path_factory)
    ours = made(recipe, pool, tmp_path / "out", workers=0)
    column = pa.concat_tables(pq.read_table(p, columns=["uid"]) for p in pool.glob("*.parquet"))["uid"]
    there = uids.sort(uids.pack(column))
    assert len(uids.minus(there, uids.read_list(str(golden("no_filter"))))) == 0
    assert ours.tolist() == uids.intersect(uids.read_list(str(golden(name))), there).tolist()
    assert len(ours) > 1000


@pytest.mark.slow
def test_repeats_and_missing_uids_are_resharded_as_the_reference_does(tmp_path: Path, shared_data: Path) -> None:
    """1000 uids, 300 of them twice, 100 of those three times, 50 absent, on shards as img2dataset writes them."""
    generate("gen_shards.py", str(tmp_path), "--shards", "4", "--rows", "1000", "--min-kb", "4", "--max-kb", "8")
    listed = str(tmp_path / "subset_dups.npy")
    outcome = reshard(
        str(tmp_path / "shards"), listed, str(tmp_path / "out"), settings=Resharding(shard_size=500), options=QUIET
    )
    assert outcome.counts == {"in": 1450, "kept": 1400, "dropped:missing": 50, "repeats": 400}
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


@pytest.mark.slow
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
