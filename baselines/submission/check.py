"""Whether a run's list, pool, recipe, weights and results belong together: by hashes, and nothing else.

All that is wrong is found, not the first thing alone. A step that needs what an earlier one could not give is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from baselines.score.aggregate import MANIFEST as EVAL_MANIFEST
from baselines.score.aggregate import Aggregate, ResultsFile
from baselines.score.aggregate import read as read_results
from baselines.submission import members
from filters.recipe import Recipe
from pipeline.selecting import needs, plugin
from pools import store, uids
from pools.errors import InputError
from pools.manifest import MANIFEST, digest_of
from pools.outputs import Selection, TrainingRun
from pools.uids import Uids

Track = Literal["filtering", "byod"]
SHOWN = 12  # digits of a hash that a person needs to see


@dataclass(frozen=True)
class Request:
    """What is to be submitted. Selection and pool are found by themselves where the run names them."""

    run: str
    track: Track = "filtering"
    selection: str | None = None
    pool: str | None = None
    plugin: str | None = None
    allow_missing: bool = False


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: whether it is right, and what was seen; `fix` says what to do where it is not."""

    what: str
    ok: bool
    said: str
    fix: str | None = None

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'NOT '} {self.what}: {self.said}" + (f"\n       → {self.fix}" if self.fix else "")


@dataclass
class Evidence:
    """What was found, as far as it could be read."""

    request: Request
    findings: list[Finding] = field(default_factory=list)
    training: dict[str, Any] | None = None  # the run's manifest
    config: dict[str, Any] = field(default_factory=dict)
    weights_sha256: str | None = None
    results: ResultsFile | None = None
    aggregate: Aggregate | None = None
    list_path: str | None = None
    listed: Uids | None = None
    selection: str | None = None
    filtering: dict[str, Any] | None = None  # the selection's manifest
    recipe: Recipe | None = None
    pool_rows: int | None = None

    @property
    def problems(self) -> list[Finding]:
        return [f for f in self.findings if not f.ok]


def examine(request: Request) -> Evidence:
    """All findings on a run. Raises InputError only if there is no such folder."""
    if not store.is_dir(request.run):
        raise InputError("no such run", where=request.run, expected="a training run's folder, or a submission's with --check")
    evidence = Evidence(request)
    for what, step in _STEPS.items():
        try:
            if (said := step(evidence)) is not None:
                evidence.findings.append(Finding(what, True, said))
        except InputError as e:
            where = f"{e.where}: " if e.where else ""
            expected = f"; expected {e.expected}" if e.expected else ""
            evidence.findings.append(Finding(what, False, f"{where}{e.what}{expected}", e.fix))
    return evidence


def _training(e: Evidence) -> str:
    run = e.request.run
    path = store.join(run, MANIFEST)
    if not store.exists(path):
        raise InputError("it has not finished, or is no run of winnow", where=run, fix="run `winnow train` to its end")
    manifest = store.read_json(path)
    if manifest.get("stage") != "train":
        raise InputError(f"the folder is of stage {manifest.get('stage')!r}", where=run, expected="a training run")
    e.training, e.config = manifest, yaml.safe_load(store.read_bytes(TrainingRun(run).config))
    comparable = "comparable" if manifest["comparable"] else "not comparable with others"
    changed = f", own {', '.join(e.config['changed'])}" if e.config["changed"] else ""
    return f"scale {e.config['scale']['name']}, seed {manifest['options']['seed']}, {comparable}{changed}"


def _checkpoint(e: Evidence) -> str:
    path = TrainingRun(e.request.run).checkpoint
    if not store.exists(path):
        raise InputError("missing", where=path, fix="run `winnow train` to its end")
    e.weights_sha256 = store.sha256(path)
    return f"sha256 {_short(e.weights_sha256)}"


def _results(e: Evidence) -> str:
    run = e.request.run
    again = f"winnow score {run} --evals DIR"
    if not store.exists(TrainingRun(run).results):
        raise InputError("missing", where=TrainingRun(run).results, fix=again)
    e.results = read_results(run)
    if e.results.weights_sha256 is None:
        raise InputError("nothing says with which weights they were computed", fix=again)
    if e.weights_sha256 not in (None, e.results.weights_sha256):
        raise InputError(
            f"computed with another checkpoint, {_short(e.results.weights_sha256)}; the run's is {_short(e.weights_sha256)}",
            fix=f"{again} --overwrite",
        )
    scoring = store.read_json(store.join(run, EVAL_MANIFEST))
    if scoring.get("results_sha256") != store.sha256(TrainingRun(run).results):
        raise InputError(
            f"not those that {EVAL_MANIFEST} was written for", where=TrainingRun(run).results, fix=f"{again} --overwrite"
        )
    if scoring["model"] != store.read_json(TrainingRun(run).model_config):
        raise InputError("computed with another architecture than the run's", where=TrainingRun(run).model_config)
    e.aggregate = e.results.aggregate(allow_missing=e.request.allow_missing)
    return f"suite version {e.results.suite_version}, {e.aggregate.lines()[0]}"


