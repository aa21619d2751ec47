"""A made-up web whose building is killed, or that the disk has no room for."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from baselines.miniweb import space
from baselines.miniweb.web import MiniWeb, build
from pipeline.engine import Options
from pools import store
from pools.errors import InputError
from tests.baselines.webs import files

PICTURES = 500
QUIET = Options(workers=0, quiet=True)
ROOT = Path(__file__).resolve().parents[2]


def test_a_killed_run_is_completed_with_the_same_bytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.baselines.kill_web", str(tmp_path)]
    count = int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300).stdout)
    whole = files(str(tmp_path / "whole"))
    # The run's name, the marks of three units and the manifest are among them.
    assert count == len(whole)
    killed = [folder for folder in tmp_path.iterdir() if folder.name != "whole"]
    assert len(killed) == 11
    for folder in killed:
        assert files(str(folder)) == whole, folder.name


def test_too_little_room_is_said_before_anything_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep" / "web"
    free = 100_000_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 0, free))
    # 45 MB for the evaluation sets and 21 kB a picture.
    with pytest.raises(
        InputError, match=r"web: no room for the made-up web \(100 MB free\); expected about 297 MB for 12000"
    ) as e:
        build(str(folder), options=QUIET)
    assert e.value.fix is not None and not folder.parent.exists()
    space.need(str(folder), 2600)
    # What is there already counts.
    folder.mkdir(parents=True)
    with (folder / "part").open("wb") as f:
        f.truncate(200_000_000)
    space.need(str(folder), 12000)


def test_estimate_is_above_what_a_web_takes_but_not_far(small_web: MiniWeb) -> None:
    taken = sum(p.stat().st_size for p in Path(small_web.folder).rglob("*") if p.is_file())
    assert taken < space.estimate(PICTURES) < 1.4 * taken


class Full:
    """A file on a disk that is full after so many bytes."""

    def __init__(self, f: IO[bytes], room: int) -> None:
        self._file, self.room = f, room

    def write(self, data: bytes) -> int:
        self.room -= len(data)
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        if name == "_file":  # asked for when the garbage collector has taken it: without end otherwise
            raise AttributeError(name)
        return getattr(self._file, name)


@pytest.mark.usefixtures("few_held_out")
@pytest.mark.parametrize(
    ("file", "room"),
    [("miniweb-00000.warc.gz", 100_000), ("miniweb-00001.warc.wat.gz", 2_000), ("0.tar", 20_000), ("truth.parquet", 1_000)],
)
def test_full_disk_gives_one_message_and_no_half_file(
    tmp_path: Path, tiny_web: MiniWeb, monkeypatch: pytest.MonkeyPatch, file: str, room: int
) -> None:
    whole, folder = files(tiny_web.folder), str(tmp_path / "web")
    atomic = store.atomic

    @contextlib.contextmanager
    def full(path: str) -> Iterator[Any]:
        with atomic(path) as f:
            yield Full(f, room) if path.endswith("/" + file) else f

    with monkeypatch.context() as patch:
        patch.setattr(store, "atomic", full)
        with pytest.raises(InputError) as caught:
            build(folder, pictures=60, options=QUIET)
    assert str(caught.value).splitlines() == [
        f"{folder}: no room for the made-up web (it ran full); expected about 47 MB for 60 pictures",
        "  → free some space and run the same again to go on, choose another folder, or fewer pictures",
    ]
    # Here, and not within a later parse of Python code: collecting pyarrow's writer of a failed file upsets the interpreter's
    # count of nested calls (CPython 3.11 then raises SystemError from `ast.parse`).
    del caught
    gc.collect()
    done = files(folder)
    assert not [name for name in done if name.endswith(("/" + file, ".partial")) or name == file]
    assert all(whole[name] == digest for name, digest in done.items())
    build(folder, pictures=60, options=QUIET)
    assert files(folder) == whole


def test_limit_on_file_size_gives_the_same_message(tmp_path: Path) -> None:
    """In a process of its own, with workers of their own: the limit is inherited, and cannot be taken back."""
    code = (
        "import resource, signal, sys\n"
        "from baselines.miniweb.web import build\n"
        "from pipeline.engine import Options\n"
        "if __name__ == '__main__':\n"
        "    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "    build(sys.argv[1], pictures=60, options=Options(workers=2, quiet=True))\n"
    )
    script = tmp_path / "limited.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "web")], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.count("no room for the made-up web (it ran full)") == 1
    assert not list((tmp_path / "web" / "warc").glob("*.gz")) and not list((tmp_path / "web").rglob("*.partial"))
