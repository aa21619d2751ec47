"""How a download went: per shard and over all, what was fetched, what failed and why."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.report import domains, figures, words
from pipeline.report.page import Page, Part, Section, Table, Text
from pools import store
from pools.errors import InputError
from pools.manifest import MANIFEST
from pools.schema import Reason, Status

STATS = "_stats.json"
_WORST = 20
_HOSTS = 200_000  # domains that failures are counted for; of more, the rarest are forgotten
_ROWS = 1 << 15


@dataclass(frozen=True)
class Shard:
    """What a shard's statistics say: rows, and how many of them came to which end."""

    name: str
    rows: int
    kept: int
    failed_to_download: int
    failed_to_resize: int


@dataclass
class Failures:
    """Of the status files: rows by reason, of `HTTP …` and the like by message, and by registered domain."""

    reasons: Counter[str]
    messages: Counter[str]
    asked: Counter[str]
    failed: Counter[str]


def download_page(folder: str) -> Page:
    """Of the folder with the shards, ours or img2dataset's, finished or not. Raises InputError if it holds no statistics."""
    shards = read_shards(folder)
    if not shards:
        raise InputError("no statistics of shards", where=folder, expected=f"<shard>{STATS}, as downloads leave them")
    failures = read_failures(folder)
    rows, kept = sum(s.rows for s in shards), sum(s.kept for s in shards)
    lead = f"{kept:,} of {rows:,} rows have an image ({words.said(kept, rows)}), in {len(shards):,} shards."
    parts = [
        Section("outcome", "What came of the rows", tuple(_outcome(folder, shards))),
        Section("shards", "Success of each shard", tuple(_by_shard(shards))),
        Section("reasons", "Why rows failed", tuple(_reasons(failures))),
        Section("hosts", "Where rows failed", tuple(_by_domain(failures))),
    ]
    return Page("download", f"Download: {store.name(folder)}", lead, [s for s in parts if s.parts])


def read_shards(folder: str) -> list[Shard]:
    """In the order of their names."""
    found = []
    for file in sorted(f for f in store.list_files(folder) if f.endswith(STATS) and "/." not in f and not f.startswith(".")):
        said = store.read_json(store.join(folder, file))
        try:
            counts = [int(said[k]) for k in ("count", "successes", "failed_to_download", "failed_to_resize")]
        except (KeyError, TypeError, ValueError) as e:
            where = store.join(folder, file)
            raise InputError(f"not a shard's statistics: {e!r}", where=where, expected="count, successes, failed_to_…") from e
        found.append(Shard(file.removesuffix(STATS), *counts))
    return found


def read_failures(folder: str) -> Failures:
    """From the parquet files that have a `status`, in batches."""
    found = Failures(Counter(), Counter(), Counter(), Counter())
    for file in sorted(f for f in store.list_files(folder, ".parquet") if not f.startswith((".", "_"))):
        with contextlib.ExitStack() as files:
            opened: Any = files.enter_context(store.open_input(store.join(folder, file)))
            table = pq.ParquetFile(opened)
            there = set(table.schema_arrow.names)
            if "status" not in there:
                continue
            wanted = [n for n in ("status", "reason", "error_message", "url") if n in there]
            for batch in table.iter_batches(_ROWS, columns=wanted, use_threads=False):
                _add(batch, found)
    return found


def _add(batch: pa.RecordBatch, found: Failures) -> None:
    failed = pc.fill_null(pc.not_equal(batch["status"], Status.SUCCESS.value), True)
    gone = batch.filter(failed)
    names = gone.schema.names
    # img2dataset says in its message alone why a row failed.
    why = gone["reason"] if "reason" in names else gone["error_message"] if "error_message" in names else gone["status"]
    found.reasons.update("not said" if r is None else words.cut(r) for r in domains.texts(why.cast(pa.string())))
    if "reason" in names and "error_message" in names:
        of_status = gone.filter(pc.fill_null(pc.equal(gone["reason"], Reason.HTTP_STATUS.value), False))
        found.messages.update(words.cut(m) for m in domains.texts(of_status["error_message"].cast(pa.string())) if m)
    if "url" in batch.schema.names:
        for values, counts in ((batch["url"], found.asked), (gone["url"], found.failed)):
            places, authorities = domains.encode(values)
            named = [domains.registered(a)[0] for a in authorities]
            counts.update(named[p] for p in places.tolist())
        if len(found.asked) > 2 * _HOSTS:
            found.asked = Counter(dict(found.asked.most_common(_HOSTS)))
            found.failed = Counter({name: n for name, n in found.failed.items() if name in found.asked})


