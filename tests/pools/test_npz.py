"""Arrays of an npz in blocks of rows, against numpy's own reader, and how much memory that takes."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pools import npz
from pools.errors import InputError
from pools.layout import Pool

Save = Callable[..., None]
both = pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "packed"])


@both
@pytest.mark.parametrize("rows", [1, 3, 4, 11, 100])
def test_blocks_are_the_rows_that_numpy_reads(tmp_path: Path, save: Save, rows: int) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "half": rng.standard_normal((11, 5)).astype(np.float16),
        "columns": np.asfortranarray(rng.standard_normal((11, 3))),
        "one": np.arange(11, dtype=">i4"),
        "none": np.empty((0, 7), np.float32),
        "words": np.array(["a", "bcd"]),
    }
    path = str(tmp_path / "a.npz")
    save(path, **arrays)
    for name, array in arrays.items():
        blocks = list(npz.blocks(path, name, rows))
        assert [len(b) for b in blocks] == [min(rows, len(array) - i) for i in range(0, len(array), rows)]
        assert np.array_equal(np.concatenate([array[:0], *blocks]), array)
        found = npz.header(path, name)
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert npz.names(path) == list(arrays)


@both
def test_memory_is_that_of_a_few_blocks(tmp_path: Path, save: Save) -> None:
    """Twice 8 MB in blocks of 0.1 MB, as batches of a pool."""
    (tmp_path / "metadata").mkdir()
    features = np.random.default_rng(0).integers(0, 2, (16_000, 256)).astype(np.float16)
    save(tmp_path / "metadata" / "0.npz", l14_img=features, l14_txt=features[::-1])
    pq.write_table(pa.table({"uid": [f"{i:032x}" for i in range(len(features))]}), tmp_path / "metadata" / "0.parquet")
    part = Pool.open(str(tmp_path)).parts[0]
    tracemalloc.start()
    rows = 0
    for batch in part.batches(["l14_img", "l14_txt"], rows=200):
        first = batch["l14_img"].values.to_numpy()[:3].tolist(), batch["l14_txt"].values.to_numpy()[:3].tolist()
        assert first == (features[rows, :3].tolist(), features[len(features) - 1 - rows, :3].tolist())
        rows += len(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == len(features)
    assert peak < 3e6


def test_a_file_in_a_store_is_read_in_blocks_too() -> None:
    content = io.BytesIO()
    np.savez_compressed(content, a=np.arange(10), b=np.arange(10, 20))
    fsspec.filesystem("memory").pipe_file("/npz/a.npz", content.getvalue())
    assert [b.tolist() for b in npz.blocks("memory://npz/a.npz", "b", 4)] == [[10, 11, 12, 13], [14, 15, 16, 17], [18, 19]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pickled", np.array([{}], object), "pickled holds objects"),
        ("deep", np.zeros((2, 2, 2)), "deep holds an array of 3 dimensions"),
        ("single", np.float32(3), "single holds an array of 0 dimensions"),
    ],
)
def test_arrays_that_are_no_rows_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    np.savez(tmp_path / "a.npz", **{name: content})
    with pytest.raises(InputError, match=rf"a\.npz: unreadable: {message}"):
        npz.header(str(tmp_path / "a.npz"), name)


@both
def test_a_file_that_is_damaged_is_named(tmp_path: Path, save: Save) -> None:
    path = tmp_path / "a.npz"
    save(path, a=np.random.default_rng(0).random((1000, 8)))
    whole = path.read_bytes()
    path.write_bytes(whole[:30_000] + bytes(100) + whole[30_100:])
    with pytest.raises(InputError, match=r"a\.npz: unreadable: (Bad CRC-32|Error -3)"):
        list(npz.blocks(str(path), "a", 100))
    path.write_bytes(whole[:30_000])
    with pytest.raises(InputError, match=r"a\.npz: unreadable: File is not a zip file"):
        npz.names(str(path))
    with zipfile.ZipFile(path, "w") as archive:
        data = io.BytesIO()
        np.save(data, np.arange(9))
        archive.writestr("a.npy", data.getvalue()[:-1])
        archive.writestr("b.npy", b"no array at all")
    for name, message in (("a", "an array ends early"), ("b", "the magic string is not correct"), ("c", "There is no item")):
        with pytest.raises(InputError, match=rf"a\.npz: unreadable: .*{message}"):
            list(npz.blocks(str(path), name, 2))


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", a=np.arange(3), b=np.arange(4))
    pq.write_table(pa.table({"uid": [f"{i:032x}" for i in range(3)]}), tmp_path / "0.parquet")
    with pytest.raises(InputError, match=r"0\.npz: 3 rows of a, 4 of b; expected as many of each"):
        list(Pool.open(str(tmp_path)).parts[0].batches(["a", "b"]))
