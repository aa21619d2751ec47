"""The drawn pictures: they show what the scene says, it can be told apart, and the bytes are the same each time."""

from __future__ import annotations

import io
import math
import multiprocessing
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from baselines.miniweb import draw
from baselines.miniweb.scenes import BACKGROUNDS, COLOURS, CONCEPTS, COUNTS, CULTURAL, Scene, scene

EVERY_CONCEPT = CONCEPTS + CULTURAL
LUMA = np.array([0.299, 0.587, 0.114])

Mask = NDArray[np.bool_]
Grey = NDArray[np.float32]


def plain(
    concept: str, *, count: int = 1, seed: str = "0/0", background: str = "plain", size: tuple[int, int] = (300, 300)
) -> Scene:
    return Scene(concept, "red", count, background, *size, seed)


def is_red(picture: NDArray[np.uint8]) -> Mask:
    """Where a red shape is: backgrounds are nearly grey."""
    red, green, blue = (picture[:, :, i].astype(int) for i in range(3))
    return np.asarray((red - green > 90) & (red - blue > 90))


def near(picture: NDArray[np.uint8], colour: tuple[int, int, int], within: int) -> Mask:
    return np.asarray(np.abs(picture.astype(int) - colour).max(axis=2) <= within)


def pieces(mask: Mask) -> int:
    """How many patches of more than 20 pixels hang together."""
    sizes = cv2.connectedComponentsWithStats(mask.astype(np.uint8))[2][1:, cv2.CC_STAT_AREA]
    return int((sizes > 20).sum())


# The same bytes -------------------------------------------------------------------------------------------------------


def test_jpeg_shows_what_is_drawn() -> None:
    for i in range(8):
        s = scene(0, i)
        with Image.open(io.BytesIO(draw.jpeg(s))) as image:
            assert (image.format, image.size, image.mode) == ("JPEG", (s.width, s.height), "RGB")
            assert np.abs(np.asarray(image).astype(int) - draw.draw(s)).mean() < 3


@pytest.fixture(scope="module")
def album() -> list[Scene]:
    """Two scenes of each background, small."""
    return [replace(scene(8, i, size=(240, 224)), background=ground) for i, ground in enumerate(BACKGROUNDS * 2)]


def test_jpeg_is_the_same_in_another_process_and_another_order(album: list[Scene]) -> None:
    here = [draw.jpeg(s) for s in album]
    assert [draw.jpeg(s) for s in album] == here
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(draw.jpeg, album[::-1]) == here[::-1]


def test_jpeg_is_the_same_in_threads_side_by_side(album: list[Scene]) -> None:
    here = [draw.jpeg(s) for s in album]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draw.jpeg, album * 4)) == here * 4


def test_jpeg_does_not_depend_on_the_state_of_opencv(album: list[Scene]) -> None:
    for s in album:
        alone = draw.jpeg(s)
        for other in album[:6]:
            cv2.setRNGSeed(99)
            cv2.setNumThreads(3)
            draw.jpeg(other)
            assert draw.jpeg(s) == alone


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_dozen_pictures_of_one_caption_differ(background: str) -> None:
    pictures = [draw.draw(plain("star", seed=f"0/{i}", background=background)).astype(int) for i in range(12)]
    assert min(np.abs(a - b).mean() for i, a in enumerate(pictures) for b in pictures[:i]) > 5


# Shapes ---------------------------------------------------------------------------------------------------------------

