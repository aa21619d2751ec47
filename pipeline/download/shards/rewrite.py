"""Changes shards that are done, all files of one or none: written aside, then named in a file, then moved.

`<shards>/.winnow/changes/<shard>/` holds the new files; once `commit.json` is there too, the change counts, and whoever
comes next moves what is still to move. Beyond this machine a move is a copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.download.shards import records
from pipeline.download.shards.records import Files, Members, Row
from pools import shards, store
from pools.errors import WorkFailed
from pools.manifest import Outcome, Run

Change = Callable[[int, Row], tuple[Row, Members | None] | None]


def status_of(pool: str, name: str) -> pa.Table:
    """The status table of a shard that is done."""
    with store.open_input(Files.of(pool, name).parquet) as f:
        return pq.ParquetFile(f).read()


def rewrite(run: Run, pool: str, name: str, status: pa.Table, change: Change) -> Outcome:
    """Puts other rows in place of those for which `change` gives one; all else stays as it is, byte for byte.

    `change` is asked for each row in order, with its number. Samples are copied from the old tar, and the shard's mark
    tells the new counts.
    """
    new = _aside(run.output, name)
    files = Files(*(store.join(new, part) for part in ("tar", "parquet", "stats", "metadata")))
    outcome = records.write(files, records.rest_of(status), _entries(Files.of(pool, name).tar, status, change))
    mark = store.read_json(_mark(run.output, name))
    targets = asdict(Files.of(pool, name))
    there = [part for part in targets if store.exists(store.join(new, part))]
    commit = {"moved": there, "removed": sorted(targets.keys() - set(there)), "inputs": mark["inputs"]}
    store.write_json(store.join(new, "commit.json"), {**commit, **asdict(outcome)})
    _apply(run, pool, name)
    return outcome


def recover(run: Run, pool: str) -> None:
    """Ends the changes of a killed run: those that count are completed, what was written of others is removed."""
    folder = store.join(run.output, ".winnow", "changes")
    for name in sorted({path.partition("/")[0] for path in _files(folder)}):
        if store.exists(store.join(_aside(run.output, name), "commit.json")):
            _apply(run, pool, name)
    store.remove_tree(folder)


def move(path: str, target: str) -> None:
    """Nothing happens if it was moved before."""
    if not store.exists(path):
        return
    if store.is_local(path):
        os.makedirs(os.path.dirname(store.local_path(target)), exist_ok=True)
        os.replace(store.local_path(path), store.local_path(target))
        return
    with store.open_input(path) as old, store.atomic(target) as new:
        shutil.copyfileobj(old, new, 1 << 22)
    store.remove_tree(path)


def _apply(run: Run, pool: str, name: str) -> None:
    new, targets = _aside(run.output, name), asdict(Files.of(pool, name))
    commit: dict[str, Any] = store.read_json(store.join(new, "commit.json"))
    for part in commit["moved"]:
        move(store.join(new, part), targets[part])
    for part in commit["removed"]:
        store.remove_tree(targets[part])
    run.mark(name, commit["inputs"], Outcome(commit["counts"], tuple(commit["problems"])))
    store.remove_tree(new)


def _entries(tar: str, status: pa.Table, change: Change) -> Iterator[tuple[Row, Members | None]]:
    rows = records.rows_of(status)
    old = shards.read_all(tar) if any(r["reason"] is None for r in rows) else iter(())
    for number, row in enumerate(rows):
        # The tar has the samples of just these rows, in this order.
        sample = next(old) if row["reason"] is None else None
        if sample is not None and sample[0] != row["key"]:
            raise WorkFailed(f"{tar}: the sample {sample[0]} stands where {row['key']} should\n  → has the shard been changed?")
        yield change(number, row) or (row, sample and sample[1])


def _files(folder: str) -> list[str]:
    return store.list_files(folder) if store.is_dir(folder) else []


def _aside(output: str, name: str) -> str:
    return store.join(output, ".winnow", "changes", name)


def _mark(output: str, name: str) -> str:
    return store.join(output, ".winnow", "done", name + ".json")
