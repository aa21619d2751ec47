"""What tests of the download share: pictures on a scripted server, candidates that name them, and a look at the pool."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules as ImageRules
from pipeline.download.job import DownloadSettings, download
from pipeline.download.sources.columns import Columns as Columns
from pipeline.engine import Options
from pools import uids
from pools.errors import WinnowError
from pools.manifest import Outcome
from tests.pipeline.server import Answer, Server

HERE = Options(workers=0, quiet=True)
Rows = list[dict[str, Any]]
ROOT = Path(__file__).resolve().parents[2]


def run(source: str, pool: Path, server: Server, options: Options = HERE, **changes: Any) -> Outcome:
    return download(source, str(pool / "shards"), settings=settings(server, **changes), options=options)


def start(source: str, pool: Path, server: Server, part: tuple[int, int] = (0, 1), **changes: Any) -> subprocess.Popen[str]:
    """The same in a process of its own, which prints the counts, or the error."""
    call = f"{source!r}, {str(pool / 'shards')!r}, {settings(server, **changes)!r}, {part}"
    code = f"from tests.pipeline.downloading import *; in_this_process({call})"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


def in_this_process(source: str, output: str, chosen: DownloadSettings, part: tuple[int, int]) -> None:
    try:
        print(download(source, output, settings=chosen, options=replace(HERE, part=part)).counts)
    except WinnowError as e:
        print(e)
        sys.exit(e.exit_code)


def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for something to come true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def broken(server: Server, rows: Rows, *numbers: int) -> dict[int, list[Answer]]:
    """Takes pictures off the server, until they are put back."""
    return {n: server.routes.pop(rows[n]["url"]) for n in numbers}


def healed(server: Server, rows: Rows, answers: dict[int, list[Answer]]) -> None:
    """Puts pictures back, and forgets what was asked for."""
    server.requests.clear()
    server.routes |= {rows[n]["url"]: answer for n, answer in answers.items()}


def settings(server: Server, **changes: Any) -> DownloadSettings:
    policy = Policy(proxy=server.root, deadline=1.0, retries=0)
    return replace(DownloadSettings(policy=policy, threads=4), **changes)


def picture(number: int, size: tuple[int, int] = (64, 48), kind: str = "JPEG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (number * 7 % 256, number * 31 % 256, 90)).save(out, kind)
    return out.getvalue()


def candidates(path: Path, rows: Rows) -> str:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def web(server: Server, count: int, first: int = 0, **answer: Any) -> Rows:
    """Rows whose pictures the server has, with candidates' columns."""
    rows = []
    for i in range(first, first + count):
        url = server.on(f"http://h{i % 3}.invalid/{i}.jpg", Answer(picture(i), **answer))
        rows.append({"uid": uids.new(url, f"picture {i}"), "url": url, "text": f"picture {i}", "crawl": "CC-TEST"})
    return rows


def members(tar: Path) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(tar) as archive:
        for info in archive:
            key, _, extension = info.name.partition(".")
            data = archive.extractfile(info)
            assert data is not None
            found.setdefault(key, {})[extension] = data.read()
    return found


def samples(pool: Path) -> dict[str, dict[str, bytes]]:
    """All of a pool's, in order."""
    return {key: sample for tar in sorted((pool / "shards").glob("*.tar")) for key, sample in members(tar).items()}


def status(pool: Path) -> Rows:
    return [row for path in sorted((pool / "shards").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def metadata(pool: Path) -> Rows:
    return [row for path in sorted((pool / "metadata").glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def manifest(pool: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((pool / "shards/_manifest.json").read_text())
    return found


def consistent(pool: Path) -> None:
    """T41, in each shard: statuses, tar, metadata and statistics speak of the same rows."""
    for path in sorted((pool / "shards").glob("*.parquet")):
        rows = pq.read_table(path).to_pylist()
        kept = [row["uid"] for row in rows if row["status"] == "success"]
        tar, meta = path.with_suffix(".tar"), pool / "metadata" / path.name
        assert kept == ([json.loads(m["json"])["uid"] for m in members(tar).values()] if tar.exists() else [])
        assert kept == (pq.read_table(meta)["uid"].to_pylist() if meta.exists() else [])
        stats = json.loads(path.with_name(f"{path.stem}_stats.json").read_text())
        assert (stats["count"], stats["successes"]) == (len(rows), len(kept))
        assert sum(stats["status_dict"].values()) == len(rows)
