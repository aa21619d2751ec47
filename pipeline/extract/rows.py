"""Candidates of many pages as columns, in batches. `walked.Rows` does the same, most of it by compiled code."""

from __future__ import annotations

from _md5 import md5  # type: ignore[import-not-found]  # a call of hashlib's takes twice as long: OpenSSL is made for long messages

import pyarrow as pa
import pyarrow.compute as pc

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
MANY, LONG = 1 << 15, 24 << 20  # candidates of a batch, or characters of their alt texts and urls
_PAGE = ("page_title", "page_url", "content_language", "opt_out")
Columns = dict[str, pa.Array]


class Rows:
    """Collects the candidates of pages and gives them as batches."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._clear()

    def _clear(self) -> None:
        self._number = 0  # of pages
        self._pages: dict[int, Page] = {}
        self._candidates: list[Candidate] = []
        self._of_page: list[int] = []
        self._length = 0  # characters
        self._silent: str | None = None  # the target of the last page, if it did not tell its language

    @property
    def full(self) -> bool:
        """Whether the batch should be taken before the next page."""
        return len(self._candidates) >= MANY or self._length >= LONG

    def add(self, page: Page, target: str | None = None) -> Page:
        """Takes in a page with its candidates; records about this target may yet tell its language."""
        self._pages[self._number] = page
        self._collect(page.candidates, self._number)
        self._silent = target if page.language is None else None
        self._number += 1
        return page

    def _collect(self, candidates: list[Candidate], page: int) -> None:
        self._candidates += candidates
        self._of_page += [page] * len(candidates)
        self._length += sum([len(c.url) + len(c.alt) for c in candidates])

    def add_wat(self, record: Record) -> Page | None:
        """Takes in a WAT record; the page that it tells of, None if it names no link of the wanted kind. Raises BadRecord."""
        if not wat.may_link(record.data, record.start, self._wanted):
            return None
        page = wat.parse(record.content, record.target, self._wanted)
        return None if page is None else self.add(page, record.target)

    def hear(self, record: Record) -> None:
        """Gives the language that a record tells to the page that was taken in last, if it is that page's and it told none."""
        if self._silent is None or not wat.may_detect(record) or record.target != self._silent:
            return
        if (language := wat.detected_language(record.content)) is not None:
            self._pages[self._number - 1].language = language
            self._silent = None

    def take(self) -> pa.RecordBatch:
        """What was collected since the last time, as `ROWS`; of equal pages their rows follow no order."""
        columns = self._columns()
        columns |= {name: values.take(columns["page"]) for name, values in self._page_columns().items()}
        columns["uid"] = _uids(columns["alt"], columns["url"])
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in ROWS.names], schema=ROWS)

    def _columns(self) -> Columns:
        names = ("url", "alt", "caption")
        return {name: pa.array([getattr(c, name) for c in self._candidates], pa.string()) for name in names} | {
            "page": pa.array(self._of_page, pa.int32())
        }

    def _page_columns(self) -> Columns:
        """What goes for all rows of a page, by the pages' numbers."""
        pages = self._pages.values()
        told = [(page.title, page.url, page.language, page.opt_out) for page in pages]
        return {name: pa.array([t[k] for t in told], pa.string()) for k, name in enumerate(_PAGE)}


def _uids(alts: pa.Array, urls: pa.Array) -> pa.Array:
    """`pools.uids.new` of each row, as 16 bytes."""
    joined = pc.binary_join_element_wise(alts, urls, "").cast(pa.binary()).to_pylist()
    digests = b"".join([md5(both).digest() for both in joined])
    return pa.Array.from_buffers(pa.binary(16), len(alts), [None, pa.py_buffer(digests)])
