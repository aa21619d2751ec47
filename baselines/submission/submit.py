"""Writes a submission: a folder with all that a choice of data is judged by, and its receipt last.

The names below `<scale>_scale/` are those that DataComp's own code hands in: `results.jsonl`, `samples/`, `checkpoint.pt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from baselines.score.aggregate import MANIFEST as EVAL_MANIFEST
from baselines.submission import card, receipt
from baselines.submission.check import Evidence
from pipeline import engine
from pools import store, uids
from pools.errors import InputError
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection, TrainingRun

VERSION = 1


def submit(
    evidence: Evidence,
    output: str,
    *,
    method: str,
    author: str | None = None,
    writeup: str | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> str:
    """Writes the folder and returns the digest of its receipt. Raises InputError with all that does not belong together."""
    if evidence.problems:
        raise InputError(
            "does not belong together, or is missing:\n" + "\n".join(f"  {f.what}: {f.said}" for f in evidence.problems),
            where=evidence.request.run,
            fix="; ".join(dict.fromkeys(f.fix for f in evidence.problems if f.fix)) or None,
        )
    if not method.strip():
        raise InputError("no name", where="--method", expected="what the leaderboard shall call it")
    info = describe(evidence, method=method, author=author, writeup=writeup)
    run = Run(output, "submit", VERSION, info, (info["training_data"],))
    if engine.recall(run, engine.Options(overwrite=overwrite, quiet=quiet)) is None:
        run.claim(overwrite=overwrite)
        files = _write(evidence, output, info)
        digest = receipt.write(output, files)
        run.finish(Outcome({"files": len(files)}), receipt=digest)
        return digest
    return str(store.read_json(store.join(output, receipt.RECEIPT))["receipt"])


def describe(evidence: Evidence, *, method: str, author: str | None, writeup: str | None) -> dict[str, Any]:
    """The content of `submission.json`; the first names are DataComp's."""
    training, results, aggregate = evidence.training, evidence.results, evidence.aggregate
    assert training is not None and results is not None and aggregate is not None
    scale, listed = evidence.config["scale"], evidence.listed
    folder = f"{scale['name']}_scale"
    distinct = None if listed is None else len(uids.unique(listed))
    departures = [f"own {name}" for name in evidence.config["changed"]]
    departures += [f"scale {scale['name']} is none of the benchmark's"] if not scale["comparable"] else []
    return {
        "method_name": method,
        "author": author,
        "writeup": writeup,
        "track": evidence.request.track,
        "scale": scale["name"],
        "model": scale["model"],
        "dataset_size": distinct,
        "batch_size": scale["batch_size"],
        "learning_rate": scale["learning_rate"],
        "checkpoint": f"{folder}/checkpoint.pt",
        "results": f"{folder}/results.jsonl",
        "model_config": f"{folder}/model_config.json",
        "samples_seen": scale["samples_seen"],
        "seed": training["options"]["seed"],
        "precision": evidence.config["precision"],
        "comparable": training["comparable"],
        "departures": departures,
        "suite_version": results.suite_version,
        "weights_sha256": evidence.weights_sha256,
        "results_digest": digest_of({key: dict(metrics) for key, metrics in results.metrics.items()}),
        "training_data": training["inputs"][0],
        "list": None
        if listed is None
        else {
            "path": f"{folder}/samples/uids.npy",
            "count": len(listed),
            "distinct": distinct,
            "sha256": uids.digest(listed),
        },
        "recipe": evidence.recipe.name if evidence.recipe else None,
        "recipe_digest": evidence.recipe.digest if evidence.recipe else None,
        "pool": evidence.filtering["inputs"][0] if evidence.filtering else None,
        "pool_rows": evidence.pool_rows,
        "aggregate": aggregate.content(),
    }


def _write(evidence: Evidence, output: str, info: Mapping[str, Any]) -> list[str]:
    """The files, and their names below the folder."""
    run, folder = TrainingRun(evidence.request.run), f"{info['scale']}_scale"
    assert evidence.results is not None and evidence.aggregate is not None
    copies = {
        info["results"]: run.results,
        f"{folder}/{EVAL_MANIFEST}": store.join(run.root, EVAL_MANIFEST),
        info["model_config"]: run.model_config,
        info["checkpoint"]: run.checkpoint,
    }
    recipe = None
    if evidence.recipe is not None and evidence.selection is not None:
        copies["recipe.yaml"] = Selection(evidence.selection).recipe
        recipe = evidence.recipe.to_yaml()
    for name, source in copies.items():
        _copy(source, store.join(output, name))
    written = list(copies)
    if info["list"] is not None and evidence.listed is not None:
        uids.write_list(store.join(output, info["list"]["path"]), evidence.listed, recipe=info["recipe_digest"])
        written += [info["list"]["path"], info["list"]["path"] + ".json"]
    # Paths of the machine are nobody else's business.
    config = {name: value for name, value in evidence.config.items() if name not in ("data", "uids")}
    texts = {
        f"{folder}/config.yaml": yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        "README.md": card.model_card(dict(info), evidence.results, evidence.aggregate),
        "DATASHEET.md": card.datasheet(dict(info), evidence.filtering, recipe),
    }
    for name, text in texts.items():
        store.write_bytes(store.join(output, name), text.encode())
    store.write_json(store.join(output, receipt.INFO), info)
    return [*written, *texts, receipt.INFO]


def _copy(source: str, target: str) -> None:
    with store.open_input(source) as read, store.atomic(target) as write:
        while block := read.read(1 << 22):
            write.write(block)
