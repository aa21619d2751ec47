"""Who owns an output folder, which parts of it are done, and the manifest that is written last.

`<output>/.winnow/run.json` says which run the folder belongs to (stage, its version, options); it comes first.
`<output>/.winnow/done/<unit>.json` marks one finished unit (shard, file) with its input's digest and counts.
`<output>/_manifest.json` comes last: the whole job is done. Readers of parquet folders (pyarrow, Spark) skip names that
begin with `.` or `_`, so the folder is read by them as it is. None of them holds a time, so reruns give the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pools import store
from pools.errors import InputError, WorkFailed

FORMAT_VERSION = 1
MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class Outcome:
    """What became of one unit, or of a job: counts by name, and what went wrong, a line each (file, reason).

    Rows are counted as `in`, `kept`, `dropped:<why>` and `failed:<why>`; any other name is for information. Problems are
    part-failures (a file that was cut): the work goes on, and the command's exit status says so.
    """

    counts: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def check(self) -> Outcome:
        """Itself, if in = kept + dropped + failed; else raises WorkFailed."""
        out = sum(n for name, n in self.counts.items() if name == "kept" or name.startswith(("dropped:", "failed:")))
        if self.counts.get("in", out) != out:
            raise WorkFailed(f"rows were lost: {self.counts.get('in')} in, {out} out ({self.counts})")
        return self

    def __add__(self, other: Outcome) -> Outcome:
        total = Counter(self.counts)
        total.update(other.counts)
        return Outcome(dict(total), self.problems + other.problems)


@dataclass(frozen=True)
class Run:
    """One job and its output folder.

    `version` is raised by hand when the stage's result changes. `options` holds what the result depends on, and only
    that: neither the number of workers nor the engine. `inputs` are digests that concern every unit of the run.
    """

    output: str
    stage: str
    version: int
    options: dict[str, Any]
    inputs: tuple[str, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "stage": self.stage,
            "stage_version": self.version,
            "options": json.loads(json.dumps(self.options)),
            "inputs": list(self.inputs),
        }

    def claim(self, *, overwrite: bool = False) -> None:
        """Makes the folder this run's own, or raises InputError if it is another's."""
        if overwrite and (owner_of(self.output) is not None or not self._holds_data()):
            store.remove_tree(self.output)
        owner = owner_of(self.output)
        if owner is None and self._holds_data():
            owner = owner_of(self.output)  # another part of this run may have begun just now
        if owner is None:
            if self._holds_data():
                raise InputError(
                    "the output folder is not empty and was not made by winnow",
                    where=self.output,
                    expected="a new or empty folder, or the output of the same run",
                    fix="choose another --output",
                )
            store.write_json(self._path("run.json"), self.identity)
        elif owner != self.identity:
            raise InputError(
                f"the output folder belongs to another run ({_difference(owner, self.identity)})",
                where=self.output,
                expected="a new folder, or the output of the same run",
                fix="choose another --output, or replace what is there with --overwrite",
            )

    def finished(self) -> dict[str, Any] | None:
        """The manifest if this very run is done, else None."""
        path = store.join(self.output, MANIFEST)
        if owner_of(self.output) != self.identity or not store.exists(path):
            return None
        manifest: dict[str, Any] = store.read_json(path)
        return manifest

    def done(self, unit: str, inputs: str) -> Outcome | None:
        """The outcome of a unit that was finished from the same input, else None."""
        path = self._path("done", unit + ".json")
        if not store.exists(path):
            return None
        mark = store.read_json(path)
        return Outcome(mark["counts"], tuple(mark["problems"])) if mark["inputs"] == inputs else None

    def mark(self, unit: str, inputs: str, outcome: Outcome) -> None:
        """Marks a unit as done. To be called after its files are in place."""
        store.write_json(self._path("done", unit + ".json"), {"inputs": inputs, **asdict(outcome)})

    def finish(self, outcome: Outcome, **extra: Any) -> dict[str, Any]:
        """Writes the manifest, the last file of the job, and returns it."""
        manifest = {
            **self.identity,
            "counts": outcome.counts,
            "problems": list(outcome.problems),
            **extra,
            "winnow": winnow_version(),
            "commit": commit(),
        }
        store.write_json(store.join(self.output, MANIFEST), manifest)
        return manifest

    def _path(self, *parts: str) -> str:
        return _own(self.output, *parts)

    def _holds_data(self) -> bool:
        return store.exists(self.output) and bool(store.list_files(self.output))


def _difference(owner: dict[str, Any], mine: dict[str, Any]) -> str:
    """The first thing in which two runs differ, in words."""
    for key in ("stage", "format_version", "stage_version"):
        if owner.get(key) != mine[key]:
            return f"{key.replace('_', ' ')} {owner.get(key)}, this is {mine[key]}"
    theirs, ours = owner.get("options", {}), mine["options"]
    for key in sorted(theirs.keys() | ours.keys()):
        if theirs.get(key) != ours.get(key):
            return f"its {key} is {theirs.get(key)!r}, here {ours.get(key)!r}"
    return "its input files are others, or have changed"


def _own(output: str, *parts: str) -> str:
    return store.join(output, ".winnow", *parts)


def owner_of(folder: str) -> dict[str, Any] | None:
    """The identity of the run that a folder belongs to (`Run.identity`), done or not; None if it is no run's."""
    path = _own(folder, "run.json")
    owner: dict[str, Any] | None = store.read_json(path) if store.exists(path) else None
    return owner


def unfinished(folder: str) -> bool:
    """Whether a run began in this folder and has not ended."""
    return store.exists(_own(folder, "run.json")) and not store.exists(store.join(folder, MANIFEST))


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value, keys sorted."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def winnow_version() -> str:
    try:
        return version("winnow")
    except PackageNotFoundError:
        return "unknown"


@functools.cache
def commit() -> str | None:
    """The checkout's git commit, None outside of one. Recorded, never compared."""
    root = Path(__file__).resolve().parent.parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, timeout=10)
    except OSError:
        return None
    return done.stdout.strip() or None
