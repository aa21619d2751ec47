"""Evaluation data in parquet, as retrieval sets and WinoGAViL are published: images are bytes in a column.

A task's folder holds the files, anywhere below it; of a set with a column `split` the rows of `test` count. Cells of images
are `{bytes, path}`, or a list of such. Pictures are read one row group at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from baselines.train.decode import Raw
from pools import store
from pools.errors import InputError

SPLIT = "split"
TEST = "test"


def list_tables(folder: str) -> tuple[str, ...]:
    """The parquet files below a folder, sorted. Raises InputError if there is none."""
    found = tuple(store.join(folder, p) for p in store.list_files(folder, ".parquet"))
    if not found:
        raise InputError("no .parquet file", where=folder, expected="the published parquet files", fix="fetch the task's data")
    return found


def has_tables(folder: str) -> bool:
    return bool(store.list_files(folder, ".parquet"))


def rows(
    files: Sequence[str], columns: Sequence[str], *, lengths: Sequence[str] = ()
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(file, number of the row in it, row) of the test split; of columns in `lengths` the number of their images alone."""
    for path, batch, numbers in _batches(files, columns):
        plain = {name: batch[name].to_pylist() for name in columns if name not in lengths}
        plain |= {name: [len(_cells(value)) for value in batch[name]] for name in lengths}
        for at, number in enumerate(numbers):
            yield path, number, {name: values[at] for name, values in plain.items()}


def images(files: Sequence[str], column: str, targets: Iterable[int]) -> Iterator[Raw]:
    """The images of the test split in order, undecoded, each with its target."""
    target = iter(targets)
    for path, batch, numbers in _batches(files, [column]):
        for value, number in zip(batch[column], numbers, strict=True):
            for i, cell in enumerate(_cells(value)):
                data = cell["bytes"].as_py() if cell.is_valid else None
                yield Raw(f"{path}: row {number}, image {i}", data or b"", int(next(target)))


def _cells(value: pa.Scalar) -> list[pa.StructScalar]:
    """The images of a cell: one, or those of a list."""
    if isinstance(value, pa.StructScalar):
        return [value]
    return list(value) if value.is_valid else []


def _batches(files: Sequence[str], columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch, list[int]]]:
    for path in files:
        with store.open_input(path) as f:
            try:
                file = pq.ParquetFile(f)
                have = file.schema_arrow.names
                if missing := [c for c in columns if c not in have]:
                    raise InputError(f"no column {missing[0]!r}", where=path, expected=f"columns {', '.join(columns)}")
                split = [SPLIT] if SPLIT in have else []
                first = 0
                for batch in file.iter_batches(64, columns=[*columns, *split]):
                    numbers = list(range(first, first + len(batch)))
                    first += len(batch)
                    if split:
                        mask = pa.array([value == TEST for value in batch[SPLIT].to_pylist()])
                        numbers = [n for n, keep in zip(numbers, mask.to_pylist(), strict=True) if keep]
                        batch = batch.filter(mask)
                    yield path, batch, numbers
            except pa.ArrowInvalid as e:
                raise InputError(f"not parquet: {e}", where=path, expected="a whole parquet file") from e
