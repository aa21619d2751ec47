"""A recipe applied to a pool: a verdict for each row, and the list of uids to keep."""

from __future__ import annotations

import functools
from collections import Counter

import pyarrow.parquet as pq

from filters.recipe import Fitted, Recipe
from pipeline import engine
from pipeline.engine import Unit
from pipeline.scan import PoolScan
from pools import store, uids
from pools.layout import Pool
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection
from pools.part import Part
from pools.schema import VERDICTS

VERSION = 1


def select(recipe_path: str, pool_root: str, output: str, *, options: engine.Options) -> Outcome:
    """Writes `verdicts/<stem>.parquet`, `uids.npy` (sorted), `recipe.yaml` (resolved) and the manifest.

    Counts: in, kept, `dropped:<stage index>-<name>`. Raises InputError for a bad recipe, an empty pool, a missing column.
    """
    recipe = Recipe.load(recipe_path)
    pool = Pool.open(pool_root)
    columns = list(dict.fromkeys(["uid", *recipe.needs]))
    pool.require(columns)
    digests = {part.stem: part.digest(columns) for part in pool.parts}
    run = Run(output, "filter", VERSION, {"recipe": recipe.name, "recipe_digest": recipe.digest}, (digest_of(digests),))
    if (before := engine.recall(run, options)) is not None:
        return before
    run.claim(overwrite=options.overwrite)
    fitted = recipe.fit(PoolScan(pool, engine.make_engine(options.engine, options.workers)))
    units = [Unit(part.stem, digests[part.stem], (part,)) for part in pool.parts]
    selection = Selection(output)
    work = functools.partial(_judge_unit, fitted, columns, selection)
    return engine.run(run, units, work, options, functools.partial(_finish, recipe, fitted, pool.stems, selection))


def _judge_unit(fitted: Fitted, columns: list[str], selection: Selection, unit: Unit) -> Outcome:
    """Verdicts of one metadata file, and its kept uids as a sorted list for the merge."""
    part: Part
    (part,) = unit.args
    counts: Counter[str] = Counter()
    kept = []
    with store.atomic(selection.verdicts(part.stem)) as f, pq.ParquetWriter(f, VERDICTS.schema, compression="zstd") as writer:
        for verdicts in fitted.judge(part.batches(columns)):
            writer.write_batch(verdicts)
            counts.update(fitted.tally(verdicts))
            kept.append(verdicts["uid"].filter(verdicts["dropped_by"].is_null()))
    packed = [uids.pack(u, where=part.parquet) for u in kept]
    uids.write_part(_part(selection, part.stem), packed)
    return Outcome(dict(counts))


def _finish(recipe: Recipe, fitted: Fitted, stems: tuple[str, ...], selection: Selection, total: Outcome) -> Outcome:
    uids.merge_parts([_part(selection, s) for s in stems], selection.uids, recipe=recipe.digest)
    store.write_bytes(selection.recipe, recipe.to_yaml().encode())
    stages = [{"stage": n, "fitted": repr(s)} for n, s in zip(fitted.names, fitted.stages, strict=True)]
    store.write_json(selection.fitted, stages)
    return total


def _part(selection: Selection, stem: str) -> str:
    return store.join(selection.root, ".winnow", "kept", stem + ".npy")