def _outcome(folder: str, shards: list[Shard]) -> Iterator[Part]:
    rows = sum(s.rows for s in shards)
    ends = {
        "an image": sum(s.kept for s in shards),
        "failed to download": sum(s.failed_to_download for s in shards),
        "failed to resize (no image, or refused)": sum(s.failed_to_resize for s in shards),
    }
    table = Table(
        "Rows by what came of them",
        ("", "rows", "share, %"),
        [("all", rows, 100.0 if rows else None), *((name, n, words.percent(n, rows)) for name, n in ends.items())],
    )
    yield table
    path = store.join(folder, MANIFEST)
    if not store.exists(path):
        yield Text(("The download has not ended: shards that are there are counted, others are not.",))
        return
    counts = store.read_json(path).get("counts", {})
    if (said := counts.get("in")) is not None and said != rows:
        yield Text((f"The manifest counts {said:,} rows in, the shards {rows:,}: some of the source came to no shard.",))
    if counts.get("placeholders"):
        yield Text((f"{counts['placeholders']:,} pictures came from several urls each, as placeholders do.",))


def _by_shard(shards: list[Shard]) -> Iterator[Part]:
    rates = [100 * s.kept / s.rows if s.rows else 0.0 for s in shards]
    low, high, mean = min(rates), max(rates), 100 * sum(s.kept for s in shards) / max(1, sum(s.rows for s in shards))
    worst = sorted(range(len(shards)), key=lambda i: (rates[i], shards[i].name))[:_WORST]
    head = ("shard", "rows", "with an image", "failed to download", "failed to resize", "success, %")

    def row(i: int) -> tuple[str | int | float, ...]:
        s = shards[i]
        return (s.name, s.rows, s.kept, s.failed_to_download, s.failed_to_resize, round(rates[i], 3))

    few = len(shards) <= 2 * _WORST
    chosen = list(range(len(shards))) if few else worst
    caption = "Success of each shard" if few else f"The {_WORST} shards with the least success, of {len(shards):,}"
    table = Table(caption, head, [row(i) for i in chosen], frozenset(n for n, i in enumerate(chosen) if rates[i] < mean / 2))
    alt = (
        f"Success over {len(shards):,} shards in their order: {mean:.1f} % on average, from {low:.1f} % "
        f"({shards[rates.index(low)].name}) to {high:.1f} % ({shards[rates.index(high)].name})."
    )
    series = [("success", [float(i) for i in range(len(shards))], rates)]
    yield figures.curves("download-shards", "Success of each shard", alt, table, series, x="shard", y="rows with an image, %")


def _reasons(failures: Failures) -> Iterator[Part]:
    for name, title, counts in (
        ("reasons", "Rows that failed, by reason", failures.reasons),
        ("messages", "Answers of servers that refused", failures.messages),
    ):
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:30]
        total = counts.total()
        if ranked:
            table = Table(title, ("", "rows", "of these, %"), [(why, n, words.percent(n, total)) for why, n in ranked])
            alt = f"{title}: " + ", ".join(f"{why} {n:,} ({words.said(n, total)})" for why, n in ranked[:6]) + "."
            values = [("rows", [float(n) for _, n in ranked])]
            yield figures.bars(f"download-{name}", title, alt, table, [why for why, _ in ranked], values, label="rows")


def _by_domain(failures: Failures) -> Iterator[Table]:
    ranked = sorted(failures.failed.items(), key=lambda item: (-item[1], item[0]))[:30]
    rows = [(name or "(no address)", failures.asked[name], n, words.percent(n, failures.asked[name])) for name, n in ranked]
    if rows:
        yield Table("Registered domains with the most failed rows", ("domain", "rows", "failed", "failed, %"), rows)
