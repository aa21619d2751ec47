"""Archive files → candidates, without repeats and in an order of chance. Also `spark-submit pipeline/extract/job.py …`.

Each file becomes sorted runs of rows in a scratch folder; then each range of hashes, of all files, one file of candidates.
All that passes between the two lies on the store, so both engines do the same, and either half can be done again alone.
With many files there is a step between: runs of some hundred files are merged into one run, in ranges again, so that no
merge reads more than some hundred files, and a scratch folder on a local disk holds one such part at a time.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import engine
from pipeline.extract import runs
from pipeline.extract.crawls import crawl_of
from pipeline.extract.inputs import Source
from pipeline.extract.page import DOCUMENTS, Documents, Wanted
from pipeline.extract.scan import COUNTS, Scan
from pipeline.progress import Progress
from pools import store, uids
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run, digest_of
from pools.schema import CANDIDATES

VERSION = 3
Text = Literal["alt", "title", "both"]
TEXTS: tuple[Text, ...] = get_args(Text)
REPORT = "_sources.jsonl"
SCHEMA = CANDIDATES.schema
_FILES = 256  # that one merge reads at most
_ROWS, _BYTES = 1 << 20, 128 << 20  # of a file of candidates, before repeats are dropped


@dataclass(frozen=True)
class Settings:
    """What is extracted, and how it goes about.

    `text` is what stands in the column of that name: the alt text (or link text), the page's title, or both; it changes
    neither rows nor uids. `parts`: the files are worked on in so many parts, one after the other (default: of 256 files
    each), and `scratch`, a folder for their rows (default: within the output), is emptied in between. Where Spark works on
    several machines, all must see it. Neither of the two changes a byte of the result.
    """

    documents: Documents = "image"
    text: Text = "alt"
    opted_out: bool = False
    parts: int | None = None
    scratch: str | None = None

    def __post_init__(self) -> None:
        if self.documents not in DOCUMENTS:
            raise InputError(repr(self.documents), where="--documents", expected=", ".join(DOCUMENTS))
        if self.text not in TEXTS:
            raise InputError(repr(self.text), where="--text", expected=", ".join(TEXTS))
        if self.parts is not None and self.parts < 1:
            raise InputError(str(self.parts), where="--parts", expected="at least 1")

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.documents, self.opted_out)


def extract(sources: Sequence[Source], output: str, settings: Settings, *, options: engine.Options) -> Outcome:
    """Reads WAT, WARC and ARC files and writes `<output>/00000.parquet`, …: each (url, alt) once, ordered by a hash of the uid.

    Of equal rows that of the first source (in order of stems) survives, of its first record and link. Counts: `in` links =
    `kept` rows + `dropped:<why>`; for information as `Scan` has them. A file that is damaged gives what can be read of it,
    and a problem; one that cannot be read at all is a problem too. `<output>/_sources.jsonl` tells what became of each.
    A rerun tries those again that failed, once the others are done. Raises InputError if no file is an archive.
    """
    identity: dict[str, Any] = {"documents": settings.documents, "opted_out": settings.opted_out}
    digest = digest_of([[s.stem, s.digest] for s in sources])
    run = Run(output, "extract", VERSION, {**identity, "text": settings.text}, (digest,))
    job = _Job(sources, output, settings, replace(options, overwrite=False), identity)
    manifest = None if options.overwrite else run.finished()
    if manifest is not None and not manifest["failed"]:
        job.clean()  # should the run have been killed before it could
        return engine.recall(run, options) or Outcome()
    run.claim(overwrite=options.overwrite)
    if options.overwrite:
        job.clean()
    return job.run(run)


@dataclass(frozen=True)
class _Read:
    """What came of the sources of one part: outcomes and failures by stem, and the files of runs to merge."""

    outcomes: dict[str, Outcome]
    failed: dict[str, engine.Failed]
    paths: list[str]


@dataclass
class _Job:
    sources: Sequence[Source]
    output: str
    settings: Settings
    options: engine.Options
    identity: dict[str, Any]

    def __post_init__(self) -> None:
        self.hidden = store.join(self.output, ".winnow")
        # Of its own where several jobs share a scratch folder; hidden, should that be the output.
        name = f".winnow-{digest_of(self.output)[:16]}"
        self.scratch = store.join(self.settings.scratch, name) if self.settings.scratch else store.join(self.hidden, "scratch")
        number = min(len(self.sources), self.settings.parts or -(-len(self.sources) // _FILES))
        borders = [len(self.sources) * k // number for k in range(number + 1)]
        # Each in a row, so that "the first source" means the same whatever their number.
        self.parts = [self.sources[a:b] for a, b in itertools.pairwise(borders)]

    def run(self, run: Run) -> Outcome:
        reads = [read for part in range(len(self.parts)) if (read := self._part(part)) is not None]
        if len(reads) < len(self.parts):
            index, number = self.options.part
            Progress.note(f"extract: part {index}/{number} is done, others are not yet", quiet=self.options.quiet)
            return Outcome()
        outcomes = {stem: outcome for read in reads for stem, outcome in read.outcomes.items()}
        failed = {stem: failure for read in reads for stem, failure in read.failed.items()}
        if not outcomes:
            first = next(iter(failed.values()))
            raise first.input_error or WorkFailed(first.message)
        total = sum(outcomes.values(), Outcome(dict.fromkeys(COUNTS, 0)))
        units = self._merges([path for read in reads for path in read.paths], outcomes, self.output, self.settings.text)
        self._keep_only(units)
        rows = self._merge(run, units)
        total = Outcome(
            _reconciled(total.counts, rows), (*total.problems, *(failure.message for failure in failed.values()))
        ).check()
        self._report(outcomes, failed)
        run.finish(total, failed=sorted(failed), files=len(units))
        if failed:
            stay = f"the rows of the others stay in {self.scratch}, and a rerun tries these again"
            Progress.note(
                f"extract: {len(failed)} of {len(self.sources)} files were not read; {stay}", quiet=self.options.quiet
            )
        else:
            self.clean()
        return total

    def clean(self) -> None:
        """Removes what is there of all parts."""
        store.remove_tree(store.join(self.hidden, "parts"))
        store.remove_tree(self.scratch)

    def _part(self, part: int) -> _Read | None:
        """A part's sources as runs, merged if there are several parts; None if other calls have not done theirs yet."""
        sources, several = self.parts[part], len(self.parts) > 1
        digest = digest_of([[s.stem, s.digest] for s in sources])
        # By its digest, for a run that goes on may have another number of parts.
        merged = Run(store.join(self.hidden, "parts", digest[:16]), "extract_part", VERSION, self.identity, (digest,))
        if several and (manifest := merged.finished()) is not None:
            told = {stem: Outcome(of["counts"], tuple(of["problems"])) for stem, of in manifest["sources"].items()}
            return _Read(told, {}, manifest["paths"])
        folder = self._rows(part)
        units = [
            engine.Unit(s.stem, s.digest, (s.path, store.join(folder, s.stem + ".parquet"), self.settings.wanted))
            for s in sources
        ]
        label = f"extract {part + 1}/{len(self.parts)}" if several else "extract"
        done = engine.do(
            Run(folder, "extract_rows", VERSION, self.identity), units, extract_file, self.options, lenient=True, label=label
        )
        if len(done.outcomes) + len(done.failed) < len(units):
            return None
        paths = [unit.args[1] for unit in units if unit.name in done.outcomes]
        if not several or not paths:
            return _Read(done.outcomes, done.failed, paths)
        merges = self._merges(paths, done.outcomes, merged.output, None)
        self._merge(merged, merges)
        paths = [unit.args[3] for unit in merges]
        if not done.failed:
            kept = {stem: {"counts": o.counts, "problems": o.problems} for stem, o in done.outcomes.items()}
            merged.finish(Outcome(), sources=kept, paths=paths)
            store.remove_tree(folder)
        return _Read(done.outcomes, done.failed, paths)

    def _rows(self, part: int) -> str:
        return store.join(self.scratch, f"rows-{part:05d}")

    def _merges(self, paths: list[str], outcomes: dict[str, Outcome], target: str, text: Text | None) -> list[engine.Unit]:
        """A unit for each range of hashes, as many as make files of a handy size."""
        rows, size = (sum(o.counts[name] for o in outcomes.values()) for name in ("kept", "bytes"))
        ranges = runs.bounds(max(1, -(-rows // _ROWS), -(-size // _BYTES)))
        read = digest_of([len(ranges), sorted(outcomes)])
        return [
            engine.Unit(f"{k:05d}", read, (paths, low, high, store.join(target, f"{k:05d}.parquet"), text))
            for k, (low, high) in enumerate(ranges)
        ]

    def _merge(self, run: Run, units: list[engine.Unit]) -> int:
        """Rows that were written."""
        done = engine.do(run, units, merge_range, replace(self.options, part=(0, 1)), label="merge")
        if done.failed:
            lines = "\n".join(f"  {name}: {failure.message}" for name, failure in done.failed.items())
            raise WorkFailed(f"extract: {len(done.failed)} of {len(units)} merges failed\n{lines}\n  → run again to retry them")
        return done.total.counts["rows"]

    def _keep_only(self, units: list[engine.Unit]) -> None:
        """Removes files of an earlier run with fewer sources that could be read."""
        for file in set(store.list_files(self.output, ".parquet")) - {f"{unit.name}.parquet" for unit in units}:
            store.remove_tree(store.join(self.output, file))

    def _report(self, outcomes: dict[str, Outcome], failed: dict[str, engine.Failed]) -> None:
        lines = []
        for source in self.sources:
            outcome = outcomes.get(source.stem, Outcome())
            problems = [failed[source.stem].message] if source.stem in failed else list(outcome.problems)
            status = "failed" if source.stem in failed else "damaged" if problems else "read"
            line = {"source": source.path, "status": status, "problems": problems, "counts": outcome.counts}
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        store.write_bytes(store.join(self.output, REPORT), "".join(lines).encode())


def extract_file(unit: engine.Unit) -> Outcome:
    """One archive file (`args` = its path, the file of runs to write, what is wanted). Memory is bounded."""
    path, target, wanted = unit.args
    written = Counter[str]()
    with _open(path) as file, store.atomic(target) as out:
        scan = Scan(path, file, wanted)
        runs.write(out, _counted(scan, crawl_of(path), store.name(path), written))
        scan.check()
    outcome = scan.outcome()
    outcome.counts["dropped:duplicate"] = outcome.counts["kept"] - written["rows"]
    outcome.counts["kept"] = written["rows"]
    return outcome + Outcome({"bytes": written["bytes"]})


def _open(path: str) -> IO[bytes]:
    """Raises InputError if there is no such file, or one that may not be read."""
    try:
        return store.open_input(path)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as e:
        raise InputError("no such file" if isinstance(e, FileNotFoundError) else str(e.strerror or e), where=path) from e


def _counted(scan: Scan, crawl: str | None, source_file: str, written: Counter[str]) -> Iterator[pa.Table]:
    for batch in scan.batches():
        run = runs.make(batch, crawl, source_file)
        written.update(rows=len(run), bytes=runs.size(run))
        yield run


def merge_range(unit: engine.Unit) -> Outcome:
    """One range of hashes (`args` = the files of runs, low, high, the file to write, and the text; None writes a run)."""
    paths, low, high, target, text = unit.args
    table = runs.merge(paths, low, high)
    with store.atomic(target) as out:
        if text is None:
            runs.write(out, [table])
        else:
            pq.write_table(candidates(table, text), out, compression="zstd")
    return Outcome({"rows": len(table)})


def candidates(run: pa.Table, text: Text) -> pa.Table:
    """The rows of a run as candidates."""
    columns = {name: run[name] for name in SCHEMA.names if name in run.schema.names}
    columns["uid"] = uids.unpack(uids.from_digests(run["uid"]))
    columns["text"] = _text(run["caption"], run["page_title"], text)
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _text(caption: pa.ChunkedArray, title: pa.ChunkedArray, text: Text) -> pa.ChunkedArray:
    if text == "alt":
        return caption
    title = pc.fill_null(title, "")
    return title if text == "title" else pc.utf8_trim_whitespace(pc.binary_join_element_wise(caption, title, " "))


def _reconciled(counts: dict[str, int], rows: int) -> dict[str, int]:
    """The counts of all files, with the repeats among them."""
    names = {name: n for name, n in counts.items() if name != "bytes"}
    return names | {"kept": rows, "dropped:duplicate": names["dropped:duplicate"] + names["kept"] - rows}


if __name__ == "__main__":
    # The command by its module's name, so that worker processes find the functions that they are sent.
    from pipeline.cli import main
    from pipeline.spark import submitted

    sys.argv[1:1] = ["extract", *(["--engine", "spark"] if submitted() else [])]
    main()
