"""What becomes of bytes that are odd, broken or hostile: a table of real files, bombs made by hand, much damage."""

from __future__ import annotations

import io
import json
import re
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("simplejpeg")

from PIL import Image

from pipeline.download.images import blocks, decode
from pipeline.download.images.prepare import ImageRules, Prepared, Reject, prepare
from pools.schema import Reason

RULES = ImageRules()
SECONDS = 2.0  # of processor time, for any file
# Kept as served, or encoded anew, with the size as served (upright) and the frames; or the reason why not.
TABLE: dict[str, tuple[str] | tuple[str, int, int, int]] = {
    "12in16bit.tif": ("anew", 100, 100, 1),
    "16bit.cropped.tif": ("anew", 64, 64, 1),
    "1_trns.png": ("anew", 64, 64, 1),
    "badwidth.bmp": ("too_many_pixels",),
    "broken.png": ("not_an_image",),
    "broken_data_stream.png": ("not_an_image",),
    "broken_exif_dpi.jpg": ("kept", 100, 100, 1),
    "chunk_actl_after_idat.png": ("anew", 128, 64, 1),
    "decompression_bomb.gif": ("too_many_pixels",),
    "decompression_bomb.ico": ("too_many_pixels",),
    "decompression_bomb_extents.gif": ("anew", 100, 100, 2),
    "empty_gps_ifd.jpg": ("anew", 10, 10, 1),
    "exif-dpi-zerodivision.jpg": ("kept", 200, 200, 1),
    "exif_gps.jpg": ("kept", 8, 8, 1),
    "flower2.webp": ("anew", 300, 225, 1),
    "hopper.avif": ("anew", 128, 128, 1),
    "hopper.bmp": ("anew", 128, 128, 1),
    "hopper.gif": ("anew", 128, 128, 1),
    "hopper.heif": ("not_an_image",),
    "hopper.ico": ("anew", 16, 16, 1),
    "hopper.jpg": ("kept", 128, 128, 1),
    "hopper.png": ("anew", 128, 128, 1),
    "hopper.ppm": ("anew", 128, 128, 1),
    "hopper.tif": ("anew", 128, 128, 1),
    "hopper.webp": ("anew", 128, 128, 1),
    "hopper_16bit.pgm": ("anew", 128, 128, 1),
    "hopper_16bit_qtables.jpg": ("kept", 128, 128, 1),
    "hopper_bad_exif.jpg": ("kept", 500, 500, 1),
    "hopper_gray.jpg": ("kept", 128, 128, 1),
    "hopper_idat_after_image_end.png": ("anew", 128, 128, 1),
    "hopper_orientation_3.jpg": ("anew", 128, 128, 1),
    "hopper_orientation_5.jpg": ("anew", 128, 128, 1),
    "hopper_orientation_6.jpg": ("anew", 128, 128, 1),
    "hopper_orientation_6.webp": ("anew", 128, 128, 1),
    "hopper_orientation_8.jpg": ("anew", 128, 128, 1),
    "icc-after-SOF.jpg": ("kept", 10, 10, 1),
    "invalid-exif-without-x-resolution.jpg": ("kept", 300, 200, 1),
    "invalid-exif.jpg": ("kept", 200, 200, 1),
    "iss634.gif": ("anew", 245, 245, 42),
    "jpeg_ff00_header.jpg": ("kept", 300, 225, 1),
    "junk_jpeg_header.jpg": ("anew", 1024, 768, 1),
    "mode_16bit.png": ("anew", 128, 64, 3),
    "multiple_exif.jpg": ("kept", 1, 1, 1),
    "negative_size.ppm": ("not_an_image",),
    "no_palette.gif": ("anew", 1, 1, 2),
    "no_time_for_that_tiny.gif": ("anew", 14, 25, 24),
    "oom-225817ca0f8c663be7ab4b9e717b02c661e66834.tif": ("not_an_image",),
    "p_16.png": ("anew", 128, 128, 1),
    "palette_color.png": ("anew", 10, 10, 1),
    "photoshop-200dpi-broken.jpg": ("kept", 200, 200, 1),
    "pil_sample_cmyk.jpg": ("anew", 100, 100, 1),
    "png_decompression_dos.png": ("not_an_image",),
    "reallybig.bmp": ("too_many_pixels",),
    "rgb_trns.png": ("anew", 64, 64, 1),
    "rot2mir0.avif": ("anew", 640, 427, 1),
    "shortfile.bmp": ("truncated_image",),
    "star.svg": ("not_an_image",),
    "sugarshack_bad_mpo_header.jpg": ("anew", 640, 480, 1),
    "syntax_num_frames_zero.png": ("not_an_image",),
    "tiff_16bit_RGB.tiff": ("anew", 100, 40, 1),
    "tiff_strip_cmyk_jpeg.tif": ("anew", 100, 100, 1),
    "transparency.avif": ("anew", 64, 64, 1),
    "transparent.gif": ("anew", 200, 150, 1),
    "transparent.png": ("anew", 200, 150, 1),
    "transparent.webp": ("anew", 200, 150, 1),
    "truncated.jpg": ("truncated_image",),
    "truncated_app14.jpg": ("kept", 100, 100, 1),
    "truncated_end_chunk.png": ("truncated_image",),
    "truncated_image.png": ("truncated_image",),
    "truncated_jpeg.jpg": ("truncated_image",),
    "zero_width.gif": ("not_an_image",),
}


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def outcome(body: bytes, rules: ImageRules = RULES) -> Prepared | Reject:
    """What becomes of the bytes, in bounded time."""
    start = time.process_time()
    found = prepare(body, rules)
    assert time.process_time() - start < SECONDS
    return found


