"""A real Spark cluster on loopback, on whose executors only the dependencies are installed: the code travels with the job."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.pipeline import extracting
from tests.pipeline.cluster import Cluster, cluster, members
from tests.pipeline.trees import tree

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started
    assert not any(map(members, started.sessions))


@dataclass(frozen=True)
class Jobs:
    """What `tests/pipeline/spark_job.py` did on the cluster."""

    done: subprocess.CompletedProcess[str]
    output: Path

    def units(self, job: str) -> list[dict[str, Any]]:
        return [json.loads(p.read_text()) for p in sorted((self.output / job).glob("[0-9].json"))]


@pytest.fixture(scope="module")
def jobs(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    output = tmp_path_factory.mktemp("jobs")
    done = running.run(ROOT / "tests" / "pipeline" / "spark_job.py", str(output), "meets", "hurt")
    assert done.returncode == 0, done.stdout + done.stderr
    return Jobs(done, output)


def test_units_use_all_cores_of_all_workers_at_once(running: Cluster, jobs: Jobs) -> None:
    assert "meets 4\n" in jobs.done.stdout
    units = jobs.units("meets")
    assert [unit["met"] for unit in units] == [4] * 4
    workers = [next(w for w in running.workers if Path(unit["folder"]).is_relative_to(w)) for unit in units]
    assert sorted(map(workers.count, running.workers)) == [2, 2]


def test_the_code_travels_to_executors_that_do_not_have_it(jobs: Jobs) -> None:
    for unit in jobs.units("meets"):
        assert unit["code"] == f"{unit['folder']}/winnow/pipeline/__init__.py"
        assert str(ROOT) not in unit["path"]
        assert unit["bare"].endswith("ModuleNotFoundError: No module named 'pipeline'\n")


def test_a_killed_executor_loses_no_unit_and_a_failed_unit_is_named(jobs: Jobs) -> None:
    assert "hurt job: 1 of 4 units failed, 3 done\n  2: the disk is full\n  → run again to retry them\n" in jobs.done.stdout
    assert len(jobs.units("hurt")) == 3
    assert "Lost executor" in jobs.done.stderr
    assert not (jobs.output / "hurt" / "_manifest.json").exists()


def test_extract_on_the_cluster_gives_the_same_bytes(running: Cluster, tmp_path: Path) -> None:
    given = extracting.write(extracting.made_up(6), tmp_path / "in")
    job = ROOT / "pipeline" / "extract" / "job.py"
    done = running.submit(job, str(given), "--output", str(tmp_path / "spark"))
    assert done.returncode == 0, done.stdout + done.stderr
    extracting.run(given, tmp_path / "local")
    assert tree(tmp_path / "spark") == tree(tmp_path / "local")
    assert extracting.rows(tmp_path / "spark") == extracting.expected(extracting.made_up(6))


def test_a_mistake_ends_a_submitted_job_with_2(running: Cluster, tmp_path: Path) -> None:
    done = running.submit(ROOT / "pipeline" / "extract" / "job.py", str(tmp_path / "absent"), "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "absent: no such file" in done.stdout
