"""A recipe applied to a pool: a verdict for each row, and the list of uids to keep, weighted if the recipe has a mix."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from filters.captions import Captions
from filters.fitted import Fitted
from filters.mixture import MIXES, Mix
from filters.recipe import Recipe
from pipeline import engine, mixing
from pipeline.engine import Unit
from pipeline.progress import Progress
from pipeline.scan import PoolScan, naming
from pipeline.selecting import earlier, needs, plugin
from pipeline.selecting.earlier import Earlier
from pools import store, uids
from pools.errors import InputError
from pools.manifest import Outcome, Run, digest_of
from pools.outputs import Selection
from pools.part import Part
from pools.schema import CAPTIONS, VERDICTS

VERSION = 1
_ROWS = 1 << 16  # of verdicts that are written at once
_UNIT_ROWS = 1 << 18  # in several files that are one unit of work, where nothing is written for each
_Write: TypeAlias = Callable[[pa.RecordBatch], None]
# Hex digits are no two alike and hardly get smaller; of the others few are distinct.
_WRITING = {
    "compression": {"uid": "none", "dropped_by": "zstd", "reason": "zstd", "value": "zstd"},
    "use_dictionary": ["reason", "value"],
    "write_statistics": ["dropped_by"],
}


@dataclass(frozen=True)
class Settings:
    """What a selection may be told besides its recipe."""

    verdicts: bool = True  # whether a verdict is written for each row
    fill: bool = False  # whether a file that lacks a column which another has is read as if it had nulls there
    plugin: str | None = None  # a Python file with filters of the user's own
    reuse: bool = True  # whether verdicts of selections beside the output are taken over where they must be the same


def select(
    recipe_path: str, pool_root: str, output: str, *, options: engine.Options, settings: Settings | None = None
) -> Outcome:
    """Writes `verdicts/<stem>.parquet`, `uids.npy` (sorted), `recipe.yaml` (resolved) and the manifest.

    If the recipe gives captions, also `captions/<stem>.parquet` for kept rows, and the count `captions` of them.

    Counts: in, kept, `dropped:<stage index>-<name>`. With a mix, also `mix.json` and the count `listed`, the entries of
    `uids.npy`; `kept` stays the rows kept. Raises InputError for a bad recipe, an empty pool, a missing column, rows that do
    not allow the mix.
    """
    outcome = _select(recipe_path, pool_root, output, options, settings or Settings())
    if options.part[1] == 1 and (emptied := emptied_by(outcome)):
        Progress.note(f"filter: WARNING: nothing is kept: {emptied}")
    return outcome


def _select(recipe_path: str, pool_root: str, output: str, options: engine.Options, settings: Settings) -> Outcome:
    own = plugin.load(settings.plugin) if settings.plugin else None
    recipe = Recipe.load(recipe_path)
    columns = list(dict.fromkeys(["uid", *recipe.needs]))
    pool, inputs = needs.ready(pool_root, recipe, fill=settings.fill)
    said: dict[str, Any] = {"recipe": recipe.name, "recipe_digest": recipe.digest}
    # Named only where they are not as they always were, so that what was made before is known again.
    said |= {} if settings.verdicts else {"verdicts": False}
    said |= {"missing": "null"} if settings.fill else {}
    run = Run(output, "filter", VERSION, said, (digest_of(inputs.by_stem),))
    if (before := engine.recall(run, options)) is not None:
        return before
    run.claim(overwrite=options.overwrite)
    if own is not None:
        own.ship(options)
    chain = earlier.chain(recipe, pool, inputs, VERSION)
    # Workers elsewhere reach the output, and perhaps nothing else that this process does.
    scratch = None if options.engine == "local" else store.join(output, ".winnow", "scratch")
    fitted = recipe.fit(PoolScan(pool, engine.make_engine(options.engine, options.workers), scratch=scratch))
    selection = Selection(output)
    known = earlier.find(selection, chain) if settings.verdicts and settings.reuse else {}
    earlier.note(known, len(pool.parts), fitted.names, quiet=options.quiet)
    groups = [(part,) for part in pool.parts] if settings.verdicts or recipe.mix else _together(pool.parts)
    units = [_unit(group, inputs.by_stem, known) for group in groups]
    judge = _Judge(fitted, recipe.mix, recipe.captions, tuple(columns), selection, settings.verdicts)
    earlier.write(selection, chain)
    return engine.run(
        run, units, judge, options, functools.partial(_finish, recipe, fitted, [u.name for u in units], pool.root, selection)
    )


def _together(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Small files that stand side by side as one unit of work, which leaves one file, and a mark, for all of them."""
    groups: list[tuple[Part, ...]] = []
    rows = _UNIT_ROWS
    for part in parts:
        if rows + part.rows > _UNIT_ROWS:
            groups.append(())
            rows = 0
        groups[-1] += (part,)
        rows += part.rows
    return groups


def _unit(parts: tuple[Part, ...], inputs: Mapping[str, str], known: Mapping[str, Earlier]) -> Unit:
    stems = [part.stem for part in parts]
    name = stems[0] if len(stems) == 1 else f"{stems[0]}.and-{len(stems) - 1}-more"
    return Unit(name, " ".join(inputs[s] for s in stems), (parts, tuple(known.get(s) for s in stems)))


