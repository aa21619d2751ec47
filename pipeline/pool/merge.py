"""Several pools → one: a web pool and data of one's own, say, with what stands in more than one of them decided by a rule."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline import engine, exchange
from pipeline.pool.files import bring_part, bring_shard, list_tars, uids_of
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run
from pools.part import Part
from pools.uids import Uids
from pools.uids.streams import combined
from pools.uids.words import unpack

VERSION = 1
SOURCE, WEIGHT = "source_pool", "source_weight"
FAMILY = "source"
Rule = Literal["first", "keep", "error"]
_SHOWN = 3


@dataclass(frozen=True)
class Source:
    """A pool to be merged, the folder its files go to, and how much each of its rows weighs."""

    name: str
    pool: Pool
    weight: float = 1.0


@dataclass(frozen=True)
class Without:
    """The uids that a sorted list does not hold; picklable, as the list is a file."""

    path: str

    def __call__(self, found: Uids) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = uids.count(uids.load(self.path), found) == 0
        return kept


def open_sources(given: Sequence[str], weights: Mapping[str, float]) -> list[Source]:
    """`NAME=POOL`, or a pool that is named by its folder. Raises InputError for names and weights that cannot be."""
    named = []
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or "/" in name:
            name, path = store.name(text), text
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise InputError(f"name {name!r}", where=text, expected="letters, digits, _ . - (it names folders); say NAME=POOL")
        named.append((name, path))
    names = [name for name, _ in named]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise InputError(f"two pools by the name of {twice}", where="POOL", expected="NAME=POOL for one of them")
    for name, weight in weights.items():
        if name not in names:
            raise InputError(f"no pool {name!r}", where="--weight", expected=f"one of {', '.join(names)}")
        if not (math.isfinite(weight) and weight >= 0):
            raise InputError(f"{weight:g}", where="--weight", expected="0 or more")
    return [Source(name, Pool.open(path), weights.get(name, 1.0)) for name, path in named]


def merge(sources: Sequence[Source], output: str, *, on_collision: Rule = "first", options: engine.Options) -> Outcome:
    """Writes metadata, annotations and shards of all sources under `<name>/<stem>`, as they are where nothing is dropped.

    A uid of several sources: `first` drops it from all but the first of them, `keep` leaves every row, `error` refuses;
    rows of one source with equal uids stay rows. `collisions.parquet` lists uid and source of what collided. The column
    `source_pool` says where a row comes from, `source_weight` what it weighs. Counts: in, kept, dropped:collision.
    """
    _check(sources)
    inputs = [f"{s.name}/{store.digest(path, s.pool.root)}" for s in sources for path in _files(s)]
    told = {"sources": {s.name: s.weight for s in sources}, "on_collision": on_collision}
    run = Run(output, "pool merge", VERSION, told, tuple(inputs))
    if (before := engine.recall(run, options)) is not None:
        return before
    run.claim(overwrite=options.overwrite)
    scratch = store.join(output, ".winnow", "merge")
    collided = _collisions(sources, scratch, engine.make_engine(options.engine, options.workers))
    found = sum(stored.rows for stored in collided.values())
    if on_collision == "error" and found:
        error = _refused(collided, found)
        store.remove_tree(output)
        raise error
    _list_collisions(collided, store.join(output, "collisions.parquet"))
    drops = {name: stored.path for name, stored in collided.items() if stored.rows and on_collision == "first"}
    work = functools.partial(_bring, output=output, drops=drops)

    def finish(total: Outcome) -> Outcome:
        store.remove_tree(scratch)
        return total + Outcome({"colliding_uids": found})

    return engine.run(run, _units(sources), work, engine.Options(**{**vars(options), "overwrite": False}), finish)


def _check(sources: Sequence[Source]) -> None:
    if len(sources) < 2:
        raise InputError("one pool", where="POOL…", expected="two or more to merge")
    for source in sources:
        for part in source.pool.parts:
            for column in (SOURCE, WEIGHT):
                where = part.columns().get(column)
                if where is not None and f"/annotations/{FAMILY}/" not in where:
                    fix = "give it another name, for instance by `winnow pool import … --rename`"
                    raise InputError(f"a column {column!r}", where=where, expected="a name that merging does not use", fix=fix)


def _files(source: Source) -> list[str]:
    tars = [store.join(source.pool.shards, stem + ".tar") for stem in list_tars(source.pool)]
    return [*(path for part in source.pool.parts for path in (part.parquet, *part.others)), *tars]


def _collisions(sources: Sequence[Source], scratch: str, workers: engine.Engine) -> dict[str, Any]:
    """Of each source the sorted uids that an earlier one has too: {name: stored list}."""
    found = {}
    before: str | None = None
    for i, source in enumerate(sources):
        tasks = [(part, store.join(scratch, source.name, f"{j:08d}.npy")) for j, part in enumerate(source.pool.parts)]
        exchange.every(workers, _list_part, tasks)
        own = store.join(scratch, f"{source.name}-uids.npy")
        uids.merge_parts([path for _, path in tasks], own)
        store.remove_tree(store.join(scratch, source.name))
        if before is not None:
            both = store.join(scratch, f"{source.name}-collided.npy")
            uids.write_stream(both, combined("intersect", [uids.stored(before).reader(), uids.stored(own).reader()]))
            found[source.name] = uids.stored(both)
            union = store.join(scratch, f"{i}-union.npy")
            uids.write_stream(union, combined("union", [uids.stored(before).reader(), uids.stored(own).reader()]))
            own = union
        before = own
    return found


def _list_part(task: tuple[Part, str]) -> None:
    part, path = task
    uids.write_part(path, [uids_of(part)])


def _refused(collided: Mapping[str, Any], found: int) -> InputError:
    name, stored = next((name, stored) for name, stored in collided.items() if stored.rows)
    shown = ", ".join(unpack(stored.reader().read(_SHOWN)).to_pylist())
    return InputError(
        f"{found:,} uids stand in more than one pool; of {name}: {shown}{', …' if stored.rows > _SHOWN else ''}",
        where="--on-collision error",
        expected="none",
        fix="`first` takes them from the pool that is named first, `keep` leaves all of their rows",
    )


def _list_collisions(collided: Mapping[str, Any], path: str) -> None:
    schema = pa.schema([("uid", pa.string()), (SOURCE, pa.string())])
    with store.atomic(path) as f, pq.ParquetWriter(f, schema, compression="zstd") as writer:
        for name, stored in collided.items():
            for block in stored.blocks():
                writer.write_table(pa.table([unpack(block), pa.array([name] * len(block), pa.string())], schema=schema))


def _units(sources: Sequence[Source]) -> list[engine.Unit]:
    units = []
    for source in sources:
        for part in source.pool.parts:
            units.append(engine.Unit(f"metadata/{source.name}/{part.stem}", "", (source.name, source.weight, part)))
        for stem in list_tars(source.pool):
            path = store.join(source.pool.shards, stem)
            units.append(engine.Unit(f"shards/{source.name}/{stem}", "", (source.name, source.weight, path)))
    return units


def _bring(unit: engine.Unit, *, output: str, drops: Mapping[str, str]) -> Outcome:
    name, weight, what = unit.args
    stem = unit.name.partition("/")[2]
    keep = Without(drops[name]) if name in drops else None
    if isinstance(what, Part):
        rows, kept = _bring_part(what, output, stem, name, weight, keep)
        return Outcome({"in": rows, "kept": kept, "dropped:collision": rows - kept})
    there = store.join(output, "shards", stem)
    samples, left = bring_shard(what, there, keep)
    return Outcome({"shards": int(left != 0), "shards_written_anew": int(left not in (0, samples))})


def _bring_part(part: Part, output: str, stem: str, name: str, weight: float, keep: Any) -> tuple[int, int]:
    family = store.join(part.root, "annotations", FAMILY) + "/"
    ours = [path for path in part.others if path.startswith(family)]
    rest = Part(part.root, part.stem, part.parquet, tuple(p for p in part.others if p not in ours), part.of_img2dataset)
    rows = bring_part(rest, output, stem, keep)
    found = uids_of(part)
    names, weights = [name] * len(found), np.full(len(found), weight)
    if ours:  # a merged pool is merged again
        before = part.read([SOURCE, WEIGHT])
        names = [f"{name}/{inner}" for inner in before[SOURCE].to_pylist()]
        weights = weight * before[WEIGHT].to_numpy()
    table = pa.table({"uid": unpack(found), SOURCE: pa.array(names, pa.string()), WEIGHT: pa.array(weights, pa.float64())})
    if keep is not None:
        table = table.filter(pa.array(keep(found)))
    with store.atomic(store.join(output, "annotations", FAMILY, stem + ".parquet")) as f:
        pq.write_table(table, f, compression="zstd")
    return rows


def uneven(sources: Sequence[Source]) -> list[str]:
    """Columns that some sources have and others not, in words: recipes that read them refuse the merged pool."""
    have = {s.name: {c for part in s.pool.parts for c in part.columns()} for s in sources}
    everything = set().union(*have.values())
    return [
        f"column {column} is not in {', '.join(name for name, columns in have.items() if column not in columns)}"
        for column in sorted(everything)
        if any(column not in columns for columns in have.values())
    ]
