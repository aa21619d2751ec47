"""What a file is made of, without decoding it: to count its pictures, and to refuse what would keep a parser busy for long.

Pillow reads headers in Python, some microseconds a block. Files that say nothing in a million blocks are no pictures that
anybody wanted to show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

MAX_BLOCKS = 1 << 16  # segments of a JPEG and chunks of a PNG, blocks of a GIF before its first picture: some 0.3 s
MAX_EXIF = 1 << 17  # bytes; a block has room for half of it, and longer ones go on in a second
MAX_TIFF_WORK = 1 << 33  # entries · bytes of a TIFF, each of which may ask for all of the file
# Within a scan 0xFF stands before 0x00 or a restart marker only.
_MARKER = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
# Netpbm in its binary forms, size and depth within the first bytes; the forms in digits are read as slowly as they are rare.
_NETPBM = re.compile(rb"P(?:4(?:(?:\s|#[^\n]*\n)+\d+){2}|[56](?:(?:\s|#[^\n]*\n)+\d+){3})\s")
HEADER = 1024  # bytes that have to hold a Netpbm header


def overfull(body: bytes) -> str | None:
    """Why a file's headers are not to be parsed, None if they may be."""
    if body.startswith(b"\xff\xd8"):
        return _overfull_jpeg(body)
    if body.startswith(b"\x89PNG"):
        crowded = sum(1 for _ in zip(range(MAX_BLOCKS + 1), png_chunks(body), strict=False)) > MAX_BLOCKS
        return f"a PNG of more than {MAX_BLOCKS} chunks" if crowded else None
    if body.startswith(b"GIF8"):
        return f"a GIF of more than {MAX_BLOCKS} blocks before its picture" if _gif_preamble(body) > MAX_BLOCKS else None
    if body[:1] == b"P" and body[1:2] in b"0123456fy" and not _NETPBM.match(body[:HEADER]):
        return "text, or a picture as text (Netpbm), which is not read"
    if (tiff := _tiff(body)) is not None:
        order, wide, at = tiff
        entries = int.from_bytes(body[at : at + (8 if wide else 2)], order)
        return f"a TIFF with {entries} entries" if entries * len(body) > MAX_TIFF_WORK else None
    return None


def jpeg_scans(jpeg: bytes) -> int:
    """Scans of the first picture in a JPEG; those in its EXIF thumbnail and behind its end are not counted."""
    at, count = 2, 0
    while (found := _MARKER.search(jpeg, at)) is not None:
        marker, at = jpeg[found.start() + 1], found.end()
        if marker == 0xD9:
            break
        count += marker == 0xDA
        at += int.from_bytes(jpeg[at : at + 2], "big")
    return count


def gif_frames(gif: bytes, most: int) -> int:
    """Pictures of a GIF whose data have begun, counted up to `most`. (GIF89a, appendices A and B)"""
    at, count = 13 + _gif_colours(gif[10:11]), 0
    while count < most and at < len(gif):
        if gif[at] == 0x2C:  # image descriptor, and one byte of code size behind its colours
            at, count = at + 11 + _gif_colours(gif[at + 9 : at + 10]), count + 1
        elif gif[at] == 0x21:  # extension
            at += 2
        else:  # the end, or none of its blocks
            break
        while at < len(gif) and gif[at]:  # sub-blocks
            at += 1 + gif[at]
        at += 1
    return count


def tiff_frames(body: bytes, most: int) -> int:
    """Directories of a TIFF, counted up to `most`; a directory that comes again ends them. (TIFF 6.0, section 2)"""
    if (tiff := _tiff(body)) is None:
        return 0
    order, wide, at = tiff
    count_size, entry_size, offset_size = (8, 20, 8) if wide else (2, 12, 4)
    seen: set[int] = set()
    while at and at + count_size <= len(body) and at not in seen and len(seen) < most:
        seen.add(at)
        at += count_size + entry_size * int.from_bytes(body[at : at + count_size], order)
        at = int.from_bytes(body[at : at + offset_size], order)
    return len(seen)


def png_chunks(png: bytes) -> Iterator[tuple[bytes, int]]:
    """Each chunk's name, and where it ends by its own account."""
    at = 8
    while at < len(png):
        name = png[at + 4 : at + 8]
        at += 12 + int.from_bytes(png[at : at + 4], "big")
        yield name, at


def _overfull_jpeg(jpeg: bytes) -> str | None:
    at, exif = 2, 0
    for _ in range(MAX_BLOCKS):
        marker = jpeg[at : at + 2]
        if marker == b"\xff\xda" or len(marker) < 2:
            return None
        if marker[0] != 0xFF or marker[1] in (0x00, 0xFF):  # to be skipped, byte by byte
            at += 1
            continue
        size = int.from_bytes(jpeg[at + 2 : at + 4], "big")
        if marker[1] == 0xE1 and jpeg.startswith(b"Exif", at + 4) and (exif := exif + size) > MAX_EXIF:
            return f"a JPEG with more than {MAX_EXIF} bytes of EXIF"
        at += 2 if marker[1] == 0x01 or 0xD0 <= marker[1] <= 0xD9 else 2 + size
    return f"a JPEG of more than {MAX_BLOCKS} segments before its picture"


def _gif_preamble(gif: bytes) -> int:
    """Sub-blocks before a GIF's first picture, up to one more than are allowed."""
    at, count = 13 + _gif_colours(gif[10:11]), 0
    while at < len(gif) and gif[at] != 0x2C and count <= MAX_BLOCKS:
        at, count = at + (2 if gif[at] == 0x21 else 1), count + 1
        while at < len(gif) and gif[at] and count <= MAX_BLOCKS:
            at, count = at + 1 + gif[at], count + 1
    return count


def _gif_colours(flags: bytes) -> int:
    """Bytes of the colour table that a packed byte announces."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _tiff(body: bytes) -> tuple[Literal["little", "big"], bool, int] | None:
    """Byte order, whether offsets have 8 bytes (BigTIFF), where the first directory lies."""
    order: Literal["little", "big"] = "little" if body.startswith(b"II") else "big"
    if body[:2] not in (b"II", b"MM"):
        return None
    version = int.from_bytes(body[2:4], order)
    if version not in (42, 43):
        return None
    return order, version == 43, int.from_bytes(body[8:16] if version == 43 else body[4:8], order)
