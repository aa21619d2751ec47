"""Means over areas, the same to the bit as OpenCV's INTER_AREA and in less than half its time.

A stored pixel is the mean of what it covers of the served ones: Σ weight · sample over the columns, then over the rows, in
32-bit floats and in this order. OpenCV does the columns sample by sample. Here the image is turned over first, plane by
plane, so that both sums go along lines in memory, which a processor does sixteen at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
Starts = NDArray[np.int64]

LARGEST = 1 << 22  # pixels of an image for which memory is kept: above that OpenCV, which keeps none


def serves(width: int, height: int, new_width: int, new_height: int) -> bool:
    """Whether `resized` does this: neither side grows, nor shrink both by whole numbers, where OpenCV counts in integers."""
    shrinks = new_width <= width and new_height <= height
    return shrinks and width * height <= LARGEST and (width % new_width > 0 or height % new_height > 0)


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """[h, w] or [h, w, 3] to `size` (width, height), for which `serves` holds."""
    height, width = pixels.shape[:2]
    new_width, new_height = size
    columns, rows = _weights(width, new_width), _weights(height, new_height)
    with _room() as room:
        number = 1 if pixels.ndim == 2 else pixels.shape[2]
        planes = [pixels] if number == 1 else [room(f"plane{c}", np.uint8, height, width) for c in range(number)]
        small = [room(f"small{c}", np.uint8, new_height, new_width) for c in range(number)]
        turned, across = room("turned", np.uint8, width, height), room("across", np.float32, new_width, height)
        upright = room("upright", np.float32, height, new_width)
        if number > 1:
            cv2.split(pixels, planes)
        for plane, into in zip(planes, small, strict=True):
            cv2.transpose(plane, turned)
            _sum_samples(turned, *columns, across)
            cv2.transpose(across, upright)
            _sum_floats(upright, *rows, into)
        return small[0].copy() if number == 1 else np.asarray(cv2.merge(small), np.uint8)


@functools.lru_cache(4096)
def _weights(size: int, new_size: int) -> tuple[Starts, Floats]:
    """The first sample that each pixel covers, [n], and the weights of it and those behind it, [k, n]; the first counts even
    where a sliver of it (a thousandth) does not, as OpenCV has it."""
    scale = 1.0 / (new_size / size)
    covered = []
    for x in range(new_size):
        start, end = x * scale, x * scale + scale
        width = min(scale, size - start)
        last = min(math.floor(end), size - 1)
        first = min(math.ceil(start), last)
        shares = [(i, 1.0 / width) for i in range(first, last)]
        if first - start > 1e-3:
            shares.insert(0, (first - 1, (first - start) / width))
        if end - last > 1e-3:
            shares.append((last, min(end - last, 1.0, width) / width))
        covered.append(shares)
    most = max(map(len, covered))
    starts, weights = np.zeros(new_size, np.int64), np.zeros((most, new_size), np.float32)
    for x, shares in enumerate(covered):
        starts[x] = min(shares[0][0], size - most)
        for i, weight in shares:
            weights[i - starts[x], x] = weight
    return starts, weights


@njit(cache=True, nogil=True, boundscheck=False)
def _sum_samples(lines: Pixels, starts: Starts, weights: Floats, out: Floats) -> None:
    """out[x] = Σ_k weights[k, x] · lines[starts[x] + k], all lines of one length."""
    n = lines.shape[1]
    for x in range(len(starts)):
        total, line, weight = out[x], lines[starts[x]], weights[0, x]
        for i in range(n):
            total[i] = np.float32(line[i]) * weight
        for k in range(1, len(weights)):
            line, weight = lines[starts[x] + k], weights[k, x]
            for i in range(n):
                total[i] += np.float32(line[i]) * weight


@njit(cache=True, nogil=True, boundscheck=False)
def _sum_floats(lines: Floats, starts: Starts, weights: Floats, out: Pixels) -> None:
    """The same, rounded to the nearest integer, halves to the even one."""
    n = lines.shape[1]
    total = np.empty(n, np.float32)
    for x in range(len(starts)):
        line, weight, rounded = lines[starts[x]], weights[0, x], out[x]
        for i in range(n):
            total[i] = line[i] * weight
        for k in range(1, len(weights)):
            line, weight = lines[starts[x] + k], weights[k, x]
            for i in range(n):
                total[i] += line[i] * weight
        for i in range(n):
            rounded[i] = np.uint8(np.int32(np.rint(total[i])))


class _Room:
    """Arrays by name, whose memory is used again: what the system gives anew for each image costs as much as the sums."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[Any]] = {}

    def __call__(self, name: str, kind: type[Any], height: int, width: int) -> NDArray[Any]:
        held = self._held.get(name)
        if held is None or len(held) < height * width:
            held = self._held[name] = np.empty(height * width, kind)
        return held[: height * width].reshape(height, width)


_spare: list[_Room] = []  # as many as threads were ever here at once


@contextmanager
def _room() -> Iterator[_Room]:
    room = _spare.pop() if _spare else _Room()
    try:
        yield room
    finally:
        _spare.append(room)


def load() -> None:
    """Compiles what is compiled, or loads it where that was done on this machine before."""
    resized(np.zeros((7, 7, 3), np.uint8), (5, 5))
