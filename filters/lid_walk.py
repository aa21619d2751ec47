"""The walk of `filters.lid` over captions, compiled: words and n-grams to vectors, their mean down the tree to a label.

Sums are in fastText's order and precision. (Joulin et al. 2016: Bag of Tricks; FastText.zip)
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from filters.lid_model import Model

Octets = NDArray[np.uint8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Words = tuple[Ints, NDArray[np.uint32], Longs, Octets]  # hash table, hashes, where each starts, letters
Ngrams = tuple[Octets, Ints, int, int]  # a bit and a number for each bucket, shortest, longest
Vectors = tuple[Floats, int, int]  # of words and n-grams, how many words, the word for the end
Tree = tuple[Ints, Floats]

_BASIS, _PRIME = np.uint32(2166136261), np.uint32(16777619)  # of the hash FNV-1a, which takes octets as signed
_SPACE, _OPEN, _CLOSE = 32, 60, 62
_LABEL = np.frombuffer(b"__label__", np.uint8)


class Tables:
    """A model as the walk wants it."""

    def __init__(self, model: Model) -> None:
        self.labels = np.array(model.labels, "<U7")
        starts = np.cumsum([0, *map(len, model.words)]).astype(np.int64)
        letters = np.frombuffer(b"".join(model.words), np.uint8)
        slots = np.full(1 << (4 * len(model.words)).bit_length(), -1, np.int32)
        hashes = np.empty(len(model.words), np.uint32)
        _enter(letters, starts, slots, hashes)
        self._words = (slots, hashes, starts, letters)
        there = np.packbits(model.ngrams >= 0, bitorder="little")  # a quarter of a megabyte, which stays in the cache
        self._ngrams = (there, model.ngrams, *model.ngram_lengths)
        self._vectors = (model.vectors, model.word_count, model.end)
        self._tree = (model.children, model.nodes)

    def walk(self, octets: Octets, ends: Longs) -> tuple[Ints, Floats, NDArray[np.bool_]]:
        """n texts, one behind the other, where each ends (n + 1) → the number of its label, the label's probability, and
        whether there is a visible character of ASCII."""
        labels, scores = np.zeros(len(ends) - 1, np.int32), np.zeros(len(ends) - 1, np.float32)
        visible = np.zeros(len(ends) - 1, np.bool_)
        _walk(octets, ends, self._words, self._ngrams, self._vectors, self._tree, labels, scores, visible)
        return labels, scores, visible


@njit(cache=True)
def _mixed(h: np.uint32, octet: np.uint8) -> np.uint32:
    return np.uint32((h ^ np.uint32(np.int32(np.int8(octet)))) * _PRIME)


@njit(cache=True)
def hash_of(octets: Octets, start: int, end: int) -> np.uint32:
    h = _BASIS
    for i in range(start, end):
        h = _mixed(h, octets[i])
    return h


@njit(cache=True)
def _enter(letters: Octets, starts: Longs, slots: Ints, hashes: NDArray[np.uint32]) -> None:
    """Fills the hash table of words, empty at first, and their hashes."""
    for word in range(len(hashes)):
        hashes[word] = hash_of(letters, starts[word], starts[word + 1])
        at = np.int64(hashes[word]) % len(slots)
        while slots[at] >= 0:
            at = (at + 1) % len(slots)
        slots[at] = word


@njit(cache=True)
def _is_space(octet: np.uint8) -> bool:
    return bool(octet == _SPACE or 9 <= octet <= 13 or octet == 0)


@njit(cache=True)
def _find(octets: Octets, start: int, end: int, h: np.uint32, words: Words) -> int:
    """The number of a word, -1 for one that the model does not know."""
    slots, hashes, starts, letters = words
    at = np.int64(h) % len(slots)
    while slots[at] >= 0:
        word = slots[at]
        first = starts[word]
        if hashes[word] == h and starts[word + 1] - first == end - start:
            same = True
            for i in range(end - start):
                same = same and letters[first + i] == octets[start + i]
            if same:
                return int(word)
        at = (at + 1) % len(slots)
    return -1


@njit(cache=True)
def _add(mean: Floats, vectors: Floats, row: int) -> None:
    for i in range(len(mean)):
        mean[i] += vectors[row, i]


@njit(cache=True)
def _add_ngrams(mean: Floats, word: Octets, length: int, vectors: Floats, before: int, ngrams: Ngrams) -> int:
    """Adds the vectors of a word's n-grams, the word standing in < and >; how many there were."""
    there, numbers, shortest, longest = ngrams
    count = 0
    for start in range(length):
        if word[start] & 0xC0 == 0x80:  # within a character
            continue
        h, end, characters = _BASIS, start, 0
        while end < length and characters < longest:
            h = _mixed(h, word[end])
            end += 1
            while end < length and word[end] & 0xC0 == 0x80:
                h = _mixed(h, word[end])
                end += 1
            characters += 1
            if characters >= shortest and not (characters == 1 and (start == 0 or end == length)):
                bucket = np.int64(h) % len(numbers)
                if there[bucket >> 3] >> (bucket & 7) & 1:
                    _add(mean, vectors, before + numbers[bucket])
                    count += 1
    return count


