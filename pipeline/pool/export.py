"""A pool in CommonPool's layout: one folder of parquet and npz, all columns of a row beside each other."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import engine
from pools import store
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import Outcome, Run
from pools.part import Part
from pools.schema import COMMONPOOL_EXTRA, METADATA

VERSION = 1
# CommonPool's columns in its order; what a pool has besides stands behind them.
ORDER = (
    *("uid", "url", "text", "original_width", "original_height"),
    *(column.name for column in COMMONPOOL_EXTRA),
    "sha256",
)
assert {column.name for column in METADATA.columns} <= set(ORDER)


def export(pool: Pool, output: str, *, only_published: bool = False, options: engine.Options) -> Outcome:
    """Writes `<stem>.parquet` (metadata and annotations) and `<stem>.npz` (all arrays) for each metadata file.

    A stem below a folder gets the folder's name in front (`a/b` → `a-b`): DataComp's filters list one folder. With
    `only_published`, columns that CommonPool has not are left out. Raises InputError if a file lacks a column that another
    has, or two stems would be one.
    """
    stems = {part.stem: part.stem.replace("/", "-") for part in pool.parts}
    if len(set(stems.values())) < len(stems):
        twice = next(s for s in stems.values() if list(stems.values()).count(s) > 1)
        raise InputError(f"two files would be {twice}.parquet", where=pool.root, expected="names that differ without folders")
    columns, arrays = _columns(pool.parts[0])
    names = [name for name in ORDER if name in columns]
    if not only_published:
        names += [name for name in columns if name not in ORDER]
    for part in pool.parts:
        theirs = {*columns, *arrays}, {name for found in _columns(part) for name in found}
        if different := sorted(theirs[0] ^ theirs[1]):
            raise InputError(
                f"column {different[0]!r} is not in every file",
                where=part.parquet if different[0] in theirs[0] else pool.parts[0].parquet,
                expected="the same columns in all of them, as CommonPool has them",
                fix="annotate what is missing, or take the annotation out of the pool",
            )
    told = {"layout": "commonpool", "columns": names, "arrays": arrays}
    run = Run(output, "pool export", VERSION, told)
    units = [engine.Unit(stems[part.stem], part.digest([*names, *arrays]), (part,)) for part in pool.parts]
    return engine.run(run, units, functools.partial(_write, output=output, names=names, arrays=arrays), options)


def _columns(part: Part) -> tuple[list[str], list[str]]:
    """The columns of a part's tables, and its arrays."""
    where = part.columns()
    return [n for n, path in where.items() if not path.endswith(".npz")], [n for n, p in where.items() if p.endswith(".npz")]


def _write(unit: engine.Unit, *, output: str, names: list[str], arrays: list[str]) -> Outcome:
    (part,) = unit.args
    rows = 0
    held: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in arrays}
    types = part.types(names)
    schema = pa.schema([(name, pa.string() if name == "uid" else types[name]) for name in names])
    with (
        store.atomic(store.join(output, unit.name + ".parquet")) as f,
        pq.ParquetWriter(f, schema, compression="zstd") as writer,
    ):
        for batch in part.batches([*names, *arrays]):
            table = pa.Table.from_batches([batch])
            writer.write_table(table.select(names).cast(schema))
            for name in arrays:
                held[name].append(_array(batch[name]))
            rows += len(batch)
    if arrays:
        whole: dict[str, Any] = {name: np.concatenate(blocks) for name, blocks in held.items() if blocks}
        with store.atomic(store.join(output, unit.name + ".npz")) as f:
            np.savez(f, **whole)
    return Outcome({"in": rows, "kept": rows})


def _array(values: pa.Array) -> np.ndarray[Any, Any]:
    """A column of fixed-size lists as (n, d), any other as (n,)."""
    if pa.types.is_fixed_size_list(values.type):
        flat: np.ndarray[Any, Any] = values.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(values), values.type.list_size)
    plain: np.ndarray[Any, Any] = values.to_numpy(zero_copy_only=False)
    return plain
