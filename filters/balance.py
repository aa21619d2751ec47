"""Mixes that give every group the same part of the list, and the one in which each row has a weight of its own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import entity, models, vectors, wordnet
from filters.mixture import Group, register_mix
from pools import uids
from pools.errors import InputError

NONE = "none"  # the label of rows that belong to no group
_MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class _Balanced:
    """What all balanced mixes take."""

    entries: int | None = None
    max_copies: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("entries", "max_copies"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} {value} is below 1")

    def plan(self, rows: Mapping[str, int]) -> tuple[Group, ...]:
        there = {label: n for label, n in rows.items() if n and label != NONE}
        total = sum(there.values()) if self.entries is None else self.entries
        if not there and self.entries is not None and any(rows.values()):
            raise ValueError(f"none of the {sum(rows.values()):,} kept rows belongs to a group")
        shares = even_shares(there, total if there else 0, self.max_copies)
        # All others in one group, of which nothing is listed.
        return (*(Group((label,), n) for label, n in shares.items()), Group(tuple(r for r in rows if r not in there), 0))


def even_shares(rows: Mapping[str, int], entries: int, max_copies: int | None) -> dict[str, int]:
    """{group: entries}: as even as whole numbers allow, the first groups one more than the last.

    With `max_copies` no group has more than so many entries for each of its rows; the others share what it leaves. Raises
    ValueError if not all entries find a place.
    """
    shares = dict.fromkeys(rows, 0)
    open_, left = list(rows), entries
    if max_copies is not None:
        if (most := max_copies * sum(rows.values())) < entries:
            raise ValueError(f"{entries:,} entries, of {max_copies} or fewer for each row; the rows allow {most:,}")
        smallest_first = sorted(rows, key=lambda label: rows[label])
        for i, label in enumerate(smallest_first):
            # Once a group has room for its even share, so has every larger one.
            if max_copies * rows[label] * (len(rows) - i) > left:
                break
            shares[label] = max_copies * rows[label]
            left -= shares[label]
        full = {label for label, n in shares.items() if n}
        open_ = [label for label in rows if label not in full]
    each, more = divmod(left, len(open_)) if open_ else (0, 0)
    return shares | {label: each + (i < more) for i, label in enumerate(open_)}


@register_mix("balanced_clusters")
@dataclass(frozen=True, kw_only=True)
class BalancedClusters(_Balanced):
    """Each cluster gets the same part of the list: sampling with the clusters balanced, as in DataComp's appendix.

    A row's cluster is that of the centroid nearest to its `features`, as in the filter nearest_cluster; with `targets` only
    those clusters count. Rows of no cluster that counts are not listed. `entries` is the length of the list (default: as many
    as there are rows that count), shared out evenly over the clusters that have rows; `max_copies` bounds how often a row
    stands in it, and what a small cluster leaves goes to the others. Within a cluster as for all mixes: every row as often,
    the rows with the smallest hashes of uid and `seed` once more.
    """

    features: str
    centroids: str = field(metadata={"file": True})
    targets: str | None = field(default=None, metadata={"file": True})

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.features,)

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        vectors.check_width(types, self.features, self.centroids)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*map(str, self._clusters().tolist()), NONE)

    def label(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        clusters = self._clusters()
        count = len(vectors.load_centroids(self.centroids).centroids)
        places = np.full(count + 1, len(clusters), np.int32)  # the last is for rows without a cluster, which are -1
        places[clusters] = np.arange(len(clusters))
        labels: NDArray[np.int32] = places[vectors.nearest_of_column(batch, self.features, self.centroids)]
        return labels

    def _clusters(self) -> NDArray[np.int64]:
        if self.targets is None:
            return np.arange(len(vectors.load_centroids(self.centroids).centroids))
        return _targets(self.targets, self.centroids)


@functools.lru_cache(maxsize=2)
def _targets(targets: str, centroids: str) -> NDArray[np.int64]:
    return vectors.load_clusters(targets, centroids)


@register_mix("balanced_synsets")
@dataclass(frozen=True, kw_only=True)
class BalancedSynsets(_Balanced):
    """Each synset gets the same part of the list: sampling with the synsets balanced, as in DataComp's appendix.

    A row's synset is that of the first word of its caption that the filter text_entity would count, with `synsets` and
    `wordnet` as there; rows without one are not listed. `entries` is the length of the list (default: as many as there are
    rows with a synset), shared out evenly over the synsets that have rows; `max_copies` bounds how often a row stands in it,
    and what a rare synset leaves goes to the others. Within a synset as for all mixes: every row as often, the rows with the
    smallest hashes of uid and `seed` once more.
    """

    synsets: str = field(default=models.IMAGENET_21K, metadata={"file": True})
    wordnet: str = field(default=models.WORDNET_30, metadata={"file": True})
    needs: ClassVar[tuple[str, ...]] = ("text",)

    @property
    def labels(self) -> tuple[str, ...]:
        return (*_places(self.synsets, self.wordnet).names, NONE)

    def label(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        places = _places(self.synsets, self.wordnet)
        none = len(places.names)
        # The words are looked up by map and filter, which no line of Python goes through.
        found = [next(filter(None, map(places.__getitem__, (t or "").split())), 0) for t in batch["text"].to_pylist()]
        labels = np.array(found, np.int32) - 1
        labels[labels < 0] = none
        return labels


class _Places(dict[str, int]):
    """The place of a word's synset among `names`, from 1, worked out when first asked for; 0 for a word that has none."""

    def __init__(self, known: wordnet.WordNet, names: tuple[str, ...]) -> None:
        super().__init__()
        self.known, self.names = known, names
        # As in text_entity an offset is enough; of two synsets with one offset the first counts.
        self.places = {int(name[1:]): i for i, name in reversed(list(enumerate(names, 1)))}

    def __missing__(self, word: str) -> int:
        first = self.known.first_synset(word)
        if len(self) >= 1 << 20:
            self.clear()
        self[word] = place = self.places.get(first[1], 0) if first else 0
        return place


