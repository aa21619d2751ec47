"""`winnow pool merge`: every row of the sources, those of a uid in several by a rule, and the right picture to each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.pool.merge import Rule, merge, open_sources
from pipeline.pool.verify import verify
from pipeline.selection import select
from pools import uids
from pools.errors import InputError
from pools.layout import Pool
from tests.pipeline.made_pools import features, make_pool, picture, samples, uid
from tests.pipeline.test_cli import call
from tests.pipeline.trees import tree

HERE = Options(workers=0, quiet=True)


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    """A folder with `web` (1 … 6) and `books` (5 … 8, 5 twice), whose pictures and captions are their own."""
    make_pool(tmp_path / "web", {"0": [1, 2, 3], "1": [4, 5, 6]}, owner="web ")
    make_pool(tmp_path / "books", {"0": [5, 6], "1": [7, 8]}, owner="books ")
    return tmp_path


def merged(pools: Path, rule: Rule = "first", weights: dict[str, float] | None = None, names: str = "web books") -> Any:
    sources = open_sources([str(pools / name) for name in names.split()], weights or {})
    return merge(sources, str(pools / "out"), on_collision=rule, options=HERE)


def texts(pool: Path) -> list[str]:
    return [t for part in Pool.open(str(pool)).parts for t in part.read(["text"])["text"].to_pylist()]


def test_the_first_pool_that_has_a_uid_keeps_it(pools: Path) -> None:
    before = tree(pools / "web"), tree(pools / "books")
    outcome = merged(pools)
    assert outcome.counts == {
        **{"in": 10, "kept": 8, "dropped:collision": 2},
        **{"shards": 3, "shards_written_anew": 0, "colliding_uids": 2},
    }
    assert texts(pools / "out") == ["books text 7", "books text 8", *(f"web text {i}" for i in range(1, 7))]
    assert samples(pools / "out/shards") == {
        "books/1.tar": [(uid(i), picture(i, "books ")) for i in (7, 8)],
        "web/0.tar": [(uid(i), picture(i, "web ")) for i in (1, 2, 3)],
        "web/1.tar": [(uid(i), picture(i, "web ")) for i in (4, 5, 6)],
    }
    assert verify(Pool.open(str(pools / "out")), options=HERE).problems == ()
    collided = pq.read_table(pools / "out/collisions.parquet").to_pylist()
    assert collided == [{"uid": u, "source_pool": "books"} for u in sorted([uid(5), uid(6)])]
    assert (tree(pools / "web"), tree(pools / "books")) == before
    assert merged(pools) == outcome


def test_the_order_decides_and_a_shard_keeps_its_other_samples(pools: Path) -> None:
    outcome = merged(pools, names="books web")
    assert (outcome.counts["shards"], outcome.counts["shards_written_anew"]) == (4, 1)
    assert texts(pools / "out") == [*(f"books text {i}" for i in (5, 6, 7, 8)), *(f"web text {i}" for i in (1, 2, 3, 4))]
    found = samples(pools / "out/shards")
    assert found["web/1.tar"] == [(uid(4), picture(4, "web "))]
    assert found["books/0.tar"] == [(uid(i), picture(i, "books ")) for i in (5, 6)]
    assert (np.load(pools / "out/annotations/b32/web/1.npz")["b32_img"] == features([4])).all()
    assert pq.read_table(pools / "out/shards/web/1.parquet")["uid"].to_pylist() == [uid(4), uid(-1)]
    assert verify(Pool.open(str(pools / "out")), options=HERE).problems == ()
    assert (pools / "out/shards/web/0.tar").samefile(pools / "web/shards/0.tar")


def test_all_rows_may_stay(pools: Path) -> None:
    outcome = merged(pools, "keep")
    assert (outcome.counts["kept"], outcome.counts["colliding_uids"]) == (10, 2)
    assert len(texts(pools / "out")) == 10
    assert len(pq.read_table(pools / "out/collisions.parquet")) == 2
    assert verify(Pool.open(str(pools / "out")), options=HERE).problems == ()


def test_collisions_may_be_refused(pools: Path) -> None:
    shown = ", ".join(sorted([uid(5), uid(6)]))
    with pytest.raises(InputError, match=f"2 uids stand in more than one pool; of books: {shown};"):
        merged(pools, "error")
    assert not (pools / "out").exists()
    make_pool(pools / "other", {"0": [9, 9]})  # repeats within a pool are none
    assert merged(pools, "error", names="books other").counts["kept"] == 6


def test_weights_are_what_a_recipe_s_mix_reads(pools: Path) -> None:
    merged(pools, weights={"books": 3.0, "web": 0.0})
    (pools / "r.yaml").write_text("keep: []\nmix: [weights: {column: source_weight}]\n")
    select(str(pools / "r.yaml"), str(pools / "out"), str(pools / "s"), options=HERE)
    assert uids.unpack(uids.read_list(str(pools / "s/uids.npy"))).to_pylist() == sorted([uid(7), uid(8)] * 3)


def test_a_merged_pool_is_merged_again(pools: Path) -> None:
    merged(pools, weights={"books": 3.0})
    make_pool(pools / "more", {"0": [20, 1]})
    sources = open_sources([f"old={pools / 'out'}", str(pools / "more")], {"old": 2.0, "more": 0.5})
    merge(sources, str(pools / "again"), options=HERE)
    found = [
        r
        for part in Pool.open(str(pools / "again")).parts
        for r in part.read(["uid", "source_pool", "source_weight"]).to_pylist()
    ]
    by_uid = {r["uid"]: (r["source_pool"], r["source_weight"]) for r in found}
    assert len(found) == 9
    assert (by_uid[uid(1)], by_uid[uid(7)], by_uid[uid(20)]) == (("old/web", 2.0), ("old/books", 6.0), ("more", 0.5))


def test_of_three_pools_a_uid_is_the_first_s(pools: Path) -> None:
    make_pool(pools / "third", {"0": [1, 8, 50]}, owner="third ")
    outcome = merged(pools, names="web books third")
    assert (outcome.counts["kept"], outcome.counts["colliding_uids"]) == (9, 4)
    assert [t for t in texts(pools / "out") if t.startswith("third")] == ["third text 50"]
    assert sum(map(len, samples(pools / "out/shards").values())) == 9


def test_what_img2dataset_wrote_is_merged_as_metadata(pools: Path) -> None:
    root = pools / "dataset"
    make_pool(pools / "made", {"00000": [30, 31]}, owner="web ", annotation=None)
    root.mkdir()
    (pools / "made/shards/00000.tar").rename(root / "00000.tar")
    rows = {"uid": [uid(30), uid(32), uid(31)], "url": ["a", "b", "c"], "caption": ["x", "y", "z"]}
    pq.write_table(pa.table({**rows, "status": ["success", "failed_to_download", "success"]}), root / "00000.parquet")
    outcome = merged(pools, names="books dataset")
    assert outcome.counts["in"] == 6
    assert pq.read_table(pools / "out/metadata/dataset/00000.parquet")["text"].to_pylist() == ["x", "z"]
    assert samples(pools / "out/shards")["dataset/00000.tar"] == [(uid(i), picture(i, "web ")) for i in (30, 31)]
    assert pq.read_table(pools / "out/shards/dataset/00000.parquet").num_rows == 3


def test_two_workers_give_the_same_bytes(pools: Path) -> None:
    merged(pools, names="books web")
    one = tree(pools / "out")
    sources = open_sources([str(pools / "books"), str(pools / "web")], {})
    merge(sources, str(pools / "out2"), options=Options(workers=2, quiet=True))
    two = tree(pools / "out2")
    assert {k: v for k, v in one.items() if ".winnow" not in k} == {k: v for k, v in two.items() if ".winnow" not in k}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("web", "two or more to merge"),
        ("web web", "two pools by the name of web; expected NAME=POOL"),
        ("web books --weight book=2", "--weight: no pool 'book'; expected one of web, books"),
        ("web books --weight books=-1", "--weight: -1; expected 0 or more"),
        ("web books --weight books=much", "--weight"),
        ("web books --weight books", "--weight: 'books'"),
        ("web nowhere", "nowhere: no such folder"),
    ],
)
def test_mistakes(
    args: str, message: str, pools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(pools)
    status, _, said = call(monkeypatch, capsys, "pool", "merge", *args.split(), "--output", "out", "--workers", "0")
    assert (status, message in said) == (2, True), said
    assert not Path("out").exists()


def test_the_command(pools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(pools)
    make_pool(pools / "plain", {"0": [40]}, annotation=None)
    given = "pool merge a=web books plain --weight a=2 --on-collision keep --output out --workers 0 --json"
    status, said, noted = call(monkeypatch, capsys, *given.split())
    assert (status, json.loads(said)["counts"]["kept"]) == (0, 11)
    assert "column clip_b32_similarity_score is not in plain" in noted
    assert Pool.open("out").stems == ("a/0", "a/1", "books/0", "books/1", "plain/0")
