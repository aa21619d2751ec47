"""The image links of a WAT record, found in its bytes by compiled code: the fast half of `wat`.

`walk` goes once over the JSON of a record. Links that stand there as most do (nothing escaped, to be decoded or to be
repaired) are copied out as they are; of the others the places are given; and what is not built like a record of Common
Crawl's extractor at all is left to `wat.parse`, which says what is right. Indices are checked: input is hostile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]  # the same bytes, by eights

# How an address stands to its page: whole, behind the page's host, behind its folder (see `urls`).
WHOLE, ROOTED, BELOW = 0, 1, 2
# The answers of `walk`.
FOUND, NOTHING, UNUSUAL = 0, 1, 2
# Where `walk` puts what it found in `facts`: counts, then [start, end) of JSON values, 0 if absent.
LINKS, NO_TEXT, REST, HEADERS, METAS, TITLE, BASE = 0, 1, 2, 3, 5, 7, 9
FACTS = 11
SMALLEST = len('{"path":"IMG@/src"}')


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


def _set(characters: str) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[_bytes(characters)] = True
    return table


_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_HOST = _set("abcdefghijklmnopqrstuvwxyz0123456789-")
_NAME = _set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_~%-")
_TAIL = _set("".join(c for c in _PRINTABLE if c not in '";<>\\'))  # of a whole address, behind the host
_QUERY = _set("".join(c for c in _PRINTABLE if c not in '"#;<>\\'))
_SAFE = _set("".join(c for c in _PRINTABLE if c not in '"#/;<>?\\'))  # of a part of a path

_ENVELOPE, _PAYLOAD, _RESPONSE = map(_bytes, ("Envelope", "Payload-Metadata", "HTTP-Response-Metadata"))
_HEADERS, _HTML, _HEAD, _LINKS = map(_bytes, ("Headers", "HTML-Metadata", "Head", "Links"))
_METAS, _TITLE, _BASE = map(_bytes, ("Metas", "Title", "Base"))
_PATH, _URL, _ALT, _IMAGE = map(_bytes, ("path", "url", "alt", "IMG@/src"))
_FIRST = _bytes('{"path":"')
_HTTP, _HTTPS = map(_bytes, ("http://", "https://"))

_QUOTE, _BACKSLASH, _COLON, _COMMA = map(ord, '"\\:,')
_OPEN, _CLOSE, _LEFT, _RIGHT = map(ord, "{}[]")
_ONES, _HIGH, _QUOTES, _BACKSLASHES = (np.uint64(0x0101010101010101 * c) for c in (1, 0x80, _QUOTE, _BACKSLASH))
_SPACE, _SLASH, _DOT, _MARK, _AMPERSAND = map(ord, " /.?&")

compiled = njit(cache=True, boundscheck=True, nogil=True)


@compiled  # type: ignore[untyped-decorator]
def _skip_space(b: Bytes, i: int) -> int:
    while b[i] == 32 or 9 <= b[i] <= 13:
        i += 1
    return i


@compiled  # type: ignore[untyped-decorator]
def _skip_string(b: Bytes, w: Words, i: int) -> int:
    """Behind the closing quote of the string that begins at `i`."""
    i += 1
    while True:
        if i & 7 == 0:
            # Eight bytes at once: v - 0x01… borrows into the high bit of a byte of v that is 0 (Mycroft 1987).
            while i >> 3 < len(w):
                quotes, backslashes = w[i >> 3] ^ _QUOTES, w[i >> 3] ^ _BACKSLASHES
                if ((quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes) & _HIGH:
                    break
                i += 8
        c = b[i]
        if c == _QUOTE:
            return i + 1
        i += 2 if c == _BACKSLASH else 1


@compiled  # type: ignore[untyped-decorator]
def _skip_value(b: Bytes, w: Words, i: int) -> int:
    """Behind the value that begins at `i`."""
    depth = 0
    while True:
        c = b[i]
        if c == _QUOTE:
            i = _skip_string(b, w, i)
        elif c == _OPEN or c == _LEFT:
            depth += 1
            i += 1
        elif c == _CLOSE or c == _RIGHT:
            if depth == 0:
                return i
            depth -= 1
            i += 1
        elif depth == 0 and c == _COMMA:
            return i
        else:
            i += 1
            continue
        if depth == 0:
            return i


@compiled  # type: ignore[untyped-decorator]
def _is(b: Bytes, start: int, end: int, word: Bytes) -> bool:
    if end - start != len(word):
        return False
    for k in range(len(word)):
        if b[start + k] != word[k]:
            return False
    return True


@compiled  # type: ignore[untyped-decorator]
def _next_key(b: Bytes, w: Words, i: int) -> tuple[int, int, int]:
    """(start, end, start of the value) of the key at or behind `i`, within an object; start = 0 where the object ends, at
    the third number; -1 where this is no JSON."""
    i = _skip_space(b, i)
    if b[i] == _COMMA:
        i = _skip_space(b, i + 1)
    if b[i] == _CLOSE:
        return 0, 0, i + 1
    if b[i] != _QUOTE:
        return -1, 0, 0
    end = _skip_string(b, w, i)
    value = _skip_space(b, end)
    if b[value] != _COLON:
        return -1, 0, 0
    return i + 1, end - 1, _skip_space(b, value + 1)


@compiled  # type: ignore[untyped-decorator]
def _enter(b: Bytes, w: Words, i: int, word: Bytes) -> int:
    """Start of the value of a key of the object at `i`; -1 if it has none, or this is no object."""
    if i < 0 or b[i] != _OPEN:
        return -1
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            return -1
        if _is(b, start, end, word):
            return value
        i = _skip_value(b, w, value)


@compiled  # type: ignore[untyped-decorator]
def _address(b: Bytes, i: int, end: int) -> int:
    """WHOLE, ROOTED or BELOW if `b[i:end]` is an address in which nothing has to be resolved or repaired; else -1."""
    if i == end:
        return -1
    if b[i] == _SLASH:
        kind = ROOTED
    elif _NAME[b[i]]:
        kind = BELOW
        start = i
        while i < end and b[i] != _SLASH and b[i] != _MARK:
            if b[i] == _COLON:
                kind = WHOLE
                break
            if not _SAFE[b[i]]:
                return -1
            i += 1
        if kind == WHOLE:
            if i + 3 <= end and _is(b, start, i + 3, _HTTP):
                i += 3
            elif i + 3 <= end and _is(b, start, i + 3, _HTTPS):
                i += 3
            else:
                return -1
            dots, label = 0, i
            while i < end and b[i] != _SLASH:
                if b[i] == _DOT:
                    if i == label:
                        return -1
                    dots, label = dots + 1, i + 1
                elif not _HOST[b[i]]:
                    return -1
                i += 1
            if dots == 0 or i == label or i == end:
                return -1
            while i < end:
                if not _TAIL[b[i]]:
                    return -1
                i += 1
            return WHOLE
    else:
        return -1
    # A path whose parts are neither empty nor begin with a dot, and perhaps a query.
    while i < end and b[i] == _SLASH:
        i += 1
        if i == end or b[i] == _DOT or not _SAFE[b[i]]:
            return -1
        while i < end and b[i] != _SLASH and b[i] != _MARK:
            if not _SAFE[b[i]]:
                return -1
            i += 1
    if i < end:
        i += 1
        if i == end:
            return -1
        while i < end:
            if not _QUERY[b[i]]:
                return -1
            i += 1
    return kind


@compiled  # type: ignore[untyped-decorator]
def _is_plain(b: Bytes, i: int, end: int) -> bool:
    """Whether an alt text is its own caption: sound UTF-8, no entity, single spaces between words and no other white space."""
    if b[i] == _SPACE or b[end - 1] == _SPACE:
        return False
    while i < end:
        c = b[i]
        if c < 0x80:
            if c < 0x20 or c == _AMPERSAND or (c == _SPACE and b[i + 1] == _SPACE):
                return False
            i += 1
            continue
        more = 1 if 0xC2 <= c <= 0xDF else 2 if 0xE0 <= c <= 0xEF else 3 if 0xF0 <= c <= 0xF4 else 0
        if more == 0 or i + more >= end:
            return False
        second = b[i + 1]
        for k in range(1, more + 1):
            if b[i + k] & 0xC0 != 0x80:
                return False
        if (
            (c == 0xE0 and second < 0xA0)
            or (c == 0xED and second > 0x9F)  # surrogates
            or (c == 0xF0 and second < 0x90)
            or (c == 0xF4 and second > 0x8F)
            or (c == 0xC2 and (second == 0x85 or second == 0xA0))  # next line, no-break space
        ):
            return False
        if more == 2:
            third = b[i + 2]
            if (
                (c == 0xE1 and second == 0x9A and third == 0x80)  # U+1680
                or (c == 0xE2 and second == 0x80 and (third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF))  # U+2000…
                or (c == 0xE2 and second == 0x81 and third == 0x9F)  # U+205F
                or (c == 0xE3 and second == 0x80 and third == 0x80)  # U+3000
            ):
                return False
        i += more + 1
    return True


@compiled  # type: ignore[untyped-decorator]
def _copy(source: Bytes, start: int, end: int, target: Bytes, at: int) -> int:
    """Behind the copy."""
    for k in range(end - start):
        target[at + k] = source[start + k]
    return at + end - start


@compiled  # type: ignore[untyped-decorator]
def _links(b: Bytes, w: Words, i: int, captioned: bool, rows: int, offsets: Any, kinds: Any, data: Bytes, rest: Any, facts: Any) -> tuple[int, int]:
    """(behind the array of links at `i`, rows in all); 0 for the former if a link is no object."""
    i = _skip_space(b, i + 1)
    while b[i] != _RIGHT:
        if b[i] == _COMMA:
            i = _skip_space(b, i + 1)
        if b[i] != _OPEN:
            return 0, rows
        if _is(b, i, i + len(_FIRST), _FIRST) and not _is(b, i + len(_FIRST), i + len(_FIRST) + len(_IMAGE), _IMAGE):
            i = _skip_space(b, _skip_value(b, w, i))  # most links are others, and say so first
            continue
        begin, image = i, False
        odd = False  # a value of another type than text
        url = url_end = alt = alt_end = 0
        i += 1
        while True:
            start, end, value = _next_key(b, w, i)
            if start < 0:
                return 0, rows
            if start == 0:
                i = value
                break
            i = _skip_value(b, w, value)
            if b[value] == _QUOTE:
                if _is(b, start, end, _PATH):
                    image = _is(b, value + 1, i - 1, _IMAGE)
                elif _is(b, start, end, _URL):
                    url, url_end = value + 1, i - 1
                elif _is(b, start, end, _ALT):
                    alt, alt_end = value + 1, i - 1
            elif _is(b, start, end, _URL) or _is(b, start, end, _ALT):
                odd = True
        i = _skip_space(b, i)
        if not image:
            continue
        facts[LINKS] += 1
        if captioned and alt == alt_end and not odd:
            facts[NO_TEXT] += 1
            continue
        kind = -1 if odd else _address(b, url, url_end)
        if kind < 0 or (alt != alt_end and not _is_plain(b, alt, alt_end)):
            rest[facts[REST], 0], rest[facts[REST], 1] = begin, i
            facts[REST] += 1
            continue
        middle = _copy(b, alt, alt_end, data, offsets[2 * rows])
        offsets[2 * rows + 1] = middle
        offsets[2 * rows + 2] = _copy(b, url, url_end, data, middle)
        kinds[rows] = kind
        rows += 1
    return i + 1, rows


@compiled  # type: ignore[untyped-decorator]
def walk(b: Bytes, w: Words, i: int, captioned: bool, rows: int, offsets: Any, kinds: Any, data: Bytes, rest: Any, facts: Any) -> tuple[int, int]:
    """Finds the image links of one record, `b` = its JSON; (FOUND, NOTHING or UNUSUAL, rows in all).

    Row r is appended as `data[offsets[2r]:offsets[2r+1]]`, the alt text, and `data[offsets[2r+1]:offsets[2r+2]]`, the
    address, with its kind in `kinds[r]`. `rest[:facts[REST]]` has [start, end) of the links that Python must look at.
    Raises IndexError where the record is cut.
    """
    facts[:] = 0
    i = _enter(b, w, _enter(b, w, _enter(b, w, _skip_space(b, i), _ENVELOPE), _PAYLOAD), _RESPONSE)
    if i < 0 or b[i] != _OPEN:
        return UNUSUAL, rows
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            break
        if not _is(b, start, end, _HTML) or b[value] != _OPEN:
            i = _skip_value(b, w, value)
            if _is(b, start, end, _HEADERS):
                facts[HEADERS], facts[HEADERS + 1] = value, i
            continue
        i = value + 1
        while True:
            start, end, value = _next_key(b, w, i)
            if start <= 0:
                i = value
                break
            if _is(b, start, end, _LINKS) and b[value] == _LEFT:
                i, rows = _links(b, w, value, captioned, rows, offsets, kinds, data, rest, facts)
                if i == 0:
                    return UNUSUAL, rows
            elif _is(b, start, end, _HEAD) and b[value] == _OPEN:
                i = value + 1
                while True:
                    start, end, value = _next_key(b, w, i)
                    if start <= 0:
                        i = value
                        break
                    i = _skip_value(b, w, value)
                    if _is(b, start, end, _METAS):
                        facts[METAS], facts[METAS + 1] = value, i
                    elif _is(b, start, end, _TITLE):
                        facts[TITLE], facts[TITLE + 1] = value, i
                    elif _is(b, start, end, _BASE):
                        facts[BASE], facts[BASE + 1] = value, i
            else:
                i = _skip_value(b, w, value)
            if start < 0:
                return UNUSUAL, rows
        if start < 0:
            return UNUSUAL, rows
    if start < 0:
        return UNUSUAL, rows
    return FOUND if facts[LINKS] else NOTHING, rows
