"""A real Spark cluster on loopback, on whose executors only the dependencies are installed: the code travels with the job."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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


OWN = """
from dataclasses import dataclass
from typing import ClassVar
import pyarrow.compute as pc
from filters.registry import register

@register("begins_with")
@dataclass(frozen=True)
class BeginsWith:
    letter: str
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def keep(self, batch):
        return pc.starts_with(batch["text"], self.letter)

    def measure(self, batch):
        return batch["text"]
"""


def test_filter_on_the_cluster_gives_the_same_list_however_the_pool_is_cut(running: Cluster, tmp_path: Path) -> None:
    """A top fraction of the pool and a rule of a plugin, which the executors have from the driver alone."""
    rows = pa.table(
        {
            "uid": [f"{(i * 7919) % 1000:032x}" for i in range(1000)],
            "text": [f"{'abc'[i % 3]} {i}" for i in range(1000)],
            "s": pa.array([(i * 37) % 1000 / 1000 for i in range(1000)], pa.float32()),
        }
    )
    for name, size in (("four", 250), ("seven", 150)):
        (tmp_path / name).mkdir()
        for start in range(0, 1000, size):
            pq.write_table(rows.slice(start, size), tmp_path / name / f"{start:04}.parquet")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "main.py").write_text("from pipeline.cli import main\nmain()\n")
    (tmp_path / "r.yaml").write_text(
        "keep:\n  - score: {column: s, top_fraction: 0.5, of: pool}\n  - begins_with: {letter: a}\n"
    )
    for name, engine in (("four", "spark"), ("four", "local"), ("seven", "spark")):
        given = [
            tmp_path / "r.yaml",
            tmp_path / name,
            "--output",
            tmp_path / f"{name}-{engine}",
            "--plugin",
            tmp_path / "own.py",
        ]
        done = running.run(tmp_path / "main.py", "filter", *map(str, given), "--engine", engine, "--no-reuse", "--workers", "0")
        assert done.returncode == 0, done.stdout + done.stderr
    assert tree(tmp_path / "four-spark") == tree(tmp_path / "four-local")
    lists = [(tmp_path / f"{name}-spark" / "uids.npy").read_bytes() for name in ("four", "seven")]
    assert lists[0] == lists[1]
    # Of 1000 scores 0 … 0.999 those from 0.499 on are the top half and one more.
    expected = [i for i in range(1000) if (i * 37) % 1000 >= 499 and i % 3 == 0]
    assert len(lists[0]) == 128 + 16 * len(expected)


def test_a_mistake_ends_a_submitted_job_with_2(running: Cluster, tmp_path: Path) -> None:
    done = running.submit(ROOT / "pipeline" / "extract" / "job.py", str(tmp_path / "absent"), "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "absent: no such file" in done.stdout
