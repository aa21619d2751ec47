"""What a download is asked to do, and which of it the result depends on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import ImageRules
from pipeline.download.sources.columns import Columns
from pools.errors import InputError

Verify = Literal["off", "warn", "drop"]
# Of a policy, what says how patiently, how fast or by which way the urls are asked for: it changes no result.
_HOW = frozenset(("deadline", "connect_timeout", "retries", "retry_wait", "per_host", "host_wait", "proxy", "allow_private"))


@dataclass(frozen=True, kw_only=True)
class DownloadSettings:
    """What is downloaded and how. Threads are those of one worker process."""

    shard_size: int = 10_000  # rows of the input
    threads: int = 32
    policy: Policy = field(default_factory=Policy)
    images: ImageRules = field(default_factory=ImageRules)
    columns: Columns = field(default_factory=Columns)  # of the input
    uids: str | None = None  # a uid list: only its rows are downloaded
    archives: tuple[str, ...] = ()  # web archives that the bytes are taken from, in place of the network
    verify: Verify = "warn"  # bytes of another SHA-256 than the input states: kept and flagged, or dropped
    blur: bool = True  # boxes that the input has (`face_bboxes`) are blurred
    placeholder_urls: int = 4  # the same bytes under so many urls are reported as a suspected placeholder
    drop_placeholders: bool = False  # whether those are taken out of the shards
    retry_failed: bool = False  # ask again for what failed, in a run that is done
    extend: bool = False  # add rows of new uids to a run that is done
    max_failed: float | None = 0.95  # share of failures at which a process stops the run; None: never
    max_failed_rows: int = 1000  # rows in a row, as they come in, over which that share is taken

    def __post_init__(self) -> None:
        if self.shard_size < 1 or self.threads < 1:
            raise InputError("shard size and threads must be at least 1")
        if self.verify not in get_args(Verify):
            raise InputError(repr(self.verify), where="--verify", expected=", ".join(get_args(Verify)))
        if self.placeholder_urls < 2 or self.max_failed_rows < 1 or not 0 < (self.max_failed or 1) <= 1:
            raise InputError(
                "an option of the download is out of range",
                where="placeholder_urls, max_failed, max_failed_rows",
                expected="at least 2 urls, a share above 0 and up to 1, at least 1 row",
            )
        if self.retry_failed and self.extend:
            raise InputError("both are given", where="--retry-failed, --extend", expected="one of the two")

    def identity(self) -> dict[str, Any]:
        """What the result depends on: not how fast, how patiently or by which way the urls are asked."""
        return {
            "shard_size": self.shard_size,
            **self.stored(),
            **{name: value for name, value in asdict(self.policy).items() if name not in _HOW},
            "verify": self.verify,
        }

    def stored(self) -> dict[str, Any]:
        """What the form of a stored image depends on."""
        form: dict[str, Any] = json.loads(json.dumps(asdict(self.images)))
        return {**form, "blur": self.blur}
