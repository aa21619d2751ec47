"""Backgrounds of made-up pictures: two near tints, mixed by a texture."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from baselines.miniweb.scenes import Scene

Texture = NDArray[np.uint8]  # (height, width), 0 = first tint, 255 = second

# RGB, all lighter than the colours of shapes.
TINTS = ((246, 246, 244), (240, 232, 210), (214, 226, 240), (218, 236, 214), (240, 218, 226))


def background(scene: Scene, lots: random.Random) -> NDArray[np.uint8]:
    """What lies behind the shapes: (height, width, 3) RGB."""
    import cv2

    first = np.array(lots.choice(TINTS), np.int16)
    second = first - lots.randint(16, 30)
    share = TEXTURES[scene.background](scene.width, scene.height, lots)
    # A table from the texture's 256 steps to tints, a channel each.
    steps = np.arange(256)[:, None] / 255
    table = np.clip(np.rint(first + steps * (second - first)), 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(cv2.cvtColor(share, cv2.COLOR_GRAY2RGB), table[None]), np.uint8)


def _axes(width: int, height: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.arange(width, dtype=np.float32)[None, :], np.arange(height, dtype=np.float32)[:, None]


def _even(width: int, height: int, lots: random.Random) -> Texture:
    return np.zeros((height, width), np.uint8)


def _fading(width: int, height: int, lots: random.Random) -> Texture:
    x, y = _axes(width, height)
    turn = lots.uniform(0, 2 * math.pi)
    slope = math.cos(turn) * x / width + math.sin(turn) * y / height
    low, high = float(slope.min()), float(slope.max())
    return ((slope - low) * (255 / (high - low))).astype(np.uint8)


def _striped(width: int, height: int, lots: random.Random) -> Texture:
    x, y = _axes(width, height)
    turn, period = lots.uniform(0, math.pi), lots.uniform(0.12, 0.24) * min(width, height)
    along = x * (math.cos(turn) * 2 / period) + y * (math.sin(turn) * 2 / period)
    return _odd(along)


def _checked(width: int, height: int, lots: random.Random) -> Texture:
    x, y = _axes(width, height)
    size = lots.uniform(0.08, 0.16) * min(width, height)
    return _odd(x / size) ^ _odd(y / size)


def _dotted(width: int, height: int, lots: random.Random) -> Texture:
    x, y = _axes(width, height)
    size = lots.uniform(0.12, 0.22) * min(width, height)
    away = ((x % size) - size / 2) ** 2 + ((y % size) - size / 2) ** 2
    return (away < (0.28 * size) ** 2).astype(np.uint8) * np.uint8(255)


def _grainy(width: int, height: int, lots: random.Random) -> Texture:
    import cv2

    grain = lots.uniform(0.035, 0.06) * min(width, height)
    cv2.setRNGSeed(lots.getrandbits(31))
    cells = cv2.randu(np.empty((int(height / grain) + 1, int(width / grain) + 1), np.uint8), np.array([0.0]), np.array([256.0]))
    return np.asarray(cv2.resize(cells, (width, height), interpolation=cv2.INTER_NEAREST), np.uint8)


def _odd(values: NDArray[np.float32]) -> Texture:
    """255 where the whole part is odd, else 0."""
    return (np.floor(values).astype(np.int32) & 1).astype(np.uint8) * np.uint8(255)


TEXTURES: dict[str, Callable[[int, int, random.Random], Texture]] = {
    "plain": _even,
    "fading": _fading,
    "striped": _striped,
    "dotted": _dotted,
    "checked": _checked,
    "grainy": _grainy,
}
