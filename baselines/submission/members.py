"""Whether the uids of a list are all among others, which come in batches and may be many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pools import store, uids
from pools.layout import Pool
from pools.uids import Uids, sets


def outside(listed: Uids, batches: Iterable[Uids]) -> Uids:
    """The uids of a sorted list, each once, that no batch has."""
    first = sets.starts(listed)
    found = np.zeros(len(listed), bool)
    for batch in batches:
        places = sets.places(listed, batch)
        inside = places < len(listed)
        places, batch = places[inside], batch[inside]
        found[places[listed[places] == batch]] = True
    others: Uids = listed[first & ~found]
    return others


def of_pool(pool: Pool) -> Iterator[Uids]:
    """The uids of all rows."""
    for part in pool.parts:
        for batch in part.batches(["uid"]):
            yield uids.pack(batch["uid"], where=part.parquet)


def kept(folder: str) -> Iterator[Uids]:
    """The uids that the verdicts in a folder keep, a batch after the other."""
    for name in store.list_files(folder, ".parquet"):
        path = store.join(folder, name)
        with store.open_input(path) as f:
            for batch in pq.ParquetFile(f).iter_batches(columns=["uid", "dropped_by"]):
                chosen: pa.RecordBatch = batch.filter(batch["dropped_by"].is_null())
                yield uids.pack(chosen["uid"], where=path)
