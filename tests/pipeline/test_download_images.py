"""Served bytes to the stored image, by hand-made images."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("simplejpeg")

import numpy as np
from PIL import Image

from pipeline.download.images import decode
from pipeline.download.images.prepare import ImageRules, Prepared, Reject, prepare
from pools.errors import InputError
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
    with Image.open(io.BytesIO(found.data)) as picture:
        assert picture.format == {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}[found.ext]
        assert picture.size == (found.width, found.height)
        return picture.convert("RGB")


def close(found: Prepared, at: tuple[int, int], colour: tuple[int, int, int], by: int = 12) -> bool:
    """Whether a stored pixel has a colour, but for what JPEG loses."""
    level = pixels(found).getpixel(at)
    assert isinstance(level, tuple)
    return all(abs(a - b) <= by for a, b in zip(level, colour, strict=True))


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
    for kind in ("GIF", "PNG", "WEBP", "AVIF"):
        found = prepared(encoded(frames[0], kind, save_all=True, append_images=frames[1:]))
        assert found.frames == 3, kind
        assert close(found, (9, 9), (255, 0, 0)), kind
    assert prepared(encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])).frames == 3
    assert prepared(encoded(frames[0], "MPO", save_all=True, append_images=frames[1:])).frames == 1
    # Not even where animations of this format are what is asked for.
    webp = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    with Image.open(io.BytesIO(prepared(webp, ImageRules(encode_format="webp")).data)) as stored:
        assert not getattr(stored, "is_animated", False)


# T36, T44
def test_each_refusal_has_its_reason() -> None:
    whole = encoded(noise(200, 150), "JPEG")
    assert rejected(b"<!DOCTYPE html><html><body>Not found</body></html>") is Reason.NOT_AN_IMAGE
    assert rejected(b"") is Reason.EMPTY
    assert rejected(whole, ImageRules(min_bytes=len(whole) + 1)) is Reason.TOO_FEW_BYTES
    assert prepared(whole, ImageRules(min_bytes=len(whole))).data == whole
    assert rejected(whole[: len(whole) // 2]) is Reason.TRUNCATED_IMAGE
    cut_png = encoded(noise(200, 150), "PNG")[:-3000]
    assert rejected(cut_png) is Reason.TRUNCATED_IMAGE
    assert rejected(encoded(noise(200, 50), "JPEG"), ImageRules(max_ratio=3)) is Reason.ASPECT_RATIO
    assert rejected(encoded(noise(100, 100), "JPEG"), ImageRules(min_side=200)) is Reason.TOO_SMALL
    assert prepared(encoded(noise(150, 50), "JPEG"), ImageRules(max_ratio=3, min_side=50)).width == 150  # inclusive


def test_the_size_in_the_header_is_believed_before_any_decoding() -> None:
    assert rejected(encoded(noise(100, 101), "JPEG"), ImageRules(max_pixels=10_000)) is Reason.TOO_MANY_PIXELS


def test_a_refused_image_still_tells_its_size() -> None:
    found = prepare(encoded(noise(200, 50), "JPEG", exif=oriented(6)), ImageRules(max_ratio=3))
    assert found == Reject(Reason.ASPECT_RATIO, "50×200, long/short must be at most 3", 50, 200, 1)
    cut = prepare(encoded(noise(200, 150), "PNG")[:-3000], RULES)
    assert isinstance(cut, Reject)
    assert (cut.original_width, cut.original_height, cut.frames) == (200, 150, 1)


def oriented(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    exif[0x010F] = "a maker"
    return exif


def block(value: int, kind: str = "JPEG") -> bytes:
    """A 40×20 image, red 10×10 block at its top left, with an orientation."""
    picture = Image.new("RGB", (40, 20), "blue")
    picture.paste((255, 0, 0), (0, 0, 10, 10))
    options: dict[str, Any] = {}
    if kind != "TIFF":
        options = {"quality": 95, "subsampling": "4:4:4"} if kind in ("JPEG", "AVIF") else {"lossless": True}
    return encoded(picture, kind, exif=oriented(value), **options)


# T33: where the block is seen, as (right, bottom), by the orientation's definition: which sides row 0 and column 0 are
CORNERS = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
@pytest.mark.parametrize("value", range(1, 9))
def test_pictures_stand_upright(value: int, kind: str) -> None:
    body = block(value, kind)
    found = prepared(body)
    size = (20, 40) if value > 4 else (40, 20)
    assert (found.width, found.height) == (found.original_width, found.original_height) == size
    right, bottom = CORNERS[value]
    spot = (size[0] - 5 if right else 4, size[1] - 5 if bottom else 4)
    assert close(found, spot, (255, 0, 0), by=40)
    assert close(found, (size[0] - 1 - spot[0], size[1] - 1 - spot[1]), (0, 0, 255), by=40)
    with Image.open(io.BytesIO(found.data)) as stored:
        assert stored.getexif().get(0x0112, 1) == 1
        assert (value == 1 and kind == "JPEG") == (found.data == body)
        assert ("exif" in stored.info) == (found.data == body)


def test_a_transposed_picture_is_not_merely_turned() -> None:
    picture = Image.new("L", (40, 20))
    picture.paste(255, (20, 0, 40, 10))  # its top right
    for value, spot in ((5, (5, 30)), (6, (15, 30)), (7, (15, 10)), (8, (5, 10))):
        found = prepared(encoded(picture, "JPEG", exif=oriented(value)))
        assert close(found, spot, (255, 255, 255)), value


def test_an_orientation_is_applied_after_scaling_too() -> None:
    picture = Image.new("RGB", (1200, 600), "blue")
    picture.paste((255, 0, 0), (0, 0, 300, 300))
    found = prepared(encoded(picture, "JPEG", exif=oriented(6)))
    assert (found.width, found.height, found.original_width, found.original_height) == (256, 512, 600, 1200)
    assert close(found, (190, 60), (255, 0, 0))
    assert close(found, (60, 60), (0, 0, 255))


def test_orientation_can_be_left_as_img2dataset_leaves_it() -> None:
    body = block(6)
    assert prepared(body, ImageRules(exif="ignore")) == Prepared(body, 40, 20, 40, 20)


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_that_is_none_changes_nothing(value: int) -> None:
    body = block(value)
    assert prepared(body) == Prepared(body, 40, 20, 40, 20)


def test_broken_exif_changes_nothing() -> None:
    body = block(6)
    at = body.index(b"Exif\0\0") + 6
    for junk in (b"XX" + body[at + 2 : at + 8], body[at : at + 4] + b"\xff\xff\xff\x7f"):
        broken = body[:at] + junk + body[at + 8 :]
        assert prepared(broken) == Prepared(broken, 40, 20, 40, 20)


# T47
def test_the_shortest_side_may_decide() -> None:
    rules = ImageRules(image_size=100, resize_mode="keep_ratio")
    wide, small = encoded(noise(300, 100), "JPEG"), encoded(noise(50, 40), "JPEG")
    assert prepared(wide, rules) == Prepared(wide, 300, 100, 300, 100)
    assert prepared(small, rules) == Prepared(small, 50, 40, 50, 40)
    found = prepared(encoded(noise(300, 200), "JPEG"), rules)
    assert (found.width, found.height) == (150, 100)
    for mode in ("border", "center_crop"):
        assert prepared(small, replace(rules, resize_mode=mode)).data == small


def test_other_ways_to_a_size() -> None:
    body = encoded(noise(300, 200), "JPEG")
    sizes = {
        ("no", True): (300, 200),
        ("keep_ratio_largest", True): (100, 67),
        ("border", True): (100, 100),
        ("center_crop", True): (100, 100),
    }
    for (mode, only), size in sizes.items():
        found = prepared(body, ImageRules(image_size=100, resize_mode=mode, only_if_bigger=only))  # type: ignore[arg-type]
        assert (found.width, found.height) == size
        assert pixels(found).size == size
    edge = pixels(prepared(body, ImageRules(image_size=100, resize_mode="border"))).getpixel((50, 3))
    assert edge == (255, 255, 255)
    assert prepared(body, ImageRules(image_size=600, only_if_bigger=False)).width == 600
    assert prepared(body, ImageRules(image_size=300, only_if_bigger=False)).data != body


def test_very_long_images_keep_a_row() -> None:
    found = prepared(encoded(noise(3000, 2), "PNG"))
    assert (found.width, found.height) == (512, 1)
    assert rejected(
        encoded(noise(20_000, 100, "L"), "PNG"), ImageRules(resize_mode="keep_ratio", encode_format="webp", image_size=100)
    ) is (Reason.TOO_MANY_PIXELS)


def test_the_stored_format_can_be_chosen() -> None:
    red = encoded(Image.new("RGB", (40, 30), (200, 10, 10)), "PNG")
    webp = ImageRules(encode_format="webp", quality=90)
    png = ImageRules(encode_format="png", quality=9)
    assert prepared(red, png) == Prepared(red, 40, 30, 40, 30, ext="png")
    for rules in (webp, png):
        found = prepared(encoded(noise(900, 300), "JPEG"), rules)
        assert found.ext == rules.encode_format
        assert pixels(found).size == (512, 171)
    small = encoded(noise(90, 30), "WEBP")
    assert prepared(small, webp).data == small
    for picture in (Image.new("RGBA", (9, 9), (0, 0, 0, 0)), Image.new("I;16", (9, 9), 0xFFFF)):
        assert close(prepared(encoded(picture, "PNG"), png), (4, 4), (255, 255, 255), by=0)


# T43
def test_bytes_can_be_stored_as_served() -> None:
    rules = ImageRules(reencode=False, image_size=16)
    for kind, ext in (("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp"), ("TIFF", "tif")):
        body = encoded(noise(64, 48), kind)
        assert prepared(body, rules) == Prepared(body, 64, 48, 64, 48, ext=ext)
    assert rejected(encoded(noise(64, 48), "PNG")[:-40], rules) is Reason.TRUNCATED_IMAGE
    assert prepared(encoded(noise(64, 48), "JPEG"), rules).jpeg[:2] == b"\xff\xd8"


# T34
def test_half_transparent_is_half_white() -> None:
    half = Image.new("RGBA", (8, 8), (201, 103, 0, 128))
    wanted = (228, 179, 127)  # 128 / 255 · (201, 103, 0) + 127, rounded
    assert close(prepared(encoded(half, "PNG"), ImageRules(encode_format="png", quality=1)), (4, 4), wanted, by=0)
    assert close(prepared(encoded(half, "WEBP", lossless=True)), (4, 4), wanted, by=2)
    grey = Image.new("LA", (8, 8), (0, 128))
    assert close(prepared(encoded(grey, "PNG")), (4, 4), (127, 127, 127), by=1)
    clear = Image.new("P", (8, 8), 0)
    assert close(prepared(encoded(clear, "GIF", transparency=0)), (4, 4), (255, 255, 255), by=0)


def test_other_colours_become_rgb_or_grey() -> None:
    cases: list[tuple[bytes, tuple[int, int, int]]] = [
        (encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100), (255, 0, 0)),
        (encoded(Image.new("CMYK", (8, 8), (0, 0, 0, 128)), "TIFF"), (127, 127, 127)),
        (encoded(Image.new("1", (8, 8), 1), "PNG"), (255, 255, 255)),
        (encoded(Image.new("I;16", (8, 8), 0x8000), "TIFF"), (128, 128, 128)),
        (encoded(Image.new("I;16B", (8, 8), 0x4000), "TIFF"), (64, 64, 64)),
        (b"P5 8 8 65535\n" + b"\xc0\x00" * 64, (192, 192, 192)),
        (encoded(Image.new("F", (8, 8), 0.5), "TIFF"), (128, 128, 128)),
        (encoded(Image.fromarray(np.array([[-10.0] * 8, [30.0] * 8], np.float32)), "TIFF"), (0, 0, 0)),
        (encoded(Image.fromarray(np.array([[0] * 8, [1 << 20] * 8], np.int32)), "TIFF"), (0, 0, 0)),
        (encoded(Image.fromarray(np.array([[float("nan")] * 8] * 8, np.float32)), "TIFF"), (0, 0, 0)),
    ]
    for number, (body, colour) in enumerate(cases):
        found = prepared(body)
        assert close(found, (4, 0), colour, by=3), number
        with Image.open(io.BytesIO(found.data)) as stored:
            assert stored.mode in ("L", "RGB")


def test_what_is_known_of_colours_and_cameras_goes_with_the_old_bytes() -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    red = Image.new("RGB", (700, 700), (200, 10, 10))
    found = prepared(encoded(red, "JPEG", quality=100, icc_profile=profile, exif=oriented(1), comment="hello"))
    assert close(found, (9, 9), (200, 10, 10))
    with Image.open(io.BytesIO(found.data)) as stored:
        assert set(stored.info) == {"jfif", "jfif_version", "jfif_unit", "jfif_density"}


def test_threads_prepare_at_once_and_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "LARGE_PIXELS", 600 * 600)  # some wait for each other
    kinds = ("JPEG", "PNG", "WEBP", "GIF")
    bodies = [encoded(noise(500 + 60 * n, 560), kinds[n % 4]) for n in range(12)]
    alone = [prepare(b, RULES) for b in bodies]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda b: prepare(b, RULES), bodies)) == alone


def test_other_threads_go_on_while_an_image_is_prepared() -> None:
    """A thread that sleeps in steps of a millisecond gets through most of them: no step holds the interpreter for long."""
    body = encoded(noise(3000, 2000), "JPEG")
    done, steps = threading.Event(), 0

    def work() -> None:
        prepare(body, RULES)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        steps += 1
    thread.join()
    assert steps > 10  # of some fifty or more


def test_a_worker_starts_without_the_peers_libraries() -> None:
    script = (
        "import sys, time; start = time.process_time()\n"
        "from pipeline.download.images.prepare import ImageRules, prepare\n"
        f"assert prepare({encoded(noise(8, 8), 'PNG')!r}, ImageRules()).width == 8\n"
        "print(time.process_time() - start, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    seconds, *loaded = done.stdout.split()
    assert not {"img2dataset", "albumentations", "wandb", "scipy", "torch", "pandas"} & set(loaded)
    assert float(seconds) < 1


def test_rules_out_of_range_are_refused() -> None:
    for wrong in (
        {"image_size": 0},
        {"quality": 0},
        {"quality": 10, "encode_format": "png"},
        {"max_ratio": 0.5},
        {"min_bytes": -1},
        {"resize_mode": "squeeze"},
        {"encode_format": "gif"},
        {"exif": "keep"},
    ):
        with pytest.raises(InputError):
            ImageRules(**wrong)
