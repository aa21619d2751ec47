"""WAT files → one parquet file of candidates each. Also `spark-submit pipeline/extract/job.py INPUT… --output OUT`.

Rows with equal uids (equal url and alt) are dropped within a file; those of different files stay, each in its own.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.extract import inputs as sources
from pipeline.extract import warc, wat
from pipeline.spark import submitted
from pools import store
from pools.errors import InputError, WinnowError
from pools.manifest import Outcome, Run
from pools.schema import CANDIDATES

VERSION = 2
SUFFIXES = (".wat", ".wat.gz")
SCHEMA = CANDIDATES.schema
COUNTS = (
    *("in", "kept"),
    *(f"dropped:{why}" for why in ("no_text", "bad_link", "empty_url", "scheme", "bad_url", "duplicate")),
    *("records", "pages", "bad_record"),
)
GROUP_ROWS = 1 << 15
GROUP_CHARACTERS = 1 << 25
MAX_PROBLEMS = 10  # named for one file; a hostile one could make millions
_CRAWL = re.compile(r"CC-MAIN-\d{4}-\d{2}")


def extract(inputs: Sequence[str], output: str, *, options: engine.Options) -> Outcome:
    """Reads WAT files (paths, folders, patterns; plain or gzip) and writes `<output>/<stem>.parquet` for each.

    Counts: `in` image links = `kept` rows + `dropped:<why>`; for information `records` of WAT, `pages` with an image,
    `bad_record` (damaged, or no JSON). A file that is cut gives the rows before the cut, and a problem.
    More inputs in a later call add their files; the earlier ones must be named again.
    Raises InputError if a file is no WAT, or if the output holds what was made of other inputs.
    """
    files = sources.find(inputs, SUFFIXES)
    if not options.overwrite:
        _refuse_others(output, {f.stem for f in files})
    run = Run(output, "extract", VERSION, {})
    units = [engine.Unit(f.stem, f.digest, (f.path, store.join(output, f.stem + ".parquet"))) for f in files]
    return engine.run(run, units, extract_file, options)


def extract_file(unit: engine.Unit) -> Outcome:
    """One WAT file (`args` = its path, the parquet file to write). Memory grows with the number of rows kept, 16 bytes each."""
    path, target = unit.args
    crawl = found[0] if (found := _CRAWL.search(path)) else None
    with store.open_input(path) as file, store.atomic(target) as out:
        scan = Scan(path, file)
        with pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer:
            for rows in _groups(scan.rows()):
                writer.write_batch(_table(rows, crawl, store.name(path)))
        scan.check()
    return scan.outcome()


def _refuse_others(output: str, stems: set[str]) -> None:
    """Candidates of inputs that are not named would be part of the pool, yet of no count."""
    held = store.list_files(output, ".parquet") if store.is_dir(output) else []
    if others := [f for f in held if f.removesuffix(".parquet") not in stems]:
        raise InputError(
            f"made of an input that is not named now ({len(others)} such files)",
            where=store.join(output, others[0]),
            expected="an empty folder, or one with candidates of the same inputs",
            fix="name the earlier inputs as well, choose another --output, or replace all with --overwrite",
        )


class Scan:
    """Rows of one WAT file, deduplicated, with counts and problems once they are all read."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()  # types of the records read
        self.damages: list[str] = []

    def rows(self) -> Iterator[wat.Row]:
        """Those of one page are held until a record about another follows, as its detected language comes behind them."""
        seen: set[bytes] = set()
        held: list[wat.Row] = []
        about = None
        for record in self._records():
            page = wat.parse(record.content, record.target)
            self.counts.update(page.counts)
            if page.rows or record.target != about:
                yield from held
                held, about = self._new(page.rows, seen), record.target
            elif held and held[0].content_language is None and (language := wat.detected_language(record.content)):
                held = wat.with_language(held, language)
        yield from held

    def _records(self) -> Iterator[warc.Record]:
        """The records of JSON; all others and damaged places are counted."""
        for found in warc.read(self.file):
            if isinstance(found, warc.Damage):
                self._damaged(found)
            elif found.type == "metadata" and found.headers.get("content-type", "").startswith("application/json"):
                self.counts["records"] += 1
                yield found
            else:
                self.kinds[found.type] += 1

    def _new(self, rows: Sequence[wat.Row], seen: set[bytes]) -> list[wat.Row]:
        """The rows whose uid has not been seen, which it then has."""
        new = []
        for row in rows:
            if (key := bytes.fromhex(row.uid)) in seen:
                self.counts["dropped:duplicate"] += 1
                continue
            seen.add(key)
            new.append(row)
        self.counts["kept"] += len(new)
        return new

    def check(self) -> None:
        """Raises InputError if what was read was no WAT."""
        expected = "a WAT file: WARC records of type metadata that hold JSON"
        if self.counts["records"] or (self.damages and not self.kinds):
            return
        if not self.kinds:
            raise InputError("no WARC record in this file", where=self.path, expected=expected)
        if others := sorted(self.kinds.keys() - {"warcinfo"}):
            raise InputError(f"a WARC file with records of type {', '.join(others)}", where=self.path, expected=expected)

    def outcome(self) -> Outcome:
        problems = self.damages[:MAX_PROBLEMS]
        if more := len(self.damages) - len(problems):
            problems.append(f"{self.path}: {more} more damaged places")
        return Outcome({name: self.counts[name] for name in COUNTS}, tuple(problems))

    def _damaged(self, damage: warc.Damage) -> None:
        if damage.kind != "cut":
            self.counts["bad_record"] += 1
        if damage.kind in ("cut", "gzip"):
            self.damages.append(f"{self.path}: {damage}")


def _groups(rows: Iterator[wat.Row]) -> Iterator[list[wat.Row]]:
    """Lists of rows, each bounded in rows and in characters."""
    group: list[wat.Row] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += len(row.url) + len(row.text) + len(row.alt) + len(row.page_title or "") + len(row.page_url)
        if len(group) >= GROUP_ROWS or characters >= GROUP_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _table(rows: Sequence[wat.Row], crawl: str | None, source_file: str) -> pa.RecordBatch:
    fixed = {"crawl": crawl, "source_file": source_file}
    columns: list[list[Any]] = [
        [fixed[name]] * len(rows) if name in fixed else [getattr(row, name) for row in rows] for name in SCHEMA.names
    ]
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def main(arguments: Sequence[str] | None = None) -> int:
    """The job as a program of its own, for spark-submit. Returns the exit status."""
    parser = argparse.ArgumentParser(description="WAT files → candidates (parquet, one file each).")
    parser.add_argument("input", nargs="+", help="WAT files, folders or patterns")
    parser.add_argument("--output", required=True, help="folder for the candidates")
    parser.add_argument("--engine", choices=("local", "spark"), default="spark" if submitted() else "local")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--overwrite", action="store_true")
    given = parser.parse_args(arguments)
    try:
        outcome = extract(given.input, given.output, options=engine.Options(given.engine, given.workers, given.overwrite))
    except WinnowError as e:
        print(e, file=sys.stderr)
        return e.exit_code
    for name, count in outcome.counts.items():
        print(f"{name}: {count}")
    for problem in outcome.problems:
        print(problem, file=sys.stderr)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    # By its module's name, so that worker processes find the functions that they are sent.
    from pipeline.extract.job import main as program

    sys.exit(program())
