"""One header of a tar: its numbers, its checksum, what pax says before it, and how we write one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 512
ZERO = bytes(BLOCK)
_PLACES = 8 ** np.arange(5, -1, -1)


def size(block: bytes) -> int | None:
    """The size field in its rarer spellings: spaces, few digits, or binary; None if this is no header."""
    raw = block[124:136]
    if raw[0] == 0x80:
        return int.from_bytes(raw[1:], "big")
    digits = raw.strip(b" \0")
    if digits.translate(None, b"01234567") or block == ZERO or block[:100].strip(b"\0") == b"":
        return None
    return int(digits or b"0", 8)


def pax_records(payload: bytes) -> dict[bytes, bytes]:
    """`27 mtime=1664030331.123\\n…` → {b"mtime": b"1664030331.123", …}; a record that is none ends them."""
    records: dict[bytes, bytes] = {}
    while payload:
        digits, space, _ = payload.partition(b" ")
        length = int(digits) if space and digits.isdigit() and len(digits) < 12 else 0
        key, equals, value = payload[len(digits) + 1 : length - 1].partition(b"=")
        if not length or not equals:
            break
        records[key] = value
        payload = payload[length:]
    return records


def first_bad(blocks: list[bytes]) -> int | None:
    """The index of the first header that has not its checksum."""
    if not blocks:
        return None
    rows = np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, BLOCK)
    stated = _stated(rows, blocks)
    counted = _sums(rows) - rows[:, 148:156].sum(axis=1, dtype=np.int64) + 8 * 32
    for k in np.flatnonzero(stated != counted):
        # Some old programs took bytes for signed numbers.
        signed = int(rows[k].view(np.int8).sum(dtype=np.int64)) - int(rows[k, 148:156].view(np.int8).sum(dtype=np.int64)) + 256
        if signed != stated[k]:
            return int(k)
    return None


def _stated(rows: NDArray[np.uint8], blocks: list[bytes]) -> NDArray[np.int64]:
    """(n, 512) headers → (n,) the checksums they state."""
    digits = rows[:, 148:154] - np.uint8(48)
    if (digits < 8).all():
        return np.asarray(digits @ _PLACES, np.int64)
    return np.array([_checksum(b) for b in blocks])


def _checksum(block: bytes) -> int:
    try:
        return int(block[148:154], 8)
    except ValueError:
        digits = block[148:156].strip(b" \0")
        return int(digits, 8) if digits and not digits.translate(None, b"01234567") else -1


def _sums(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(n, 512) → (n,) sums of bytes, eight at a time: the even and the odd bytes of a word in 16 bits each."""
    words = rows.view(np.uint64)
    low = np.uint64(0x00FF00FF00FF00FF)
    lanes: NDArray[np.uint16] = ((words & low) + ((words >> np.uint64(8)) & low)).sum(axis=1).view(np.uint16).reshape(-1, 4)
    sums: NDArray[np.int64] = lanes.sum(axis=1, dtype=np.int64)
    return sums


# Headers that we write -------------------------------------------------------------------------------------------------------

_FIXED = b"0000644\0" + b"0000000\0" * 2
_TIME = b"00000000000\0"
_REST = b" 0" + bytes(100) + b"ustar\x0000" + bytes(BLOCK - 265)
_SUM = sum(_FIXED) + sum(_TIME) + sum(_REST) + 7 * 32  # the checksum's own field counts as spaces


def header(name: bytes, size: int) -> bytes:
    """The header of a regular file: mode 0644, owner 0, time 0, which makes the same files the same bytes.

    ustar, and where a name is longer than 100 bytes or a file than 8 GB, pax before it.
    """
    if len(name) > 100 or size >= 1 << 33:
        return _long_header(name, size)
    length = b"%011o\0" % size
    return name.ljust(100, b"\0") + _FIXED + length + _TIME + b"%06o\0" % (_SUM + sum(name) + sum(length)) + _REST


def _long_header(name: bytes, size: int) -> bytes:
    import tarfile

    info = tarfile.TarInfo(name.decode("utf-8", "surrogateescape"))
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
