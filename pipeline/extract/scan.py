"""One archive file (WAT, WARC, ARC) → its candidates in batches, with counts and what could not be read."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import IO, TYPE_CHECKING

import pyarrow as pa

from pipeline.extract import warc, wat
from pipeline.extract.members import MAGIC, Members, blocks
from pipeline.extract.page import Page, Wanted
from pipeline.extract.rows import Rows
from pools.errors import InputError
from pools.manifest import Outcome

if TYPE_CHECKING:
    from pipeline.extract import walked

WHYS = ("opt_out", "no_text", "bad_link", "empty_url", "scheme", "bad_url", "duplicate")
COUNTS = ("in", "kept", *(f"dropped:{why}" for why in WHYS), "records", "pages", "bad_record")
_FEW = 4000  # WAT records, for which it does not pay to load compiled code
_WALKED = "pipeline.extract.walked"
MAX_PROBLEMS = 10  # named for one file; a hostile one could make millions


class Scan:
    """Candidates of one file; counts and problems are complete once all batches are read.

    Counts: `in` links of the wanted kind = `kept` candidates + `dropped:<why>`; for information `records` that may tell of
    a page, `pages` with a link of the wanted kind, `bad_record` (damaged, or no JSON).
    """

    def __init__(self, path: str, file: IO[bytes], wanted: Wanted) -> None:
        self.path, self._file, self._wanted = path, file, wanted
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()  # of the records that tell of no page
        self._damages: list[str] = []
        self._rows = Rows(wanted)
        self._walked: walked.Rows | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of `rows.ROWS`, in the file's order. Memory is bounded, however long the file."""
        self._file.seek(0)
        packed = self._file.read(len(MAGIC)) == MAGIC
        at: int | None = 0
        if self._wanted.images and _WALKED in sys.modules:
            at = yield from self._walk(0)
        while at is not None:
            at = yield from self._read(at, packed)
            if at is not None:
                at = yield from self._walk(at)
        yield self._rows.take()
        if self._walked is not None:
            self._counts.update(self._walked.counted())
        dropped = sum(number for name, number in self._counts.items() if name.startswith("dropped:"))
        self._counts["kept"] = self._counts["in"] - dropped

    def _read(self, start: int, packed: bool) -> Generator[pa.RecordBatch, None, int | None]:
        """Takes in all from a gzip member on; if it pays to go on by compiled code, where from, else None."""
        for found in warc.read(self._file, start):
            if isinstance(found, warc.Damage):
                self._damaged(found)
                continue
            if self._may_begin_page(found):
                loads = self._walked is None and self._wanted.images and self._counts["records"] >= _FEW
                if loads or self._rows.full:
                    yield self._rows.take()
                if loads and packed and found.skip == 0:
                    return found.offset
            self._take_in(found)
        return None

    def _walk(self, start: int) -> Generator[pa.RecordBatch, None, int]:
        """Takes in members, by compiled code where it can, up to one that is not a sound record; where that begins."""
        from pipeline.extract import walk, walked

        if self._walked is None:
            self._rows = self._walked = walked.Rows(self._wanted)
        self._file.seek(start)
        members = Members(self._file, warc.MAX_CONTENT)
        for block in blocks(members):
            at, why = self._walked.pages(block, 0)
            while why != walk.DONE:
                if why == walk.TAKE:
                    yield self._rows.take()
                else:
                    record = warc.whole(block.data[block.starts[at] : block.ends[at]], block.offsets[at])
                    if record is None:
                        return block.offsets[at]
                    if self._rows.full and self._may_begin_page(record):
                        yield self._rows.take()
                    self._take_in(record)
                    at += 1
                at, why = self._walked.pages(block, at)
        return members.offset

    def _may_begin_page(self, record: warc.Record) -> bool:
        """Whether what is collected may be taken before this record; else the language of the last page may yet be told."""
        return record.type != "metadata" or wat.may_link(record.data, record.start, self._wanted)

    def _take_in(self, record: warc.Record) -> None:
        if (page := self._page(record)) is None:
            self._rows.hear(record)
            return
        self._counts["pages"] += 1
        for name, number in page.counts.items():
            self._counts[name] += number

    def _page(self, record: warc.Record) -> Page | None:
        """The page that a record tells of, whose candidates have been taken in; None if it names no link that is wanted."""
        if wat.is_wat(record):
            self._counts["records"] += 1
            try:
                return self._rows.add_wat(record)
            except wat.BadRecord:
                self._counts["bad_record"] += 1
                return None
        kind = record.type
        if kind in ("response", "resource"):
            from pipeline.extract import markup  # a WAT needs no reader of HTML

            self._counts["records"] += 1
            if (page := markup.parse(record, self._wanted)) is not None:
                return self._rows.add(page, record.target)
        else:
            self._kinds[kind] += 1
        return None

    def check(self) -> None:
        """Raises InputError if what was read holds nothing of the kind that pages are told of in."""
        expected = "a WAT (WARC records of type metadata that hold JSON), or a WARC or ARC file with responses"
        if self._counts["records"] or (self._damages and not self._kinds):
            return
        if not self._kinds:
            raise InputError("no WARC record in this file", where=self.path, expected=expected)
        if others := sorted(self._kinds.keys() - {"warcinfo"}):
            raise InputError(f"a WARC file with records of type {', '.join(others)}", where=self.path, expected=expected)

    def outcome(self) -> Outcome:
        problems = self._damages[:MAX_PROBLEMS]
        if more := len(self._damages) - len(problems):
            problems.append(f"{self.path}: {more} more damaged places")
        return Outcome({name: self._counts[name] for name in COUNTS}, tuple(problems))

    def _damaged(self, damage: warc.Damage) -> None:
        if damage.kind != "cut":
            self._counts["bad_record"] += 1
        if damage.kind in ("cut", "gzip"):
            self._damages.append(f"{self.path}: {damage}")
