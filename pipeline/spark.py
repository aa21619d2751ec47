"""The Spark session, and shipping this checkout to the executors."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipeline.java import find_java
from pipeline.progress import Progress
from pools.errors import InputError, WorkFailed

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from pipeline.engine import Results

T = TypeVar("T")
R = TypeVar("R")
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pools", "filters", "pipeline", "baselines")


def session(workers: int | None = None) -> SparkSession:
    """The active session, or a new one: on the master of spark-submit or PYSPARK_SUBMIT_ARGS, else local of so many cores.

    Raises InputError without pyspark or Java, WorkFailed if Spark does not start.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        fix = "pip install -e '.[spark]', in the checkout"
        raise InputError("pyspark is not installed", where="--engine spark", fix=fix) from None
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    java = "the Java that spark-submit runs on"
    if not submitted():
        choice = find_java()
        if choice.passed:
            Progress.note(f"Java for Spark: {choice}")
        choice.use()
        java = str(choice.java)
    # Executors would take whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("winnow").config("spark.ui.showConsoleProgress", "false")  # the engine shows units
    # Results are handed on as they come: their sum says nothing about the driver's memory.
    builder = builder.config("spark.driver.maxResultSize", "0")
    if not (submitted() or re.search(r"--master\b|spark\.master=", os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(f"local[{workers or '*'}]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    try:
        built: SparkSession = builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError) as e:
        lines = str(e).splitlines()
        reason = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])  # of a Java exception
        raise WorkFailed(f"Spark did not start ({java}): {reason}\n  → what Spark said stands above") from e
    built.sparkContext.setLogLevel("ERROR")
    return built


def submitted() -> bool:
    """Whether spark-submit started this program, and with it Java, and has chosen the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@functools.cache
def checkout_zip() -> str:
    """The four packages, with what numba has compiled of them, as one zip; it is there until this process ends."""
    folder = tempfile.mkdtemp(prefix="winnow-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "winnow.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for file in sorted((ROOT / package).rglob("*")):
                if file.suffix in (".py", ".yaml", ".json", ".nbi", ".nbc"):
                    archive.write(file, file.relative_to(ROOT))
    return str(path)


def ship(context: SparkContext) -> None:
    """Gives the executors this checkout: as it is if they are on this machine, else as an archive that Spark unpacks there.

    Within a zip, which `--py-files` would leave it, numba compiles anew in every process, for a quarter of a minute.
    """
    path = str(ROOT)
    if not (context.master or "").startswith("local"):
        if not ROOT.is_dir():
            return  # spark-submit has given them what the driver itself runs from
        path = "winnow"  # relative to where an executor runs
        if not any("/winnow.zip" in name for name in context.listArchives):
            context.addArchive(f"{checkout_zip()}#{path}")
    before = context.environment.get("PYTHONPATH", "").split(os.pathsep)
    context.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([path, *filter(None, before)]))


@dataclass(frozen=True)
class Spark:
    """An engine whose tasks are Spark tasks: one a unit, writing their own files under fixed names."""

    workers: int | None = None

    def map(self, work: Callable[[T], R], tasks: Sequence[T]) -> Results[R]:
        from pipeline.engine import attempt

        if not tasks:
            return
        context = session(self.workers).sparkContext
        from pipeline.spark_stream import stream

        ship(context)
        yield from stream(context, functools.partial(attempt, work), tasks)
