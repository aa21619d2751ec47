"""The image links of WAT records, found in their bytes by compiled code: the fast half of `wat`.

`walk` goes once over the JSON of a record. Links that stand there as most do (nothing escaped, to be decoded or to be
repaired) are copied out as they are; of the others the places are given; and what is not built like a record of Common
Crawl's extractor at all is left to `wat.parse`, which says what is right. `pages` does the whole of a block of records, as
long as all that a record tells stands there as most does. Indices are checked: input is hostile. All of it is one file, as
what was compiled before is used again until this file changes.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.optout import AGENT

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]  # the same bytes, by eights
Offsets = NDArray[np.int32]
Out = tuple[Bytes, Offsets, Bytes, Offsets, Bytes, Numbers]  # alts, their ends, addresses, their ends, kinds, rest
# What goes for all rows of a page: urls, titles and languages with their ends, and its number of rows.
Told = tuple[Bytes, Offsets, Bytes, Offsets, Bytes, Offsets, Offsets]

# How an address stands to its page: whole, or behind the page's scheme, its host, its folder (see `urls`).
WHOLE, HOSTED, ROOTED, BELOW = 0, 1, 2, 3
DATA = 4  # `data:` and the picture itself
# Where `walk` puts what it found in `facts`: counts, then [start, end) of JSON values, 0 if absent.
ROWS, LINKS, NO_TEXT, SCHEME, REST, RELATIVE, TELLS, HEADERS, METAS, TITLE, BASE = 0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13
# And what it is told, if the page's address is a plain one: where it begins (else 0), and where the part of it ends that
# stands before an address of each kind.
PLACE = 15
FACTS = 19
# What `pages` counts in `totals`: pages in the batch, whether that is full, whether the last page told no language (2: ask
# Python), the member at hand, the rows before it; of all members so far records, pages with links, what became of these.
PAGES, FULL, SILENT, AT, BEFORE, RECORDS, LINKED, ALL_LINKS, ALL_NO_TEXT, ALL_SCHEME = range(10)
# Behind that, when a batch is full (rows, their bytes, pages, their bytes), and bytes of a record that are too many.
LIMITS = 10
TOTALS = 15
# Why it stopped: no members left; behind a page with links that Python must look at; before the next page, as the batch is
# full; before a record that is Python's; before a member that is not one sound record.
DONE, REST_LEFT, TAKE, RECORD, IRREGULAR = range(5)
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
_PATH, _URL, _ALT, _IMAGE = map(_bytes, ("path", "url", "alt", '"IMG@/src"'))
_OTHER = _bytes('{"path":')
_TO_AT = 4  # from the quote before IMG@/src to its @
# The names of `wat`, as far as they tell, with the bit set that makes a capital a small letter.
_CONTENT_LANGUAGE, _ROBOTS, _HTML_AT, _AGENT = (
    np.frombuffer(word, np.uint8) | np.uint8(0x20) for word in (b"content-language", b"robots", b"html@", AGENT.encode())
)
_X_ROBOTS, _HTML_AT_LANG = map(_bytes, ("x-robots-tag", "html@/lang"))
_C, _R, _H, _W, _U = map(ord, "crhwu")
_NAME_KEY, _EQUIV_KEY, _CONTENT_KEY = map(_bytes, ("name", "http-equiv", "content"))
_N, _O, _A, _I, _M, _Z = map(ord, "noaimz")
# Headers of records, each behind the end of a line.
_V10, _V11, _BLANK = map(_bytes, ("WARC/1.0\r\n", "WARC/1.1\r\n", "\r\n\r\n"))
_LENGTH, _TYPE, _TARGET = map(_bytes, ("Content-Length: ", "WARC-Type: ", "WARC-Target-URI: "))
_METADATA, _IS_JSON = map(_bytes, ("metadata", "Content-Type: application/json"))
_IMG, _SRC = map(_bytes, ("IMG", "/src"))
_DETECTED, _VALUE = map(_bytes, ("languages-cld2", '","Value":"'))
_LANGUAGES, _CODE, _UNKNOWN = map(_bytes, (r"\"languages\":", r"{\"code\":\"", "un\\"))
_HTTP, _HTTPS, _DATA = map(_bytes, ("http://", "https://", "data:"))

_QUOTE, _BACKSLASH, _COLON, _COMMA = map(ord, '"\\:,')
_CR, _LF, _TAB, _ZERO, _NINE, _HYPHEN, _HASH, _LESS = map(ord, "\r\n\t09-#<")
_OPEN, _CLOSE, _LEFT, _RIGHT, _AT = map(ord, "{}[]@")
_ONES, _HIGH, _QUOTES, _BACKSLASHES, _RIGHTS, _ATS = (
    np.uint64(0x0101010101010101 * c) for c in (1, 0x80, _QUOTE, _BACKSLASH, _RIGHT, _AT)
)
_SPACE, _SLASH, _DOT, _MARK, _AMPERSAND = map(ord, " /.?&")

compiled = njit(boundscheck=True)


@compiled
def _skip_space(b: Bytes, i: int) -> int:
    while b[i] == 32 or 9 <= b[i] <= 13:
        i += 1
    return i


@compiled
def _holds(word: np.uint64, eight: np.uint64) -> bool:
    """Whether one of the bytes of a word is that of which `eight` is made: v - 0x01… borrows into the high bit of a byte of v
    that is 0 (Mycroft 1987)."""
    v = word ^ eight
    return bool((v - _ONES) & ~v & _HIGH)


@compiled
def _skip_string(b: Bytes, w: Words, i: int) -> int:
    """Behind the closing quote of the string that begins at `i`."""
    i += 1
    while True:
        if i & 7 == 0:
            while i >> 3 < len(w) and not _holds(w[i >> 3], _QUOTES) and not _holds(w[i >> 3], _BACKSLASHES):
                i += 8
        c = b[i]
        if c == _QUOTE:
            return i + 1
        i += 2 if c == _BACKSLASH else 1


@compiled
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


@compiled
def _skip_flat(b: Bytes, w: Words, i: int) -> int:
    """Behind the array of flat objects, the last of which ends with a string, that `i` lies in (between two of them, or at its
    bracket); -1 if that cannot be told for sure."""
    while True:
        if i & 7 == 0:
            while i >> 3 < len(w) and not _holds(w[i >> 3], _RIGHTS):
                i += 8
        if b[i] == _RIGHT and b[i - 1] == _CLOSE:
            return i + 1 if b[i - 2] == _QUOTE and b[i - 3] != _BACKSLASH else -1
        i += 1


@compiled
def _is(b: Bytes, start: int, end: int, word: Bytes) -> bool:
    if end - start != len(word):
        return False
    for k in range(len(word)):
        if b[start + k] != word[k]:
            return False
    return True


@compiled
def _tells(b: Bytes, i: int, end: int) -> bool:
    """Whether one of the names that matter in headers and meta elements may stand there, in any case, or behind an escape."""
    while i < end:
        c = b[i] | 0x20
        if c == _C:
            word = _CONTENT_LANGUAGE
        elif c == _R:
            word = _ROBOTS
        elif c == _H:
            word = _HTML_AT
        elif c == _W:
            word = _AGENT
        elif b[i] == _BACKSLASH and b[i + 1] == _U:
            return True
        else:
            i += 1
            continue
        k = 1
        while k < len(word) and (b[i + k] | 0x20) == word[k]:
            k += 1
        if k == len(word):
            return True
        i += 1
    return False


@compiled
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


@compiled
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


@compiled
def _is_located(b: Bytes, i: int, end: int) -> bool:
    """Whether a host of at least two labels, a slash, and whatever can stand unchanged in a url lie there."""
    dots, label = 0, i
    while i < end and b[i] != _SLASH:
        if b[i] == _DOT:
            if i == label:
                return False
            dots, label = dots + 1, i + 1
        elif not _HOST[b[i]]:
            return False
        i += 1
    if dots == 0 or i == label or i == end:
        return False
    while i < end:
        if not _TAIL[b[i]]:
            return False
        i += 1
    return True


@compiled
def _address(b: Bytes, i: int, end: int) -> int:
    """How an address stands to its page if nothing in it has to be resolved or repaired, or DATA; else -1."""
    start = i
    if i == end:
        return -1
    if b[i] == _SLASH:
        if i + 1 < end and b[i + 1] == _SLASH:
            return HOSTED if _is_located(b, i + 2, end) else -1
        kind = ROOTED
    else:
        kind = BELOW
        if not _NAME[b[i]]:
            return -1
        while i < end and b[i] != _SLASH and b[i] != _MARK:
            if b[i] == _COLON:
                if _is(b, start, i + 1, _DATA):
                    return DATA
                if i + 3 > end or not (_is(b, start, i + 3, _HTTP) or _is(b, start, i + 3, _HTTPS)):
                    return -1
                return WHOLE if _is_located(b, i + 3, end) else -1
            if not _SAFE[b[i]]:
                return -1
            i += 1
    # A path whose parts are neither empty nor begin with a dot, and perhaps a query.
    while i < end and b[i] == _SLASH:
        i += 1
        if i == end or b[i] == _DOT or not _SAFE[b[i]]:
            return -1
        while i < end and b[i] != _SLASH and b[i] != _MARK:
            if not _SAFE[b[i]]:
                return -1
            i += 1
    if i < end and i + 1 == end:
        return -1
    while i + 1 < end:
        i += 1
        if not _QUERY[b[i]]:
            return -1
    return kind


@compiled
def _is_plain(b: Bytes, i: int, end: int) -> bool:
    """Whether an alt text is its own caption: sound UTF-8, no entity, single spaces between words and no other white space."""
    if b[i] == _SPACE or b[end - 1] == _SPACE:
        return False
    while i < end:
        c = b[i]
        if c < 0x80:
            if c < 0x20 or c == _AMPERSAND or c == _BACKSLASH or (c == _SPACE and b[i + 1] == _SPACE):
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
                or (
                    c == 0xE2 and second == 0x80 and (third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
                )  # U+2000…
                or (c == 0xE2 and second == 0x81 and third == 0x9F)  # U+205F
                or (c == 0xE3 and second == 0x80 and third == 0x80)  # U+3000
            ):
                return False
        i += more + 1
    return True


@compiled
def _find_image(b: Bytes, w: Words, i: int, end: int) -> int:
    """Where the next link that is an image begins; `end` if there is none, -1 if it does not begin with saying so."""
    while i < end:
        if i & 7 == 0:
            while i >> 3 < len(w) and not _holds(w[i >> 3], _ATS):
                i += 8
            if i >= end:
                return end
        if b[i] == _AT and _is(b, i - _TO_AT, i - _TO_AT + len(_IMAGE), _IMAGE):
            begin = i - _TO_AT - len(_OTHER)
            return begin if _is(b, begin, begin + len(_OTHER), _OTHER) else -1
        i += 1
    return end


@compiled
def _copy(source: Bytes, start: int, end: int, target: Bytes, at: int) -> int:
    """Behind the copy."""
    for k in range(end - start):
        target[at + k] = source[start + k]
    return at + end - start


@compiled
def _links(b: Bytes, w: Words, i: int, stop: int, captioned: bool, out: Out, facts: Numbers) -> int:
    """Takes in the array of links at `i`; behind it, or a negative number if it is none of flat objects."""
    alts, alt_ends, addresses, address_ends, kinds, rest = out
    rows = facts[ROWS]
    i = _skip_space(b, i + 1)
    while b[i] != _RIGHT:
        if b[i] == _COMMA:
            i = _skip_space(b, i + 1)
        if b[i] != _OPEN:
            return -1
        if _is(b, i, i + len(_OTHER), _OTHER) and not _is(b, i + len(_OTHER), i + len(_OTHER) + len(_IMAGE), _IMAGE):
            # Most links are others and say so first. Unescaped quotes cannot stand within a string, so what is found is one.
            following = _find_image(b, w, i, stop)
            if following < 0 or following == stop:
                facts[ROWS] = rows
                return -1 if following < 0 else _skip_flat(b, w, i)
            i = following
            continue
        begin, image, odd = i, False, False
        url = url_end = alt = alt_end = 0
        i += 1
        while True:
            start, end, value = _next_key(b, w, i)
            if start < 0:
                return -1
            if start == 0:
                i = value
                break
            i = _skip_value(b, w, value)
            if b[value] == _QUOTE:
                if _is(b, start, end, _PATH):
                    image = _is(b, value, i, _IMAGE)
                elif _is(b, start, end, _URL):
                    url, url_end = value + 1, i - 1
                elif _is(b, start, end, _ALT):
                    alt, alt_end = value + 1, i - 1
            elif _is(b, start, end, _URL) or _is(b, start, end, _ALT):
                odd = True  # no text
        if image:
            facts[LINKS] += 1
            kind = -1 if odd else _address(b, url, url_end)
            if captioned and alt == alt_end and not odd:
                facts[NO_TEXT] += 1
            elif kind == DATA and _is_plain(b, alt, alt_end):
                facts[SCHEME] += 1
            elif kind < 0 or kind == DATA or (alt != alt_end and not _is_plain(b, alt, alt_end)):
                rest[facts[REST], 0], rest[facts[REST], 1] = begin, i
                facts[REST] += 1
            else:
                alt_ends[rows + 1] = _copy(b, alt, alt_end, alts, alt_ends[rows])
                at = address_ends[rows]
                if kind != WHOLE and facts[PLACE]:
                    at = _copy(b, facts[PLACE], facts[PLACE + kind], addresses, at)
                    kind = WHOLE
                address_ends[rows + 1] = _copy(b, url, url_end, addresses, at)
                kinds[rows] = kind
                facts[RELATIVE] += kind != WHOLE
                rows += 1
        i = _skip_space(b, i)
    facts[ROWS] = rows
    return i + 1


@compiled
def _head(b: Bytes, w: Words, i: int, facts: Numbers) -> int:
    """Notes the places of what the head at `i` states; behind it, or -1."""
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            return value if start == 0 else -1
        flat = b[value] == _LEFT and b[value + 1] == _OPEN and not _is(b, start, end, _METAS)
        i = _skip_flat(b, w, value) if flat else _skip_value(b, w, value)
        if i < 0:
            return -1
        if _is(b, start, end, _METAS):
            facts[METAS], facts[METAS + 1] = value, i
            facts[TELLS] |= _tells(b, value, i)
        elif _is(b, start, end, _TITLE):
            facts[TITLE], facts[TITLE + 1] = value, i
        elif _is(b, start, end, _BASE):
            facts[BASE], facts[BASE + 1] = value, i


@compiled
def _html(b: Bytes, w: Words, i: int, stop: int, captioned: bool, out: Out, facts: Numbers) -> int:
    """Takes in the HTML part at `i`; behind it, or -1."""
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            return value if start == 0 else -1
        if _is(b, start, end, _LINKS) and b[value] == _LEFT:
            i = _links(b, w, value, stop, captioned, out, facts)
        elif _is(b, start, end, _HEAD) and b[value] == _OPEN:
            i = _head(b, w, value, facts)
        else:
            i = _skip_value(b, w, value)
        if i < 0:
            return -1


@compiled
def _record(b: Bytes, i: int, stop: int, captioned: bool, out: Out, facts: Numbers) -> bool:
    w = b[: len(b) >> 3 << 3].view(np.uint64)
    i = _enter(b, w, _enter(b, w, _enter(b, w, _skip_space(b, i), _ENVELOPE), _PAYLOAD), _RESPONSE)
    if i < 0 or b[i] != _OPEN:
        return False
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            return start == 0
        if _is(b, start, end, _HTML) and b[value] == _OPEN:
            i = _html(b, w, value, stop, captioned, out, facts)
            if i < 0:
                return False
        else:
            i = _skip_value(b, w, value)
            if _is(b, start, end, _HEADERS):
                facts[HEADERS], facts[HEADERS + 1] = value, i
                facts[TELLS] |= _tells(b, value, i)


@njit(boundscheck=True, cache=True)
def walk(b: Bytes, i: int, stop: int, captioned: bool, out: Out, facts: Numbers) -> bool:
    """Takes in the image links of one record, whose JSON is `b[i:stop]`; False if it is built otherwise than it should be.

    Row r of `facts[ROWS]`, which are appended to, is `alts[alt_ends[r]:alt_ends[r + 1]]`, `addresses[address_ends[r]:…]` and
    its kind; `rest[:facts[REST]]` has [start, end) of the links that Python must look at. `facts` tells of this record, but
    for ROWS. Raises IndexError where the record is cut.
    """
    facts[ROWS + 1 :] = 0
    return _record(b, i, stop, captioned, out, facts)


@compiled
def _header(b: Bytes) -> tuple[int, int, int, int]:
    """What a member is (DONE: a record of a WAT), and if so where its content and its target begin, and where the target ends.

    The same as `warc.whole` and `wat.is_wat`, of headers as nearly all writers spell them; others are Python's.
    """
    n = len(b)
    if n < 16 or not (_is(b, 0, 10, _V10) or _is(b, 0, 10, _V11)) or not _is(b, n - 4, n, _BLANK):
        return IRREGULAR, 0, 0, 0
    length = kind = target = target_end = 0
    json = folded = False
    i = 8
    while not _is(b, i, i + 4, _BLANK):
        start = i + 2
        i = start
        while b[i] != _CR or b[i + 1] != _LF:  # there is one at the end
            i += 1
        folded |= start == target_end + 2 and (b[start] == _SPACE or b[start] == _TAB)
        if length == 0 and _begins(b, start, i, _LENGTH):
            length = start + len(_LENGTH)
        elif kind == 0 and _begins(b, start, i, _TYPE):
            kind = start + len(_TYPE)
            if not _is(b, kind, i, _METADATA):
                kind = n
        elif target == 0 and _begins(b, start, i, _TARGET):
            target, target_end = start + len(_TARGET), i
        else:
            json |= _begins(b, start, i, _IS_JSON)
    content, left = i + 4, n - 8 - i
    # The number of bytes between, with no zero before it and nothing behind it.
    if length == 0 or left < 0:
        return IRREGULAR, 0, 0, 0
    number, i = 0, length
    while _ZERO <= b[i] <= _NINE and number <= left:
        number = 10 * number + b[i] - _ZERO
        i += 1
    if b[i] != _CR or b[i + 1] != _LF or i == length or number != left or (b[length] == _ZERO and i > length + 1):
        return IRREGULAR, 0, 0, 0
    odd = folded or target == target_end or b[target] == _LESS or b[target] <= _SPACE or b[target_end - 1] <= _SPACE
    return (DONE if json and 0 < kind < n and not odd else RECORD), content, target, target_end


@compiled
def _begins(b: Bytes, start: int, end: int, word: Bytes) -> bool:
    return start + len(word) <= end and _is(b, start, start + len(word), word)


@compiled
def _names_image(b: Bytes, i: int) -> bool:
    """Whether IMG@/src stands there anywhere: the same as `wat.may_link`."""
    w, end = b[: len(b) >> 3 << 3].view(np.uint64), len(b)
    i += 3
    while i < end:
        if i & 7 == 0:
            while i >> 3 < len(w) and not _holds(w[i >> 3], _ATS):
                i += 8
            if i >= end:
                return False
        if b[i] == _AT and i + 5 <= end and _is(b, i - 3, i, _IMG) and _is(b, i + 1, i + 5, _SRC):
            return True
        i += 1
    return False


@compiled
def _find(b: Bytes, i: int, word: Bytes) -> int:
    """Behind the first place where a word stands, or 0."""
    while i + len(word) <= len(b):
        if b[i] == word[0] and _is(b, i, i + len(word), word):
            return i + len(word)
        i += 1
    return 0


@compiled
def _detected(b: Bytes, i: int) -> tuple[int, int]:
    """[start, end) of the code that a record names behind `languages-cld2`, which ends at `i`: `wat.detected_language`, of what
    the crawler writes nearly always; 0, 0 of anything else."""
    if not _begins(b, i, len(b), _VALUE) or b[i - len(_DETECTED) - 1] != _QUOTE:
        return 0, 0
    least = i + len(_VALUE) + len(_LANGUAGES)
    while b[i] != _LEFT and b[i] != _RIGHT:
        i += 1
    if b[i] != _LEFT or i < least or not _is(b, i - len(_LANGUAGES), i, _LANGUAGES) or not _begins(b, i + 1, len(b), _CODE):
        return 0, 0
    start = i = i + 1 + len(_CODE)
    while _A <= b[i] | 0x20 <= _Z or b[i] == _HYPHEN:
        i += 1
    if not 2 <= i - start <= 12 or b[i] != _BACKSLASH or b[i + 1] != _QUOTE or _begins(b, start, len(b), _UNKNOWN):
        return 0, 0
    return start, i


@compiled
def _place(b: Bytes, i: int, end: int, facts: Numbers) -> bool:
    """Notes what stands before the relative addresses of a page at `b[i:end]`; False if that is not plain (`urls._PLACE`)."""
    facts[PLACE] = i
    i += len(_HTTP) - 2 if _begins(b, i, end, _HTTP) else len(_HTTPS) - 2 if _begins(b, i, end, _HTTPS) else 0
    if i == facts[PLACE] or not _is_located(b, i + 2, end):
        return False
    facts[PLACE + HOSTED] = i
    i += 2
    while b[i] != _SLASH:
        i += 1
    facts[PLACE + ROOTED] = i
    while i < end and b[i] == _SLASH:
        i += 1
        facts[PLACE + BELOW] = i
        if i < end and b[i] == _DOT:
            return False
        while i < end and _SAFE[b[i]]:
            i += 1
        if i < end and b[i] == _SLASH and b[i - 1] == _SLASH:
            return False
    return i == end or b[i] == _MARK or b[i] == _HASH


@compiled
def _equals(b: Bytes, start: int, end: int, word: Bytes) -> bool:
    """Whether a word, which is in small letters, stands there in any case."""
    if end - start != len(word):
        return False
    for k in range(len(word)):
        c = b[start + k]
        if c != word[k] and (c | 0x20 != word[k] or not _A <= word[k] <= _Z):
            return False
    return True


@compiled
def _objects(b: Bytes, i: int, end: int) -> bool:
    """Whether one of `optout.DIRECTIVES`, all of which begin with noa, noi or nom, may stand there, or something escaped."""
    while i < end:
        if b[i] == _BACKSLASH:
            return True
        if b[i] | 0x20 == _N and i + 2 < end and b[i + 1] | 0x20 == _O:
            c = b[i + 2] | 0x20
            if c == _A or c == _I or c == _M:
                return True
        i += 1
    return False


@compiled
def _is_escaped(b: Bytes, i: int, end: int) -> bool:
    while i < end:
        if b[i] == _BACKSLASH:
            return True
        i += 1
    return False


@compiled
def _language_of_metas(b: Bytes, w: Words, i: int) -> tuple[int, int]:
    """[start, end) of the language in an array of meta elements, 0, 0 if none; -1, 0 if Python must look."""
    language = language_end = 0
    i = _skip_space(b, i + 1)
    while b[i] != _RIGHT:
        if b[i] == _COMMA:
            i = _skip_space(b, i + 1)
        if b[i] != _OPEN:
            return -1, 0
        begin, name, name_end, content, content_end, odd = i, 0, 0, 0, 0, False
        i += 1
        while True:
            start, end, value = _next_key(b, w, i)
            if start < 0:
                return -1, 0
            if start == 0:
                i = value
                break
            i = _skip_value(b, w, value)
            odd |= _is_escaped(b, start, end)
            if _is(b, start, end, _NAME_KEY):
                odd |= b[value] != _QUOTE
                name, name_end = value + 1, i - 1
            elif _is(b, start, end, _CONTENT_KEY):
                odd |= b[value] != _QUOTE
                content, content_end = value + 1, i - 1
            elif _is(b, start, end, _EQUIV_KEY):
                odd |= _tells(b, value, i)
        if _tells(b, begin, i):
            if odd:
                return -1, 0
            if _equals(b, name, name_end, _HTML_AT_LANG):
                if content < content_end and language == 0:
                    if not _is_plain(b, content, content_end):
                        return -1, 0
                    language, language_end = content, content_end
            elif _equals(b, name, name_end, _ROBOTS) or _equals(b, name, name_end, _AGENT):
                if _objects(b, content, content_end):
                    return -1, 0
            elif _tells(b, name, name_end):
                return -1, 0
        i = _skip_space(b, i)
    return language, language_end


@compiled
def _language_of_headers(b: Bytes, w: Words, i: int) -> tuple[int, int]:
    """The same of the headers of an answer."""
    language = language_end = 0
    i += 1
    while True:
        start, end, value = _next_key(b, w, i)
        if start <= 0:
            return (language, language_end) if start == 0 else (-1, 0)
        i = _skip_value(b, w, value)
        if _is_escaped(b, start, end):
            return -1, 0
        robots = _equals(b, start, end, _X_ROBOTS)
        if robots or _equals(b, start, end, _CONTENT_LANGUAGE):
            if b[value] != _QUOTE or (robots and _objects(b, value + 1, i - 1)):
                return -1, 0
            if not robots and value + 2 < i and language == 0:
                if not _is_plain(b, value + 1, i - 1):
                    return -1, 0
                language, language_end = value + 1, i - 1


@compiled
def _language(b: Bytes, facts: Numbers) -> tuple[int, int]:
    """[start, end) of what a page says of its language, 0, 0 if nothing; -1, 0 if Python must look, as it must where a page
    objects to something."""
    w = b[: len(b) >> 3 << 3].view(np.uint64)
    language = language_end = 0
    if facts[HEADERS] and b[facts[HEADERS]] == _OPEN and _tells(b, facts[HEADERS], facts[HEADERS + 1]):
        language, language_end = _language_of_headers(b, w, facts[HEADERS])
    if language >= 0 and facts[METAS] and b[facts[METAS]] == _LEFT and _tells(b, facts[METAS], facts[METAS + 1]):
        start, end = _language_of_metas(b, w, facts[METAS])
        if start:
            return start, end
    return language, language_end


@compiled
def _page(
    b: Bytes, content: int, url: int, url_end: int, captioned: bool, out: Out, told: Told, facts: Numbers, totals: Numbers
) -> bool:
    """Takes in one page with its links; False if it is not for compiled code, or has none."""
    facts[ROWS + 1 :] = 0
    if not _place(b, url, url_end, facts) or not _record(b, content, len(b) - 4, captioned, out, facts):
        return False
    if facts[LINKS] == 0 or (facts[BASE] and b[facts[BASE]] == _QUOTE and facts[BASE] + 2 < facts[BASE + 1]):
        return False
    language = language_end = title = title_end = 0
    if facts[TELLS]:
        language, language_end = _language(b, facts)
    if facts[TITLE] and b[facts[TITLE]] == _QUOTE:
        title, title_end = facts[TITLE] + 1, facts[TITLE + 1] - 1
    if language < 0 or (title < title_end and not _is_plain(b, title, title_end)):
        return False
    urls, url_ends, titles, title_ends, languages, language_ends, walked = told
    p = totals[PAGES]
    url_ends[p + 1] = _copy(b, url, url_end, urls, url_ends[p])
    title_ends[p + 1] = _copy(b, title, title_end, titles, title_ends[p])
    language_ends[p + 1] = _copy(b, language, language_end, languages, language_ends[p])
    walked[p] = facts[ROWS] - totals[BEFORE]
    totals[PAGES] = p + 1
    totals[SILENT] = language == 0
    totals[LINKED] += 1
    totals[ALL_LINKS] += facts[LINKS]
    totals[ALL_NO_TEXT] += facts[NO_TEXT]
    totals[ALL_SCHEME] += facts[SCHEME]
    n = facts[ROWS]
    totals[FULL] |= (
        n >= totals[LIMITS]
        or p + 1 >= totals[LIMITS + 2]
        or max(out[1][n], out[3][n]) >= totals[LIMITS + 1]
        or max(url_ends[p + 1], title_ends[p + 1], language_ends[p + 1]) >= totals[LIMITS + 3]
    )
    return True


@compiled
def _hears(b: Bytes, content: int, url: int, url_end: int, told: Told, totals: Numbers) -> bool:
    """Takes in a record without links, in which the last page may be told its language; False if Python must look."""
    found = _find(b, content, _DETECTED)
    if found == 0:
        return True
    if totals[SILENT] == 2:
        return False
    urls, url_ends, _, _, languages, language_ends, _ = told
    p = totals[PAGES]
    start = url_ends[p - 1]
    if url_ends[p] - start != url_end - url:
        return True
    for k in range(url_end - url):
        if b[url + k] != urls[start + k]:
            return True
    code, code_end = _detected(b, found)
    if code == 0:
        return False
    language_ends[p] = _copy(b, code, code_end, languages, language_ends[p])
    totals[SILENT] = 0
    return True


@njit(boundscheck=True, cache=True)
def pages(
    data: Bytes, starts: Numbers, ends: Numbers, captioned: bool, out: Out, told: Told, facts: Numbers, totals: Numbers
) -> int:
    """Takes in the members `data[starts[k]:ends[k]]` of a file, from `totals[AT]` on, and says why it stopped.

    `out` and `facts` are as in `walk` for the last page, but that addresses are whole; page p of `totals[PAGES]` has the rows
    behind those of the pages before it. Raises IndexError where a record is cut: then all of the member at hand is Python's,
    and rows from `totals[BEFORE]` on are none.
    """
    while totals[AT] < len(starts):
        k = totals[AT]
        b = data[starts[k] : ends[k]]
        totals[BEFORE] = facts[ROWS]
        kind, content, url, url_end = _header(b)
        if kind != DONE:
            return kind
        rest = False
        if not _names_image(b, content):
            if totals[SILENT] and not _hears(b, content, url, url_end, told, totals):
                return RECORD
        elif totals[FULL]:
            return TAKE
        elif len(b) > totals[LIMITS + 4] or not _page(b, content, url, url_end, captioned, out, told, facts, totals):
            facts[ROWS] = totals[BEFORE]
            return RECORD
        else:
            rest = facts[REST] > 0
        totals[RECORDS] += 1
        totals[AT] = k + 1
        if rest:
            return REST_LEFT
    return DONE