@functools.lru_cache(maxsize=2)
def _places(synsets: str, path: str) -> _Places:
    names = sorted(f"{pos}{offset:08d}" for pos, offset in entity._synsets(synsets))
    return _Places(wordnet.load(path), tuple(names))


@register_mix("weights")
@dataclass(frozen=True, kw_only=True)
class Weights:
    """Each row stands in the list as often as its weight says, the number in `column` times `scale`.

    Of a weight w it stands there ⌊w⌋ times, and once more if the 64-bit hash of its uid and `seed` is below (w − ⌊w⌋) · 2^64:
    so rows of weight 2.3 have 2.3 entries on average, and a row has the same number in every pool. A null or NaN counts 0; a
    negative weight is an error.
    """

    column: str
    scale: float = 1.0
    seed: int = 0
    labels: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale {self.scale:g} is not above 0")

    @property
    def needs(self) -> tuple[str, ...]:
        return ("uid", self.column)

    def label(self, batch: pa.RecordBatch) -> NDArray[np.int32]:
        """(n,) how often each row stands in the list."""
        kind = batch[self.column].type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise InputError(f"column {self.column!r} holds {kind}", expected="weights, as numbers")
        weights = pc.fill_null(batch[self.column].cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) * self.scale
        weights = np.where(np.isnan(weights), 0.0, weights)
        if ((weights < 0) | (weights > _MOST)).any():
            wrong = int(((weights < 0) | (weights > _MOST)).argmax())
            uid = batch["uid"][wrong].as_py()
            raise InputError(f"weight {weights[wrong]:g} of uid {uid} in column {self.column!r}", expected="0 or more")
        whole = np.floor(weights)
        hashes = uids.hash64(uids.pack(batch["uid"]), self.seed)
        # Below 1 in double precision, a fraction times 2^64 is a whole number below 2^64 but for what is far below one row.
        once_more = hashes < np.ceil((weights - whole) * 2.0**64).astype(np.uint64)
        copies: NDArray[np.int32] = (whole + once_more).astype(np.int32)
        return copies

    def plan(self, rows: Mapping[str, int]) -> tuple[Group, ...]:
        return ()
