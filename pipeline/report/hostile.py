"""Texts that anybody may have written, as a page can show them: whole, cut to a length, without what hides or disguises.

Escaping is the templates' work; what is done here is what escaping does not do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

CAPTION_CHARS = 600  # of a caption that are shown
URL_CHARS = 160  # of an address that are shown
LINK_CHARS = 2000  # up to which an address is a link
_LINK = re.compile(r"https?://[^\s/?#\"<>\\^`{|}][^\s\"<>\\^`{|}]*", re.IGNORECASE)
# What HTML cannot hold: controls (the C0 ones have pictures of their own in Unicode), lone surrogates, noncharacters.
_C0 = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_UNUSABLE = re.compile(
    "[\x80-\x9f\ud800-\udfff\ufdd0-\ufdef" + "".join(f"{chr(p << 16 | e)}" for p in range(17) for e in (0xFFFE, 0xFFFF)) + "]"
)
# Of addresses: spaces of any kind, and what has no width or turns the direction of writing.
_UNSEEN = re.compile(
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]"
)


def readable(text: str) -> str:
    """A text without what HTML cannot hold: control characters become their pictures, halves of characters U+FFFD."""
    return _UNUSABLE.sub("\ufffd", text).translate(_C0)


def shown(text: str, chars: int = CAPTION_CHARS) -> str:
    """A text to be read, with a word on what is left out."""
    start = readable(text[:chars])
    return f"{start}… {len(text) - chars:,} more characters" if len(text) > chars else start


def shown_url(url: str, chars: int = URL_CHARS) -> str:
    """An address to be read: what cannot be seen is percent-encoded, what is too long is cut."""
    start = _UNSEEN.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode()), readable(url[:chars]))
    return f"{start}… {len(url) - chars:,} more characters" if len(url) > chars else start


def link(url: str | None) -> str | None:
    """The address if a page may link to it: http or https, of a usual length, nothing unseen in it."""
    if url is None or len(url) > LINK_CHARS or readable(url) != url or _UNSEEN.search(url):
        return None
    return url if _LINK.fullmatch(url) else None


def texts(column: pa.Array | pa.ChunkedArray) -> Sequence[str | None]:
    """A column of strings, of which some bytes may be no UTF-8: these become U+FFFD."""
    found = column.cast(pa.large_binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in found]
