"""Shards that are done, gone through again: failed requests made anew, placeholders taken out."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.blur import usable
from pipeline.download.shards import records
from pipeline.download.shards.flow import Got, Wanted, in_order, spool_folder
from pipeline.download.shards.records import Members, Row
from pipeline.download.shards.rewrite import rewrite, status_of
from pools.manifest import Outcome, Run
from pools.schema import Reason, Status

# What may go well another time. Not those that object, or whose answer came whole and was no image that is wanted.
_HEALS = frozenset(
    {
        *(Reason.NAME_RESOLUTION, Reason.CONNECTION, Reason.TIMEOUT_CONNECT, Reason.TIMEOUT_TOTAL),
        *(Reason.TOO_MANY_REDIRECTS, Reason.HTTP_STATUS, Reason.EMPTY, Reason.TRUNCATED_IMAGE),
    }
)
_INPUT_HASH = re.compile(r"(input_)+sha256")


def may_heal(policy: Policy) -> frozenset[str]:
    """The reasons for which a url is asked for again."""
    return frozenset(map(str, _HEALS | ({Reason.PRIVATE_ADDRESS} if policy.allow_private else set())))


@dataclass(frozen=True)
class Again:
    """A shard that is done, with those of its rows that are asked for again."""

    status: pa.Table
    rows: list[Row]
    rest: list[Row]
    reasons: frozenset[str]

    @classmethod
    def of(cls, status: pa.Table, reasons: frozenset[str]) -> Again:
        return cls(status, records.rows_of(status), records.rest_of(status).to_pylist(), reasons)

    def wanted(self, blur: bool) -> Iterator[Wanted]:
        # Where the input has a column of the output's name for it too, the longest is what it called sha256.
        hashes = max((n for n in self.status.schema.names if _INPUT_HASH.fullmatch(n)), key=len, default="")
        for row, rest in zip(self.rows, self.rest, strict=True):
            if row["reason"] in self.reasons:
                boxes = rest.get("face_bboxes") if blur else None
                usable(boxes or (), f"face_bboxes of {row['uid']}")
                yield Wanted(row["url"], rest.get(hashes), boxes)

    def change(self, found: Iterator[Got], number: int, row: Row) -> tuple[Row, Members | None] | None:
        if row["reason"] not in self.reasons:
            return None
        got, rest = next(found), self.rest[number]
        new = records.record(row["uid"], row["url"], rest["text"], row["key"], got)
        return new, records.members(new, got, rest)


def retry_shards(
    run: Run,
    pool: str,
    names: Sequence[str],
    get: Callable[[Wanted], Got],
    threads: int,
    reasons: frozenset[str],
    *,
    per_host: int = 8,
    blur: bool = True,
    seen: Callable[[Got | None], None] = lambda got: None,
) -> Generator[tuple[str, Outcome], None, None]:
    """Asks again for the rows of each shard that failed for one of these reasons, and no others."""
    begun: dict[str, Again] = {}

    def shard(name: str) -> Again:
        if name not in begun:
            begun[name] = Again.of(status_of(pool, name), reasons)
        return begun[name]

    wanted = (one for name in names for one in shard(name).wanted(blur))
    folder = spool_folder(run.output)
    with contextlib.closing(in_order(wanted, get, threads, per_host=per_host, seen=seen, folder=folder)) as found:
        for name in names:
            yield name, rewrite(run, pool, name, shard(name).status, functools.partial(shard(name).change, found))
            del begun[name]


def drop_from_shards(run: Run, pool: str, names: Sequence[str], hashes: frozenset[str]) -> Iterator[tuple[str, Outcome]]:
    """Takes the samples with these SHA-256 out of the shards; their rows keep size and hash."""

    def change(number: int, row: Row) -> tuple[Row, Members | None] | None:
        if row["reason"] is not None or row["sha256"] not in hashes:
            return None
        said = "the same bytes are served under many urls"
        failed = {"status": str(Status.FAILED_TO_DOWNLOAD), "reason": str(Reason.PLACEHOLDER), "error_message": said}
        return {**row, **failed, "width": None, "height": None}, None

    listed = pa.array(sorted(hashes), pa.string())
    for name in names:
        status = status_of(pool, name)
        there = pc.and_(pc.is_null(status["reason"]), pc.is_in(status["sha256"], value_set=listed))
        if pc.any(there).as_py():
            yield name, rewrite(run, pool, name, status, change)