def _list(e: Evidence) -> str | None:
    if e.training is None:
        return None
    written, hashes = _trained_lists(e)
    e.selection = e.request.selection or _selection_of(e.config["uids"])
    e.list_path = Selection(e.selection).uids if e.selection else e.config["uids"] or written
    if not hashes:
        if e.request.track == "byod" and e.list_path is None:
            return "none: the run was trained on whole shards"
        raise InputError(
            "the run was trained on whole shards, and nothing says which samples they held",
            fix="train with --uids LIST, or on what `winnow reshard` wrote",
        )
    listed = uids.read_list(str(e.list_path))
    side, digest = uids.read_info(str(e.list_path)), uids.digest(listed)
    if digest not in hashes:
        raise InputError(
            f"{len(listed)} uids with hash {_short(digest)}, but the run was trained on a list with hash {_short(hashes[0])}",
            where=e.list_path,
            fix="name the selection it was trained on with --selection",
        )
    if side.count not in (None, len(listed)):
        raise InputError(f"{len(listed)} uids, its sidecar says {side.count}", where=e.list_path)
    e.listed = listed
    return f"{len(listed):,} uids, hash {_short(digest)}, as trained on"


def _trained_lists(e: Evidence) -> tuple[str | None, list[str]]:
    """The list beside resharded data, and the hashes that the list which was trained on may have.

    Resharded data were asked for by one list and, if samples were missing, are of another.
    """
    assert e.training is not None
    if (digest := e.training["options"]["uids"]) is not None:
        return None, [digest]
    data = e.config["data"]
    path = store.join(data, MANIFEST) if isinstance(data, str) and store.is_dir(data) else ""
    if not path or not store.exists(path) or (manifest := store.read_json(path)).get("stage") != "reshard":
        return None, []
    from baselines.train.data import list_shards  # it brings PyTorch

    if digest_of([store.digest(tar) for tar in list_shards(data)]) != e.training["inputs"][0]:
        raise InputError("the shards are not those of the training, or have changed since", where=data)
    written = store.join(data, "sample_ids.npy")
    return written, [manifest["options"]["uids"], uids.digest(uids.read_list(written))]


def _selection_of(listed: str | None) -> str | None:
    folder = (listed or "").rpartition("/")[0]
    path = store.join(folder, MANIFEST)
    return folder if folder and store.exists(path) and store.read_json(path).get("stage") == "filter" else None


def _recipe(e: Evidence) -> str | None:
    if e.listed is None:
        return None
    if e.selection is None:
        if e.request.track == "byod":
            return None
        raise InputError("no selection belongs to the list", fix="name what `winnow filter` wrote with --selection")
    path = store.join(e.selection, MANIFEST)
    manifest = store.read_json(path) if store.exists(path) else {}
    if manifest.get("stage") != "filter":
        raise InputError("no finished selection", where=e.selection, fix="run `winnow filter` to its end")
    if e.request.plugin:
        plugin.load(e.request.plugin)
    recipe, digest = Recipe.load(Selection(e.selection).recipe), manifest["options"]["recipe_digest"]
    if recipe.digest != digest:
        raise InputError(
            f"digest {_short(recipe.digest)}, the selection's is {_short(digest)}: it, or a file that it names, has changed",
            where=Selection(e.selection).recipe,
        )
    listed_by = uids.read_info(str(e.list_path)).recipe
    if listed_by not in (None, digest):
        raise InputError(
            f"the list is of a recipe with digest {_short(listed_by)}, the selection of {_short(digest)}", where=e.list_path
        )
    e.filtering, e.recipe = manifest, recipe
    return f"{recipe.name}, digest {_short(digest)}"


def _verdicts(e: Evidence) -> str | None:
    if e.filtering is None or e.listed is None:
        return None
    counts = e.filtering["counts"]
    if len(e.listed) != (entries := counts.get("listed", counts["kept"])):
        raise InputError(f"the selection listed {entries} uids, the list has {len(e.listed)}", where=e.list_path)
    folder = store.join(str(e.selection), "verdicts")
    if not store.is_dir(folder):
        return "none were written"
    _refuse_outside(e.listed, members.kept(folder), f"not kept by the verdicts in {folder}")
    return f"every uid of the list is one of the {counts['kept']:,} rows kept"


def _pool(e: Evidence) -> str | None:
    if e.recipe is None or e.filtering is None or e.listed is None:
        return None
    root = e.request.pool or _pool_of(e.config["data"])
    if root is None:
        if e.request.track == "byod":
            return None
        raise InputError("nothing says where it is", fix="name it with --pool")
    pool, inputs = needs.ready(root, e.recipe, fill=e.filtering["options"].get("missing") == "null")
    if digest_of(inputs.by_stem) != e.filtering["inputs"][0]:
        raise InputError(
            "not the one of the selection, or changed since",
            where=root,
            fix="run `winnow filter` again, or name another --pool",
        )
    _refuse_outside(e.listed, members.of_pool(pool), f"not in {root}")
    e.pool_rows = sum(part.rows for part in pool.parts)
    return f"{e.pool_rows:,} rows, which hold every uid of the list"


_STEPS: dict[str, Callable[[Evidence], str | None]] = {
    "training": _training,
    "checkpoint": _checkpoint,
    "results": _results,
    "list": _list,
    "recipe": _recipe,
    "verdicts": _verdicts,
    "pool": _pool,
}


def _refuse_outside(listed: Uids, batches: Iterator[Uids], what: str) -> None:
    if len(others := members.outside(listed, batches)):
        first = uids.unpack(others[:1])[0].as_py()
        raise InputError(f"{len(others)} of the list's uids are {what}, {first} the first")


def _pool_of(data: Any) -> str | None:
    """The pool whose shards were trained on."""
    folder = data.rstrip("/").rpartition("/")[0] if isinstance(data, str) else ""
    return folder if folder and store.is_dir(store.join(folder, "metadata")) else None


def _short(digest: str | None) -> str:
    return f"{(digest or '')[:SHOWN]}…"
