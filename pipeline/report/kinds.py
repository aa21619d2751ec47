"""What a path is that somebody wants to look at: told from its manifest, or from what lies in it."""

from __future__ import annotations

from typing import Literal

from pools import store
from pools.errors import InputError
from pools.manifest import owner_of, unfinished
from pools.outputs import Selection, TrainingRun

Kind = Literal["pool", "download", "selection", "run", "submission", "leaderboard"]
_STAGES: dict[str, Kind] = {"filter": "selection", "train": "run", "download": "download"}


def kind_of(path: str) -> Kind:
    """Raises InputError for what is none of these, or what a job has not finished."""
    if not store.is_dir(path):
        raise InputError("no such folder", where=path, expected="a pool, a selection, shards, a run or submissions")
    owner = owner_of(path)
    if owner is not None and (kind := _STAGES.get(owner["stage"])) is not None:
        if unfinished(path) and kind == "selection":  # what is still training or coming in may be looked at
            raise InputError(f"winnow {owner['stage']} has not finished here", where=path, fix="run the same command again")
        return kind
    if store.exists(Selection(path).recipe) and store.exists(Selection(path).uids):
        return "selection"
    if store.exists(TrainingRun(path).metrics):
        return "run"
    if store.exists(store.join(path, "submission.json")):
        return "submission"
    if store.is_dir(store.join(path, "metadata")):
        return "pool"
    files = store.list_files(path)
    if any(f.split("/")[-1] in ("submission.json", "leaderboard.json") for f in files):
        return "leaderboard"
    if any(f.endswith("_stats.json") for f in files):
        return "download"
    if any(f.endswith(".parquet") for f in files):
        return "pool"
    raise InputError(
        "nothing here that a report could show",
        where=path,
        expected="a pool (parquet), a selection of `winnow filter`, shards of `winnow download`, a training run, submissions",
    )
