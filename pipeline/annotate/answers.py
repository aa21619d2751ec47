"""What one annotator says of the rows of one file, and the two files that it goes into."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.annotate.annotator import Annotator, Batch
from pools import store

NOT_FINITE = "not_finite"


class Answers:
    """Values, features and reasons of `rows` rows, which come in any order; a row that never comes stays null."""

    def __init__(self, annotator: Annotator, rows: int) -> None:
        self.annotator = annotator
        self.reasons: list[str | None] = [None] * rows
        self._columns: dict[str, list[Any]] = {field.name: [None] * rows for field in annotator.fields}
        self._arrays = {name: np.zeros((rows, width), np.float16) for name, width in annotator.arrays.items()}

    def fill(self, rows: Sequence[int], batch: Batch) -> None:
        """The answers for these rows. A row with a reason, or with a number that is not finite, gets nulls and zeros."""
        columns = {name: _listed(values) for name, values in batch.columns.items()}
        arrays = {name: np.asarray(a, np.float32) for name, a in (batch.arrays or {}).items()}
        reasons: list[str | None] = list(batch.reasons) if batch.reasons is not None else [None] * len(rows)
        self._check(len(rows), columns, arrays, reasons)
        finite = np.ones(len(rows), bool)
        for array in arrays.values():
            finite &= np.isfinite(array).all(axis=1)
        for i, row in enumerate(rows):
            values = {name: column[i] for name, column in columns.items()}
            if not finite[i] or any(isinstance(v, float) and not math.isfinite(v) for v in values.values()):
                reasons[i] = reasons[i] or NOT_FINITE
            self.reasons[row] = reasons[i]
            if reasons[i] is None:
                for name, value in values.items():
                    self._columns[name][row] = value
                for name, array in arrays.items():
                    self._arrays[name][row] = array[i]

    def refuse(self, row: int, reason: str) -> None:
        self.reasons[row] = reason

    def _check(self, rows: int, columns: Mapping[str, Any], arrays: Mapping[str, Any], reasons: Sequence[Any]) -> None:
        """A mistake of whoever wrote the annotator, found at the first batch."""
        widths = {name: (rows, width) for name, width in self.annotator.arrays.items()}
        lengths = {len(column) for column in (*columns.values(), reasons)}
        if columns.keys() != self._columns.keys() or {n: a.shape for n, a in arrays.items()} != widths or lengths != {rows}:
            raise ValueError(
                f"{self.annotator.name} was asked about {rows} rows for {sorted(self._columns)} and {widths}; it answered "
                f"{ {n: len(c) for n, c in columns.items()} }, { {n: a.shape for n, a in arrays.items()} }, "
                f"{len(reasons)} reasons"
            )

    def counts(self) -> dict[str, int]:
        """in = kept + failed:<reason>."""
        failed = Counter(f"failed:{reason}" for reason in self.reasons if reason is not None)
        return {"in": len(self.reasons), "kept": len(self.reasons) - failed.total(), **dict(sorted(failed.items()))}

    def write(self, folder: str, stem: str, uids: pa.Array, header: Mapping[str, Any]) -> None:
        """`<stem>.npz`, if there are features, then `<stem>.parquet` with the header as its metadata `winnow`."""
        if self._arrays:
            with store.atomic(store.join(folder, stem + ".npz")) as f:
                arrays: dict[str, Any] = self._arrays
                np.savez(f, **arrays)
        columns = {"uid": uids.cast(pa.string())}
        columns |= {f.name: pa.array(self._columns[f.name], f.type) for f in self.annotator.fields}
        columns[f"{self.annotator.name}_reason"] = pa.array(self.reasons, pa.string())
        said = {"winnow": json.dumps(header, sort_keys=True, ensure_ascii=False)}
        with store.atomic(store.join(folder, stem + ".parquet")) as f:
            pq.write_table(pa.table(columns).replace_schema_metadata(said), f)


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
