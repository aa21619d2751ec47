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

JPEG_QUALITY = 85
# RGB, all lighter than the colours of shapes.
TINTS = ((246, 246, 244), (240, 232, 210), (214, 226, 240), (218, 236, 214), (240, 218, 226))
SKIN, INK = (244, 206, 170), (40, 30, 28)
NOISE = 2.5  # standard deviation, of 255
HAZARD = ((250, 210, 0), (20, 20, 20))


def jpeg(scene: Scene, *, quality: int = JPEG_QUALITY) -> bytes:
    """The scene as JPEG bytes, the same for the same scene (and the same build of OpenCV)."""
    return encode(draw(scene), quality=quality)


def encode(picture: Picture, *, quality: int = JPEG_QUALITY) -> bytes:
    """A picture as JPEG bytes."""
    import cv2

    ok, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not ok:
        raise RuntimeError(f"OpenCV could not encode a picture of shape {picture.shape}")
    return bytes(data)


def draw(scene: Scene) -> Picture:
    """The scene as pixels: (height, width, 3) RGB."""
    import cv2

    cv2.setNumThreads(1)
    lots = draw_lots(scene.seed, "draw")
    colour = [min(255, max(0, c + lots.randint(-10, 10))) for c in COLOURS[scene.colour]]
    picture = _background(scene, lots)
    side = min(scene.width, scene.height)
    # Shapes stay within the central square: training crops pictures to it.
    step = 0.94 * side / scene.count
    for i in range(scene.count):
        radius = 0.5 * step * (lots.uniform(0.86, 0.98) if scene.count > 1 else lots.uniform(0.72, 0.94))
        free = max(0.0, step / 2 - radius)
        x = scene.width / 2 + (i - (scene.count - 1) / 2) * step + lots.uniform(-free, free)
        y = scene.height / 2 + lots.uniform(-1, 1) * max(0.0, 0.47 * side - radius)
        turn = math.radians(lots.uniform(-12, 12))
        contours = [_placed(outline, x, y, radius, turn) for outline in SHAPES[scene.concept]]
        # Two contours fill by the even-odd rule: the inner one of a ring is a hole. Coordinates have 4 fraction bits.
        cv2.fillPoly(picture, contours, colour, cv2.LINE_AA, shift=4)
    if (box := face_box(scene)) is not None:
        _draw_face(picture, box)
    if scene.unsafe:
        _draw_frame(picture)
    return _with_noise(picture, lots.getrandbits(31))


def _placed(outline: Outline, x: float, y: float, radius: float, turn: float) -> NDArray[np.int32]:
    points = np.array(outline) * radius
    cos, sin = math.cos(turn), math.sin(turn)
    turned = points @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
    return np.asarray(np.rint(turned * 16), np.int32)


def _with_noise(picture: Picture, seed: int) -> Picture:
    """The picture with a little noise in grains of two pixels."""
    import cv2

    height, width = picture.shape[:2]
    cv2.setRNGSeed(seed)
    noise = cv2.randn(np.empty((height // 2 + 1, width // 2 + 1), np.uint8), np.array([128.0]), np.array([NOISE]))
    grain = cv2.cvtColor(cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR), cv2.COLOR_GRAY2RGB)
    return np.asarray(cv2.addWeighted(picture, 1, grain, 1, -128), np.uint8)


# Stand-ins ------------------------------------------------------------------------------------------------------------


def face_box(scene: Scene) -> tuple[float, float, float, float] | None:
    """Where the face is, [x0, y0, x1, y1] in 0..1 of width and height; None if there is none."""
    if not scene.face:
        return None
    lots = draw_lots(scene.seed, "face")
    side = 0.24 * min(scene.width, scene.height)
    x, y = (lots.choice((0.02, 0.98 - side / n)) for n in (scene.width, scene.height))
    return x, y, x + side / scene.width, y + side / scene.height


def _draw_face(picture: Picture, box: tuple[float, float, float, float]) -> None:
    import cv2

    height, width = picture.shape[:2]
    x, y = (box[0] + box[2]) / 2 * width, (box[1] + box[3]) / 2 * height
    radius = (box[2] - box[0]) * width / 2

    def disc(dx: float, dy: float, r: float, colour: tuple[int, int, int]) -> None:
        centre = (round((x + dx * radius) * 16), round((y + dy * radius) * 16))
        cv2.circle(picture, centre, round(r * radius * 16), colour, -1, cv2.LINE_AA, shift=4)

    disc(0, 0, 0.96, SKIN)
    disc(-0.35, -0.2, 0.12, INK)
    disc(0.35, -0.2, 0.12, INK)
    mouth = (round(x), round(y + 0.2 * radius))
    cv2.ellipse(picture, mouth, (round(0.4 * radius), round(0.3 * radius)), 0, 15, 165, INK, max(1, round(0.09 * radius)))


def _draw_frame(picture: Picture) -> None:
    """A frame of yellow and black stripes along the edges, a tenth of the short side wide."""
    height, width = picture.shape[:2]
    edge = max(2, min(height, width) // 10)
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    framed = (x < edge) | (x >= width - edge) | (y < edge) | (y >= height - edge)
    stripe = ((x + y) // edge) % 2
    picture[framed] = np.array(HAZARD, np.uint8)[stripe[framed]]


# Backgrounds ----------------------------------------------------------------------------------------------------------


def _background(scene: Scene, lots: random.Random) -> Picture:
    import cv2

    first = np.array(lots.choice(TINTS), np.int16)
    second = first - lots.randint(16, 30)
    share = TEXTURES[scene.background](scene.width, scene.height, lots)
    # A table from the texture's 256 steps to tints, a channel each.
    steps = np.arange(256)[:, None] / 255
    table = np.clip(np.rint(first + steps * (second - first)), 0, 255).astype(np.uint8)
    return np.asarray(cv2.LUT(cv2.cvtColor(share, cv2.COLOR_GRAY2RGB), table[None]), np.uint8)


Texture = NDArray[np.uint8]  # (height, width), 0 = first tint, 255 = second


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
