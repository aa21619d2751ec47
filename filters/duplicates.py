"""Duplicates within the pool: equal values, near perceptual hashes, near embeddings. Of some that are duplicates one stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters import arrays, hamming
from filters.grouping import FIRST, First
from filters.registry import Filter, Of, Scan, register
from filters.visiting import VisitRule, condensed, kept_of_pairs
from pools import hashes, uids
from pools.hashes import Hashes
from pools.tables import Records, Table

_PAIRS = 1 << 24  # in memory before they are condensed
_HASHED = np.dtype([*FIRST.descr, ("phash", "<u8"), ("text", "<u8")])


@register("exact_duplicates")
@dataclass(frozen=True, kw_only=True)
class ExactDuplicates:
    """Rows whose value of `column` no other row has, and of those that share one the row with the smallest uid.

    `column` holds texts, bytes or whole numbers, as CommonPool's `sha256` of the images; a null is not judged. Rows with one
    uid are one row that stands repeatedly, and stay or go together. Values are told apart by 64-bit hashes: of 10^10
    different ones about three are taken for another's. State: 25 bytes for each value that several rows share.
    """

    column: str = "sha256"
    of: Of = "pool"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.column)

    def fit(self, scan: Scan) -> Filter:
        return FirstOnly(self.column, scan.grouped(First(self.needs, _Valued(self.column))))


@dataclass(frozen=True)
class _Valued:
    """Records of a batch, by the value of a column."""

    column: str

    def __call__(self, batch: pa.RecordBatch) -> Records:
        batch = batch.filter(batch[self.column].is_valid())
        return _rows(hashes.of_column(batch[self.column], self.column), batch["uid"], FIRST)


@dataclass(frozen=True)
class FirstOnly:
    """Rows that are the first with their value of `column`, by a table of the values that several rows have."""

    column: str
    firsts: Table

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.column)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        others = _others(self.firsts, hashes.of_column(batch[self.column], self.column), batch["uid"])
        return arrays.booleans(~others, arrays.numpy(batch[self.column].is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        values = batch[self.column]
        if (
            pa.types.is_binary(values.type)
            or pa.types.is_large_binary(values.type)
            or pa.types.is_fixed_size_binary(values.type)
        ):
            return pa.array([None if v is None else v.hex() for v in values.to_pylist()], pa.string())
        return values.cast(pa.string())


@register("phash_duplicates")
@dataclass(frozen=True, kw_only=True)
class PhashDuplicates:
    """Images whose perceptual hash in `column` differs in more than `max_distance` bits from those of all others.

    Of images that are near each other, `rule` says which stay, visited in the order of their uids (of equal hashes the row
    with the smallest uid alone is visited): `compare-with-kept` drops one that is near an image which stays, `component`
    keeps one of all that a chain connects, `any-earlier` drops one that is near any earlier one. With `same_text` images are
    duplicates only if their texts are equal too. Hashes are 64-bit whole numbers or 16 hex digits; a null is not judged.
    State: while fitting about 100 bytes for each different hash and, with `compare-with-kept`, 16 for each near pair, then 8
    for each hash that goes and 25 for each that several rows have.
    """

    max_distance: int
    rule: VisitRule
    column: str = "phash"
    same_text: bool = False
    of: Of = "pool"

    def __post_init__(self) -> None:
        hamming.check_distance(self.max_distance)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.column, *(["text"] if self.same_text else []))

    def fit(self, scan: Scan) -> Filter:
        hashed = Hashed(self.column, self.same_text)
        table = scan.grouped(First(self.needs, hashed, _HASHED, repeated=False))
        order = np.lexsort((table.column("low"), table.column("high")))
        found, texts = table.column("phash")[order], table.column("text")[order]
        kept = kept_of_pairs(table.count, self._pairs(found, texts if self.same_text else None), self.rule)
        gone = scan.hold(np.sort(table.column("group")[order][~kept]))
        repeated = table.records[table.column("several")][list(FIRST.names or ())].astype(FIRST)
        return NotNear(hashed, gone, scan.hold(repeated))

    def _pairs(self, found: Hashes, labels: Hashes | None) -> NDArray[np.int64]:
        """Near pairs, enough of them to decide by the rule."""
        pieces, waiting = [np.empty((0, 2), np.int64)], 0
        for piece in hamming.each_near_pair(found, self.max_distance, labels):
            pieces.append(piece)
            waiting += len(piece)
            if waiting > max(_PAIRS, len(found)) and self.rule != "compare-with-kept":
                pieces, waiting = [condensed(len(found), np.concatenate(pieces), self.rule)], 0
        return np.concatenate(pieces)


@dataclass(frozen=True)
class Hashed:
    """Records of a batch, by perceptual hash, and text if that counts."""

    column: str
    same_text: bool

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.column, *(["text"] if self.same_text else []))

    def __call__(self, batch: pa.RecordBatch) -> Records:
        batch = batch.filter(batch[self.column].is_valid())
        groups, found, texts = self.groups(batch)
        records = _rows(groups, batch["uid"], _HASHED)
        records["phash"], records["text"] = found, texts
        return records

    def groups(self, batch: pa.RecordBatch) -> tuple[Hashes, Hashes, Hashes]:
        """(n,) hashes of what makes rows the same; perceptual hashes; hashes of the texts, 0 if they do not count."""
        found = hamming.of_column(batch[self.column], self.column)
        texts = hashes.of_column(batch["text"], "text") if self.same_text else np.zeros_like(found)
        return hashes.join(found, texts), found, texts


@dataclass(frozen=True)
class NotNear:
    """Rows whose hash has not to go, and which are the first with it."""

    hashed: Hashed
    gone: Table
    firsts: Table

    @property
    def needs(self) -> tuple[str, ...]:
        return self.hashed.needs

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        groups, _, _ = self.hashed.groups(batch)
        good = ~hashes.isin(groups, self.gone.records) & ~_others(self.firsts, groups, batch["uid"])
        return arrays.booleans(good, arrays.numpy(batch[self.hashed.column].is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.hashed.column].cast(pa.string())


def _rows(groups: Hashes, uid: pa.Array, dtype: np.dtype[Any]) -> Records:
    packed = uids.pack(uid)
    records = np.zeros(len(groups), dtype)
    records["group"], records["high"], records["low"] = groups, packed["f0"], packed["f1"]
    return records


def _others(firsts: Table, groups: Hashes, uid: pa.Array) -> NDArray[np.bool_]:
    """(n,) whether a row's group is in the table with another uid."""
    known = firsts.column("group")
    if len(known) == 0:
        return np.zeros(len(groups), bool)
    packed = uids.pack(uid)
    places = np.minimum(np.searchsorted(known, groups), len(known) - 1)
    own = (firsts.column("high")[places] == packed["f0"]) & (firsts.column("low")[places] == packed["f1"])
    others: NDArray[np.bool_] = (known[places] == groups) & ~own
    return others
