"""Outlines of the shapes that made-up pictures show."""

from __future__ import annotations

import math

import numpy as np

Outline = list[tuple[float, float]]  # points from -1 to 1, y downwards


def _arc(radius: float, start: float, end: float, *, at: float = 0.0, points: int = 48) -> Outline:
    """Points on a circle around (at, 0), from one angle in degrees to another."""
    angles = np.radians(np.linspace(start, end, points))
    return [(at + radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _star(points: int, inner: float) -> Outline:
    radii = [1.0, inner] * points
    return [(r * math.sin(i * math.pi / points), -r * math.cos(i * math.pi / points)) for i, r in enumerate(radii)]


def _crescent() -> Outline:
    """The unit disc less a disc of radius 0.82 around (0.42, 0), which meets its edge at 53.1 degrees."""
    bite, at = 0.82, 0.42
    meet = math.degrees(math.acos((1 + at * at - bite * bite) / (2 * at)))
    x, y = math.cos(math.radians(meet)), math.sin(math.radians(meet))
    back = math.degrees(math.atan2(y, x - at))
    return _arc(1.0, meet, 360 - meet) + _arc(bite, 360 - back, back, at=at)


def _heart() -> Outline:
    """The heart curve x = 16 sin³t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, a sixteenth of its size."""
    outline = []
    for t in np.linspace(0, 2 * math.pi, 64, endpoint=False):
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        outline.append((math.sin(t) ** 3, -(y + 2.5) / 16))
    return outline


def _spiral() -> Outline:
    """An Archimedean spiral of two turns, drawn as a band that grows from the centre."""
    angles = np.linspace(0.5 * math.pi, 4.5 * math.pi, 96)
    outer = [(t / (4.5 * math.pi) * math.cos(t), t / (4.5 * math.pi) * math.sin(t)) for t in angles]
    width = 0.2
    inner = [
        (x * (1 - width / math.hypot(x, y)), y * (1 - width / math.hypot(x, y))) for x, y in outer if math.hypot(x, y) > width
    ]
    return outer + inner[::-1]


def _lotus() -> Outline:
    """Five pointed petals in a fan over a narrow foot."""
    petals = []
    for t in np.linspace(0, math.pi, 61):
        r = 0.55 + 0.45 * abs(math.cos(2.5 * (t - math.pi / 2)))
        petals.append((r * math.cos(t), 0.45 - 1.4 * r * math.sin(t)))
    return [*petals, (-0.3, 0.8), (0.3, 0.8)]


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
    "spiral": (_spiral(),),
    "lotus": (_lotus(),),
    "drum": ([(-0.85, -0.9), (0.85, -0.9), (0.28, 0), (0.85, 0.9), (-0.85, 0.9), (-0.28, 0)],),
    "kite": (
        [(0, -1), (0.62, -0.35), (0.07, 0.36), (0.38, 0.72), (0.04, 1), (-0.1, 0.86), (0.1, 0.7), (-0.1, 0.36), (-0.62, -0.35)],
    ),
    "lightning bolt": ([(0.2, -1), (-0.6, 0.14), (-0.08, 0.14), (-0.24, 1), (0.62, -0.24), (0.08, -0.24), (0.5, -1)],),
}
