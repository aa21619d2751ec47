"""What a download would do, without a request: `winnow download --dry-run`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pipeline import engine
from pipeline.download.job import pool_of
from pipeline.download.settings import DownloadSettings
from pipeline.download.sources.rows import Source
from pools import store

# DataComp's pools: 12.8 million samples, longest side at most 512 pixels, take 450 GB (the sizes its README states).
BYTES_AT_512 = 35_000


@dataclass(frozen=True)
class Plan:
    """Rows and shards to come; `found` is what was met in the source; `bytes` of the shards if all images are there."""

    source: str
    output: str
    files: int
    rows: int
    shards: int
    bytes: int | None  # None: images are stored as they are served, and nobody knows
    found: dict[str, int]
    problems: tuple[str, ...]
    columns: tuple[str, ...]
    settings: dict[str, Any]


def make(source: str, output: str, settings: DownloadSettings, options: engine.Options) -> Plan:
    """Opens the source as the download will (what has to be prepared is prepared, and not again then)."""
    scratch = store.join(pool_of(output), ".winnow")
    opened = Source.open(source, settings.columns, uids=settings.uids, scratch=scratch, options=options)
    return Plan(
        source,
        output,
        len(opened.files),
        opened.rows,
        -(-opened.rows // settings.shard_size),
        _bytes(opened.rows, settings),
        opened.found.counts,
        opened.found.problems,
        tuple(opened.schema.names),
        settings.identity(),
    )


def _bytes(rows: int, settings: DownloadSettings) -> int | None:
    rules = settings.images
    if not rules.reencode or rules.resize_mode == "no":
        return None
    return int(rows * BYTES_AT_512 * (rules.image_size / 512) ** 2)


def show(plan: Plan, *, as_json: bool) -> None:
    """Prints a plan, for people or as one line of JSON."""
    if as_json:
        print(json.dumps({"stage": "download", "dry_run": True, **asdict(plan)}))
        return
    size = f"about {_amount(plan.bytes)} if every image is there" if plan.bytes is not None else "not known: stored as served"
    lines = {
        "source": f"{plan.source} ({plan.files:,} {'file' if plan.files == 1 else 'files'})",
        "columns": ", ".join(plan.columns),
        "rows": ", ".join([f"{plan.rows:,}", *(f"{name.replace('_', ' ')} {n:,}" for name, n in plan.found.items())]),
        "shards": f"{plan.shards:,} of {plan.settings['shard_size']:,} rows",
        "size": size,
        "output": plan.output,
        "settings": ", ".join(f"{name} {_word(value)}" for name, value in plan.settings.items()),
    }
    print("download: nothing is requested, this is a dry run")
    for name, text in lines.items():
        print(f"  {name:10}{text}")
    for problem in plan.problems:
        print(f"  problem   {problem}")


def _amount(size: int) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 10_000:
            return f"{size:,} {unit}"
        size //= 1000
    return f"{size:,} TB"


def _word(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
