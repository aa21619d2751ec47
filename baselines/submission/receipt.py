"""A submission's receipt: the SHA-256 of each of its files, and one digest over all; and whether a folder still agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from baselines.score.aggregate import MANIFEST as EVAL_MANIFEST
from pools import store, uids
from pools.errors import InputError
from pools.manifest import digest_of

INFO, RECEIPT = "submission.json", "receipt.json"


def write(folder: str, files: Sequence[str]) -> str:
    """Writes the receipt over files of the folder, and returns its digest."""
    hashes = {name: {"sha256": store.sha256(store.join(folder, name)), "bytes": store.size(store.join(folder, name))}
              for name in sorted(files)}  # fmt: skip
    digest = digest_of(hashes)
    store.write_json(store.join(folder, RECEIPT), {"receipt": digest, "files": hashes})
    return digest


def read_info(folder: str) -> dict[str, Any]:
    """What a submission says of itself. Raises InputError if the folder is none."""
    path = store.join(folder, INFO)
    if not store.exists(path):
        raise InputError("no submission", where=folder, expected=f"a folder with {INFO}, which `winnow submit` writes")
    info: dict[str, Any] = store.read_json(path)
    return info


def problems(folder: str, *, weights: bool = True) -> list[str]:
    """What of a submission is missing, has changed, or does not belong to the rest; nothing if all is well.

    Without `weights` the checkpoint, which is large, is known by its size alone.
    """
    info = read_info(folder)
    parts = {
        "the list": info["list"] and info["list"]["path"],
        "the results": info["results"],
        "the checkpoint": info["checkpoint"],
    }
    missing = {name: what for what, name in parts.items() if name and not store.exists(store.join(folder, name))}
    found = [f"{what} is missing: {name}".replace("results is", "results are") for name, what in missing.items()]
    if not store.exists(store.join(folder, RECEIPT)):
        return [*found, f"the receipt is missing: {RECEIPT}"]
    receipt = store.read_json(store.join(folder, RECEIPT))
    for name, said in receipt["files"].items():
        path = store.join(folder, name)
        if name in missing:
            continue
        if not store.exists(path):
            found.append(f"a file is missing: {name}")
        elif store.size(path) != said["bytes"] or (
            (weights or name != info["checkpoint"]) and store.sha256(path) != said["sha256"]
        ):
            found.append(f"another file than the receipt's: {name}")
    if receipt["receipt"] != digest_of(receipt["files"]) or not {n for n in parts.values() if n} <= receipt["files"].keys():
        found.append(f"{RECEIPT} has been changed")
    return found or _strangers(folder, info, receipt["files"])


def _strangers(folder: str, info: dict[str, Any], files: dict[str, Any]) -> list[str]:
    """Parts that are whole, each by itself, and not of one submission."""
    found = []
    scored = store.read_json(store.join(folder, info["results"].rpartition("/")[0], EVAL_MANIFEST))["weights_sha256"]
    if not scored == info["weights_sha256"] == files[info["checkpoint"]]["sha256"]:
        found.append("the results are of another checkpoint")
    if info["list"] and uids.digest(uids.read_list(store.join(folder, info["list"]["path"]))) != info["list"]["sha256"]:
        found.append("the list is not the one that was trained on")
    return found
