"""Jobs on Spark: results as units end, all cores at work, an end when it is asked for; the same bytes as without Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from pipeline.engine import Failed
from pipeline.spark import ROOT, Spark, checkout_zip, ship
from pools.errors import InputError, WorkFailed
from tests.pipeline import extracting, wats
from tests.pipeline.cluster import end, members
from tests.pipeline.trees import tree


def until(true: Callable[[], object], seconds: float = 30.0) -> bool:
    """Waits for something to come true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What a unit does, sent to the workers by value: they cannot import the tests.


def meeting(folder: Path, size: int) -> Callable[[int], int]:
    """A unit that ends once `size` units are in it at the same time; the result is how many it saw."""

    def unit(n: int) -> int:
        (folder / str(n)).touch()
        end = time.monotonic() + 20
        while len(list(folder.iterdir())) < size and time.monotonic() < end:
            time.sleep(0.02)
        return len(list(folder.iterdir()))

    return unit


def held(release: Path) -> Callable[[int], int]:
    """A unit of which number 0 ends only when a file has come to be."""

    def unit(n: int) -> int:
        end = time.monotonic() + 20
        while n == 0 and not release.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return n * n

    return unit


def long_but_for_the_first(folder: Path) -> Callable[[int], int]:
    """A unit that notes its process and, unless it is number 0, lasts a minute."""

    def unit(n: int) -> int:
        (folder / str(n)).write_text(str(os.getpid()))
        time.sleep(60 if n else 0)
        return n

    return unit


def deadly() -> Callable[[int], int]:
    """A unit that kills its process if it is number 1."""

    def unit(n: int) -> int:
        if n == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    return unit


def failing() -> Callable[[int], int]:
    """A unit that fails in one of our ways as number 1, and in another as number 2."""

    def unit(n: int) -> int:
        if n == 1:
            raise WorkFailed("1: the disk is full")
        return 1 // (n - 2)

    return unit


@pytest.mark.spark
def test_as_many_units_run_at_once_as_there_are_cores(spark: Any, tmp_path: Path) -> None:
    cores = spark.sparkContext.defaultParallelism
    seen = dict(Spark().map(meeting(tmp_path, cores), range(cores)))
    assert seen == dict.fromkeys(range(cores), cores)


@pytest.mark.spark
def test_results_come_as_they_are_ready_while_others_run(spark: Any, tmp_path: Path) -> None:
    release = tmp_path / "release"
    with contextlib.closing(Spark().map(held(release), range(6))) as results:
        first = dict(next(results) for _ in range(5))
        assert first == {1: 1, 2: 4, 3: 9, 4: 16, 5: 25}
        release.touch()
        assert list(results) == [(0, 0)]


@pytest.mark.spark
def test_whoever_stops_early_ends_the_units_that_run_and_those_to_come(spark: Any, tmp_path: Path) -> None:
    results = Spark().map(long_but_for_the_first(tmp_path), range(8))
    assert next(results) == (0, 0)
    assert until(lambda: (tmp_path / "1").exists() and (tmp_path / "1").read_text())
    begun = time.monotonic()
    results.close()
    assert time.monotonic() - begun < 10
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    pids = [int(p.read_text()) for p in tmp_path.iterdir() if p.name != "0"]
    assert 1 <= len(pids) <= spark.sparkContext.defaultParallelism
    assert until(lambda: not any(map(alive, pids)))
    assert dict(Spark().map(held(tmp_path / "0"), range(3))) == {0: 0, 1: 1, 2: 4}  # and the session goes on


@pytest.mark.spark
def test_a_unit_that_fails_is_a_result_and_the_others_go_on(spark: Any) -> None:
    results = dict(Spark().map(failing(), range(4)))
    assert (results[0], results[3]) == (-1, 1)
    assert results[1] == Failed("1: the disk is full")
    assert isinstance(results[2], Failed)
    assert results[2].message.startswith("ZeroDivisionError: ")