@njit(cache=True)
def _is_label(word: Octets, length: int) -> bool:
    if length < len(_LABEL):
        return False
    same = True
    for i in range(len(_LABEL)):
        same = same and word[i] == _LABEL[i]
    return same


@njit(cache=True)
def _sum(octets: Octets, start: int, end: int, word: Octets, words: Words, ngrams: Ngrams, table: Vectors, mean: Floats) -> int:
    """Adds the vectors of a text's words and n-grams and of its end; how many there were. `word` is room for the longest."""
    vectors, known, last = table
    count = 0
    at = start
    while at < end:
        if _is_space(octets[at]):
            at += 1
            continue
        length = 0
        while at < end and not _is_space(octets[at]):
            word[length + 1] = octets[at]
            length += 1
            at += 1
        number = _find(word, 1, length + 1, hash_of(word, 1, length + 1), words)
        if number >= known or (number < 0 and _is_label(word[1:], length)):
            continue  # labels are no text
        if number >= 0:
            _add(mean, vectors, number)
            count += 1
        if number == last:
            return count  # what stands behind a word for the end is not read
        word[0], word[length + 1] = _OPEN, _CLOSE
        count += _add_ngrams(mean, word, length + 2, vectors, known, ngrams)
    _add(mean, vectors, last)
    return count + 1


@njit(cache=True)
def _log(x: np.float32) -> np.float32:
    return np.float32(np.log(np.float64(x) + 1e-5))


@njit(cache=True)
def _likeliest(mean: Floats, tree: Tree, nodes: Ints, scores: Floats) -> tuple[int, np.float32]:
    """The label with the greatest logarithm of its probability, and that; `nodes` and `scores` are room for a path."""
    children, vectors = tree
    inner = len(children) - len(vectors)
    best, label = np.float32(-np.inf), 0
    top = 0
    nodes[0], scores[0] = len(children) - 1, np.float32(0)
    while top >= 0:
        node, score = nodes[top], scores[top]
        top -= 1
        if score < _log(np.float32(0)) or score < best:
            continue
        if children[node, 0] < 0:
            if score > best:
                best, label = score, int(node)
            continue
        product = np.float32(0)
        for i in range(len(mean)):
            product += vectors[node - inner, i] * mean[i]
        right = np.float32(1.0 / np.float64(np.float32(1) + np.exp(-product)))
        left = np.float32(1.0 - np.float64(right))
        nodes[top + 1], scores[top + 1] = children[node, 1], score + _log(right)
        nodes[top + 2], scores[top + 2] = children[node, 0], score + _log(left)
        top += 2
    return label, best


@njit(cache=True)
def _walk(
    octets: Octets,
    ends: Longs,
    words: Words,
    ngrams: Ngrams,
    table: Vectors,
    tree: Tree,
    labels: Ints,
    scores: Floats,
    visible: NDArray[np.bool_],
) -> None:
    """Fills the last three."""
    mean = np.zeros(table[0].shape[1], np.float32)
    longest = 0
    for i in range(len(labels)):
        longest = max(longest, ends[i + 1] - ends[i])
    word = np.zeros(longest + 2, np.uint8)
    path, path_scores = np.zeros(len(tree[0]), np.int32), np.zeros(len(tree[0]), np.float32)
    for i in range(len(labels)):
        mean[:] = 0
        count = _sum(octets, ends[i], ends[i + 1], word, words, ngrams, table, mean)
        factor = np.float32(1.0 / count)
        for j in range(len(mean)):
            mean[j] *= factor
        label, score = _likeliest(mean, tree, path, path_scores)
        labels[i], scores[i] = label, np.exp(score)
        for j in range(ends[i], ends[i + 1]):
            if 32 < octets[j] < 127:
                visible[i] = True
                break
