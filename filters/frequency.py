"""Rules on how often things are seen in the pool: images with many texts, texts with many images, rare words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays
from filters.registry import Filter, Of, Scan, register
from pools import hashes
from pools.tables import Table


@dataclass(frozen=True)
class Paired:
    """The hashes of one column, with those of another that stands beside it; rows in which either is null are left out."""

    column: str
    beside: str
    paired: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.beside)

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        batch = batch.filter(pc.and_(batch[self.column].is_valid(), batch[self.beside].is_valid()))
        return np.stack([hashes.of_column(batch[c], c) for c in (self.column, self.beside)], axis=1)


@dataclass(frozen=True)
class _Shared:
    """Options and fit of the rules on pairs of image and text."""

    max: int
    text: str = "text"
    of: Of = "pool"

    def __post_init__(self) -> None:
        if self.max < 1:
            raise ValueError(f"max {self.max} is below 1")

    @property
    def needs(self) -> tuple[str, ...]:
        column, beside = self._columns
        return (column, beside)

    @property
    def _columns(self) -> tuple[str, str]:
        raise NotImplementedError

    def fit(self, scan: Scan) -> Filter:
        return NotAmong(*self._columns, scan.frequent(Paired(*self._columns), self.max))


@register("texts_per_image")
@dataclass(frozen=True, kw_only=True)
class TextsPerImage(_Shared):
    """Images, told apart by their `url`, with at most `max` different texts in the pool (`of: pool`) or stage's input.

    Over distinct (url, text): a pair that is seen again does not count again. `text` is the column with the texts; a null
    url or text is not judged. ALIGN (section 3.1): images with more than 1000 associated alt-texts are discarded. State: 8
    bytes for each image above the limit.
    """

    @property
    def _columns(self) -> tuple[str, str]:
        return ("url", self.text)


@register("images_per_text")
@dataclass(frozen=True, kw_only=True)
class ImagesPerText(_Shared):
    """Texts that at most `max` different images, told apart by their `url`, have in the pool or the stage's input.

    Over distinct (url, text); texts are compared as they stand. A null url or text is not judged. ALIGN (section 3.1):
    alt-texts shared by more than 10 images are discarded. State: 8 bytes for each text above the limit.
    """

    @property
    def _columns(self) -> tuple[str, str]:
        return (self.text, "url")


@dataclass(frozen=True)
class NotAmong:
    """Rows whose value of `column` is not in the table of hashes; with a null in it or `beside` they are not judged."""

    column: str
    beside: str
    found: Table

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column, self.beside)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        known = hashes.isin(hashes.of_column(batch[self.column], self.column), self.found.records)
        null = pc.or_(batch[self.column].is_null(), batch[self.beside].is_null())
        return arrays.booleans(~known, arrays.numpy(null))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column].cast(pa.string())


@register("rare_tokens")
@dataclass(frozen=True, kw_only=True)
class RareTokens:
    """Texts of which every word, and every two words in a row, is among the `top` most frequent of these in the pool.

    Words are what white space separates, as they stand: case and punctuation count. Words and pairs of words are counted
    together, each time they are seen; of equally frequent ones those with the smaller hash are in. A null text is not
    judged, one without words is kept. ALIGN (section 3.1): the 100 million most frequent unigrams and bigrams of the raw
    data; a pool with fewer different ones has no rare token. State: 8 bytes for each of `top`.
    """

    top: int
    text: str = "text"
    of: Of = "pool"

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError(f"top {self.top} is below 1")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.text,)

    def fit(self, scan: Scan) -> Filter:
        return AllAmong(self.text, scan.top(Tokens(self.text), self.top))


@dataclass(frozen=True)
class Tokens:
    """The hashes of all unigrams and bigrams of a column of texts."""

    text: str
    paired: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.text,)

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.uint64]:
        return tokens(batch[self.text], self.text)[0]


@dataclass(frozen=True)
class AllAmong:
    """Rows whose unigrams and bigrams are all in the table of hashes."""

    text: str
    known: Table

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.text,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        rare = np.bincount(self._rare(batch)[0], minlength=len(batch)) > 0
        return arrays.booleans(~rare, arrays.numpy(batch[self.text].is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        """The first rare token of each row, of unigrams if there is one."""
        rows, places, widths = self._rare(batch)
        found: list[str | None] = [None] * len(batch)
        for row, place, width in zip(rows[::-1], places[::-1], widths[::-1], strict=True):
            found[row] = " ".join(str(batch[self.text][int(row)].as_py()).split()[place : place + width])
        return pa.array(found, pa.string())

    def _rare(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Row, place in it and number of words of each token that is not known, unigrams first."""
        found, rows, places, widths = tokens(batch[self.text], self.text)
        rare = ~hashes.isin(found, self.known.records)
        return rows[rare], places[rare], widths[rare]


def tokens(texts: pa.Array, column: str) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Hashes of all unigrams, then of all bigrams, of (n,) texts; with the row, the place in it and the words of each."""
    words = split(texts)
    offsets = words.offsets.to_numpy()
    encoded = words.values.dictionary_encode()  # most words stand many times in a batch
    unigrams = hashes.of_column(encoded.dictionary, column)[encoded.indices.to_numpy()]
    lengths = np.diff(offsets)
    rows = np.repeat(np.arange(len(texts)), lengths)
    places = np.arange(len(rows)) - np.repeat(offsets[:-1], lengths)
    follows = rows[1:] == rows[:-1]
    bigrams = hashes.join(unigrams[:-1][follows], unigrams[1:][follows])
    widths = np.repeat([1, 2], [len(unigrams), len(bigrams)])
    return (
        np.concatenate([unigrams, bigrams]),
        np.concatenate([rows, rows[:-1][follows]]),
        np.concatenate([places, places[:-1][follows]]),
        widths,
    )


def split(texts: pa.Array) -> pa.ListArray:
    """The words of each text as `str.split` cuts them; none of a null."""
    # Arrow does not take the four separators of ASCII for white space, Python does.
    texts = pc.replace_substring_regex(texts.cast(pa.string()).fill_null(""), "[\x1c-\x1f]", " ")
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))
    # An empty text is one word of no letters to Arrow.
    lengths = pc.if_else(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0), 0, pc.list_value_length(words))
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int32)
    values = pc.list_flatten(words)
    return pa.ListArray.from_arrays(offsets, values.filter(pc.not_equal(values, "")))