def reason(body: bytes, rules: ImageRules = RULES) -> Reason:
    found = outcome(body, rules)
    assert isinstance(found, Reject), found
    return found.reason


@pytest.mark.shared
def test_every_real_file_has_its_documented_end(shared_data: Path) -> None:
    found: dict[str, tuple[str] | tuple[str, int, int, int]] = {}
    for path in sorted((shared_data / "images-edge").iterdir()):
        if path.suffix == ".txt":
            continue
        body = path.read_bytes()
        result = outcome(body)
        if isinstance(result, Reject):
            assert result.message
            found[path.name] = (str(result.reason),)
        else:
            assert max(result.width, result.height) <= 512
            how = "kept" if result.data == body else "anew"
            found[path.name] = (how, result.original_width, result.original_height, result.frames)
    assert found == TABLE


@pytest.mark.shared
def test_the_table_agrees_with_what_another_reader_found(shared_data: Path) -> None:
    """VERDICTS.txt: what Pillow alone opens and loads, sizes before EXIF is applied. All that it loads is stored."""
    told = (shared_data / "images-edge" / "VERDICTS.txt").read_text().splitlines()
    assert len(told) == len(TABLE) == 71
    for line in told:
        name = line.split()[1].rpartition("/")[2]
        if "FAIL" in line:
            assert len(TABLE[name]) == 1, line
            continue
        match = re.search(r"\((\d+), (\d+)\) frames=(\d+) exif_orient=(\w+)", line)
        assert match is not None, line
        width, height, frames = (int(v) for v in match.groups()[:3])
        sideways = match[4] in "5678" and match[4] != "None"
        assert TABLE[name][1:] == ((height, width) if sideways else (width, height)) + (frames,), line


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *extra: bytes, rows: bytes) -> bytes:
    """An 8-bit RGB PNG with chunks before its picture."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"".join((b"\x89PNG\r\n\x1a\n", header, *extra, chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")))


def tiff(tags: list[tuple[int, int, int, int]], data: bytes = b"") -> bytes:
    """A little-endian TIFF of one directory; data begin behind it."""
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + struct.pack("<I", 0) + data


def jpeg_of(width: int, height: int, body: bytes) -> bytes:
    """The JPEG under another size in its header."""
    at = body.index(b"\xff\xc0") + 5
    return body[:at] + struct.pack(">HH", height, width) + body[at + 4 :]


GREY_ROWS = (b"\0" + b"\x80" * 30) * 10  # of a 10×10 RGB PNG
TINY_JPEG = encoded(Image.new("RGB", (8, 8), "red"), "JPEG")
TINY_GIF = encoded(Image.new("P", (8, 8)), "GIF")
TINY_WEBP = encoded(Image.new("RGBA", (8, 8)), "WEBP", save_all=True, append_images=[Image.new("RGBA", (8, 8), "red")])
ZEROS = zlib.compress(bytes(100 << 20), 9)
DEFLATED = zlib.compress(bytes(100_000))
TILED = [(256, 4, 1, 10), (257, 4, 1, 10), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (277, 3, 1, 1)]
VP8X = TINY_WEBP.index(b"VP8X") + 12  # where the canvas's size is


@pytest.mark.parametrize(
    "body",
    [
        png(60_000, 60_000, rows=bytes(1000)),
        png(20_000, 5_000, rows=bytes(1000)),  # between our limit and Pillow's
        jpeg_of(65_500, 65_500, TINY_JPEG),
        TINY_GIF[:6] + struct.pack("<HH", 65_535, 65_535) + TINY_GIF[10:],
        TINY_WEBP[:VP8X] + (16_382).to_bytes(3, "little") * 2 + TINY_WEBP[VP8X + 6 :],
        b"P6 4000 4000 65535\n" + bytes(4000 * 4000 * 6),  # samples of 16 bits are read in Python
    ],
    ids=["png", "png-100-megapixels", "jpeg", "gif", "webp", "ppm"],
)
def test_too_many_pixels_are_not_decoded(body: bytes) -> None:
    assert reason(body) is Reason.TOO_MANY_PIXELS


def test_an_icon_may_not_hide_a_large_picture() -> None:
    inside = png(20_000, 20_000, rows=bytes(1000))
    entry = struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(inside), 22)
    assert reason(entry + inside) is Reason.TOO_MANY_PIXELS


@pytest.mark.parametrize(
    "body",
    [
        png(10, 10, chunk(b"iCCP", b"icc\0\0" + ZEROS), rows=GREY_ROWS),
        png(10, 10, chunk(b"zTXt", b"a\0\0" + ZEROS), rows=GREY_ROWS),
        png(10, 10, *[chunk(b"tEXt", b"a\0b")] * 70_000, rows=GREY_ROWS),
        tiff([*TILED, (322, 4, 1, 60_000), (323, 4, 1, 60_000), (324, 4, 1, 134), (325, 4, 1, len(DEFLATED))], DEFLATED),
        tiff([*TILED[:5], (277, 3, 1, 60_000), (273, 4, 1, 122), (278, 4, 1, 10), (279, 4, 1, len(DEFLATED))], DEFLATED),
        TINY_JPEG[:2] + b"\xff\xe5\0\2" * 3_000_000 + TINY_JPEG[2:],
        TINY_JPEG[:2] + b"\xff" * 12_000_000 + TINY_JPEG[2:],
        TINY_GIF.replace(b",", b"!\xfe\x1a\0" * 3_000_000 + b",", 1),
        b"P3 100 100 255\n" + b"#\n" * 6_000_000,
        b"P5" + b" " * 12_000_000 + b"8 8 255\n" + bytes(64),
    ],
    ids=["iccp", "ztxt", "chunks", "tile", "samples", "segments", "fill", "comments", "plain-ppm", "spaces"],
)
def test_what_would_keep_a_parser_busy_is_no_image(body: bytes) -> None:
    assert reason(body) is Reason.NOT_AN_IMAGE


def test_scans_of_a_progressive_jpeg_are_bounded_by_their_work() -> None:
    whole = encoded(Image.new("RGB", (4000, 3000), "teal"), "JPEG", progressive=True)
    last = whole[whole.rindex(b"\xff\xda") : -2]
    assert blocks.jpeg_scans(whole) == 10
    assert blocks.jpeg_scans(whole[:-2] + last * 90 + b"\xff\xd9" + last * 50) == 100
    assert reason(whole[:-2] + last * 90 + b"\xff\xd9") is Reason.TOO_MANY_PIXELS  # 1.2e9 pixels
    behind = outcome(encoded(Image.new("RGB", (4000, 3000)), "JPEG") + b"\xff\xda" * 5000)  # of no picture
    assert isinstance(behind, Prepared)
    many = encoded(Image.new("RGB", (16, 16)), "JPEG", progressive=True)
    assert isinstance(outcome(many[:-2] + many[many.rindex(b"\xff\xda") : -2] * 200 + b"\xff\xd9"), Prepared)


def test_frames_are_counted_without_end_but_not_for_ever() -> None:
    one = b",\0\0\0\0\1\0\1\0\0\2\2D\1\0"
    assert TINY_GIF.endswith(b";")
    found = outcome(TINY_GIF[:-1] + one * 500_000 + b";")
    assert isinstance(found, Prepared)
    assert found.frames == decode.MAX_FRAMES
    pages = [Image.new("L", (9, 9), n) for n in range(5)]
    body = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert blocks.tiff_frames(body, 100) == 5
    assert blocks.tiff_frames(body, 3) == 3
    first = struct.unpack("<I", body[4:8])[0]
    end = first + 2 + 12 * struct.unpack("<H", body[first : first + 2])[0]
    assert blocks.tiff_frames(body[:end] + struct.pack("<I", first) + body[end + 4 :], 100) == 1  # a ring


# T36, T44
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<!DOCTYPE html>\n<html><body><svg></svg> Not found", "HTML"),
        (b"\n\n<html lang='en'>", "HTML"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- x --><svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b'{"error": "no such key"}', "JSON"),
        (b"Page not found", "text"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIF"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isomavc1", "video"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"\r\n\r\n" + TINY_JPEG, "a JPEG behind 4 other bytes"),
        (b"\x89PNG\r\n\x1a\n" + b"\x05" * 80, "damaged PNG"),
        (bytes(100), "not a known image format"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_is_no_image_is_named(body: bytes, says: str) -> None:
    found = outcome(body)
    assert isinstance(found, Reject)
    assert found.reason is Reason.NOT_AN_IMAGE
    assert says in found.message


NOISE = Image.effect_noise((200, 150), 60)
SEQUENTIAL, PROGRESSIVE = encoded(NOISE.convert("RGB"), "JPEG"), encoded(NOISE.convert("RGB"), "JPEG", progressive=True)


# T36
@pytest.mark.parametrize("whole", [SEQUENTIAL, PROGRESSIVE, encoded(NOISE, "JPEG")], ids=["rgb", "progressive", "grey"])
def test_a_cut_jpeg_is_told_from_a_whole_one(whole: bytes) -> None:
    half, scan = len(whole) // 2, whole.index(b"\xff\xda")
    for cut in (whole[:half], whole[: scan + 14], whole[:-2], whole[:half] + b"<html>" * 50, whole[:half] + b"\xff\xd9"):
        assert reason(cut) is Reason.TRUNCATED_IMAGE
    for kept in (whole, whole + b"trailing bytes" * 20):
        found = outcome(kept)
        assert isinstance(found, Prepared)
        assert found.data == kept


def test_the_end_of_a_thumbnail_is_not_the_end() -> None:
    thumbnail = encoded(NOISE.resize((16, 16)), "JPEG")
    block = b"\xff\xe1" + (len(thumbnail) + 2).to_bytes(2, "big") + thumbnail
    whole = SEQUENTIAL[:2] + block + SEQUENTIAL[2:]
    assert isinstance(outcome(whole), Prepared)
    assert reason(whole[:-2]) is Reason.TRUNCATED_IMAGE
    assert reason(whole[: len(block) + 400]) is Reason.TRUNCATED_IMAGE


def test_small_damage_that_readers_forgive_is_forgiven() -> None:
    extra = SEQUENTIAL[:-2] + bytes(40) + SEQUENTIAL[-2:]
    found = outcome(extra)
    assert isinstance(found, Prepared)
    assert found.data == extra


# T36
@pytest.mark.parametrize("kind", ["PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP"])
def test_other_formats_cut_at_half_are_truncated(kind: str) -> None:
    whole = encoded(NOISE.convert("RGB"), kind)
    assert isinstance(outcome(whole), Prepared)
    assert reason(whole[: len(whole) // 2]) is Reason.TRUNCATED_IMAGE


def test_a_png_with_a_wrong_checksum_is_broken() -> None:
    whole = bytearray(png(10, 10, rows=GREY_ROWS))
    whole[29] ^= 1  # of the header
    assert reason(bytes(whole)) is Reason.NOT_AN_IMAGE
    rows = bytearray(zlib.compress(GREY_ROWS))
    rows[-1] ^= 1  # of the pixels
    start = png(10, 10, rows=b"")[:33]
    assert reason(start + chunk(b"IDAT", bytes(rows)) + chunk(b"IEND", b"")) is Reason.NOT_AN_IMAGE


def damage(folder: Path, seed: int, rounds: int) -> dict[str, int]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.pipeline.fuzz_images"]
    done = subprocess.run(
        [*command, str(folder), str(seed), str(rounds), str(SECONDS)], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *slow, last = done.stdout.splitlines()
    assert not slow
    found: dict[str, int] = json.loads(last)
    assert set(found) <= {"image", "empty", "not_an_image", "truncated_image", "too_many_pixels"}
    return found


@pytest.mark.shared
def test_damaged_files_neither_crash_nor_stall(shared_data: Path) -> None:
    found = damage(shared_data / "images-edge", seed=0, rounds=20)
    assert sum(found.values()) == 71 * 20
    assert min(found["image"], found["not_an_image"], found["truncated_image"]) > 100


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("seed", [1, 2])
def test_much_damage_neither_crashes_nor_stalls(shared_data: Path, seed: int) -> None:
    assert sum(damage(shared_data / "images-edge", seed, rounds=1000).values()) == 71 * 1000
