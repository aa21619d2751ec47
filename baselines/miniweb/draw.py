"""Scenes as JPEG pictures: filled shapes over a textured background."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from baselines.miniweb.scenes import COLOURS, Scene, draw_lots
from baselines.miniweb.shapes import SHAPES, Outline
from baselines.miniweb.textures import background

Picture = NDArray[np.uint8]  # (height, width, 3), RGB

JPEG_QUALITY = 85
SKIN, INK = (244, 206, 170), (40, 30, 28)  # RGB
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
    picture = background(scene, lots)
    side = min(scene.width, scene.height)
    # Shapes stay within the central square: training crops pictures to it.
    step = 0.94 * side / scene.count
    for i in range(scene.count):
        radius = 0.5 * step * (lots.uniform(0.8, 0.9) if scene.count > 1 else lots.uniform(0.72, 0.94))
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
