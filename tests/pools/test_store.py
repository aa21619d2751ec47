"""Whole files or none, on local paths and on stores without folders."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pools import store

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("root", ["{tmp}", "memory://bucket"])
def test_a_file_appears_when_its_block_ends_well_and_not_before(tmp_path: Path, root: str) -> None:
    path = store.join(root.format(tmp=tmp_path), "a/b.bin")
    with store.atomic(path) as f:
        f.write(b"half")
        assert not store.exists(path)
    assert store.read_bytes(path) == b"half"
    with pytest.raises(KeyError), store.atomic(path) as f:
        f.write(b"other")
        raise KeyError
    assert store.read_bytes(path) == b"half"
    assert store.list_files(root.format(tmp=tmp_path)) == ["a/b.bin"]


def test_what_a_killed_process_left_is_not_listed_and_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".x.bin.partial").write_bytes(b"rubbish that is longer than the file")
    assert store.list_files(str(tmp_path)) == []
    store.write_bytes(str(tmp_path / "x.bin"), b"ok")
    assert os.listdir(tmp_path) == ["x.bin"]
    assert (tmp_path / "x.bin").read_bytes() == b"ok"


# T46
@pytest.mark.parametrize("root", ["memory://bucket/out/", "memory://bucket/out"])
def test_no_doubled_slashes_in_keys(root: str) -> None:
    assert store.join(root, "/a/", "b.tar") == "memory://bucket/out/a/b.tar"
    store.write_bytes(store.join(root, "a/b.tar"), b"")
    assert store.list_files(root) == ["a/b.tar"]


def test_listing_is_sorted_and_leaves_out_hidden_names(tmp_path: Path) -> None:
    for name in ("b.parquet", "a/z.parquet", "a/.hidden.parquet", "_temporary/x.parquet", "c.txt", "notes.parquet.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert store.list_files(str(tmp_path), ".parquet") == ["a/z.parquet", "b.parquet"]


def test_a_name_that_looks_like_a_pattern_is_a_name_first(tmp_path: Path) -> None:
    for name in ("a[1].wat", "a1.wat", "b.wat"):
        (tmp_path / name).touch()
    found = {
        p: [store.name(f) for f in store.find_glob(f"{tmp_path}/{p}")] for p in ("a[1].wat", "a*.wat", "[ab]1.wat", "x", "x*")
    }
    assert found == {"a[1].wat": ["a[1].wat"], "a*.wat": ["a1.wat", "a[1].wat"], "[ab]1.wat": ["a1.wat"], "x": [], "x*": []}


def test_a_digest_changes_with_the_file_and_not_with_the_folder_it_is_in(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder / "sub").mkdir(parents=True)
        (tmp_path / folder / "sub" / "f").write_bytes(b"1")
        os.utime(tmp_path / folder / "sub" / "f", (1, 1))
    digests = {store.digest(str(tmp_path / d / "sub" / "f"), str(tmp_path / d)) for d in ("x", "y")}
    assert len(digests) == 1
    os.utime(tmp_path / "y" / "sub" / "f", (2, 2))
    digests.add(store.digest(str(tmp_path / "y" / "sub" / "f"), str(tmp_path / "y")))
    assert len(digests) == 2


def test_full_disk_is_one_message_and_leaves_no_half_file(tmp_path: Path) -> None:
    """In a process of its own, which may write no file above 10 kB."""
    code = (
        "import resource, signal, sys\n"
        "from pools import store\n"
        "from pools.errors import DiskFull\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "try:\n"
        "    store.write_bytes(sys.argv[1], bytes(20_000))\n"
        "except DiskFull as e:\n"
        "    print(e, e.exit_code)\n"
    )
    target = tmp_path / "a" / "large"
    done = subprocess.run(
        [sys.executable, "-c", code, str(target)], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f"{target}: File too large\n  → free some space, then run the same again to go on 1\n"
    assert list((tmp_path / "a").iterdir()) == []
