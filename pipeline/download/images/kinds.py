"""What bytes are, by what they begin with: for the message where they are no picture, and to tell a cut file from a bad one."""

from __future__ import annotations

from pipeline.download.images import blocks

# Where several match, the first counts. After those that are read: what comes in an image's place.
_SIGNATURES = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"\x00\x00\x01\x00", "ICO"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"%PDF", "PDF"),
    (b"8BPS", "Photoshop"),
    (b"\x00\x00\x00\x0cJXL \r\n\x87\n", "JPEG XL"),
    (b"\xff\x0a", "JPEG XL"),
    (b"%!PS", "PostScript"),
    (b"\xc5\xd0\xd3\xc6", "PostScript"),
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
)
_READ = frozenset({"JPEG", "PNG", "GIF", "BMP", "TIFF", "ICO", "JPEG 2000", "WebP", "AVIF"})
# Brands of ISO base media files: https://mp4ra.org. AVIF's are avif and avis.
_HEIF = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
SNIFFED = 1024  # bytes of a text that are looked at


def kind(body: bytes) -> str | None:
    """The format's name, None if it is none of those known."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "WebP"
    if body[4:8] == b"ftyp":
        # The brands after the first say what a reader must know: a HEIF file's is often mif1 for an AVIF as well.
        brands = body[8 : max(12, min(int.from_bytes(body[:4], "big"), 256))]
        return "AVIF" if b"avi" in brands else "HEIF" if brands.startswith(_HEIF) else "ISO media (video or audio)"
    return next((name for start, name in _SIGNATURES if body.startswith(start)), None) or _text(body)


def describe(body: bytes) -> str:
    """What bytes that could not be read are, in words."""
    found = kind(body)
    if found in _READ:
        return f"damaged {found}"
    if found is not None:
        return f"{found}, which is not read"
    at = body.find(b"\xff\xd8\xff", 0, SNIFFED)
    return f"a JPEG behind {at} other bytes" if at > 0 else "not a known image format"


def is_cut(body: bytes) -> bool:
    """Whether a file ends before what it says of its own length, or without the mark that ends its format."""
    match kind(body):
        case "JPEG":
            return b"\xff\xd9" not in body[-SNIFFED:]
        case "PNG":
            return _chunks_are_cut(body)
        case "GIF":
            return any(body[6:8]) and any(body[8:10]) and body.rstrip(b"\x00")[-1:] != b";"
        case "WebP":
            return int.from_bytes(body[4:8], "little") + 8 > len(body)
        case "BMP":
            return int.from_bytes(body[2:6], "little") > len(body)
        case "AVIF":
            return _boxes_end(body) > len(body)
    return False


def _chunks_are_cut(png: bytes) -> bool:
    for name, end in blocks.png_chunks(png):
        if name == b"IEND" or not name.isalpha() or end > len(png):
            return end > len(png) and (name.isalpha() or len(name) < 4)
    return True


def _text(body: bytes) -> str | None:
    start = body[:SNIFFED].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<") and b"<html" in start):
        return "HTML"
    if start.startswith(b"<"):
        return "SVG" if b"<svg" in start else "XML or HTML"
    if start.startswith((b"{", b"[")):
        return "JSON"
    printable = bool(start) and not any(c < 32 and c not in b"\t\n\f\r" for c in start)
    return "text" if printable and start.isascii() else None


def _boxes_end(body: bytes) -> int:
    """Where the last box of an ISO base media file ends by its own account."""
    at = 0
    while at + 8 <= len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(body[at + 8 : at + 16], "big")
        if size < 8:  # 0: to the file's end
            return len(body)
        at += size
    return at
