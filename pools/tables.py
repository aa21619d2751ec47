"""Sorted records that a filter has learnt from a pool and every worker reads: small ones travel, large ones are a file."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools import store
from pools.errors import WorkFailed

Records = NDArray[Any]
HELD_BYTES = 1 << 18  # a table up to this size goes along with the filter


@dataclass(frozen=True)
class Table:
    """`count` records of which `digest` is the SHA-256, its first 16 digits: two tables of one digest are one."""

    count: int
    digest: str
    path: str | None = field(default=None, repr=False, compare=False)
    held: Records | None = field(default=None, repr=False, compare=False)
    keeper: Any = field(default=None, repr=False, compare=False)  # what removes the file once nobody in this process needs it

    @classmethod
    def of(cls, records: Records) -> Table:
        """A table that travels with its records."""
        return cls(len(records), hashlib.sha256(np.ascontiguousarray(records).tobytes()).hexdigest()[:16], held=records)

    @property
    def records(self) -> Records:
        """All of them: mapped where the file is local, else read once in each process."""
        return self.held if self.held is not None else _read(str(self.path))

    def column(self, name: str) -> NDArray[Any]:
        """(count,) one field of all records, in one stretch of memory; made once in each process if the file is large."""
        return np.ascontiguousarray(self.held[name]) if self.held is not None else _column(str(self.path), name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Table, (self.count, self.digest, self.path, self.held))


@functools.lru_cache(maxsize=16)
def _read(path: str) -> Records:
    try:
        if store.is_local(path):
            records: Records = np.load(store.local_path(path), mmap_mode="r", allow_pickle=False)
            return records
        with store.open_input(path) as f:
            return np.load(f, allow_pickle=False)  # type: ignore[no-any-return]
    except FileNotFoundError as e:
        raise WorkFailed(f"{path}: what a filter learnt from the pool is gone\n  → run again") from e


@functools.lru_cache(maxsize=16)
def _column(path: str, name: str) -> NDArray[Any]:
    return np.ascontiguousarray(_read(path)[name])
