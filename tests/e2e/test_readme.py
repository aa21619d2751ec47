"""The commands of the README, run as they stand, in order, on a small demo."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pools import uids
from tests.demos import ENVIRONMENT, Demo

pytestmark = pytest.mark.xdist_group("demo")

README = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text()
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()]
RECIPES = dict(re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", README, re.S))


@pytest.fixture
def folder(demo: Demo, tmp_path: Path) -> Path:
    """A working folder with the demo's output and the recipes of the README."""
    shutil.copytree(demo.folder, tmp_path / "demo")
    for name, text in RECIPES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(port: int) -> None:
    for _ in range(900):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"nothing listens on port {port}")


def test_every_stage_has_an_example() -> None:
    verbs = {line.split()[1] for line in COMMANDS}
    jobs = {"extract", "replay", "download", "annotate", "filter", "reshard", "train", "score"}
    assert verbs == jobs | {"recipes", "uids", "report", "doctor"}
    assert all(line.startswith("winnow ") for line in COMMANDS)


@pytest.mark.timeout(900)
def test_the_commands_run_as_they_stand(folder: Path, background: list[subprocess.Popen[bytes]]) -> None:
    # As they stand, but for the port: another run of this test may have the README's.
    port = str(free_port())
    for line in (command.replace("8377", port) for command in COMMANDS):
        if line.endswith("&"):
            background.append(subprocess.Popen(line.rstrip(" &").split(), cwd=folder, env=ENVIRONMENT))
            wait_for(int(line.split("--port ")[1].split()[0]))
            continue
        done = subprocess.run(line.split(), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    kept = uids.read_list(str(folder / "best" / "uids.npy"))
    assert 0 < len(kept) < len(uids.read_list(str(folder / "selection" / "uids.npy")))
    assert len(list((folder / "training").glob("*.tar"))) == 1
    assert (folder / "run" / "eval_results.jsonl").exists()
