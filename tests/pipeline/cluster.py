"""A real Spark cluster on loopback, whose executors have the dependencies of this environment and nothing of the checkout."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.java import find_java

SPARK = Path(sysconfig.get_path("purelib")) / "pyspark"
SECONDS = 600  # after which each process of a cluster ends by itself, should the test that started it be killed
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile("Successfully registered with master")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java that runs for a minute, beside four others
# A driver waits for both workers, so that both get work.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.driver.extraJavaOptions": QUICK,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "90s",
    "spark.cores.max": "4",
}


@dataclass(frozen=True)
class Cluster:
    """Two workers of two cores each; `workers` are the folders in which their executors run, `sessions` of processes."""

    master: str
    workers: tuple[Path, ...]
    sessions: tuple[int, ...]
    python: Path  # of the executors
    folder: Path  # where the driver runs

    def submit(
        self, program: str | Path, *arguments: str, conf: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """What a user types: `spark-submit --master … program arguments`."""
        settings = {"spark.pyspark.python": str(self.python), "spark.pyspark.driver.python": sys.executable, **SETTINGS}
        given = [part for key, value in {**settings, **(conf or {})}.items() for part in ("--conf", f"{key}={value}")]
        return self.drive([str(SPARK / "bin" / "spark-submit"), "--master", self.master, *given, str(program), *arguments])

    def run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A program started with Python, which finds the cluster in its environment."""
        given = " ".join(f"--conf {key}='{value}'" for key, value in SETTINGS.items())
        submit = f"--master {self.master} {given} pyspark-shell"
        command = [sys.executable, str(program), *arguments]
        return self.drive(command, PYSPARK_SUBMIT_ARGS=submit, PYSPARK_PYTHON=str(self.python))

    def drive(self, command: Sequence[str], **more: str) -> subprocess.CompletedProcess[str]:
        """Runs a driver, outside of the checkout, and ends what it may leave."""
        with subprocess.Popen(
            _bounded(command),
            cwd=self.folder,
            env=_environment(more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=200)
            finally:
                end(process.pid)
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def bare_environment(folder: Path) -> Path:
    """The interpreter of an environment with all packages of this one, but for the checkout.

    A folder that a `.pth` file adds is not searched for further `.pth` files, and an editable install is one.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (folder / "lib" / version / "site-packages" / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


@dataclass(frozen=True)
class Part:
    """A process of the cluster, and what it says."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self, ready: re.Pattern[str]) -> str:
        """The group (or all) of what is said when it is ready."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := ready.search(self.log.read_text(errors="replace")):
                return found[found.lastindex or 0]
            time.sleep(0.1)
        raise AssertionError(f"not ready: {self.log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers that have registered with it; all of it ends with the context."""
    python = bare_environment(folder / "bare")
    workers = (folder / "worker1", folder / "worker2")
    with contextlib.ExitStack() as stack:
        parts = [_start(stack, folder / "master", "master.Master")]
        master = parts[0].said(STARTED)
        own = ("--cores", "2", "--memory", "1g", "--work-dir")
        parts += [_start(stack, w, "worker.Worker", *own, str(w), master) for w in workers]
        for part in parts[1:]:
            part.said(REGISTERED)
        (folder / "driver").mkdir()
        yield Cluster(master, workers, tuple(part.process.pid for part in parts), python, folder / "driver")


def _start(stack: contextlib.ExitStack, home: Path, role: str, *arguments: str) -> Part:
    """Starts a part of the cluster in a folder of its own."""
    home.mkdir()
    own = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
    own += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            _bounded([*own, *arguments]), cwd=home, env=_environment({}), stdout=log, stderr=log, start_new_session=True
        )
    stack.callback(process.wait)
    stack.callback(end, process.pid)
    return Part(process, home / "log")


def _bounded(command: Sequence[str]) -> list[str]:
    return ["timeout", "-k", "5", str(SECONDS), *command]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """No way into the checkout: neither PYTHONPATH, nor what this process has from a Spark of its own."""
    find_java().use()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))}
    return {**own, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK, **more}


def members(session: int) -> list[int]:
    """Living processes of a session: also of groups of their own, as Spark's Python processes have."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(entry.name))
    return found


def end(session: int) -> None:
    """Ends all processes of a session."""
    deadline = time.monotonic() + 20
    while (pids := members(session)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    assert not pids
