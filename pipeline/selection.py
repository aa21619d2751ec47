"""A recipe applied to a pool: a verdict for each row, and the list of uids to keep, weighted if the recipe has a mix."""

from __future__ import annotations

import functools
from collections import Counter

import pyarrow.parquet as pq

from filters.mixture import Mix, mix_name
from filters.recipe import Fitted, Recipe
from pipeline import engine, mixing
from pipeline.engine import Unit
from pipeline.scan import PoolScan, naming
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection
from pools.part import Part
from pools.schema import VERDICTS

VERSION = 1


def select(recipe_path: str, pool_root: str, output: str, *, options: engine.Options) -> Outcome:
    """Writes `verdicts/<stem>.parquet`, `uids.npy` (sorted), `recipe.yaml` (resolved) and the manifest.

    Counts: in, kept, `dropped:<stage index>-<name>`. With a mix, also `mix.json` and the count `listed`, the entries of
    `uids.npy`; `kept` stays the rows kept. Raises InputError for a bad recipe, an empty pool, a missing column, rows that do
    not allow the mix.
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
    work = functools.partial(_judge_unit, fitted, recipe.mix, columns, selection)
    return engine.run(run, units, work, options, functools.partial(_finish, recipe, fitted, pool, selection))


def _judge_unit(fitted: Fitted, mix: Mix | None, columns: list[str], selection: Selection, unit: Unit) -> Outcome:
    """Verdicts of one metadata file, and its kept uids as a sorted list for the merge, with their labels for a mix."""
    part: Part
    (part,) = unit.args
    counts: Counter[str] = Counter()
    kept, labels = [], []
    with (
        naming(part),
        store.atomic(selection.verdicts(part.stem)) as f,
        pq.ParquetWriter(f, VERDICTS.schema, compression="zstd") as writer,
    ):
        for batch in part.batches(columns):
            (verdicts,) = fitted.judge([batch])
            writer.write_batch(verdicts)
            counts.update(fitted.tally(verdicts))
            survivors = batch.filter(verdicts["dropped_by"].is_null())
            kept.append(uids.pack(survivors["uid"]))
            if mix:
                labels.append(mix.label(survivors))
    if mix:
        mixing.write_part(_part(selection, part.stem), _labels(selection, part.stem), kept, labels)
    else:
        uids.write_part(_part(selection, part.stem), kept)
    return Outcome(dict(counts))


def _finish(recipe: Recipe, fitted: Fitted, pool: Pool, selection: Selection, total: Outcome) -> Outcome:
    if recipe.mix:
        parts = [(_part(selection, s), _labels(selection, s)) for s in pool.stems]
        try:
            report = mixing.mix_parts(recipe.mix, parts, selection.uids, recipe=recipe.digest)
        except ValueError as e:
            raise InputError(f"{mix_name(recipe.mix)}: {e}", where=pool.root) from None
        store.write_json(selection.mix, report)
        total += Outcome({"listed": sum(group["entries"] for group in report["groups"])})
    else:
        uids.merge_parts([_part(selection, s) for s in pool.stems], selection.uids, recipe=recipe.digest)
    store.write_bytes(selection.recipe, recipe.to_yaml().encode())
    stages = [{"stage": n, "fitted": repr(s)} for n, s in zip(fitted.names, fitted.stages, strict=True)]
    store.write_json(selection.fitted, stages)
    return total


def _part(selection: Selection, stem: str) -> str:
    return store.join(selection.root, ".winnow", "kept", stem + ".npy")


def _labels(selection: Selection, stem: str) -> str:
    return store.join(selection.root, ".winnow", "labels", stem + ".i4")
