"""One archive file (WAT, WARC, ARC) → its candidates in batches, with counts and what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from pipeline.extract import warc, wat
from pipeline.extract.page import Page, Wanted
from pipeline.extract.rows import Rows
from pools.errors import InputError
from pools.manifest import Outcome

WHYS = ("opt_out", "no_text", "bad_link", "empty_url", "scheme", "bad_url", "duplicate")
COUNTS = ("in", "kept", *(f"dropped:{why}" for why in WHYS), "records", "pages", "bad_record")
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
        self._records = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of `rows.ROWS`, in the file's order. Memory is bounded, however long the file."""
        rows = Rows(self._wanted)
        latest: warc.Record | None = None  # which told of a page
        silent = False  # of its language
        for found in warc.read(self._file):
            if isinstance(found, warc.Damage):
                self._damaged(found)
                continue
            # Not before that, for the language of the last page may yet be told.
            if rows.full and (found.type != "metadata" or wat.may_link(found.data, found.start, self._wanted)):
                yield rows.take()
            if (page := self._page(found, rows)) is not None:
                latest, silent = found, page.language is None
                self._counts["pages"] += 1
                for name, number in page.counts.items():
                    self._counts[name] += number
            elif silent and (language := _detected(found, latest)) is not None:
                rows.detected(language)
                silent = False
        yield rows.take()
        dropped = sum(number for name, number in self._counts.items() if name.startswith("dropped:"))
        self._counts["kept"] = self._counts["in"] - dropped
        self._counts["records"] = self._records

    def _page(self, record: warc.Record, rows: Rows) -> Page | None:
        """The page that a record tells of, whose candidates `rows` has taken in; None if it names no link that is wanted."""
        if wat.is_wat(record):
            self._records += 1
            try:
                return rows.add_wat(record)
            except wat.BadRecord:
                self._counts["bad_record"] += 1
                return None
        kind = record.type
        if kind in ("response", "resource"):
            from pipeline.extract import markup  # a WAT needs no reader of HTML

            self._records += 1
            if (page := markup.parse(record, self._wanted)) is not None:
                return rows.add(page)
        else:
            self._kinds[kind] += 1
        return None

    def check(self) -> None:
        """Raises InputError if what was read holds nothing of the kind that pages are told of in."""
        expected = "a WAT (WARC records of type metadata that hold JSON), or a WARC or ARC file with responses"
        if self._records or (self._damages and not self._kinds):
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


def _detected(record: warc.Record, page: warc.Record | None) -> str | None:
    """What the crawler made of a page's language, which stands in a record of its own, behind that of the page."""
    if page is None or not wat.may_detect(record) or record.target != page.target:
        return None
    return wat.detected_language(record.content)
