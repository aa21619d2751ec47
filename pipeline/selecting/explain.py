"""What happened to one sample, stage by stage: `winnow explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from filters.fitted import Fitted
from filters.recipe import Recipe
from pipeline.engine import Local
from pipeline.scan import PoolScan
from pipeline.selecting import needs
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.outputs import Selection


@dataclass(frozen=True)
class Place:
    """A row that has the uid, and where it stands."""

    stem: str
    row: int  # from 0
    verdict: dict[str, Any]


def explain(uid: str, places: Sequence[str]) -> list[str]:
    """Lines on a uid, for each of some selections and pools.

    Of a selection: each stage and what it said. With a pool behind it: what each stage compared, also where the row passed,
    for which the recipe is fitted to that pool anew. A pool alone: what it says of the sample. Raises InputError for what is
    no uid, what is neither selection nor pool, and a uid that is nowhere.
    """
    uids.pack([uid], where="UID")
    uid = uid.lower()
    selections = [p for p in places if store.exists(Selection(p).recipe)]
    pools = [Pool.open(p) for p in places if p not in selections]
    found: list[str] = []
    for root in selections:
        found += _of_selection(uid, Selection(root), pools)
    for pool in pools if not selections else []:
        for stem, row in _in_pool(uid, pool):
            found.append(f"{pool.root}: file {stem}, row {row['row']}")
            found += [f"  {name} {value}" for name, value in row["columns"].items() if name != "uid"]
    if not found:
        raise InputError(f"no row with uid {uid}", where=", ".join(places), expected="a uid of the pool")
    return found


def _of_selection(uid: str, selection: Selection, pools: Sequence[Pool]) -> list[str]:
    recipe = Recipe.load(selection.recipe)
    listed = int(uids.count(uids.read_list(selection.uids), uids.pack([uid]))[0])
    lines = []
    values = [
        (stem, row["batch"], recipe.fit(PoolScan(pool, Local(0))))
        for pool in pools
        for stem, row in _in_pool(uid, pool, recipe.needs)
    ]
    for place in _verdicts(uid, selection):
        lines.append(f"{selection.root} ({recipe.name}): file {place.stem}, row {place.row}")
        lines += _stages(recipe, place.verdict)
    for stem, batch, fitted in values:
        lines.append(f"{selection.root} ({recipe.name}), judged anew: file {stem}")
        lines += _judged(recipe, fitted, batch)
    if lines:
        lines.append(f"  in the list {listed} times" if listed != 1 else "  in the list once")
    elif listed:
        lines.append(f"{selection.root} ({recipe.name}): in the list; it has no verdicts, so give the pool too")
    return lines


def _stages(recipe: Recipe, verdict: dict[str, Any]) -> Iterator[str]:
    """A line a stage, as far as the verdict says."""
    by = verdict["dropped_by"]
    for i, (name, options) in enumerate(_spelled(recipe)):
        if by is None or i < by:
            said = "passed"
        elif i == by:
            said = f"DROPPED: {verdict['value']}" if verdict["value"] is not None else "DROPPED: could not be judged (unscored)"
        else:
            said = "not reached"
        yield f"  {i} {name} {options}: {said}"


def _judged(recipe: Recipe, fitted: Fitted, batch: pa.RecordBatch) -> Iterator[str]:
    """A line a stage with what it compared; also of those behind the one that drops the row."""
    dropped = False
    for i, (stage, (name, options)) in enumerate(zip(fitted.stages, _spelled(recipe), strict=True)):
        (kept,), (value,) = stage.keep(batch).to_pylist(), stage.measure(batch).cast(pa.string()).to_pylist()
        said = "passes" if kept else "could not be judged" if kept is None else "fails"
        first = "" if kept or dropped else ", DROPPED here"
        dropped = dropped or not kept
        yield f"  {i} {name} {options}: {said}{first}" + (f": {value}" if value is not None else "")


def _spelled(recipe: Recipe) -> Iterator[tuple[str, str]]:
    for rule in recipe.resolved()["keep"]:
        ((name, options),) = rule.items()
        yield name, yaml.safe_dump(options, default_flow_style=True, allow_unicode=True, width=10**6, sort_keys=False).strip()


def _verdicts(uid: str, selection: Selection) -> Iterator[Place]:
    folder = store.join(selection.root, "verdicts")
    for file in store.list_files(folder, ".parquet") if store.is_dir(folder) else []:
        with store.open_input(store.join(folder, file)) as f:
            start = 0
            for batch in pq.ParquetFile(f).iter_batches():
                here = pc.indices_nonzero(pc.equal(pc.utf8_lower(batch["uid"]), uid)).to_pylist()
                for i in here:
                    yield Place(file.removesuffix(".parquet"), start + i, batch.slice(i, 1).to_pylist()[0])
                start += len(batch)


def _in_pool(uid: str, pool: Pool, columns: Sequence[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(stem, its row) of each row of a pool with the uid: `row` number, `batch` of that row, `columns` that are no arrays."""
    for part in pool.parts:
        have = part.columns()
        wanted = list(
            dict.fromkeys(["uid", *(columns if columns is not None else [c for c in have if not have[c].endswith(".npz")])])
        )
        if missing := [c for c in wanted if c not in have]:
            needs.check(pool, missing)
        start = 0
        for batch in part.batches(["uid"]):
            here = pc.indices_nonzero(pc.equal(pc.utf8_lower(batch["uid"]), uid)).to_pylist()
            for i in here:
                row = _row(part.batches(wanted), start + i)
                yield part.stem, {"row": start + i, "batch": row, "columns": row.to_pylist()[0]}
            start += len(batch)


def _row(batches: Iterator[pa.RecordBatch], row: int) -> pa.RecordBatch:
    for batch in batches:
        if row < len(batch):
            return batch.slice(row, 1)
        row -= len(batch)
    raise AssertionError("a file got shorter")
