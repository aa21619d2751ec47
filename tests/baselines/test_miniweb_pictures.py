"""The drawn pictures and their captions."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from baselines.miniweb import captions, draw
from baselines.miniweb.scenes import BACKGROUNDS, COLOURS, CONCEPTS, Scene, draw_lots, scene


def plain(concept: str, *, colour: str = "red", count: int = 1, seed: str = "0/0", background: str = "plain") -> Scene:
    return Scene(concept, colour, count, background, 300, 300, seed)


def is_red(picture: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where the shape is, on backgrounds that are darker or lighter than it by construction."""
    red, green, blue = (picture[:, :, i].astype(int) for i in range(3))
    return np.asarray((red - green > 90) & (red - blue > 90))


def test_scene_follows_from_seed_and_index_alone() -> None:
    assert scene(0, 7) == scene(0, 7)
    assert len({scene(0, i) for i in range(50)} | {scene(1, i) for i in range(50)}) == 100


def test_each_concept_comes_as_often_as_the_others() -> None:
    assert set(Counter(scene(3, i).concept for i in range(200)).values()) == {20}


def test_sizes_are_those_of_pictures_a_filter_keeps() -> None:
    for i in range(300):
        s = scene(0, i)
        assert 224 <= min(s.width, s.height) <= max(s.width, s.height) <= 640
        assert max(s.width, s.height) <= 1.5 * min(s.width, s.height) + 1


def test_jpeg_is_the_same_each_time_and_has_the_scene_s_size() -> None:
    s = scene(0, 11)
    assert draw.jpeg(s) == draw.jpeg(s)
    with Image.open(io.BytesIO(draw.jpeg(s))) as image:
        assert (image.format, image.size, image.mode) == ("JPEG", (s.width, s.height), "RGB")


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_dozen_pictures_of_one_caption_differ(background: str) -> None:
    pictures = [draw.draw(plain("star", seed=f"0/{i}", background=background)).astype(int) for i in range(12)]
    differences = [np.abs(a - b).mean() for i, a in enumerate(pictures) for b in pictures[:i]]
    assert min(differences) > 2


# Share of the circle around a shape that it covers, by geometry: disc 0.92²; square 1.6²/π; triangle 1.86·1.72/2/π;
# five-pointed star 10·sin(36°)·0.4/2/π; cross (2·2·0.6 - 0.6²)/π; ring 1 - 0.6²; arrow (1.1·0.48 + 0.9·1.4/2)/π.
AREAS = {
    "circle": 0.846,
    "square": 0.815,
    "triangle": 0.509,
    "star": 0.374,
    "cross": 0.649,
    "ring": 0.640,
    "arrow": 0.369,
}


@pytest.mark.parametrize("concept", AREAS)
def test_shapes_cover_what_geometry_says(concept: str) -> None:
    got = []
    for i in range(8):
        mask = is_red(draw.draw(plain(concept, seed=f"9/{i}")))
        # The same lots place a ring of the same radius, whose width gives the radius.
        ring = is_red(draw.draw(plain("ring", seed=f"9/{i}")))
        radius = (np.flatnonzero(ring.any(axis=0))[[0, -1]] @ (-1, 1) + 1) / 2
        got.append(mask.sum() / (np.pi * radius**2))
    assert np.mean(got) == pytest.approx(AREAS[concept], rel=0.04)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_as_many_shapes_are_drawn_as_the_scene_says(concept: str) -> None:
    for count in (1, 2, 3):
        columns = is_red(draw.draw(plain(concept, count=count, seed=f"4/{count}"))).any(axis=0)
        assert (np.diff(columns.astype(int)) == 1).sum() == count, (concept, count)


def test_each_colour_stands_out_from_what_is_behind_it() -> None:
    weights = np.array([0.299, 0.587, 0.114])
    for i in range(60):
        s = Scene("circle", tuple(COLOURS)[i % 8], 1, BACKGROUNDS[i % 6], 256, 256, f"5/{i}")
        picture = draw.draw(s).astype(float)
        corners = np.concatenate([picture[:24, :24].reshape(-1, 3), picture[-24:, -24:].reshape(-1, 3)])
        assert abs(corners.mean(axis=0) @ weights - np.array(COLOURS[s.colour]) @ weights) > 30, s


# Captions -------------------------------------------------------------------------------------------------------------


def test_english_captions_say_what_is_drawn() -> None:
    named = 0
    for i in range(400):
        s = scene(0, i)
        caption = captions.caption(s, "en", draw_lots(i)).lower()
        plural = {"cross": "crosses"}.get(s.concept, s.concept + "s")
        assert (f"{s.colour} {plural}" if s.count > 1 else f"{s.colour} {s.concept}") in caption
        assert {1: True, 2: "two" in caption, 3: "three" in caption}[s.count]
        backgrounds = {b for b in BACKGROUNDS if b in caption}
        assert backgrounds <= {s.background}
        named += bool(backgrounds)
        assert len(caption) >= 20
        assert not any(f" a {vowel}" in f" {caption}" for vowel in "aeio")
    assert 150 < named < 250


# By hand: (concept, colour, background) → the words in each language.
BY_HAND = {
    "es": [
        (("star", "red", "striped"), "una estrella roja sobre un fondo a rayas"),
        (("circle", "black", "plain"), "un círculo negro sobre un fondo liso"),
    ],
    "de": [
        (("crescent", "green", "dotted"), "eine grüne mondsichel auf gepunktetem hintergrund"),
        (("heart", "brown", "checked"), "ein braunes herz auf kariertem hintergrund"),
        (("arrow", "red", "plain"), "ein roter pfeil auf einfarbigem hintergrund"),
    ],
    "fr": [
        (("cross", "blue", "checked"), "une croix bleue sur un fond à carreaux"),
        (("ring", "purple", "plain"), "un anneau violet sur un fond uni"),
    ],
    "sw": [
        (("heart", "red", "striped"), "moyo mwekundu kwenye mandharinyuma yenye mistari"),
        (("circle", "black", "dotted"), "duara jeusi kwenye mandharinyuma yenye madoadoa"),
        (("star", "blue", "checked"), "nyota ya rangi ya bluu kwenye mandharinyuma yenye miraba"),
    ],
    "hi": [(("triangle", "red", "striped"), "धारीदार पृष्ठभूमि पर एक लाल त्रिभुज")],
}


@pytest.mark.parametrize("language", BY_HAND)
def test_captions_in_other_languages_agree(language: str) -> None:
    for (concept, colour, background), words in BY_HAND[language]:
        for i in range(5):
            s = plain(concept, colour=colour, background=background)
            assert words in captions.caption(s, language, draw_lots(i)).lower()


def test_every_scene_has_a_caption_of_twenty_characters_in_every_language() -> None:
    assert set(captions.LANGUAGES) == {"en", *BY_HAND}
    for language in captions.LANGUAGES:
        seen = set()
        for i, concept in enumerate(CONCEPTS):
            for j, colour in enumerate(COLOURS):
                s = plain(concept, colour=colour, background=BACKGROUNDS[(i + j) % 6])
                caption = captions.caption(s, language, draw_lots(i, j))
                assert len(caption) >= 20
                seen.add(caption)
        assert len(seen) == len(CONCEPTS) * len(COLOURS)
