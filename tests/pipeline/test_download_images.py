"""Served bytes to the stored JPEG, by hand-made images and by real broken ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("img2dataset")

from PIL import Image

from pipeline.download.images import ImageRules, Prepared, Reject, ends_whole, prepare
from pools.schema import Reason

RULES = ImageRules()


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.effect_noise((width, height), 60).convert(mode)


def prepared(body: bytes, rules: ImageRules = RULES) -> Prepared:
    found = prepare(body, rules)
    assert isinstance(found, Prepared), found
    return found


def rejected(body: bytes, rules: ImageRules = RULES) -> Reason:
    found = prepare(body, rules)
    assert isinstance(found, Reject), found
    return found.reason


def pixels(found: Prepared) -> Image.Image:
    with Image.open(io.BytesIO(found.jpeg)) as picture:
        assert picture.format == "JPEG"
        assert picture.size == (found.width, found.height)
        return picture.convert("RGB")


def test_a_small_jpeg_keeps_its_bytes() -> None:
    body = encoded(noise(64, 48), "JPEG")
    assert prepared(body) == Prepared(body, 64, 48, 64, 48)  # T43


# T47: the longest side decides, nothing grows, no border
@pytest.mark.parametrize(
    ("size", "stored"), [((1024, 512), (512, 256)), ((300, 900), (171, 512)), ((512, 100), (512, 100)), ((50, 40), (50, 40))]
)
def test_size_is_limited_by_the_longest_side(size: tuple[int, int], stored: tuple[int, int]) -> None:
    found = prepared(encoded(noise(*size), "JPEG"))
    assert (found.width, found.height) == stored
    assert (found.original_width, found.original_height) == size
    assert pixels(found).size == stored


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_other_formats_become_jpeg(kind: str) -> None:
    red = Image.new("RGB", (40, 30), (200, 10, 10))
    found = prepared(encoded(red, kind, **({"lossless": True} if kind == "WEBP" else {})))
    assert (found.width, found.height, found.original_width) == (40, 30, 40)
    assert all(abs(a - b) < 8 for a, b in zip(pixels(found).getpixel((20, 15)), (200, 10, 10), strict=True))  # type: ignore[arg-type]


# T34
def test_transparency_is_white() -> None:
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert pixels(prepared(encoded(clear, "PNG"))).getpixel((0, 0)) == (255, 255, 255)
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    assert pixels(prepared(encoded(palette, "PNG", transparency=b"\xff\x00"))).getpixel((3, 3)) == (255, 255, 255)


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    grey = Image.new("I;16", (16, 16), 0x4000)  # a quarter of the range
    level = pixels(prepared(encoded(grey, "PNG"))).getpixel((5, 5))
    assert isinstance(level, tuple)
    assert abs(level[0] - 0x40) < 4


# T35
def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (20, 20), c) for c in ("red", "green", "blue")]
    level = pixels(prepared(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))).getpixel((9, 9))
    assert isinstance(level, tuple)
    assert level[0] > 240
    assert max(level[1:]) < 15


# T36, T44
def test_each_refusal_has_its_reason() -> None:
    whole = encoded(noise(200, 150), "JPEG")
    assert rejected(b"<!DOCTYPE html><html><body>Not found</body></html>") is Reason.NOT_AN_IMAGE
    assert rejected(b"") is Reason.NOT_AN_IMAGE
    assert rejected(whole[: len(whole) // 2]) is Reason.TRUNCATED_IMAGE
    cut_png = encoded(noise(200, 150), "PNG")[:-3000]
    assert rejected(cut_png) is Reason.TRUNCATED_IMAGE
    assert rejected(encoded(noise(200, 50), "JPEG"), ImageRules(max_ratio=3)) is Reason.ASPECT_RATIO
    assert rejected(encoded(noise(100, 100), "JPEG"), ImageRules(min_side=200)) is Reason.TOO_SMALL
    assert prepared(encoded(noise(150, 50), "JPEG"), ImageRules(max_ratio=3, min_side=50)).width == 150  # inclusive


def test_the_size_in_the_header_is_believed_before_any_decoding() -> None:
    assert rejected(encoded(noise(100, 101), "JPEG"), ImageRules(max_pixels=10_000)) is Reason.TOO_MANY_PIXELS
    bomb = encoded(Image.new("1", (30_000, 30_000)), "PNG")  # a hundred kilobytes that say 900 million pixels
    assert len(bomb) < 200_000
    assert rejected(bomb) is Reason.TOO_MANY_PIXELS


def test_an_end_marker_in_a_thumbnail_is_not_the_end() -> None:
    thumbnail = encoded(noise(16, 16), "JPEG")
    plain = encoded(noise(200, 150), "JPEG")
    block = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    whole = plain[:2] + block + plain[2:]
    assert ends_whole(whole)
    assert not ends_whole(whole[:-2])
    assert not ends_whole(whole[: len(whole) // 2])
    assert ends_whole(encoded(noise(64, 64), "JPEG", progressive=True))
    assert not ends_whole(b"\xff\xd8\xff\xe1")


@pytest.mark.shared
def test_real_edge_cases_end_in_an_image_or_a_reason(shared_data: Path) -> None:
    files = [f for f in sorted((shared_data / "images-edge").rglob("*")) if f.is_file() and f.suffix != ".txt"]
    results = {f.name: prepare(f.read_bytes(), RULES) for f in files}
    assert len(results) > 60
    reasons = {n: r.reason for n, r in results.items() if isinstance(r, Reject)}
    for name in ("truncated.jpg", "truncated_image.png", "truncated_jpeg.jpg", "truncated_end_chunk.png", "shortfile.bmp"):
        assert reasons[name] is Reason.TRUNCATED_IMAGE, name
    for name in ("decompression_bomb.gif", "decompression_bomb.ico", "badwidth.bmp", "reallybig.bmp"):
        assert reasons[name] is Reason.TOO_MANY_PIXELS, name
    for name in ("star.svg", "broken.png", "zero_width.gif", "negative_size.ppm", "hopper.heif"):
        assert reasons[name] is Reason.NOT_AN_IMAGE, name
    for name in ("hopper.avif", "hopper.webp", "pil_sample_cmyk.jpg", "junk_jpeg_header.jpg", "iss634.gif", "hopper.ico"):
        assert isinstance(results[name], Prepared), name
