"""Records that wait in temporary files, so that a plan takes as little memory for a billion samples as for a thousand."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Records = NDArray[np.void]
HELD = 1 << 19  # records that are gathered before they are sorted into buckets


class Spool:
    """Arrays of one dtype, put under numbers in any order."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._file = tempfile.TemporaryFile()
        self._places: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def put(self, number: int, records: Records) -> None:
        """Adds to what stands under this number."""
        if len(records):
            self._places[number].append((self._file.seek(0, 2), len(records)))
            self._file.write(records.tobytes())

    def get(self, number: int) -> Records:
        pieces = []
        for start, count in self._places.get(number, []):
            self._file.seek(start)
            pieces.append(np.frombuffer(self._file.read(count * self.dtype.itemsize), self.dtype))
        return np.concatenate([np.empty(0, self.dtype), *pieces])

    def numbers(self) -> list[int]:
        """Those under which something stands, ascending."""
        return sorted(self._places)

    def __iter__(self) -> Iterator[tuple[int, Records]]:
        return ((number, self.get(number)) for number in self.numbers())


class Buckets:
    """Records sorted into buckets, in each in the order in which they came."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.spool = Spool(dtype)
        self._held: list[tuple[NDArray[np.int64], Records]] = []
        self._count = 0

    def add(self, buckets: NDArray[np.int64], records: Records) -> None:
        self._held.append((buckets, records))
        self._count += len(records)
        if self._count >= HELD:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        buckets = np.concatenate([b for b, _ in self._held])
        records = np.concatenate([r for _, r in self._held])
        order = np.argsort(buckets, kind="stable")
        buckets, records = buckets[order], records[order]
        starts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]])[: len(buckets)])
        for start, piece in zip(starts.tolist(), np.split(records, starts[1:]), strict=False):
            self.spool.put(int(buckets[start]), piece)
        self._held, self._count = [], 0
