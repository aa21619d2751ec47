"""Verdicts of selections made before, taken over where a recipe begins with the same stages on the same input.

There is no other store of them: what `winnow filter` left in folders beside its output is looked at, and whoever removes such
a folder has removed all that is kept of it. `.winnow/stages.json` says by digests what its verdicts rest on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from filters.combine import Combinator, Rule
from filters.fitted import Known
from filters.recipe import Recipe
from filters.registry import PoolFilter
from pipeline.progress import Progress
from pipeline.selecting.needs import Inputs
from pools import store
from pools.layout import Pool
from pools.manifest import digest_of
from pools.outputs import Selection

Chain = dict[str, list[str]]  # {stem: for each stage a digest of all that decides what it and those before it say}


@dataclass(frozen=True)
class Earlier:
    """A unit's verdicts in another selection; the first `stages` stages are the same."""

    verdicts: str
    stages: int


def chain(recipe: Recipe, pool: Pool, inputs: Inputs, version: int) -> Chain:
    """The digests of a recipe's stages on each unit; `version` is that of the stage `filter`.

    A stage that is fitted to the pool rests on all units; any other on what the recipe says and on the columns of its unit.
    """
    root = str(Path(store.local_path(pool.root)).absolute()) if store.is_local(pool.root) else pool.root
    shared, columns = digest_of([version, root]), ["uid"]
    steps = []
    for rule, spelled in zip(recipe.rules, recipe.spelled_by_content, strict=True):
        columns += [c for c in rule.needs if c not in columns]
        seen = [[stem, inputs.of(stem, columns)] for stem in inputs.columns] if _fitted_to_pool(rule) else None
        shared = digest_of([shared, spelled, seen])
        steps.append((shared, list(columns)))
    return {stem: [digest_of([said, inputs.of(stem, read)])[:32] for said, read in steps] for stem in inputs.columns}


def _fitted_to_pool(rule: Rule) -> bool:
    if isinstance(rule, Combinator):
        return any(map(_fitted_to_pool, rule.rules))
    return isinstance(rule, PoolFilter) and rule.of is not None


def write(selection: Selection, chain: Chain) -> None:
    """Says what the verdicts of this selection rest on, unless that is said: some may be there since."""
    if not store.exists(_path(selection)):
        store.write_json(_path(selection), chain)


def _path(selection: Selection) -> str:
    return store.join(selection.root, ".winnow", "stages.json")


def find(selection: Selection, chain: Chain) -> dict[str, Earlier]:
    """{stem: the verdicts that go furthest} among the selections in the output's own folder; on this machine only."""
    if not store.is_local(selection.root):
        return {}
    best: dict[str, Earlier] = {}
    here = Path(store.local_path(selection.root)).absolute()
    for other in sorted(here.parent.iterdir()):
        found = Selection(str(other))
        if other == here or not store.exists(_path(found)):
            continue
        theirs: Chain = store.read_json(_path(found))
        for stem, ours in chain.items():
            same = _common(ours, theirs.get(stem, []))
            if same > (best[stem].stages if stem in best else 0) and store.exists(found.verdicts(stem)):
                best[stem] = Earlier(found.verdicts(stem), same)
    return best


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def note(known: dict[str, Earlier], units: int, names: Sequence[str], *, quiet: bool) -> None:
    """Says what is taken over."""
    for stages in sorted({e.stages for e in known.values()}, reverse=True):
        number = sum(e.stages == stages for e in known.values())
        said = ", ".join(names[:stages])
        Progress.note(f"filter: judged before, taken over: {said} ({number} of {units} units)", quiet=quiet)


def read(before: Earlier | None) -> Callable[[int], Known | None]:
    """A function that gives what is known of the next so many rows of a unit, from call to call."""
    if before is None:
        return lambda rows: None
    return _Rows(before).next


class _Rows:
    """Verdicts in their order, in steps of any number of rows."""

    def __init__(self, before: Earlier) -> None:
        self._stages = before.stages
        # The whole file is mapped, and unpacked a group of rows at a time.
        file = pq.ParquetFile(store.local_path(before.verdicts), memory_map=True)
        self._batches = file.iter_batches(columns=["dropped_by", "value"])
        self._rest: list[pa.RecordBatch] = []

    def next(self, rows: int) -> Known:
        while sum(map(len, self._rest)) < rows:
            self._rest.append(next(self._batches))
        found = pa.concat_batches(self._rest)
        self._rest = [found.slice(rows)]
        return Known(found.slice(0, rows), self._stages)
