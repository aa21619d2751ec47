"""What concerns all shards of a download: which there are, doing them, and what is written at the end."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from pipeline import engine
from pipeline.download import extend
from pipeline.download.advice import advice, summary
from pipeline.download.settings import DownloadSettings
from pipeline.download.shards import loop, placeholders, work
from pipeline.download.shards.live import Line
from pipeline.download.sources import rows
from pipeline.progress import Progress
from pools import store
from pools.errors import InputError
from pools.manifest import Outcome, Run
from pools.shards import shard_name

STAGE = "download"
VERSION = 2
SUMMARY = "_summary.json"


@dataclass
class Whole:
    """A pool that a download makes or changes; `units` are all its shards, those without `args` are there already."""

    pool: str
    settings: DownloadSettings
    options: engine.Options
    units: list[engine.Unit] = field(default_factory=list)
    so_far: Outcome = field(default_factory=Outcome)  # of what this call did

    def __post_init__(self) -> None:
        self.output = store.join(self.pool, "shards")

    def open(self, candidates: str) -> rows.Source:
        chosen = self.settings
        scratch = store.join(self.pool, ".winnow")
        source = rows.Source.open(candidates, chosen.columns, uids=chosen.uids, scratch=scratch, options=self.options)
        boxes = source.schema.field("face_bboxes").type if "face_bboxes" in source.schema.names else pa.null()
        lists = pa.types.is_list(boxes) or pa.types.is_large_list(boxes)
        if chosen.blur and not pa.types.is_null(boxes) and not (lists and pa.types.is_list(boxes.value_type)):
            raise InputError(f"column 'face_bboxes' is {boxes}", where=candidates, expected="lists of [x0, y0, x1, y1]")
        return source

    def inputs(self, source: rows.Source) -> tuple[str, ...]:
        """Digests of all that was named."""
        if not self.settings.archives:
            return source.inputs
        from pipeline.download.sources.archives import digests

        return (*source.inputs, *digests(self.settings.archives))

    def add(self, source: rows.Source, first: int) -> None:
        for number, spans in enumerate(source.shards(self.settings.shard_size), first):
            unit = engine.Unit(shard_name(number), " ".join(f"{s.start}-{s.stop}" for s in spans), (spans, source.schema))
            self.units.append(unit)

    def add_generation(self, number: int, generation: extend.Generation) -> None:
        if generation.shards:
            self.add(rows.Source.open(extend.rows_file(self.output, number)), generation.first)

    def add_all(self, number: int) -> None:
        """The shards that are there already."""
        self.units += [engine.Unit(shard_name(i), "") for i in range(number)]

    def do(self, run: Run) -> bool:
        """Does what has no mark, of this call's part; whether all is done then."""
        marked = {u.name for u in self.units if u.args and run.done(u.name, u.inputs) is not None}
        mine = self.units[self.options.part[0] :: self.options.part[1]]
        todo = [u for u in mine if u.args and u.name not in marked]
        if marked and todo:
            self.note(f"{len(marked)} of {len(self.units)} shards done before, {len(todo)} to do")
        left = sum(span.stop - span.start for unit in todo for span in unit.args[0])
        with Line("download", left, quiet=self.options.quiet) as line:
            do = functools.partial(work.download, run=run, pool=self.pool, settings=self.settings, live=line.folder)
            done = loop.do(todo, do, self.options, line, lambda unit: run.done(unit.name, unit.inputs))
        self.so_far = _in_order(sum((done[name] for name in sorted(done)), Outcome()))
        marked |= {unit.name for unit in mine}
        return all(run.done(u.name, u.inputs) is not None for u in self.units if u.args and u.name not in marked)

    def finish(self, run: Run, found: Outcome, digest: str) -> Outcome:
        """What is over all shards; the manifest last."""
        names = [unit.name for unit in self.units]
        suspects = placeholders.write_report(self.pool, names, self.settings.placeholder_urls)
        marks = [mark(run, name) for name in names]
        dropped = self.settings.drop_placeholders or any(m.counts.get("dropped:placeholder") for m in marks)
        if self.settings.drop_placeholders and len(suspects):
            with Line("placeholders", len(names), quiet=True) as line:
                do = functools.partial(work.drop, run=run, pool=self.pool)
                loop.do(self.units, do, self.options, line, lambda unit: None)
            marks = [mark(run, name) for name in names]
        total = _in_order(sum(marks, Outcome()) + found)
        if len(suspects):
            total.counts["placeholders"] = len(suspects)
        total.check()
        store.write_json(store.join(self.output, SUMMARY), summary(total.counts))
        run.finish(
            total,
            units=digest,
            shards=len(names),
            generations=[g.told() for g in extend.generations(self.output)],
            source=asdict(found),
            placeholders={
                "least_urls": self.settings.placeholder_urls,
                "dropped": dropped,
                "hashes": len(suspects),
                "rows": sum(of["rows"] for of in suspects),
            },
        )
        store.remove_tree(before(self.output))
        store.remove_tree(store.join(self.output, ".winnow", "changes"))  # which is empty
        if len(suspects) and not dropped:
            self.note(
                f"{len(suspects):,} pictures came from {self.settings.placeholder_urls} urls or more each, as placeholders do\n"
                f"  → they are listed in {store.join(self.output, placeholders.REPORT)}; --drop-placeholders takes them out"
            )
        for sentence in advice(total.counts):
            self.note(sentence)
        return total

    def note(self, text: str) -> None:
        Progress.note(f"{STAGE}: {text}", quiet=self.options.quiet)


def before(output: str) -> str:
    """Where the manifest of a run lies while the run changes."""
    return store.join(output, ".winnow", "manifest-before.json")


def mark(run: Run, name: str) -> Outcome:
    return told(store.read_json(store.join(run.output, ".winnow", "done", name + ".json")))


def told(mark: dict[str, Any]) -> Outcome:
    return Outcome(mark["counts"], tuple(mark["problems"]))


def _in_order(outcome: Outcome) -> Outcome:
    """Counts in an order that does not depend on which shard had which; what several workers found damaged once."""
    counts = Counter(outcome.counts)
    first = {name: counts[name] for name in ("in", "kept")}
    return Outcome(
        first | {name: counts[name] for name in sorted(counts.keys() - first.keys())}, tuple(dict.fromkeys(outcome.problems))
    )
