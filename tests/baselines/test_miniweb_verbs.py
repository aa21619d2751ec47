"""Commands that are run one after the other, side by side and in the background."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from baselines.miniweb.verbs import Verbs
from baselines.miniweb.web import MiniWeb
from pools.errors import InputError, WorkFailed

pytestmark = pytest.mark.xdist_group("verbs")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def verbs() -> Verbs:
    return Verbs(quiet=True)


def test_summary_is_what_the_command_prints(verbs: Verbs, small_web: MiniWeb, tmp_path: Path) -> None:
    said = verbs.run("extract", "extract", small_web.wats, "--output", str(tmp_path / "c"))
    assert said["stage"] == "extract" and said["counts"]["kept"] == 500
    assert verbs.seconds["extract"] > 0


def test_command_is_shown_unless_it_runs_beside_others(
    capsys: pytest.CaptureFixture[str], small_web: MiniWeb, tmp_path: Path
) -> None:
    for alone in (True, False):
        Verbs().run("extract", "extract", small_web.wats, "--output", str(tmp_path / f"c {alone}"), alone=alone)
        expected = f"\n== extract: winnow extract {small_web.wats} --output '{tmp_path}/c True'\n"
        assert capsys.readouterr().out == (expected if alone else "")


def test_errors_of_commands_are_raised_as_they_are(verbs: Verbs, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        verbs.run("extract", "extract", str(tmp_path / "none.wat"), "--output", str(tmp_path / "c"))


def test_part_failed_work_is_a_failure(verbs: Verbs, small_web: MiniWeb, tmp_path: Path) -> None:
    whole = next(Path(small_web.wats).glob("*.gz")).read_bytes()
    (tmp_path / "cut.wat.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WorkFailed, match=r"winnow extract .*\n  ended with exit status 1"):
        verbs.run("extract", "extract", str(tmp_path / "cut.wat.gz"), "--output", str(tmp_path / "c"))


def test_proxy_serves_while_its_block_runs(verbs: Verbs, small_web: MiniWeb) -> None:
    with verbs.proxy("replay", str(Path(small_web.folder) / "warc")) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        connection.request("GET", "https://nowhere.example/")
        assert connection.getresponse().status == 404
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(urlsplit(url).netloc, timeout=10).request("GET", "/")


def test_proxy_that_cannot_start_says_why(verbs: Verbs, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"), verbs.proxy("replay", str(tmp_path / "none.warc")):
        pytest.fail("it has started")


def test_first_failure_ends_what_runs_beside(verbs: Verbs, small_web: MiniWeb, tmp_path: Path) -> None:
    serving = threading.Event()

    def serve() -> None:
        with verbs._start(["replay", str(Path(small_web.folder) / "warc")], [], tell=True) as command:
            command.told("--proxy ")
            serving.set()
            command.result()  # for ever, were it not ended

    def fail() -> None:
        serving.wait(60)
        verbs.run("extract", "extract", str(tmp_path / "none.wat"), "--output", str(tmp_path / "c"), alone=False)

    start = time.monotonic()
    with pytest.raises(InputError, match="no such file"):
        verbs.together("serve and fail", [serve, fail])
    assert time.monotonic() - start < 60 and not verbs._running


def test_interrupt_ends_all_and_exits_with_130(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "pipeline.cli", "demo", "d", "--pictures", "20000", "--quiet"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background of a shell without job control would ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not (tmp_path / "d" / "web" / "warc").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    _, told = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "Traceback" not in told
    with pytest.raises(ProcessLookupError):
        until = time.monotonic() + 20
        while time.monotonic() < until:  # its workers are gone, or go
            os.killpg(started.pid, 0)
            time.sleep(0.1)
