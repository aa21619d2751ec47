"""Faces blurred at download: to the byte as img2dataset does, where its boxes are sound."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cv2")

from PIL import Image

from pipeline.download.images import blur
from pipeline.download.images.prepare import ImageRules, Prepared, prepare
from pools.errors import InputError

LOSSLESS = ImageRules(encode_format="png", quality=1, resize_mode="no")


def stripes(width: int, height: int, colour: bool = True) -> Image.Image:
    """Black and white columns, 2 pixels wide: grey where blurred, unchanged elsewhere."""
    levels = np.tile(np.array([0, 0, 255, 255], np.uint8), (height, width // 4))
    picture = Image.fromarray(levels)
    return picture.convert("RGB") if colour else picture


def encoded(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def stored(body: bytes, rules: ImageRules, boxes: list[list[float]]) -> np.ndarray:
    found = prepare(body, rules, boxes)
    assert isinstance(found, Prepared), found
    return np.asarray(Image.open(io.BytesIO(found.data)).convert("L")).astype(int)


def is_blurred(levels: np.ndarray, x: int, y: int) -> bool:
    """Whether stripes around a point have become grey."""
    part = levels[y - 2 : y + 2, x - 2 : x + 2]
    return int(part.max() - part.min()) < 128


@pytest.mark.shared
def test_the_published_example_comes_out_equal(shared_data: Path) -> None:
    folder = shared_data / "images-faces" / "blur"
    boxes = list(np.load(folder / "bbox.npy"))
    found = prepare((folder / "original.png").read_bytes(), LOSSLESS, boxes)
    assert isinstance(found, Prepared)
    ours = np.asarray(Image.open(io.BytesIO(found.data)))
    theirs = np.asarray(Image.open(folder / "blurred.png").convert("RGB"))
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("colour", [True, False])
def test_a_box_and_its_margin_are_blurred_and_nothing_far_away(colour: bool) -> None:
    body = encoded(stripes(400, 300, colour))
    levels = stored(body, LOSSLESS, [[0.25, 0.25, 0.5, 0.5]])  # 100 to 200, 75 to 150
    for x, y in ((150, 110), (110, 80), (190, 145)):
        assert is_blurred(levels, x, y)
    for x, y in ((50, 110), (300, 110), (150, 30), (150, 220)):
        assert not is_blurred(levels, x, y)
    assert abs(levels[200:] - np.asarray(stripes(400, 300, False))[200:].astype(int)).max() <= 1


def test_a_jpeg_with_a_face_is_encoded_anew_also_where_bytes_are_kept() -> None:
    body = encoded(stripes(400, 300), "JPEG", quality=95)
    for rules in (ImageRules(), ImageRules(reencode=False)):
        levels = stored(body, rules, [[0.25, 0.25, 0.5, 0.5]])
        assert levels.shape == (300, 400)
        assert is_blurred(levels, 150, 110)
        kept = prepare(body, rules, [])
        assert isinstance(kept, Prepared)
        assert kept.data == body


def test_boxes_are_of_the_upright_image_and_blurred_after_scaling() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    body = encoded(stripes(800, 400), "JPEG", quality=95, exif=exif)  # seen upright: 400 wide, 800 high
    levels = stored(body, ImageRules(), [[0.0, 0.0, 1.0, 0.25]])
    assert levels.shape == (512, 256)
    assert is_blurred(levels, 128, 64)
    assert np.ptp(levels[300:500, 128]) > 128


def test_the_box_moves_with_a_crop_and_a_border() -> None:
    body = encoded(stripes(800, 400))
    cut = stored(
        body, ImageRules(image_size=200, resize_mode="center_crop", encode_format="png", quality=1), [[0.3, 0.3, 0.45, 0.7]]
    )
    assert cut.shape == (200, 200)  # of 400×200, columns 100 to 300; the box is 120 to 180
    framed = stored(
        body, ImageRules(image_size=400, resize_mode="border", encode_format="png", quality=1), [[0.3, 0.3, 0.45, 0.7]]
    )
    assert framed.shape == (400, 400)  # the picture's rows are 100 to 300; the box is 160 to 240, 120 to 180
    assert (framed[:100] == 255).all()
    assert (framed[-100:] == 255).all()
    assert np.array_equal(framed[100:300, 100:300], cut)


def test_boxes_that_mark_nothing_are_left_out_and_others_cut() -> None:
    nan = math.nan
    assert blur.usable([[0.1, 0.2, 0.3, 0.4]]) == ((0.1, 0.2, 0.3, 0.4),)
    assert blur.usable([[0.3, 0.4, 0.1, 0.2]]) == ((0.1, 0.2, 0.3, 0.4),)  # corners the other way round
    assert blur.usable([[-1.0, 0.5, 0.5, 2.0]]) == ((0.0, 0.5, 0.5, 1.0),)
    for nothing in ([nan, 0, 1, 1], [0.5, 0.5, 0.5, 0.9], [1.5, 0, 2.0, 1], [-1, 0, -0.5, 1], [0, 0, 1], []):
        assert blur.usable([nothing]) == ()
    assert blur.usable([None]) == ()
    body = encoded(stripes(64, 48), "JPEG")
    found = prepare(body, ImageRules(), [[nan, 0, 1, 1], [0.5, 0.5, 0.5, 0.9]])
    assert isinstance(found, Prepared)
    assert found.data == body


@pytest.mark.parametrize("box", [[120, 80, 200, 160], [0.1, 0.2, 0.3, 2.1], [-1.5, 0, 0.5, 1], [0, 0, math.inf, 1], [0, 3]])
def test_boxes_in_pixels_are_refused(box: list[float]) -> None:
    body = encoded(stripes(400, 300), "JPEG")
    with pytest.raises(InputError, match=r"not relative to the image; expected \[x0, y0, x1, y1\], each in 0\.\.1"):
        prepare(body, ImageRules(), [[0.1, 0.1, 0.2, 0.2], box])


def test_the_smallest_and_the_outermost_boxes_do_no_harm() -> None:
    body = encoded(stripes(8, 2))
    for box in ([0.0, 0.0, 1.0, 1.0], [0.999, 0.999, 1.0, 1.0], [0.0, 0.0, 1e-9, 1e-9]):
        assert stored(body, LOSSLESS, [box]).shape == (2, 8)


@pytest.mark.parametrize("colour", [True, False])
def test_blurring_on_fewer_pixels_looks_the_same(monkeypatch: pytest.MonkeyPatch, colour: bool) -> None:
    rng = np.random.default_rng(5)
    picture = Image.fromarray(rng.integers(0, 256, (9, 12, 3), np.uint8)).resize((900, 700), Image.Resampling.BICUBIC)
    pixels = np.asarray(picture if colour else picture.convert("L"))
    boxes = blur.usable([[0.2, 0.2, 0.7, 0.8], [0.8, 0.1, 0.9, 0.2]])
    exact = blur.blurred(pixels, boxes).astype(int)
    monkeypatch.setattr(blur, "EXACT_WORK", 0)
    coarse = blur.blurred(pixels, boxes)
    assert not np.array_equal(coarse, exact)
    assert abs(coarse - exact).mean() < 1
    assert abs(coarse - exact).max() <= 4
