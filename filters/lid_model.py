"""fastText's compressed classifiers as arrays, from the file that it writes (.ftz, version 12)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC, _VERSION, _SOFTMAX_BY_TREE = 793712314, 12, 1
_END = b"</s>"
_LABEL = "__label__"
_ENTRIES = 256  # of a codebook


class Unknown(Exception):
    """A file of another form, which is for fastText itself."""


@dataclass(frozen=True)
class Model:
    """Words and n-grams with a vector each, and labels at the leaves of a binary tree."""

    vectors: NDArray[np.float32]  # (words + n-grams, d)
    words: tuple[bytes, ...]  # labels behind them
    word_count: int
    end: int  # the word that ends a line
    ngram_lengths: tuple[int, int]  # in characters, both included
    buckets: int  # of n-grams' hashes
    ngrams: NDArray[np.int32]  # (buckets,) number of the n-gram, -1 for one that has no vector
    labels: tuple[str, ...]
    children: NDArray[np.int32]  # (2 × labels - 1, 2) of each node, the labels first and the root last; -1 for none
    nodes: NDArray[np.float32]  # (labels - 1, d) of each node with children


def read(content: bytes) -> Model:
    """The model. Raises Unknown for one that is not compressed, or that has no tree."""
    reader = _Reader(content)
    magic, version = reader.take("2i")
    if (magic, version) != (_MAGIC, _VERSION):
        raise Unknown(f"version {version}")
    _, _, _, _, _, word_ngrams, loss, _, buckets, shortest, longest, _, _ = reader.take("12id")
    entries, word_count, _, _, kept = reader.take("3i2q")
    if loss != _SOFTMAX_BY_TREE or word_ngrams != 1 or kept <= 0:
        raise Unknown(f"loss {loss}, {word_ngrams} words at once, {kept} n-grams left")
    words, counts = [], []
    for _ in range(entries):
        words.append(reader.word())
        counts.append(reader.take("qb")[0])
    if _END not in words:
        raise Unknown("no word for the end of a line")
    pairs = reader.array("<i4", 2 * kept).reshape(-1, 2)
    ngrams = np.full(buckets, -1, np.int32)
    ngrams[pairs[:, 0]] = pairs[:, 1]
    vectors = reader.quantized()
    (quantized,) = reader.take("?")
    if quantized:
        raise Unknown("an output that is compressed")
    rows, width = reader.take("2q")
    nodes = reader.array("<f4", rows * width).reshape(rows, width)
    return Model(
        vectors,
        tuple(words),
        word_count,
        words.index(_END),
        (shortest, longest),
        buckets,
        ngrams,
        tuple(word.decode().removeprefix(_LABEL) for word in words[word_count:]),
        _tree(counts[word_count:]),
        np.ascontiguousarray(nodes[: rows - 1]),
    )


class _Reader:
    """Numbers from the front of a file to its end."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def take(self, form: str) -> tuple[Any, ...]:
        form = "<" + form
        try:
            found = struct.unpack_from(form, self._content, self._at)
        except struct.error as e:
            raise Unknown("it ends early") from e
        self._at += struct.calcsize(form)
        return found

    def word(self) -> bytes:
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise Unknown("it ends early")
        found, self._at = self._content[self._at : end], end + 1
        return found

    def array(self, kind: str, count: int) -> NDArray[Any]:
        size = np.dtype(kind).itemsize * count
        if not 0 <= size <= len(self._content) - self._at:
            raise Unknown("it ends early")
        found = np.frombuffer(self._content, kind, count, self._at)
        self._at += size
        return found

    def quantized(self) -> NDArray[np.float32]:
        """Vectors (n, d), each of parts out of codebooks, and perhaps multiplied by a length out of one more."""
        (compressed,) = self.take("?")
        if not compressed:
            raise Unknown("an input that is not compressed")
        (by_length,) = self.take("?")
        rows, width, size = self.take("2qi")
        codes = self.array("u1", size).reshape(rows, -1)
        parts = self._codebooks()
        vectors = np.concatenate([book[codes[:, i]] for i, book in enumerate(parts)], axis=1)
        if by_length:
            lengths = self.array("u1", rows)
            (book,) = self._codebooks()
            vectors = book[lengths] * vectors
        if vectors.shape != (rows, width):
            raise Unknown(f"vectors of shape {vectors.shape}")
        return np.ascontiguousarray(vectors, np.float32)

    def _codebooks(self) -> list[NDArray[np.float32]]:
        """One (256, width) for each part of a vector, of which the last may be narrower."""
        width, count, each, last = self.take("4i")
        numbers = self.array("<f4", width * _ENTRIES)
        ends = np.cumsum([_ENTRIES * each] * (count - 1))
        return [part.reshape(_ENTRIES, -1) for part in np.split(numbers, ends)] if last else []


def _tree(counts: list[int]) -> NDArray[np.int32]:
    """Huffman's, of labels in the order of falling counts: of equal weights an inner node goes first."""
    leaves = len(counts)
    weights = counts + [10**15] * (leaves - 1)
    children = np.full((len(weights), 2), -1, np.int32)
    leaf, inner = leaves - 1, leaves
    for node in range(leaves, len(weights)):
        for side in (0, 1):
            if leaf >= 0 and weights[leaf] < weights[inner]:
                children[node, side], leaf = leaf, leaf - 1
            else:
                children[node, side], inner = inner, inner + 1
        weights[node] = weights[children[node, 0]] + weights[children[node, 1]]
    return children