@pytest.mark.spark
def test_a_unit_that_ends_its_process_is_named(spark: Any) -> None:
    reason = r"Spark gave up on task 1 \(tries: 1; the last on localhost executor driver\): Python worker exited .*\n"
    with pytest.raises(WorkFailed, match=reason + "  → .* run again to go on$"):
        list(Spark().map(deadly(), range(2)))


@pytest.mark.spark
def test_a_result_that_does_not_arrive_is_missed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.spark_stream import Arrivals

    monkeypatch.setattr(Arrivals, "addInPlace", lambda self, before, added: before)  # on the driver; the workers have their own
    with pytest.raises(WorkFailed, match="Spark lost the results of task 0, task 1"):
        list(Spark().map(abs, range(2)))


@pytest.mark.spark
def test_no_units_are_no_job(spark: Any) -> None:
    assert list(Spark().map(abs, [])) == []


@pytest.mark.spark
@pytest.mark.slow
def test_an_interrupt_ends_the_job_and_all_its_processes(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("spark_job.py")), str(tmp_path), "lasts"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stderr is not None
        try:
            assert until(lambda: list(tmp_path.glob("lasts-begun/*")), 120)
            assert len(members(process.pid)) > 2  # the driver, its Java, the workers
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(30) == 130
            assert until(lambda: not members(process.pid))
        finally:
            end(process.pid)
        assert "Traceback" not in process.stderr.read()
    assert not list(tmp_path.glob("lasts/*.json"))


@dataclass
class Context:
    """What shipping sees of a SparkContext."""

    master: str
    environment: dict[str, str] = field(default_factory=dict)
    listArchives: list[str] = field(default_factory=list)  # noqa: N815

    def addArchive(self, path: str) -> None:  # noqa: N802
        self.listArchives.append(f"spark://127.0.0.1:7077/files/{Path(path).name}")


def test_workers_on_this_machine_import_the_checkout_itself() -> None:
    context = Context("local[2]", {"PYTHONPATH": "mine"})
    for _ in range(2):
        ship(cast("Any", context))
    assert context.environment == {"PYTHONPATH": f"{ROOT}:mine"}
    assert context.listArchives == []


def test_a_cluster_gets_the_checkout_once_beside_other_archives() -> None:
    context = Context("spark://127.0.0.1:7077", {}, ["spark://127.0.0.1:7077/files/packages.tar.gz"])
    for _ in range(2):
        ship(cast("Any", context))
    assert context.environment == {"PYTHONPATH": "winnow"}
    assert context.listArchives[1:] == ["spark://127.0.0.1:7077/files/winnow.zip#winnow"]


def test_a_driver_that_runs_from_a_zip_ships_no_other() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pipeline import spark\n"
        "class Context:\n"
        "    master, listArchives, environment = 'yarn', [], {}\n"
        "spark.ship(Context); print(spark.__file__, Context.environment)"
    )
    done = subprocess.run([sys.executable, "-c", code, checkout_zip()], capture_output=True, text=True, check=True)
    assert done.stdout == checkout_zip() + "/pipeline/spark.py {}\n"


@pytest.mark.spark
def test_extract_gives_the_same_bytes_on_spark(spark: Any, tmp_path: Path) -> None:
    given = extracting.write(extracting.made_up(3), tmp_path / "in")
    cut = wats.write(given / "cut.wat.gz", [wats.numbered(1)])
    cut.write_bytes(cut.read_bytes()[:-30])
    local = extracting.run(given, tmp_path / "local")
    on_spark = extracting.run(given, tmp_path / "spark", engine="spark")
    assert local == on_spark
    assert len(local.problems) == 1
    assert extracting.rows(tmp_path / "local") == extracting.expected(extracting.made_up(3))
    assert tree(tmp_path / "spark") == tree(tmp_path / "local")


@pytest.mark.spark
def test_a_bad_input_on_spark_is_the_users_error(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "page.wat").write_bytes(b"<html>503</html>")
    with pytest.raises(InputError, match="no WARC record"):
        extracting.run(tmp_path / "page.wat", tmp_path / "out", engine="spark")