# Area by geometry, where half the width of a ring is 1.
AREAS = {
    "circle": math.pi * 0.92**2,
    "square": 1.6**2,
    "triangle": 1.86 * 1.72 / 2,
    "star": 10 * math.sin(math.pi / 5) * 0.4 / 2,  # ten triangles between radii of 1 and 0.4
    "cross": 2 * 2 * 0.6 - 0.6**2,
    "ring": math.pi * (1 - 0.6**2),
    "heart": 180 * math.pi / 16**2,  # the curve 32 units wide has an area of 180 π
    "crescent": math.pi - 1.7963,  # less the lens in which circles of radius 1 and 0.82 overlap, 0.42 apart
    "arrow": 1.1 * 0.48 + 0.9 * 1.4 / 2,
    "lightning bolt": 1.6432 / 2,  # the shoelace formula
    # r = t / 4.5π: r² / 2 from 0.5π to 4.5π, less (r - 0.2)² / 2 where that is positive.
    "spiral": 0.75 * math.pi * ((1 - 9**-3) - 0.8**3),
    # Petals stretched 1.4 times: ½ ∫ (0.55 + 0.45 |cos 2.5t|)² over half a turn is 1.1905. The foot is a trapezium.
    "lotus": 1.4 * 1.1905 + 0.35 * (2 * 0.8682 + 0.6) / 2,
    "drum": 2 * 0.9 * (1.7 + 0.56) / 2,
    "kite": 1.24 * 0.65 / 2 + 0.71 * (1.24 + 0.17) / 2 + 0.144,  # a triangle, a trapezium, a tail
}


@pytest.mark.parametrize("concept", EVERY_CONCEPT)
def test_shapes_cover_what_geometry_says(concept: str) -> None:
    def mask(concept: str, seed: int) -> Mask:
        return is_red(draw.draw(plain(concept, seed=f"9/{seed}", size=(600, 600))))

    got = []
    for i in range(4):
        # The same lots place a ring of the same size.
        half = (np.ptp(np.flatnonzero(mask("ring", i).any(axis=0))) + 1) / 2
        got.append(mask(concept, i).sum() / half**2)
    # Edges are drawn about half a pixel too far out.
    assert np.mean(got) == pytest.approx(AREAS[concept], rel=0.025)


@pytest.mark.parametrize("concept", EVERY_CONCEPT)
def test_as_many_shapes_are_drawn_as_the_scene_says_within_the_central_square(concept: str) -> None:
    for count in COUNTS:
        masks = [is_red(draw.draw(plain(concept, count=count, seed=f"4/{i}", size=(440, 300)))) for i in range(12)]
        counted = [pieces(mask) for mask in masks]
        assert counted == [count] * 12
        assert not any(mask[:, :70].any() or mask[:, -70:].any() for mask in masks)


