"""The download against img2dataset, both in one run: `python tests/benchmarks/download.py --peer PYTHON`.

PYTHON is that of an environment with the peer: `python3.11 -m venv peer && peer/bin/pip install img2dataset==1.47.0`. A
server on loopback, a process of its own, has JPEGs of 60 to 100 KB, 0.64 megapixels, made here. Settings are DataComp's:
longest side 512, only if bigger, SHA-256 of the bytes, 2 processes. Rounds alternate, and what is compared is the median of
each. Figures of other runs or machines say nothing, nor do those of a machine with anything else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}
SIZE = (976, 656)
BASES = 64  # pictures that differ; the others differ from them by a comment

PEER = """
import sys
from img2dataset import download
if __name__ == "__main__":
    source, output, rows, threads = sys.argv[1:]
    download(
        url_list=source, input_format="parquet", url_col="url", caption_col="text", output_folder=output,
        output_format="webdataset", processes_count=2, thread_count=int(threads), number_sample_per_shard=int(rows),
        image_size=512, resize_mode="keep_ratio_largest", resize_only_if_bigger=True, compute_hash="sha256",
        enable_wandb=False,
    )
"""

OURS = """
import sys
from pipeline.cli import main
if __name__ == "__main__":
    source, output, rows, threads = sys.argv[1:]
    options = ["--shard-size", rows, "--threads", threads, "--workers", "2", "--allow-private", "--per-host", threads]
    sys.argv = ["winnow", "download", source, "--output", output + "/shards", *options, "--quiet"]
    main()
"""


@dataclass(frozen=True)
class Run:
    images: int
    wall: float  # seconds, the whole process
    start: float  # of those, before the first request
    cpu: float  # seconds, all processes
    memory: float  # MB, all processes together, pages that they share counted once


def pictures(number: int) -> list[bytes]:
    """JPEGs of 60 to 100 KB."""
    bases = []
    for seed in range(min(BASES, number)):
        rng = np.random.default_rng(seed)
        coarse = rng.integers(0, 256, (24, 36, 3), np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(SIZE, Image.Resampling.BICUBIC), np.float32)
        grain = rng.normal(0, 2 + 1.5 * rng.random(), (SIZE[1], SIZE[0], 1)).astype(np.float32)
        out = io.BytesIO()
        Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=80)
        bases.append(out.getvalue())
    found = []
    for i in range(number):
        base, comment = bases[i % len(bases)], f"picture {i}".encode()
        found.append(base[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + base[2:])
    return found


class Answers(asyncio.Protocol):
    """HTTP/1.1 with connections that stay open, for GET requests that come whole."""

    pictures: list[bytes]
    first = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.waiting = transport, b""

    def data_received(self, data: bytes) -> None:
        self.waiting += data
        while b"\r\n\r\n" in self.waiting:
            request, _, self.waiting = self.waiting.partition(b"\r\n\r\n")
            self.answer(request)

    def answer(self, request: bytes) -> None:
        path = request.split(b" ", 2)[1]
        if path == b"/first":
            body, kind = repr(Answers.first).encode(), b"text/plain"
            Answers.first = 0.0
        else:
            Answers.first = Answers.first or time.time()
            body, kind = self.pictures[int(path[1:-4])], b"image/jpeg"
        close = b"connection: close" in request.lower()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n" % (kind, len(body))
        self.transport.write(head + (b"Connection: close\r\n\r\n" if close else b"\r\n") + body)
        if close:
            self.transport.close()


def serve(number: int, tell: Connection) -> None:
    Answers.pictures = pictures(number)

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", 0, backlog=512)
        sizes = [len(p) for p in Answers.pictures]
        tell.send((server.sockets[0].getsockname()[1], min(sizes), max(sizes)))
        await server.serve_forever()

    asyncio.run(run())


def look(pid: int, cpu: dict[int, float]) -> float:
    """MB of a process and all below it; into `cpu` the seconds that each has used (who waits for whom differs)."""
    total = 0.0
    with contextlib.suppress(OSError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) / 1000
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(look(int(child), cpu) for child in (task / "children").read_text().split())
    return total


def run(python: str, program: str, source: str, rows: int, threads: int, port: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "program.py"
        script.write_text(program)
        output = Path(folder) / "out"
        start = time.time()
        process = subprocess.Popen(
            [python, str(script), source, str(output), str(rows), str(threads)],
            env=os.environ | ONE_CORE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        highest, cpu = 0.0, dict[int, float]()

        def watch() -> None:
            nonlocal highest
            while process.poll() is None:
                highest = max(highest, look(process.pid, cpu))
                time.sleep(0.3)

        watcher = threading.Thread(target=watch)
        watcher.start()
        said, _ = process.communicate()
        wall = time.time() - start
        watcher.join()
        if process.returncode:
            raise SystemExit(said[-3000:])
        first = float(urllib.request.urlopen(f"http://127.0.0.1:{port}/first").read())
        stats = [json.loads(path.read_text()) for path in output.rglob("*_stats.json")]
        return Run(sum(s["successes"] for s in stats), wall, first - start, sum(cpu.values()), highest)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peer", required=True, metavar="PYTHON", help="of an environment with img2dataset")
    arguments.add_argument("--images", type=int, default=5000)
    arguments.add_argument("--threads", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(given.images, there), daemon=True)
    server.start()
    port, smallest, largest = here.recv()
    rows = max(1, given.images // 10)
    print(
        f"{given.images:,} JPEGs of {smallest / 1000:.0f} to {largest / 1000:.0f} KB, shards of {rows}, {given.threads} threads"
    )
    results: dict[str, list[Run]] = {"img2dataset": [], "winnow": []}
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/urls.parquet"
        urls = [f"http://127.0.0.1:{port}/{i}.jpg" for i in range(given.images)]
        pq.write_table(pa.table({"url": urls, "text": [f"picture {i}" for i in range(given.images)]}), source)
        for _ in range(given.rounds):
            results["img2dataset"].append(run(given.peer, PEER, source, rows, given.threads, port))
            results["winnow"].append(run(sys.executable, OURS, source, rows, given.threads, port))
    server.terminate()
    rates: dict[str, tuple[float, float]] = {}
    for name, runs in results.items():
        if any(r.images != given.images for r in runs):
            raise SystemExit(f"{name}: {[r.images for r in runs]} of {given.images} images")
        wall, start, cpu, memory = (statistics.median(getattr(r, f) for r in runs) for f in ("wall", "start", "cpu", "memory"))
        work = statistics.median(r.wall - r.start for r in runs)
        rates[name] = (given.images / wall, given.images / work)
        print(
            f"  {name:12}{rates[name][0]:7.1f} images/s, {rates[name][1]:7.1f} from the first request on, which came after "
            f"{start:.1f} s; {1000 * cpu / given.images:.2f} ms CPU an image, {memory:,.0f} MB"
        )
    (whole, since), (ours, our_since) = rates["img2dataset"], rates["winnow"]
    print(f"  → {ours / whole:.2f} times, {our_since / since:.2f} from the first request on")


if __name__ == "__main__":
    main()
