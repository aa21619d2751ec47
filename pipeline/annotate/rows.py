"""The rows of one metadata file as samples: in its order, or in the order in which a shard has their pictures."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pipeline.annotate.annotator import Pixels, Unscored
from pipeline.annotate.pictures.picture import Picture
from pools import shards, store
from pools.part import Part

ABSENT, NO_IMAGE = "absent_sample", "no_image"


@dataclass(eq=False, slots=True)
class Row:
    """One row (a `Sample`), with its number in the metadata file and its picture, or why it has none."""

    number: int
    uid: str
    text: str | None
    columns: Mapping[str, Any]
    picture: Picture | str = field(default=ABSENT)

    def pixels(self, min_side: int | None = None) -> Pixels:
        if isinstance(self.picture, str):
            raise Unscored(self.picture)
        return self.picture.pixels(min_side)

    def size(self) -> tuple[int, int]:
        if isinstance(self.picture, str):
            raise Unscored(self.picture)
        return self.picture.size()


def rows(part: Part, columns: list[str]) -> Iterator[Row]:
    """The rows of a metadata file in its order, without pictures; `columns` are those to read besides uid."""
    number = 0
    for batch in part.batches(list(dict.fromkeys(["uid", *columns]))):
        values = {name: _values(batch[name]) for name in batch.schema.names}
        for i, uid in enumerate(values["uid"]):
            text = values["text"][i] if "text" in values else None
            yield Row(number, uid, text, {name: values[name][i] for name in columns})
            number += 1


def _values(column: pa.Array) -> Any:
    """Python values; features (n, d) as an array, whose rows need not become lists."""
    if pa.types.is_fixed_size_list(column.type) and not column.null_count:
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    return column.to_pylist()


def with_pictures(found: Iterator[Row], tar: str) -> Iterator[Row]:
    """The rows in the order in which a shard has them, with their pictures; then those that it has not, in their own order.

    The shard is read once from front to end. Samples that no row names are passed over; of equal uids the n-th sample is the
    n-th row's. A sample's uid is its json's; without one its key stands for it.
    """
    waiting: dict[str, deque[Row]] = {}
    for row in found:
        waiting.setdefault(row.uid, deque()).append(row)
    with store.open_input(tar) as f:
        for sample in shards.samples(tar):
            uid = shards.sidecar(f, sample).get("uid")
            queue = waiting.get(uid if isinstance(uid, str) else sample.key)
            if not queue:
                continue
            row = queue.popleft()
            extension = sample.image_extension
            row.picture = NO_IMAGE if extension is None else Picture(shards.read(f, sample, extension))
            yield row
    yield from sorted((row for queue in waiting.values() for row in queue), key=lambda row: row.number)
