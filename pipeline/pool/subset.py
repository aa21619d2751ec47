"""A nested random subset of a pool: as a uid list, or as a pool of its own."""

from __future__ import annotations

import functools
from fractions import Fraction

from pipeline import engine, exchange
from pipeline.pool.files import bring_part, bring_shard, list_tars, uids_of
from pools import store, uids
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run
from pools.part import Part
from pools.scales import get_scale
from pools.subsets import SEED, Within
from pools.uids.runs import scratch_beside

VERSION = 1


def choose(pool: Pool, *, fraction: float | None, scale: str | None, of: str | None) -> Within:
    """The subset that is asked for: a fraction, or what a scale is of another one (default: of the rows that are there).

    Raises InputError for none or two of them, and for a scale that is larger than what it is taken of.
    """
    if (fraction is None) == (scale is None):
        raise InputError("one of the two says how much", where="--fraction, --scale", expected="exactly one of them")
    if fraction is not None:
        if of is not None:
            raise InputError("a fraction is of every pool", where="--of", expected="--scale with it")
        if not 0 < fraction <= 1:
            raise InputError(f"{fraction:g}", where="--fraction", expected="a number above 0, at most 1")
        return Within(Fraction(str(fraction)))
    assert scale is not None
    wanted, whole = get_scale(scale).pool_size, get_scale(of).pool_size if of else sum(part.rows for part in pool.parts)
    if wanted > whole:
        there = f"{of} has {whole:,}" if of else f"{pool.root} has {whole:,}"
        raise InputError(f"{scale} has {wanted:,} rows", where="--scale", expected=f"a smaller scale: {there}")
    return Within(Fraction(wanted, whole))


def list_subset(pool: Pool, subset: Within, output: str, options: engine.Options) -> Outcome:
    """Writes the uids of the rows in the subset as a sorted list; rows with equal uids are entries of their own."""
    with scratch_beside(output) as scratch:
        tasks = [(part, store.join(scratch, "parts", f"{i:08d}.npy")) for i, part in enumerate(pool.parts)]
        workers = engine.make_engine(options.engine, options.workers)
        counts = exchange.every(workers, functools.partial(_list_part, subset=subset), tasks)
        uids.merge_parts([path for _, path in tasks], output)
    rows, kept = (sum(values) for values in zip(*counts, strict=True))
    return Outcome({"in": rows, "kept": kept, "dropped:not_in_subset": rows - kept}).check()


def _list_part(task: tuple[Part, str], *, subset: Within) -> tuple[int, int]:
    part, path = task
    found = uids_of(part)
    kept = found[subset.keep(found)]
    uids.write_part(path, [kept])
    return len(found), len(kept)


def materialise(pool: Pool, subset: Within, output: str, options: engine.Options) -> Outcome:
    """Writes the subset as a pool: metadata, features, annotations, and shards in which the other samples are not."""
    units = [engine.Unit(f"metadata/{p.stem}", " ".join(_digests(p)), (p, None)) for p in pool.parts]
    for stem in list_tars(pool):
        path = store.join(pool.shards, stem)
        units.append(engine.Unit(f"shards/{stem}", store.digest(path + ".tar", pool.root), (None, path)))
    told = {"numerator": subset.fraction.numerator, "denominator": subset.fraction.denominator, "seed": SEED}
    run = Run(output, "pool subset", VERSION, told)
    return engine.run(run, units, functools.partial(_bring, subset=subset, output=output), options)


def _digests(part: Part) -> list[str]:
    return [store.digest(path, part.root) for path in (part.parquet, *part.others)]


def _bring(unit: engine.Unit, *, subset: Within, output: str) -> Outcome:
    part, path = unit.args
    stem = unit.name.partition("/")[2]
    if part is None:
        samples, taken = bring_shard(path, store.join(output, "shards", stem), subset.keep)
        return Outcome({"samples": samples or 0, "samples_kept": taken or 0})
    rows, kept = bring_part(part, output, stem, subset.keep)
    return Outcome({"in": rows, "kept": kept, "dropped:not_in_subset": rows - kept})
