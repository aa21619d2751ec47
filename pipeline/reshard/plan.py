"""From a list and shards to one table for each new shard, which says where every sample of it comes from.

The plan goes through temporary files: in memory are a bit for each entry of the list, and what one shard holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine import Engine, Failed, Unit
from pipeline.reshard.layout import lay_out
from pipeline.reshard.locate import FOUND, Found, Locate, Located
from pipeline.reshard.settings import Settings
from pipeline.reshard.spool import Records, Spool
from pipeline.reshard.tables import Table
from pools import shard_index, shards, store, uids
from pools.errors import InputError, WorkFailed
from pools.uids import Uids
from pools.wanted import Indices, Summary, Taken, Wanted

if TYPE_CHECKING:
    from pipeline.reshard.sides import Side

LISTED = 20  # of a kind of trouble that the summary names; files have all of it


@dataclass
class Plan:
    """What is to be written, and what cannot be."""

    units: list[tuple[str, str, int]] = field(default_factory=list)  # name, digest of its table, weight in bytes
    counts: dict[str, int] = field(default_factory=dict)  # of entries: in, planned, dropped:…; and for information
    damaged: list[str] = field(default_factory=list)  # shards that could not be read to their end
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def path(output: str, *parts: str) -> str:
        return store.join(output, ".winnow", "plan", *parts)

    @classmethod
    def load(cls, output: str) -> Plan | None:
        """The plan that an earlier call of the same run has made."""
        path = cls.path(output, "plan.json")
        if not store.exists(path):
            return None
        plan = cls(**store.read_json(path))
        plan.units = [(name, digest, weight) for name, digest, weight in plan.units]
        return plan

    def save(self, output: str) -> None:
        store.write_json(self.path(output, "plan.json"), asdict(self))

    def todo(self, output: str) -> list[Unit]:
        return [Unit(n, d, (self.path(output, n + ".table"), store.join(output, n + ".tar"))) for n, d, _ in self.units]


def locate_all(work: Locate, sources: Sequence[str], engine: Engine) -> tuple[Spool, list[Located]]:
    """What each shard has of the list, the records in temporary files. Raises InputError naming shards that cannot be read."""
    spool = Spool(FOUND)
    seen: dict[int, Located] = {}
    wrong: list[InputError] = []
    with contextlib.closing(engine.map(work, sources)) as results:
        for i, located in results:
            if isinstance(located, Failed):
                if located.input_error is None or len(wrong) == LISTED:
                    raise located.input_error or WorkFailed(located.message)
                wrong.append(located.input_error)
                continue
            spool.put(i, located.found)
            seen[i] = Located(located.header, np.empty(0, FOUND), located.twins)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise InputError("\n  ".join([f"{len(wrong)} shards cannot be used", *map(str, wrong)]), where=work.root)
    return spool, [seen[i] for i in range(len(sources))]


def make_plan(
    wanted: Wanted, summary: Summary, sources: Sequence[str], output: str, work: Locate, settings: Settings, engine: Engine
) -> Plan:
    """Writes the tables of the plan, `missing.npy`, `no_boxes.npy` and, where there is something to tell, `_problems.jsonl`."""
    spool, located = locate_all(work, sources, engine)
    headers = [one.header for one in located]
    shard_index.check_any(headers, work.root)
    beside = _Beside.read(settings, wanted)
    chooser = _Chooser(Taken(len(wanted)), beside.boxes if settings.blur else None)
    chosen = Spool(FOUND)
    for source, found in spool:
        chosen.put(source, chooser(found))
    plan = Plan(damaged=[f"{s}: {h.damage}" for s, h in zip(sources, headers, strict=True) if h.damage])
    for records in lay_out(chosen, chooser.entries, chooser.size, settings):
        name = shards.shard_name(len(plan.units))
        table, weight = beside.table(records, sources, settings)
        written = table.packed()
        store.write_bytes(Plan.path(output, name + ".table"), written)
        plan.units.append((name, hashlib.sha256(written).hexdigest(), weight))
    missing = chooser.write_lists(wanted, output)
    plan.counts = {
        "in": len(wanted),
        "planned": chooser.entries,
        "dropped:missing": missing,
        **({"dropped:no_boxes": chooser.unanswered} if settings.blur else {}),
        "repeats": len(wanted) - summary.distinct,
        "twins": chooser.twins + sum(one.twins for one in located),
        "samples": sum(h.samples for h in headers),
        "nameless": sum(h.nameless_count for h in headers),
    }
    plan.notes = _write_problems(output, sources, headers)
    plan.save(output)
    return plan


@dataclass
class _Chooser:
    """Of each shard, in order, the samples that are wanted and stood in no earlier one."""

    taken: Taken
    boxes: Side | None  # without which nothing is written
    entries: int = 0
    size: int = 0  # bytes of all entries
    twins: int = 0  # samples that an earlier shard has too
    unanswered: int = 0  # entries of samples that nobody has looked at for faces

    def __call__(self, found: Found) -> Found:
        heads = found["part"] == 0
        sample = np.cumsum(heads) - 1
        first = self.taken.take(found["position"][heads])
        self.twins += int((~first).sum())
        keep = first[sample]
        if self.boxes is not None:
            answered = self.boxes.has(found["position"])
            self.unanswered += int(found["copies"][keep & ~answered & heads].sum())
            keep = keep & answered
        chosen: Found = found[keep]
        self.entries += int(chosen["copies"][chosen["part"] == 0].sum())
        self.size += int((chosen["copies"] * chosen["length"]).sum())
        return chosen

    def write_lists(self, wanted: Wanted, output: str) -> int:
        """The number of entries that are in no shard, whose uids become `missing.npy`, and what is planned to be written."""
        lost = Counter({"entries": 0, "last": 0})

        def missing() -> Iterator[Uids]:
            for piece, places, there in self._judged(wanted):
                lost["entries"] += int((~there).sum())
                fresh = np.ones(len(piece), bool)
                fresh[1:] = places[1:] != places[:-1]
                fresh[0] = not lost["last"] or lost["last"] != int(places[0]) + 1
                lost["last"] = int(places[-1]) + 1
                yield piece[~there & fresh]

        uids.write_stream(store.join(output, "missing.npy"), missing(), kind="remove")
        if self.unanswered:
            pieces = (piece[there & ~self._answered(places)] for piece, places, there in self._judged(wanted))
            uids.write_stream(store.join(output, "no_boxes.npy"), pieces, kind="remove")
        written = (piece[there & self._answered(places)] for piece, places, there in self._judged(wanted))
        uids.write_stream(Plan.path(output, "sample_ids.npy"), written)
        return lost["entries"]

    def _judged(self, wanted: Wanted) -> Iterator[tuple[Uids, Indices, NDArray[np.bool_]]]:
        """The list in pieces: uids, where each begins in the list, whether it is in some shard."""
        return ((piece, places, self.taken.has(places)) for piece, places in wanted.places())

    def _answered(self, places: Indices) -> NDArray[np.bool_]:
        return np.ones(len(places), bool) if self.boxes is None else self.boxes.has(places)


@dataclass(frozen=True)
class _Beside:
    """Captions and boxes for the entries of the list, if there are any."""

    captions: Side | None
    boxes: Side | None

    @classmethod
    def read(cls, settings: Settings, wanted: Wanted) -> _Beside:
        if not (settings.captions or settings.boxes):
            return cls(None, None)
        from pipeline.reshard import sides  # with all of pyarrow, which takes half of the time of a small run

        return cls(
            sides.captions(settings.captions, wanted) if settings.captions else None,
            sides.boxes(settings.boxes, wanted) if settings.boxes else None,
        )

    def table(self, records: Records, sources: Sequence[str], settings: Settings) -> tuple[Table, int]:
        """The table of a new shard, and its weight: bytes to copy, and for a picture to blur as many as take as long."""
        weight = int(records["length"].sum())
        beside: dict[str, Any] = {}
        if self.captions is not None:
            beside["captions"] = self.captions.get(records["position"])
        if self.boxes is not None:
            beside["boxes"] = self.boxes.get(records["position"])
            if settings.blur:
                weight += sum(map(bool, beside["boxes"])) * (8 << 20 if settings.format == "jpg" else 40 << 20)
        return Table.of(records, sources, **beside), weight


def _write_problems(output: str, sources: Sequence[str], headers: Sequence[shard_index.Header]) -> list[str]:
    """A line of JSON for whatever in the shards is no whole sample with a uid; the first of them in words."""
    lines: list[dict[str, str]] = []
    for source, header in zip(sources, headers, strict=True):
        more = header.nameless_count - len(header.nameless)
        said = [*header.nameless, *([f"and {more} more samples without a uid"] if more else [])]
        lines += [{"shard": source, "kind": "nameless", "what": text} for text in said]
        lines += [{"shard": source, "kind": "note", "what": text} for text in header.notes]
        lines += [{"shard": source, "kind": "damage", "what": header.damage}] if header.damage else []
    if lines:
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        store.write_bytes(store.join(output, "_problems.jsonl"), text.encode("utf-8", "replace"))
    told = [f"{line['shard']}: {line['what']}" for line in lines if line["kind"] != "damage"]
    return told[:LISTED] + ([f"… and {len(told) - LISTED} more in _problems.jsonl"] if len(told) > LISTED else [])
