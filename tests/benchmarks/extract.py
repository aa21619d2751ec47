"""Extraction against cc2dataset, both in one run: `python tests/benchmarks/extract.py WAT… --peer PYTHON`.

PYTHON is that of an environment with the peer: `python3.11 -m venv peer && peer/bin/pip install cc2dataset setuptools`. Any
WAT of a crawl will do, some 350 MB each; the peer's job needs Java 17 or newer. Rounds alternate, and what is compared is
the median of each. Figures of other runs or machines say nothing, nor do those of a machine with anything else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

PEER_PARSER = """
import io, json, sys, time
from loguru import logger
logger.remove()
from cc2dataset.main import extract_documents_from_wat
data = io.BytesIO(open(sys.argv[1], "rb").read())
start = time.process_time()
found = extract_documents_from_wat(data, sys.argv[2])
print(json.dumps({"links": len(found), "seconds": time.process_time() - start}))
"""

OUR_PARSER = """
import json, sys, time
from pipeline.extract.page import Wanted
from pipeline.extract.scan import Scan
def rows(path, wanted):
    with open(path, "rb") as file:
        return sum(len(batch) for batch in Scan(path, file, wanted).batches())
if len(sys.argv) > 3:
    rows(sys.argv[3], Wanted(sys.argv[2]))  # loads the compiled code, as a worker does once
start = time.process_time()
found = rows(sys.argv[1], Wanted(sys.argv[2]))
print(json.dumps({"links": found, "seconds": time.process_time() - start}))
"""

FLOOR = """
import io, json, sys, time
from pipeline.extract.members import Members
data = io.BytesIO(open(sys.argv[1], "rb").read())
start = time.process_time()
size = sum(len(member) for member in Members(data, 1 << 26))
print(json.dumps({"links": size, "seconds": time.process_time() - start}))
"""

# The peer's own steps, but for the prefix it puts before each path, which only lets it read the real crawl.
PEER_JOB = """
import json, sys, time
from loguru import logger
logger.remove()
from pyspark import SparkContext
from cc2dataset.main import deduplicate_repartition_count, process_wat
from cc2dataset.spark_session_builder import build_spark_session
output, *paths = sys.argv[1:]
start = time.monotonic()
spark = build_spark_session("local", 2, 4)
spark.sparkContext.setLogLevel("ERROR")
session = time.monotonic() - start
rdd = spark.sparkContext.parallelize(paths, len(paths))
def extract(x):
    yield from process_wat(list(x)[0], "image")
df = rdd.mapPartitions(extract).toDF(["uid", "url", "alt", "cc_filename", "page_url"])
deduplicate_repartition_count(df, output, len(paths), spark, shuffle=True)
print(json.dumps({"rows": spark.read.parquet(output).count(), "session": session}))
"""

OUR_JOB = """
import json, sys, time
from pipeline import spark
from pipeline.engine import Options
from pipeline.extract import inputs
from pipeline.extract.job import Settings, extract
engine, output, *paths = sys.argv[1:]
start = time.monotonic()
if __name__ == "__main__":
    if engine == "spark":
        spark.session(2)
    session = time.monotonic() - start
    done = extract(inputs.find(paths), output, Settings(), options=Options(engine, 2, quiet=True))
    print(json.dumps({"rows": done.counts["kept"], "session": session}))
"""


def run(python: str, program: str, *arguments: str) -> tuple[dict[str, float], float, float]:
    """What a program printed last, its wall time in seconds, and the memory of its largest process in MB."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(program)
        # GNU time: the largest of the process and those it waited for.
        command = ["/usr/bin/env", "time", "-f", "%M", "-o", f"{folder}/memory", python, str(script), *arguments]
        if shutil.which("time") is None:
            command = command[6:]
        start = time.monotonic()
        env = os.environ | ONE_CORE | {"PYSPARK_PYTHON": python}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        wall = time.monotonic() - start
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        memory = Path(folder, "memory")
        kilobytes = float(memory.read_text().split()[-1]) if memory.exists() else 0.0
        said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return said, wall, kilobytes / 1000


def parser(wat: str, peer: str, rounds: int, documents: str) -> None:
    theirs, ours, floors = [], [], []
    for _ in range(rounds):
        theirs.append(run(peer, PEER_PARSER, wat, documents)[0])
        ours.append(run(sys.executable, OUR_PARSER, wat, documents, wat)[0])
        floors.append(run(sys.executable, FLOOR, wat)[0])
    a, b, floor = (statistics.median(x["seconds"] for x in results) for results in (theirs, ours, floors))
    print(f"parser, {documents}, CPU seconds on one core, median of {rounds}:")
    print(f"  cc2dataset {a:8.2f} s  {theirs[0]['links'] / a:10,.0f} links/s")
    print(f"  winnow     {b:8.2f} s  {ours[0]['links'] / b:10,.0f} links/s  → {a / b:.2f} times")
    print(f"  inflating  {floor:8.2f} s  the floor: {b / floor:.2f} times it", flush=True)


def jobs(wats: list[str], peer: str, rounds: int) -> None:
    results: dict[str, list[tuple[float, float, float, float]]] = {"cc2dataset": [], "local": [], "spark": []}
    for _ in range(rounds):
        for name, said in results.items():
            with tempfile.TemporaryDirectory() as folder:
                output = f"{folder}/out"
                if name == "cc2dataset":
                    told, wall, memory = run(peer, PEER_JOB, output, *wats)
                else:
                    told, wall, memory = run(sys.executable, OUR_JOB, name, output, *wats)
                said.append((wall, wall - told["session"], memory, told["rows"]))
    print(f"job, {len(wats)} files, 2 cores, wall seconds, median of {rounds}:")
    whole, without = (statistics.median(r[k] for r in results["cc2dataset"]) for k in (0, 1))
    for name, said in results.items():
        a, b, memory = (statistics.median(r[k] for r in said) for k in (0, 1, 2))
        times = "" if name == "cc2dataset" else f"  → {whole / a:.2f} times, {without / b:.2f} without the session's start"
        print(
            f"  {name:10} {a:7.1f} s, {b:7.1f} without the session, {memory:6,.0f} MB, {said[0][3]:,.0f} rows{times}",
            flush=True,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("wats", nargs="+", metavar="WAT")
    arguments.add_argument("--peer", required=True, metavar="PYTHON", help="of an environment with cc2dataset")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", choices=("parser", "jobs"))
    arguments.add_argument("--documents", default="image")
    given = arguments.parse_args()
    wats = [str(Path(wat).resolve()) for wat in given.wats]
    if given.only != "jobs":
        parser(wats[0], given.peer, given.rounds, given.documents)
    if given.only != "parser":
        jobs(wats, given.peer, given.rounds)


if __name__ == "__main__":
    main()