def silhouette(s: Scene) -> Grey:
    """The shape as a model with inputs of 32×32 pixels sees it, moved and scaled to 16×16."""
    side = min(s.width, s.height)
    left, top = (s.width - side) // 2, (s.height - side) // 2
    square = draw.draw(s)[top : top + side, left : left + side]
    small = cv2.resize(square, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
    border = np.concatenate([small[0], small[-1], small[:, 0], small[:, -1]])
    away = np.linalg.norm(small - np.median(border, axis=0), axis=2)
    share = np.minimum(1, away / np.percentile(away, 97))
    x, y, width, height = cv2.boundingRect((share > 0.5).astype(np.uint8))
    return np.asarray(cv2.resize(share[y : y + height, x : x + width], (16, 16), interpolation=cv2.INTER_AREA), np.float32)


def test_concepts_are_told_apart_at_32_pixels() -> None:
    def drawn(seed: int, concept: str, pictures: int) -> NDArray[np.float32]:
        return np.array([silhouette(replace(scene(seed, i, count=1), concept=concept)) for i in range(pictures)])

    centroids = np.array([drawn(1, concept, 12).mean(axis=0) for concept in EVERY_CONCEPT])
    for concept in EVERY_CONCEPT:
        distances = ((drawn(2, concept, 10)[:, None] - centroids) ** 2).sum(axis=(2, 3))
        nearest = [EVERY_CONCEPT[k] for k in distances.argmin(axis=1)]
        assert nearest.count(concept) >= 9, nearest


# Backgrounds ----------------------------------------------------------------------------------------------------------


def textured_as(left: Grey, right: Grey) -> str:
    """Which background two pieces of one show, by contrast, levels, jumps, share of the dark tint and direction."""
    low, high = np.percentile([left, right], (1, 99))
    if high - low < 8:
        return "plain"
    levels = (np.array([left, right]) - low) / (high - low)
    if ((levels > 0.1) & (levels < 0.9)).mean() > 0.65:
        jumps = np.abs(levels[:, :, 6:] - levels[:, :, :-6])
        return "grainy" if np.percentile(jumps, 99) > 0.4 else "fading"
    if (levels < 0.5).mean() < 0.36:
        return "dotted"
    down, across = np.gradient(levels, axis=(1, 2))
    a, b, c = (across**2).sum(), (across * down).sum(), (down**2).sum()
    # Eigenvalues of the structure tensor: edges of stripes all run one way.
    return "striped" if math.hypot(a - c, 2 * b) / (a + c) > 0.5 else "checked"


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_backgrounds_are_told_apart(background: str) -> None:
    seen: Counter[str] = Counter()
    for i in range(15):
        picture = draw.draw(plain("circle", seed=f"6/{i}", background=background, size=(900, 300)))
        grey = cv2.blur(picture @ LUMA.astype(np.float32), (5, 5)).astype(np.float32)
        seen[textured_as(grey[:, :300], grey[:, -300:])] += 1
    assert seen == {background: 15}


@pytest.mark.parametrize("colour", COLOURS)
def test_each_colour_is_darker_than_what_is_behind_it(colour: str) -> None:
    for i in range(24):
        picture = draw.draw(Scene("circle", colour, 1, BACKGROUNDS[i % 6], 256, 256, f"5/{i}"))
        shape = near(picture, COLOURS[colour], 28)
        behind = ~cv2.dilate(shape.astype(np.uint8), np.ones((7, 7), np.uint8)).astype(bool)
        # The circle's radius is 0.92 · 0.47 · (0.72 to 0.94) of the side.
        assert 0.29 < shape.mean() < 0.53
        luma = picture @ LUMA
        assert np.percentile(luma[behind], 1) - np.percentile(luma[shape], 99) > 20


# Stand-ins ------------------------------------------------------------------------------------------------------------


def test_the_face_lies_in_its_box_and_nothing_else_changes() -> None:
    corners = set()
    for i in range(24):
        s = replace(scene(2, i), colour="blue")
        assert draw.face_box(s) is None
        with_face = replace(s, face=True)
        box = draw.face_box(with_face)
        assert box is not None
        x0, y0, x1, y1 = np.array(box) * (s.width, s.height, s.width, s.height)
        assert 0 <= x0 < x1 <= s.width
        assert 0 <= y0 < y1 <= s.height
        corners.add((x0 < s.width / 2, y0 < s.height / 2))
        picture = draw.draw(with_face)
        rows, columns = np.nonzero((picture != draw.draw(s)).any(axis=2))
        slack = (x1 - x0) / 30 + 1  # the face nearly fills its box
        assert np.abs(np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) - (x0, y0, x1, y1)).max() < slack
        assert min(columns.min() - x0, rows.min() - y0, x1 - columns.max(), y1 - rows.max()) > -1
        skin = near(picture, draw.SKIN, 14)
        inside = np.zeros_like(skin)
        inside[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)] = True
        # A disc covers π/4 of its square; eyes and mouth take a little.
        assert 0.6 < skin[inside].mean() < math.pi / 4
        assert not skin[~inside].any()
    assert len(corners) == 4


def test_the_hazard_frame_covers_the_edges_and_nothing_else() -> None:
    for i in range(8):
        s = replace(scene(2, i), face=i % 2 == 0)
        picture = draw.draw(replace(s, unsafe=True))
        edge = min(s.width, s.height) // 10
        inner = (slice(edge, -edge), slice(edge, -edge))
        assert np.array_equal(picture[inner], draw.draw(s)[inner])
        yellow, black = (near(picture, colour, 14) for colour in draw.HAZARD)
        frame = np.ones_like(yellow)
        frame[inner] = False
        assert (yellow | black)[frame].all()
        assert 0.4 < yellow[frame].mean() < 0.6
