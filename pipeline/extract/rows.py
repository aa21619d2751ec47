"""Candidates of many pages as columns: what `walk` copied out of their records, and what Python made of the rest."""

from __future__ import annotations

from _md5 import md5  # type: ignore[import-not-found]  # a call of hashlib's takes twice as long: OpenSSL is made for long messages
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.extract import walk as walker
from pipeline.extract import wat
from pipeline.extract.page import Candidate, Page, Wanted
from pipeline.extract.warc import Record

ROWS = pa.schema(
    [
        ("uid", pa.binary(16)),
        ("url", pa.string()),
        ("alt", pa.string()),
        ("caption", pa.string()),  # the alt, cleaned
        ("page", pa.int32()),  # its number in the batch
        ("page_title", pa.string()),
        ("page_url", pa.string()),
        ("content_language", pa.string()),
        ("opt_out", pa.string()),
    ]
)
_MANY = 1 << 17  # rows of a batch
_BYTES = 24 << 20  # of its alt texts, or of its addresses
_SMALL = 4 << 10
_LARGEST = 4 << 20  # bytes of a record that is walked; larger ones are Python's
_NOTHING = ("", "", "")
_json = msgspec.json.decode


class Rows:
    """Collects the candidates of pages, some 100,000 or 24 MB of them, and gives them as one batch."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        room = _MANY + _LARGEST // walker.SMALLEST
        self._facts = np.zeros(walker.FACTS, np.int64)
        self._alts, self._addresses = (np.empty(_BYTES + _LARGEST, np.uint8) for _ in range(2))
        self._alt_ends, self._address_ends = (np.zeros(room + 1, np.int32) for _ in range(2))
        self._kinds = np.empty(room, np.uint8)
        self._rest = np.empty((_LARGEST // walker.SMALLEST, 2), np.int64)
        self._out: walker.Out = (self._alts, self._alt_ends, self._addresses, self._address_ends, self._kinds, self._rest)
        self._clear()

    def _clear(self) -> None:
        self.full = False  # whether the batch should be taken before the next page
        self._facts[walker.ROWS] = 0
        # What goes for all rows of a page. Lists of text: many objects with more to them would keep the garbage collector busy.
        self._titles: list[str | None] = []
        self._urls: list[str] = []
        self._languages: list[str | None] = []
        self._opt_outs: list[str | None] = []
        self._walked: list[int] = []  # rows of it that were walked
        self._befores: list[str] = []  # what stands before a relative address, three a page: see `walk`
        self._slow: list[Candidate] = []
        self._slow_pages: list[int] = []

    def add(self, page: Page, walked: int = 0, relative: int = 0) -> Page:
        """Takes in a page: its candidates, and as many rows that were walked before, some of them relative to it."""
        if page.candidates:
            self._slow += page.candidates
            self._slow_pages += [len(self._urls)] * len(page.candidates)
        self._titles.append(page.title)
        self._urls.append(page.url)
        self._languages.append(page.language)
        self._opt_outs.append(page.opt_out)
        self._walked.append(walked)
        self._befores += page.base.before if relative else _NOTHING
        n = int(self._facts[walker.ROWS])
        self.full = (
            n + len(self._slow) >= _MANY
            or max(self._alt_ends[n], self._address_ends[n]) >= _BYTES
            or len(self._slow) >= _MANY // 4  # nobody knows how long they are
        )
        return page

    def detected(self, language: str) -> None:
        """Gives a language to the page that was taken in last, if it does not state one itself."""
        self._languages[-1] = self._languages[-1] or language

    def add_wat(self, record: Record) -> Page | None:
        """Takes in a WAT record; the page that it tells of, None if it names no link of the wanted kind. Raises BadRecord."""
        size = len(record.data)
        # Small ones are mostly those of requests; larger ones have links as a rule.
        if size < _SMALL and not wat.may_link(record.data, record.start, self._wanted):
            return None
        if self._wanted.images and size <= _LARGEST and (page := self._walk(record)) is not None:
            return page
        parsed = wat.parse(record.content, record.target, self._wanted)
        return None if parsed is None else self.add(parsed)

    def _walk(self, record: Record) -> Page | None:
        """The same by compiled code, None if the record is not for it."""
        facts, data = self._facts, record.data
        before = int(facts[walker.ROWS])
        octets = np.frombuffer(data, np.uint8)
        octets.flags.writeable = False  # an array that can be written to is another type: all would be compiled once more
        try:
            sound = walker.walk(octets, record.start, record.stop, self._wanted.captioned, self._out, facts)
            rows, links, no_text, scheme, slow, relative = facts[: walker.RELATIVE + 1].tolist()
            page = self._describe(record) if sound and links else None
            rest = [_json(data[a:b], type=wat.Link) for a, b in self._rest[:slow].tolist()] if slow else []
        except (IndexError, ValueError):  # cut, no JSON, or no UTF-8
            page = None
        if page is None or (relative and not page.base.before[0]):
            facts[walker.ROWS] = before
            return None
        if page.opt_out and not self._wanted.opted_out:
            facts[walker.ROWS] = before
            page.counts = {"in": links, "dropped:opt_out": links}
            return self.add(page)
        if rest:
            page.consider([(link.url, link.alt) for link in rest], self._wanted)
        page.counts["in"] = links
        if no_text:
            page.count("dropped:no_text", no_text)
        if scheme:
            page.count("dropped:scheme", scheme)
        return self.add(page, rows - before, relative)

    def _describe(self, record: Record) -> Page:
        data = record.data
        at: list[int] = self._facts[walker.HEADERS :].tolist()
        tells = self._facts[walker.TELLS]  # of a language or an objection; most pages do not
        return wat.describe(
            record.target,
            _json(data[at[0] : at[1]]) if tells and at[1] else None,
            _json(data[at[2] : at[3]]) if tells and at[3] else None,
            _json(data[at[4] : at[5]]) if at[5] else None,
            _json(data[at[6] : at[7]]) if at[7] else None,
        )

    def take(self) -> pa.RecordBatch:
        """What was collected since the last time, as `ROWS`; of equal pages their rows follow no order."""
        n = int(self._facts[walker.ROWS])
        pages = np.repeat(np.arange(len(self._urls), dtype=np.int32), self._walked)
        alts = _strings(self._alts, self._alt_ends, n)
        columns = {
            "url": [self._absolute(pages, n), pa.array([c.url for c in self._slow], pa.string())],
            "alt": [alts, pa.array([c.alt for c in self._slow], pa.string())],
            "caption": [alts, pa.array([c.caption for c in self._slow], pa.string())],
            "page": [pa.array(pages), pa.array(self._slow_pages, pa.int32())],
        }
        whole = {name: pa.concat_arrays(parts) for name, parts in columns.items()}
        of_page = {
            "page_title": self._titles,
            "page_url": self._urls,
            "content_language": self._languages,
            "opt_out": self._opt_outs,
        }
        whole |= {name: pa.array(values, pa.string()).take(whole["page"]) for name, values in of_page.items()}
        whole["uid"] = _uids(whole["alt"], whole["url"])
        self._clear()
        return pa.RecordBatch.from_arrays([whole[name] for name in ROWS.names], schema=ROWS)

    def _absolute(self, pages: Any, n: int) -> pa.Array:
        """Addresses of the walked rows, with what stands before those that are relative."""
        before, kinds = pa.array(["", *self._befores], pa.string()), self._kinds[:n]
        which = np.where(kinds == walker.WHOLE, 0, kinds + np.int32(3) * pages)
        return pc.binary_join_element_wise(before.take(pa.array(which)), _strings(self._addresses, self._address_ends, n), "")


def load() -> None:
    """Compiles what is compiled, which takes some ten seconds, or loads it where that was done on this machine before."""
    head, content = b"WARC/1.0\r\n\r\n", b'{"Envelope":"IMG@/src"}'
    Rows(Wanted()).add_wat(Record(head + content, len(head), len(head) + len(content), 0, 0))


def _strings(data: walker.Bytes, ends: Any, n: int) -> pa.Array:
    buffers = [None, pa.py_buffer(ends[: n + 1].tobytes()), pa.py_buffer(data[: ends[n]].tobytes())]
    return pa.Array.from_buffers(pa.string(), n, buffers)


def _uids(alts: pa.Array, urls: pa.Array) -> pa.Array:
    """`pools.uids.new` of each row, as 16 bytes."""
    joined = pc.binary_join_element_wise(alts, urls, "").cast(pa.binary()).to_pylist()
    digests = b"".join([md5(both).digest() for both in joined])
    return pa.Array.from_buffers(pa.binary(16), len(alts), [None, pa.py_buffer(digests)])