def emptied_by(outcome: Outcome) -> str | None:
    """In words, the stage behind which no row was left; None if some are kept, or there were none."""
    left = outcome.counts.get("in", 0)
    if not left or outcome.counts.get("kept"):
        return None
    for name, dropped in outcome.counts.items():
        if name.startswith("dropped:"):
            left -= dropped
            if left == 0:
                unscored = outcome.counts.get(name.replace("dropped:", "unscored:"), 0)
                among = f", {unscored:,} of them because it could not judge them" if unscored else ""
                stage, rows = name.removeprefix("dropped:"), outcome.counts["in"]
                return f"stage {stage} dropped the last {dropped:,} of {rows:,} rows{among}"
    return None


@dataclass(frozen=True)
class _Judge:
    """Work on a unit: verdicts of a metadata file, and its kept uids as a sorted list for the merge, with labels for a mix."""

    fitted: Fitted
    mix: Mix | None
    captions: Captions | None
    columns: tuple[str, ...]
    selection: Selection
    verdicts: bool

    def __call__(self, unit: Unit) -> Outcome:
        parts: tuple[Part, ...]
        known: tuple[Earlier | None, ...]
        parts, known = unit.args
        found = _Found()
        for part, before in zip(parts, known, strict=True):
            with naming(part):
                self._judge_file(part, before, found)
        if self.mix:
            mixing.write_part(_part(self.selection, unit.name), _labels(self.selection, unit.name), found.kept, found.labels)
        else:
            uids.write_part(_part(self.selection, unit.name), found.kept)
        return Outcome(dict(found.counts))

    def _judge_file(self, part: Part, before: Earlier | None, found: _Found) -> None:
        with contextlib.ExitStack() as files:
            tell = give = None
            if self.verdicts:
                tell = files.enter_context(_writing(self.selection.verdicts(part.stem), VERDICTS.schema, _WRITING))
            if self.captions:
                give = files.enter_context(_writing(self.selection.captions(part.stem), CAPTIONS.schema, {}))
            self._judge(part, before, found, tell, give)

    def _judge(self, part: Part, before: Earlier | None, found: _Found, tell: _Write | None, give: _Write | None) -> None:
        said = earlier.read(before)
        for batch in part.batches(self.columns):
            judged = self.fitted.judge_batch(batch, verdicts=tell is not None, known=said(len(batch)))
            survivors = batch if judged.counts["kept"] == len(batch) else batch.filter(judged.kept)
            found.counts.update(judged.counts)
            found.kept.append(uids.pack(survivors["uid"]))
            if self.mix:
                found.labels.append(self.mix.label(survivors))
            if tell:
                tell(judged.verdicts)
            if give and self.captions:
                given = pa.record_batch([survivors["uid"], self.captions.write(survivors)], schema=CAPTIONS.schema)
                given = given.filter(given["caption"].is_valid())
                found.counts["captions"] += len(given)
                give(given)


@contextlib.contextmanager
def _writing(path: str, schema: pa.Schema, how: Mapping[str, Any]) -> Iterator[_Write]:
    """A function that adds a batch to a parquet file, which is there once the block ends well."""
    waiting: list[pa.RecordBatch] = []
    with store.atomic(path) as f, pq.ParquetWriter(f, schema, **how) as writer:

        def write(batch: pa.RecordBatch) -> None:
            waiting.append(batch)
            if sum(map(len, waiting)) >= _ROWS:
                flush()

        def flush() -> None:
            writer.write_table(pa.Table.from_batches(waiting, schema))
            waiting.clear()

        yield write
        if waiting:
            flush()


@dataclass(frozen=True)
class _Found:
    """What a unit's rows came to: counts, and of those kept uids and labels, a batch after the other."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: list[uids.Uids] = field(default_factory=list)
    labels: list[mixing.Labels] = field(default_factory=list)


def _finish(recipe: Recipe, fitted: Fitted, units: Sequence[str], pool: str, selection: Selection, total: Outcome) -> Outcome:
    if recipe.mix:
        parts = [(_part(selection, s), _labels(selection, s)) for s in units]
        try:
            report = mixing.mix_parts(recipe.mix, parts, selection.uids, recipe=recipe.digest)
        except ValueError as e:
            raise InputError(f"{MIXES.name_of(recipe.mix)}: {e}", where=pool) from None
        store.write_json(selection.mix, report)
        total += Outcome({"listed": sum(group["entries"] for group in report["groups"])})
    else:
        uids.merge_parts([_part(selection, s) for s in units], selection.uids, recipe=recipe.digest)
    store.write_bytes(selection.recipe, recipe.to_yaml().encode())
    stages = [{"stage": n, "fitted": repr(s)} for n, s in zip(fitted.names, fitted.stages, strict=True)]
    store.write_json(selection.fitted, stages)
    return total


def _part(selection: Selection, stem: str) -> str:
    return store.join(selection.root, ".winnow", "kept", stem + ".npy")


def _labels(selection: Selection, stem: str) -> str:
    return store.join(selection.root, ".winnow", "labels", stem + ".i4")
