"""The candidates of WAT records in batches, as `rows.Rows` has them, but most of it by compiled code (`walk`)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.extract import rows, walk, wat
from pipeline.extract.members import Block
from pipeline.extract.page import Page, Wanted
from pipeline.extract.rows import Columns
from pipeline.extract.urls import Base
from pipeline.extract.warc import Record

ROWS, BYTES = 1 << 17, 24 << 20  # of a batch; bytes of its alt texts, or of its addresses
PAGES, PAGE_BYTES = 1 << 16, 4 << 20  # of a batch; bytes of their urls, or of their titles
LARGEST = 4 << 20  # bytes of a record that is walked; larger ones are Python's
_SMALL = 4 << 10
_json = msgspec.json.decode


class Rows(rows.Rows):
    """Batches of some 100,000 candidates, or 24 MB of them."""

    def __init__(self, wanted: Wanted) -> None:
        room = ROWS + LARGEST // walk.SMALLEST
        self._facts, self._totals = np.zeros(walk.FACTS, np.int64), np.zeros(walk.TOTALS, np.int64)
        self._totals[walk.LIMITS :] = ROWS, BYTES, PAGES, PAGE_BYTES, LARGEST
        self._alts, self._alt_ends = _texts(room, BYTES)
        self._addresses, self._address_ends = _texts(room, BYTES)
        self._kinds = np.empty(room, np.uint8)
        self._rest = np.empty((LARGEST // walk.SMALLEST, 2), np.int64)
        self._out: walk.Out = (self._alts, self._alt_ends, self._addresses, self._address_ends, self._kinds, self._rest)
        self._urls, self._titles, self._languages = (_texts(PAGES, PAGE_BYTES) for _ in range(3))
        self._walked = np.zeros(PAGES, np.int32)
        self._told: walk.Told = (*self._urls, *self._titles, *self._languages, self._walked)
        self._dropped: Counter[str] = Counter()
        super().__init__(wanted)

    def _clear(self) -> None:
        super()._clear()
        self._facts[walk.ROWS] = 0
        self._totals[[walk.PAGES, walk.FULL, walk.SILENT]] = 0
        self._befores = [""]  # what stands before the relative addresses of pages that Python had a part in
        self._before = np.zeros(PAGES, np.int32)  # where those of a page begin in it: see `walk`

    @property
    def full(self) -> bool:
        return bool(self._totals[walk.FULL]) or super().full or self._facts[walk.ROWS] + len(self._candidates) >= ROWS

    def pages(self, block: Block, at: int) -> tuple[int, int]:
        """Takes in members of a block, from the one at hand on; before which it stopped, and why (see `walk`)."""
        self._totals[walk.AT] = at
        self._totals[walk.FULL] = self.full
        data, captioned = _octets(block.data), self._wanted.captioned
        while True:
            try:
                why = walk.pages(data, block.starts, block.ends, captioned, self._out, self._told, self._facts, self._totals)
            except IndexError:  # cut, or more than there is room for
                self._facts[walk.ROWS] = self._totals[walk.BEFORE]
                why = walk.RECORD
            if why == walk.REST_LEFT and not self._consider_rest(block):
                why = walk.RECORD
            if why != walk.REST_LEFT:
                return int(self._totals[walk.AT]), why

    def _consider_rest(self, block: Block) -> bool:
        """Takes in those links of the last page that compiled code left; False, and no page, if one cannot be read."""
        facts, totals = self._facts, self._totals
        p, start = int(totals[walk.PAGES]) - 1, int(block.starts[totals[walk.AT] - 1])
        try:
            places = self._rest[: facts[walk.REST]].tolist()
            rest = [_json(block.data[start + a : start + b], type=wat.Link) for a, b in places]
        except (ValueError, RecursionError):
            facts[walk.ROWS] = totals[walk.BEFORE]
            totals[[walk.AT, walk.RECORDS, walk.PAGES, walk.LINKED]] -= 1
            totals[[walk.ALL_LINKS, walk.ALL_NO_TEXT, walk.ALL_SCHEME]] -= facts[[walk.LINKS, walk.NO_TEXT, walk.SCHEME]]
            return False
        urls, ends = self._urls
        url = urls[ends[p] : ends[p + 1]].tobytes().decode()
        page = Page(url, None, None, None, Base(url)).consider([(link.url, link.alt) for link in rest], self._wanted)
        self._collect(page.candidates, p)
        self._dropped.update({name: number for name, number in page.counts.items() if name != "in"})
        return True

    def counted(self) -> Counter[str]:
        """Of all that `pages` took in: records, pages with links, and what became of these."""
        names = ("records", "pages", "in", "dropped:no_text", "dropped:scheme")
        return self._dropped + Counter(dict(zip(names, self._totals[walk.RECORDS : walk.LIMITS].tolist(), strict=True)))

    def add(self, page: Page, target: str | None = None, walked: int = 0, relative: int = 0) -> Page:
        """Takes in a page: its candidates, and as many rows that were walked before, some of them relative to it."""
        p = self._number = int(self._totals[walk.PAGES])
        super().add(page, target)
        for _, ends in (self._urls, self._titles, self._languages):
            ends[p + 1] = ends[p]
        self._walked[p] = walked
        if relative:
            self._before[p] = len(self._befores) - walk.HOSTED
            self._befores += page.base.before
        n = int(self._facts[walk.ROWS])
        full = n >= ROWS or p + 1 >= PAGES or max(self._alt_ends[n], self._address_ends[n]) >= BYTES
        self._totals[[walk.PAGES, walk.FULL, walk.SILENT]] = p + 1, full, 2 * (self._silent is not None)
        return page

    def add_wat(self, record: Record) -> Page | None:
        size = len(record.data)
        # Small ones are mostly those of requests; larger ones have links as a rule.
        if size < _SMALL and not wat.may_link(record.data, record.start, self._wanted):
            return None
        if size <= LARGEST and (page := self._walk(record)) is not None:
            return page
        return super().add_wat(record)

    def _walk(self, record: Record) -> Page | None:
        """The same by compiled code, None if the record is not for it."""
        facts, data = self._facts, record.data
        before = int(facts[walk.ROWS])
        try:
            sound = walk.walk(_octets(data), record.start, record.stop, self._wanted.captioned, self._out, facts)
            last, links, no_text, scheme, slow, relative = facts[: walk.RELATIVE + 1].tolist()
            page = self._describe(record) if sound and links else None
            rest = [_json(data[a:b], type=wat.Link) for a, b in self._rest[:slow].tolist()] if slow else []
        except (IndexError, ValueError, RecursionError):  # cut, no JSON, no UTF-8, or too deep
            page = None
        if page is None or (relative and not page.base.before[0]):
            facts[walk.ROWS] = before
            return None
        if page.opt_out and not self._wanted.opted_out:
            facts[walk.ROWS] = before
            page.counts = {"in": links, "dropped:opt_out": links}
            return self.add(page, record.target)
        if rest:
            page.consider([(link.url, link.alt) for link in rest], self._wanted)
        page.counts["in"] = links
        if no_text:
            page.count("dropped:no_text", no_text)
        if scheme:
            page.count("dropped:scheme", scheme)
        return self.add(page, record.target, last - before, relative)

    def _describe(self, record: Record) -> Page:
        data = record.data
        at: list[int] = self._facts[walk.HEADERS : walk.PLACE].tolist()
        tells = self._facts[walk.TELLS]  # of a language or an objection; most pages do not
        return wat.describe(
            record.target,
            _json(data[at[0] : at[1]]) if tells and at[1] else None,
            _json(data[at[2] : at[3]]) if tells and at[3] else None,
            _json(data[at[4] : at[5]]) if at[5] else None,
            _json(data[at[6] : at[7]]) if at[7] else None,
        )

    def hear(self, record: Record) -> None:
        p = int(self._totals[walk.PAGES])
        if self._totals[walk.SILENT] != 1:
            super().hear(record)
            self._totals[walk.SILENT] = 2 * (self._silent is not None)
            return
        urls, url_ends = self._urls
        if not wat.may_detect(record) or record.target.encode() != urls[url_ends[p - 1] : url_ends[p]].tobytes():
            return
        if (language := wat.detected_language(record.content)) is not None:
            languages, ends = self._languages
            ends[p] += len(language.encode())
            languages[ends[p - 1] : ends[p]] = np.frombuffer(language.encode(), np.uint8)
            self._totals[walk.SILENT] = 0

    def _columns(self) -> Columns:
        slow, n = super()._columns(), int(self._facts[walk.ROWS])
        pages = np.repeat(np.arange(self._totals[walk.PAGES], dtype=np.int32), self._walked[: self._totals[walk.PAGES]])
        alts = _strings(self._alts, self._alt_ends, n)
        fast = {"url": self._absolute(pages, n), "alt": alts, "caption": alts, "page": pa.array(pages)}
        return {name: pa.concat_arrays([fast[name], values]) for name, values in slow.items()} if self._candidates else fast

    def _absolute(self, pages: Any, n: int) -> pa.Array:
        """Addresses of the walked rows, with what stands before those that are relative."""
        addresses, kinds = _strings(self._addresses, self._address_ends, n), self._kinds[:n]
        if len(self._befores) == 1:
            return addresses
        which = np.where(kinds == walk.WHOLE, 0, kinds + self._before[pages])
        return pc.binary_join_element_wise(pa.array(self._befores, pa.string()).take(pa.array(which)), addresses, "")

    def _page_columns(self) -> Columns:
        n = int(self._totals[walk.PAGES])
        slow, empty = super()._page_columns(), np.zeros(n, np.bool_)
        fast = {
            "page_title": _strings(*self._titles, n, nulls=True),
            "page_url": _strings(*self._urls, n),
            "content_language": _strings(*self._languages, n, nulls=True),
            "opt_out": pa.nulls(n, pa.string()),
        }
        if not self._pages:
            return fast
        empty[list(self._pages)] = True
        return {name: pc.replace_with_mask(values, pa.array(empty), slow[name]) for name, values in fast.items()}


def load() -> None:
    """Compiles what is compiled, which takes some twenty seconds, or loads it where that was done on this machine before."""
    head, content = b"WARC/1.0\r\n\r\n", b'{"Envelope":"IMG@/src"}'
    collected = Rows(Wanted())
    collected.add_wat(Record(head + content, len(head), len(head) + len(content), 0, 0))
    collected.pages(Block(b"", np.zeros(0, np.int64), np.zeros(0, np.int64), []), 0)


def _texts(number: int, size: int) -> tuple[walk.Bytes, walk.Offsets]:
    """Room for so many texts (memory is only taken for what is written), and as many bytes, and a record more."""
    return np.empty(size + LARGEST, np.uint8), np.zeros(number + 1, np.int32)


def _octets(data: bytes | bytearray) -> walk.Bytes:
    octets = np.frombuffer(data, np.uint8)
    octets.flags.writeable = False  # an array that can be written to is another type: all would be compiled once more
    return octets


def _strings(data: walk.Bytes, ends: walk.Offsets, n: int, *, nulls: bool = False) -> pa.Array:
    """The texts; `nulls`: empty ones are none."""
    offsets = ends[: n + 1]
    valid = pa.array(offsets[1:] > offsets[:-1]).buffers()[1] if nulls else None
    buffers = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data[: offsets[n]].tobytes())]
    return pa.Array.from_buffers(pa.string(), n, buffers)
