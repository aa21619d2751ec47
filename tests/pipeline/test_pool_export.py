"""`winnow pool export`: CommonPool's layout, which DataComp's own code reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.pool.export import export
from pipeline.selection import select
from pools import uids
from pools.errors import InputError
from pools.layout import Pool
from tests.pipeline.made_pools import features, make_pool, uid
from tests.pipeline.test_cli import call

HERE = Options(workers=0, quiet=True)


def two_families(root: Path) -> Path:
    make_pool(root, {"a": [1, 2, 3], "sub/b": [4, 5]}, annotation="l14")
    return make_pool(root, {"a": [1, 2, 3], "sub/b": [4, 5]}, annotation="b32")


def test_tables_and_features_come_together_in_commonpool_s_order(tmp_path: Path) -> None:
    root, out = two_families(tmp_path / "pool"), tmp_path / "out"
    outcome = export(Pool.open(str(root)), str(out), options=HERE)
    assert outcome.counts == {"in": 5, "kept": 5}
    assert sorted(p.name for p in out.iterdir() if p.name[0] not in "._") == [
        "a.npz",
        "a.parquet",
        "sub-b.npz",
        "sub-b.parquet",
    ]
    table = pq.read_table(out / "a.parquet")
    assert table.column_names == [
        *("uid", "url", "text", "original_width", "original_height"),
        *("clip_b32_similarity_score", "clip_l14_similarity_score", "sha256", "content_language"),
    ]
    assert table["uid"].to_pylist() == [uid(1), uid(2), uid(3)]
    assert table["clip_l14_similarity_score"].to_pylist() == pytest.approx([0.01, 0.02, 0.03])
    arrays = np.load(out / "sub-b.npz")
    assert sorted(arrays.files) == ["b32_img", "l14_img"]
    assert arrays["b32_img"].dtype == np.float16
    assert (arrays["b32_img"] == features([4, 5])).all()
    assert export(Pool.open(str(root)), str(out), options=HERE) == outcome


def test_only_what_commonpool_has(tmp_path: Path) -> None:
    export(Pool.open(str(two_families(tmp_path / "pool"))), str(tmp_path / "out"), only_published=True, options=HERE)
    assert "content_language" not in pq.read_schema(tmp_path / "out/a.parquet").names


def test_the_result_is_a_pool_with_the_same_lists(tmp_path: Path) -> None:
    root, out = two_families(tmp_path / "pool"), tmp_path / "out"
    export(Pool.open(str(root)), str(out), options=HERE)
    (tmp_path / "r.yaml").write_text("keep:\n  - clip_score: {model: b32, min: 0.025}\n")
    for pool in (root, out):
        select(str(tmp_path / "r.yaml"), str(pool), str(tmp_path / f"s-{pool.name}"), options=HERE)
    lists = [(tmp_path / f"s-{name}" / "uids.npy").read_bytes() for name in ("pool", "out")]
    assert lists[0] == lists[1]
    assert len(uids.read_list(str(tmp_path / "s-out/uids.npy"))) == 3


def test_a_pool_without_features_gets_no_npz(tmp_path: Path) -> None:
    root = make_pool(tmp_path / "pool", {"a": [1]}, annotation=None, tars=False)
    export(Pool.open(str(root)), str(tmp_path / "out"), options=HERE)
    assert not (tmp_path / "out/a.npz").exists()


def test_what_is_not_in_every_file_is_named(tmp_path: Path) -> None:
    root = two_families(tmp_path / "pool")
    (root / "annotations/l14/sub/b.npz").unlink()
    with pytest.raises(InputError, match=r"column 'l14_img' is not in every file"):
        export(Pool.open(str(root)), str(tmp_path / "out"), options=HERE)
    make_pool(tmp_path / "twice", {"sub-b": [1], "sub/b": [2]}, annotation=None, tars=False)
    with pytest.raises(InputError, match=r"two files would be sub-b\.parquet"):
        export(Pool.open(str(tmp_path / "twice")), str(tmp_path / "out"), options=HERE)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(two_families(tmp_path / "pool"))
    out = str(tmp_path / "out")
    given = ("pool", "export", root, "--layout", "commonpool", "--output", out, "--workers", "0")
    assert call(monkeypatch, capsys, *given)[0] == 0
    assert Pool.open(out).stems == ("a", "sub-b")
