"""Download: candidates or published metadata to a pool's shards and metadata, one shard a unit."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from pipeline import engine
from pipeline.download import rows
from pipeline.download.fetch import Policy, fetcher
from pipeline.download.images import ImageRules
from pipeline.download.shard import write_shard
from pipeline.progress import Progress
from pools import store
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run
from pools.schema import Reason
from pools.shards import shard_name

STAGE = "download"
VERSION = 1
DNS_TROUBLE = 0.2  # share of failed name resolutions from which the resolver is suspected


@dataclass(frozen=True, kw_only=True)
class DownloadSettings:
    """What is downloaded and how. Threads are those of one worker process."""

    shard_size: int = 10_000  # rows of the input
    threads: int = 32
    policy: Policy = field(default_factory=Policy)
    images: ImageRules = field(default_factory=ImageRules)

    def __post_init__(self) -> None:
        if self.shard_size < 1 or self.threads < 1:
            raise InputError("shard size and threads must be at least 1")

    def identity(self) -> dict[str, Any]:
        """What the result depends on: not how fast, how patiently or by which way the urls are asked."""
        policy = self.policy
        return {
            "shard_size": self.shard_size,
            **asdict(self.images),
            "max_bytes": policy.max_bytes,
            "max_redirects": policy.max_redirects,
            "user_agent": policy.user_agent,
            "agent": policy.agent,
            "opt_out": list(policy.opt_out),
        }


def download(candidates: str, output: str, *, settings: DownloadSettings, options: engine.Options) -> Outcome:
    """Downloads every row of a parquet file or folder to `output`, which is POOL/shards; metadata goes to POOL/metadata.

    Counts: in, kept, failed:<reason>. Raises InputError for another form of output, or unusable input.
    """
    pool = _pool_of(output)
    source = rows.Source.open(candidates)
    inputs = tuple(store.digest(path, candidates if store.is_dir(candidates) else None) for path, _ in source.files)
    run = Run(store.join(pool, "shards"), STAGE, VERSION, settings.identity(), inputs)
    _check_metadata(pool, options.overwrite)
    units = [
        engine.Unit(shard_name(i), " ".join(f"{p.start}-{p.stop}" for p in parts), parts)
        for i, parts in enumerate(source.shards(settings.shard_size))
    ]
    work = functools.partial(_download_shard, pool=pool, schema=source.schema, settings=settings)
    outcome = engine.run(run, units, work, options)
    _hint(outcome, options.quiet)
    return outcome


def _download_shard(unit: engine.Unit, *, pool: str, schema: pa.Schema, settings: DownloadSettings) -> Outcome:
    fetch = fetcher(settings.policy).fetch
    table = rows.read(unit.args, schema)
    try:
        return write_shard(pool, unit.name, table, fetch, settings.images, settings.threads)
    except OSError as e:
        raise WorkFailed(f"{store.join(pool, 'shards', unit.name)}: {e}") from e


def _pool_of(output: str) -> str:
    pool, slash, last = output.rstrip("/").rpartition("/")
    if last == "shards":
        return pool or slash or "."
    raise InputError(
        f"the output is {output!r}",
        where="--output",
        expected="a folder named `shards`, beside which the metadata is written",
        fix=f"--output {store.join(output, 'shards')}",
    )


def _check_metadata(pool: str, overwrite: bool) -> None:
    """Keeps the files of two pools apart: metadata that no download wrote stays, one that it wrote goes with the shards."""
    metadata = store.join(pool, "metadata")
    ours = store.exists(store.join(pool, "shards", ".winnow", "run.json"))
    if ours and overwrite:
        store.remove_tree(metadata)
    elif not ours and store.exists(metadata) and store.list_files(metadata):
        raise InputError(
            "there is metadata here that no download wrote",
            where=metadata,
            expected="a new pool: a download's shards and metadata have their own rows",
            fix="choose another folder: --output NEWPOOL/shards",
        )


def _hint(outcome: Outcome, quiet: bool) -> None:
    total, failed = outcome.counts.get("in", 0), outcome.counts.get(f"failed:{Reason.NAME_RESOLUTION}", 0)
    if total and failed / total >= DNS_TROUBLE:
        Progress.note(
            f"download: name resolution (DNS) failed for {failed} of {total} urls; the resolver may be overloaded\n"
            "  → use fewer --workers and threads, or a caching resolver on this machine",
            quiet=quiet,
        )
