"""The engine: every unit once, failures counted and named, resume, progress."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline import engine
from pipeline.engine import Options, Unit
from pipeline.progress import Progress
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run
from tests.pipeline.jobs import work

both = pytest.mark.parametrize("workers", [0, 2])


class Job:
    """A job of some units over a folder, with a trace of which were worked on."""

    def __init__(self, tmp_path: Path, **trouble: str) -> None:
        self.out, self.trace, self.trouble = tmp_path / "out", tmp_path / "trace", trouble
        self.trace.touch()

    def run(self, *names: str, workers: int = 0, inputs: str = "1", max_failed: int = 10) -> Outcome:
        units = [Unit(n, inputs, (str(self.out), str(self.trace), self.trouble.get(n))) for n in names]
        run = Run(str(self.out), "job", 1, {"a": 1})
        return engine.run(run, units, work, Options(workers=workers, quiet=True, max_failed=max_failed))

    def worked(self) -> Counter[str]:
        return Counter(self.trace.read_text().split())

    @property
    def finished(self) -> bool:
        return (self.out / "_manifest.json").exists()


@both
def test_each_unit_is_done_once_and_the_manifest_comes_last(tmp_path: Path, workers: int) -> None:
    job = Job(tmp_path)
    outcome = job.run("a", "b", "c", "d", "e", workers=workers)
    assert outcome.counts == {"in": 5, "kept": 5}
    assert job.worked() == Counter("abcde")
    assert job.finished
    job.run("a", "b", "c", "d", "e", workers=workers)
    assert job.worked() == Counter("abcde")


@both
@pytest.mark.parametrize("trouble", ["fails", "crashes", "loses"])
def test_a_failed_unit_is_named_and_a_rerun_tries_it_again(tmp_path: Path, workers: int, trouble: str) -> None:
    job = Job(tmp_path, b=trouble)
    message = {"fails": "b: the disk is full", "crashes": "ZeroDivisionError: a bug", "loses": "rows were lost: 2 in, 1 out"}
    with pytest.raises(WorkFailed, match=rf"1 of 3 units failed, 2 done\n  b: .*{message[trouble]}"):
        job.run("a", "b", "c", workers=workers)
    assert not job.finished
    job.trouble = {}
    assert job.run("a", "b", "c", workers=workers).counts == {"in": 3, "kept": 3}
    assert job.worked() == Counter("abbc")
    assert job.finished


def test_the_error_budget_ends_a_hopeless_job(tmp_path: Path) -> None:
    names = "abcdefgh"
    job = Job(tmp_path, **dict.fromkeys(names, "fails"))
    with pytest.raises(WorkFailed, match="3 of 8 units failed"):
        job.run(*names, max_failed=2)


@both
def test_the_users_mistake_ends_the_job_at_once(tmp_path: Path, workers: int) -> None:
    with pytest.raises(InputError, match="b: wrong"):
        Job(tmp_path, b="input").run("a", "b", "c", workers=workers)


def test_a_worker_that_is_killed_is_a_failure_and_not_a_hang(tmp_path: Path) -> None:
    job = Job(tmp_path, b="dies")
    with pytest.raises(WorkFailed, match="a worker process was killed"):
        job.run("a", "b", "c", workers=2)
    assert not job.finished


def test_an_interrupt_ends_workers_at_once_and_without_a_word(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = [sys.executable, "-m", "tests.pipeline.jobs", str(tmp_path / "out"), str(trace)]
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        for _ in range(600):
            if trace.exists() and len(trace.read_text().split()) == 2:
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(20) == 130
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "_manifest.json").exists()


def test_the_collector_of_workers_leaves_alone_what_was_loaded_for_them() -> None:
    program = """
from pipeline.engine import Local
from tests.pipeline.jobs import frozen
if __name__ == "__main__":
    print(list(Local(2).map(frozen, [0, 1])))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    found = dict(ast.literal_eval(done.stdout))
    assert set(found) == {0, 1} and min(found.values()) > 10_000, done


def test_part_failures_stand_in_the_outcome_also_of_a_finished_job(tmp_path: Path) -> None:
    job = Job(tmp_path, b="partly")
    assert job.run("a", "b").problems == job.run("a", "b").problems == ("cut in the middle",)


def test_progress_in_a_log_is_a_line_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("job", 3) as progress:
        for _ in range(3):
            progress.advance(failed=1)
    assert capsys.readouterr().err == "job: 3 of 3 units in 0 s, 1 failed\n"
    with Progress("job", 3, quiet=True) as progress:
        progress.advance()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["1", "2/2", "a/b", "-1/2", "1/0"])
def test_a_part_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--part"):
        engine.parse_part(text)
    assert engine.parse_part("0/8") == (0, 8)


def test_parts_do_not_overwrite_each_other() -> None:
    with pytest.raises(InputError, match="each part would remove what the others have done"):
        Options(overwrite=True, part=(1, 2))
