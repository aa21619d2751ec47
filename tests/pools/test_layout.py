"""Pools as users have them on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pools.errors import InputError
from pools.layout import Pool


def write(path: Path, **columns: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=3)


def ids(n: int, start: int = 0) -> list[str]:
    return [f"{i:032x}" for i in range(start, start + n)]


@pytest.fixture
def commonpool(tmp_path: Path) -> Path:
    """Seven rows in CommonPool's layout: parquet with an npz beside it, in a sub-folder, and an annotation family."""
    write(tmp_path / "metadata" / "s" / "a.parquet", uid=ids(7), text=[f"t{i}" for i in range(7)])
    np.savez(tmp_path / "metadata" / "s" / "a.npz", l14_img=np.arange(14, dtype=np.float16).reshape(7, 2))
    write(tmp_path / "annotations" / "mine" / "s" / "a.parquet", uid=ids(7), score=[float(i) for i in range(7)])
    return tmp_path


def test_rows_of_all_families_are_joined_in_batches(commonpool: Path) -> None:
    pool = Pool.open(str(commonpool))
    assert pool.stems == ("s/a",)
    assert set(pool.parts[0].columns()) == {"uid", "text", "l14_img", "score"}
    batches = list(pool.parts[0].batches(["l14_img", "score", "text"], rows=4))
    assert [len(b) for b in batches] == [4, 3]
    table = pa.Table.from_batches(batches).to_pydict()
    assert table["text"] == [f"t{i}" for i in range(7)]
    assert table["score"] == [0, 1, 2, 3, 4, 5, 6]
    assert table["l14_img"][6] == [12, 13]


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 100])
def test_batches_do_not_depend_on_row_groups(commonpool: Path, rows: int) -> None:
    batches = list(Pool.open(str(commonpool)).parts[0].batches(["uid"], rows=rows))
    assert [u for b in batches for u in b["uid"].to_pylist()] == ids(7)


def test_a_bare_folder_of_parquet_is_a_pool(tmp_path: Path) -> None:
    write(tmp_path / "b.parquet", uid=ids(1))
    write(tmp_path / "x" / "a.parquet", uid=ids(1))
    write(tmp_path / "annotations" / "n" / "b.parquet", uid=ids(1), s=[1.0])
    write(tmp_path / "shards" / "0.parquet", uid=ids(1))
    pool = Pool.open(str(tmp_path))
    assert pool.stems == ("b", "x/a")
    assert set(pool.parts[0].columns()) == {"uid", "s"}


@pytest.mark.parametrize("folder", ["", "metadata"])
def test_an_empty_pool_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "pool" / folder).mkdir(parents=True)
    with pytest.raises(InputError, match=r"the pool is empty: no \.parquet file"):
        Pool.open(str(tmp_path / "pool"))
    with pytest.raises(InputError, match="no such folder"):
        Pool.open(str(tmp_path / "none"))


def test_a_family_with_other_rows_is_refused(commonpool: Path) -> None:
    annotation = commonpool / "annotations" / "mine" / "s" / "a.parquet"
    write(annotation, uid=ids(6), score=[0.0] * 6)
    with pytest.raises(InputError, match="6 rows, the metadata has 7"):
        list(Pool.open(str(commonpool)).parts[0].batches(["score"]))
    write(annotation, uid=ids(7)[::-1], score=[0.0] * 7)
    with pytest.raises(InputError, match="other uids than the metadata's"):
        list(Pool.open(str(commonpool)).parts[0].batches(["score"]))


def test_two_families_with_one_column_are_an_error(commonpool: Path) -> None:
    write(commonpool / "annotations" / "other" / "s" / "a.parquet", uid=ids(7), score=[0.0] * 7)
    with pytest.raises(InputError, match="column 'score' stands in two families"):
        Pool.open(str(commonpool)).parts[0].columns()


# T85
def test_a_file_that_lacks_a_column_is_named(commonpool: Path) -> None:
    write(commonpool / "metadata" / "s" / "b.parquet", uid=ids(1), text=["x"])
    with pytest.raises(InputError, match=r"s/b\.parquet: no column 'score'; expected one of text, uid"):
        Pool.open(str(commonpool)).require(["uid", "score"])


def test_a_corrupt_file_is_named(commonpool: Path) -> None:
    (commonpool / "metadata" / "bad.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match=r"bad\.parquet: unreadable"):
        Pool.open(str(commonpool)).require(["uid"])


def test_an_array_file_with_pickled_objects_is_not_loaded(commonpool: Path) -> None:
    np.savez(commonpool / "metadata" / "s" / "a.npz", l14_img=np.array([{}] * 7, object))
    with pytest.raises(InputError, match=r"a\.npz: unreadable: l14_img holds objects"):
        list(Pool.open(str(commonpool)).parts[0].batches(["l14_img"]))


def test_the_successes_of_an_img2dataset_folder_are_a_pool(tmp_path: Path) -> None:
    """Tars and parquet side by side, a row for each url; columns and statuses as img2dataset names them."""
    for s, (start, n) in enumerate(((0, 5), (5, 4))):
        status = ["success", "failed_to_download", "success", "failed_to_resize", "success"][:n]
        write(
            tmp_path / f"{s:05d}.parquet",
            uid=ids(n, start),
            url=[f"http://h.example/{start + i}" for i in range(n)],
            caption=[f"c{start + i}" for i in range(n)],
            key=[f"{s:05d}{i:04d}" for i in range(n)],
            status=status,
            error_message=[None if v == "success" else "HTTP Error 404: Not Found" for v in status],
            original_width=[100 if v == "success" else None for v in status],
        )
        (tmp_path / f"{s:05d}.tar").touch()
    pool = Pool.open(str(tmp_path))
    assert pool.shards == str(tmp_path)
    assert [part.rows for part in pool.parts] == [3, 2]
    pool.require(["uid", "text", "original_width"])
    found = [r for part in pool.parts for b in part.batches(["uid", "text", "original_width"], rows=2) for r in b.to_pylist()]
    assert [(r["uid"], r["text"], r["original_width"]) for r in found] == [
        (ids(1, i)[0], f"c{i}", 100) for i in (0, 2, 4, 5, 7)
    ]
    write(tmp_path / "annotations" / "mine" / "00000.parquet", uid=[ids(1, i)[0] for i in (0, 2, 4)], score=[0.5, 0.25, 1.0])
    rows = [r for b in Pool.open(str(tmp_path)).parts[0].batches(["text", "score"]) for r in b.to_pylist()]
    assert rows == [{"text": "c0", "score": 0.5}, {"text": "c2", "score": 0.25}, {"text": "c4", "score": 1.0}]
