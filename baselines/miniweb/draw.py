"""Scenes as JPEG pictures: filled shapes over a textured background."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from baselines.miniweb.scenes import COLOURS, Scene, draw_lots

Picture = NDArray[np.uint8]  # (height, width, 3), RGB
Outline = list[tuple[float, float]]  # points within the unit circle, y downwards

JPEG_QUALITY = 88
# RGB. Few and pale: each picture of a few hundred could be told by a tint of its own, without a look at the shape.
TINTS = ((246, 246, 244), (240, 232, 210), (214, 226, 240), (218, 236, 214), (240, 218, 226))


def jpeg(scene: Scene) -> bytes:
    """The scene as JPEG bytes, the same for the same scene (and the same build of OpenCV)."""
    import cv2

    cv2.setNumThreads(1)
    ok, data = cv2.imencode(".jpg", draw(scene)[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    if not ok:
        raise RuntimeError(f"OpenCV could not encode {scene}")
    return bytes(data)


def draw(scene: Scene) -> Picture:
    """The scene as pixels: (height, width, 3) RGB."""
    import cv2

    lots = draw_lots(scene.seed, "draw")
    colour = np.array([min(255, max(0, c + lots.randint(-6, 6))) for c in COLOURS[scene.colour]], np.float32)
    picture = _background(scene, colour, lots)
    side = min(scene.width, scene.height)
    # Shapes stay within the central square: training crops pictures to it.
    step = 0.9 * side / scene.count
    for i in range(scene.count):
        radius = 0.5 * step * lots.uniform(0.72, 0.94) if scene.count > 1 else side * lots.uniform(0.37, 0.44)
        free = max(0.0, step / 2 - radius)
        x = scene.width / 2 + (i - (scene.count - 1) / 2) * step + lots.uniform(-free, free)
        y = scene.height / 2 + lots.uniform(-1, 1) * max(0.0, 0.45 * side - radius)
        turn = math.radians(lots.uniform(-8, 8))
        contours = [_placed(outline, x, y, radius, turn) for outline in SHAPES[scene.concept]]
        # Two contours fill by the even-odd rule: the inner one of a ring is a hole. Coordinates have 4 fraction bits.
        cv2.fillPoly(picture, contours, tuple(float(c) for c in colour), cv2.LINE_AA, shift=4)
    sigma = 14.0 if scene.background == "grainy" else 3.0
    noise = np.random.RandomState(lots.getrandbits(32)).standard_normal((scene.height // 2 + 1, scene.width // 2 + 1))
    grain = cv2.resize(noise.astype(np.float32) * sigma, (scene.width, scene.height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(np.clip(picture + grain[:, :, None], 0, 255), np.uint8)


def _placed(outline: Outline, x: float, y: float, radius: float, turn: float) -> NDArray[np.int32]:
    points = np.array(outline) * radius
    cos, sin = math.cos(turn), math.sin(turn)
    turned = points @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return np.asarray(np.rint(turned * 16), np.int32)


# Backgrounds ----------------------------------------------------------------------------------------------------------


def _background(scene: Scene, colour: NDArray[np.float32], lots: random.Random) -> NDArray[np.float32]:
    first = np.array(lots.choice(TINTS), np.float32)
    second = first - lots.uniform(14, 26)
    share = TEXTURES[scene.background](scene.width, scene.height, lots)
    return np.ascontiguousarray(first + share[:, :, None] * (second - first), np.float32)


def _axes(width: int, height: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return np.arange(width, dtype=np.float32)[None, :], np.arange(height, dtype=np.float32)[:, None]


def _even(width: int, height: int, lots: random.Random) -> NDArray[np.float32]:
    return np.zeros((height, width), np.float32)


def _fading(width: int, height: int, lots: random.Random) -> NDArray[np.float32]:
    x, y = _axes(width, height)
    turn = lots.uniform(0, 2 * math.pi)
    slope = math.cos(turn) * x / width + math.sin(turn) * y / height
    # 0 at one corner, 2 at the opposite one: further apart than the two tints of the other textures.
    return np.asarray(2 * (slope - slope.min()) / (slope.max() - slope.min()), np.float32)


def _striped(width: int, height: int, lots: random.Random) -> NDArray[np.float32]:
    x, y = _axes(width, height)
    turn, period = lots.uniform(0, math.pi), lots.uniform(18, 48)
    return np.asarray(np.sin((math.cos(turn) * x + math.sin(turn) * y) * (2 * math.pi / period)) > 0, np.float32)


def _checked(width: int, height: int, lots: random.Random) -> NDArray[np.float32]:
    x, y = _axes(width, height)
    size = lots.uniform(14, 40)
    return np.asarray(((x // size) + (y // size)) % 2, np.float32)


def _dotted(width: int, height: int, lots: random.Random) -> NDArray[np.float32]:
    x, y = _axes(width, height)
    size = lots.uniform(18, 40)
    return np.asarray((x % size - size / 2) ** 2 + (y % size - size / 2) ** 2 < (0.28 * size) ** 2, np.float32)


TEXTURES: dict[str, Callable[[int, int, random.Random], NDArray[np.float32]]] = {
    "plain": _even,
    "fading": _fading,
    "striped": _striped,
    "dotted": _dotted,
    "checked": _checked,
    "grainy": _even,
}


# Shapes ---------------------------------------------------------------------------------------------------------------


def _arc(radius: float, start: float, end: float, *, at: float = 0.0, points: int = 48) -> Outline:
    """Points on a circle around (at, 0), from one angle in degrees to another."""
    angles = np.radians(np.linspace(start, end, points))
    return [(at + radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _star(points: int, inner: float) -> Outline:
    radii = [1.0, inner] * points
    return [(r * math.sin(i * math.pi / points), -r * math.cos(i * math.pi / points)) for i, r in enumerate(radii)]


def _crescent() -> Outline:
    """The unit disc less a disc of radius 0.82 around (0.42, 0), which meets its edge at 47.5 degrees."""
    bite, at = 0.82, 0.42
    meet = math.degrees(math.acos((1 + at * at - bite * bite) / (2 * at)))
    x, y = math.cos(math.radians(meet)), math.sin(math.radians(meet))
    back = math.degrees(math.atan2(y, x - at))
    return _arc(1.0, meet, 360 - meet) + _arc(bite, 360 - back, back, at=at)


def _heart() -> Outline:
    """The heart curve x = 16 sin³t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, scaled into the unit circle."""
    outline = []
    for t in np.linspace(0, 2 * math.pi, 64, endpoint=False):
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        outline.append((math.sin(t) ** 3, -(y + 2.5) / 16))
    return outline


_ARM = 0.3
SHAPES: dict[str, tuple[Outline, ...]] = {
    "circle": (_arc(0.92, 0, 360),),
    "square": ([(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],),
    "triangle": ([(0, -1), (0.93, 0.72), (-0.93, 0.72)],),
    "star": (_star(5, 0.4),),
    "cross": (
        [
            *[(-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)],
            *[(_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)],
        ],
    ),
    "ring": (_arc(1.0, 0, 360), _arc(0.6, 0, 360)),
    "heart": (_heart(),),
    "crescent": (_crescent(),),
    "arrow": ([(-1, -0.24), (0.1, -0.24), (0.1, -0.7), (1, 0), (0.1, 0.7), (0.1, 0.24), (-1, 0.24)],),
    "lightning bolt": ([(0.2, -1), (-0.6, 0.14), (-0.08, 0.14), (-0.24, 1), (0.62, -0.24), (0.08, -0.24), (0.5, -1)],),
}
