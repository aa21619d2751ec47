"""Batches of exact sizes, and the account of what became of every sample.

A batch may end one pass over the data and begin the next; samples that cannot be used are counted and replaced by those
that follow.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from baselines.train.captions import Captions
from baselines.train.data import Survey, survey
from baselines.train.decode import CHUNK, Chunk, Decoder, decoded
from baselines.train.order import Order, Sampling
from baselines.train.reading import Plan, Samples
from pools import uids
from pools.errors import InputError, WorkFailed

SMALL = 500  # below so many samples a share of failures says little before the pass is over
TOLD = 20  # failures of which it is kept what they were


@dataclass(frozen=True)
class Batch:
    """`images` are bytes if the decoder leaves them so, else floats."""

    images: Tensor  # [n, 3, H, W]
    tokens: Tensor  # [n, context length]
    uids: list[str]


@dataclass(frozen=True)
class FeedState:
    """Where a rank's feed stands between two batches, in plain values: `asdict` makes what JSON and PyTorch can hold."""

    slot: int  # the next one
    world: int = 1
    kept: int = 0
    unique: int = 0
    rounds: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


class Feed:
    """Batches of exact sizes out of chunks, and the account of what became of every sample.

    kept, unique: samples given out, and how many of them for the first time in the training; rounds: passes that are over
    (with replacement: groups of shards). Over several ranks kept, unique and failed are the sums.
    """

    def __init__(self, chunks: Iterator[Chunk], plan: Plan, max_failed: float, start: FeedState, *, pin: bool = False) -> None:
        self.chunks, self.max_failed, self.pin = chunks, max_failed, pin
        self.kept, self.unique, self.rounds = start.kept, start.unique, start.rounds
        self.failed, self.reasons = Counter(start.failed), dict(start.reasons)
        self.problems = plan.problems  # shard → its damage
        self.problems.update(start.problems)
        self._slot, self._step = start.slot, plan.step
        self._enough = min(plan.order.length, SMALL)
        self._chunk, self._at, self._good = Chunk((), torch.empty(0), torch.empty(0)), 0, 0

    def take(self, n: int) -> Batch:
        """The next n samples of this rank: its part of a batch over all ranks.

        A sample that cannot be used is replaced by the rank's next one. Raises WorkFailed when more samples than allowed
        cannot be used.
        """
        images: list[Tensor] = []
        tokens: list[Tensor] = []
        names: list[str] = []
        while len(names) < n:
            if self._at == len(self._chunk.items):
                self._chunk, self._at, self._good = next(self.chunks), 0, 0
            begin = self._good
            self._walk(names, n)
            images.append(self._chunk.images[begin : self._good])
            tokens.append(self._chunk.targets[begin : self._good])
        self.kept += n
        return Batch(self._join(images), self._join(tokens), names)

    def _walk(self, names: list[str], n: int) -> None:
        """Goes on within the chunk until n samples are together."""
        items = self._chunk.items
        while self._at < len(items) and len(names) < n:
            item = items[self._at]
            self._at += 1
            self._slot = item.slot + self._step
            if item.round > self.rounds:
                self.rounds = item.round
                if self.failed.total() + self.kept + len(names) >= self._enough:
                    self._check(self.kept + len(names), final=True)
            if item.failed:
                self._fail(item.failed, item.uid, item.detail, self.kept + len(names))
            else:
                self._good += 1
                self.unique += item.first
                names.append(item.uid)

    def state(self) -> FeedState:
        """From which `open_feed` goes on with the very next sample. To be taken between two batches."""
        counts = (self._slot, self._step, self.kept, self.unique, self.rounds)
        return FeedState(*counts, dict(self.failed), dict(self.reasons), dict(self.problems))

    def close(self) -> None:
        """Ends the processes or the thread that decode."""
        close = getattr(self.chunks, "close", None)
        if close:
            close()

    def _join(self, parts: list[Tensor]) -> Tensor:
        parts = [p for p in parts if len(p)]
        if not self.pin:
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        first, n = parts[0], sum(map(len, parts))
        layout = torch.channels_last if first.dim() == 4 and first.stride(1) == 1 else torch.contiguous_format
        joined = torch.empty((n, *first.shape[1:]), dtype=first.dtype, pin_memory=True, memory_format=layout)
        torch.cat(parts, out=joined)  # copied once, not into pinned memory anew
        return joined

    def _fail(self, why: str, uid: str, detail: str, good: int) -> None:
        self.failed[why] += 1
        if len(self.reasons) < TOLD:
            self.reasons.setdefault(uid, detail or why)
        self._check(good, final=False)

    def _check(self, good: int, *, final: bool) -> None:
        failed = self.failed.total()
        tried = failed + good
        if final and not good:
            raise WorkFailed(f"no sample can be used: {self._failures()}")
        if failed > self.max_failed * (tried if final else max(tried, SMALL)):
            raise WorkFailed(
                f"{failed} of {tried} samples cannot be used, more than the {self.max_failed:.0%} allowed: {self._failures()}\n"
                "  → clean the data, or allow more with --max-failed"
            )

    def _failures(self) -> str:
        counts = ", ".join(f"{why} {n}" for why, n in sorted(self.failed.items()))
        return counts + "".join(f"\n  {uid}: {why}" for uid, why in list(self.reasons.items())[:5])


def open_feed(
    found: Survey,
    listed: uids.Uids | None = None,
    *,
    seed: int,
    decoder: Decoder,
    workers: int,
    max_failed: float,
    sampling: Sampling = "passes",
    rank: int = 0,
    world: int = 1,
    start: FeedState | None = None,
    captions: Captions = "alt",
    ahead: int = 0,
    pin: bool = False,
) -> Feed:
    """The feed of one of `world` ranks, from its first sample on or from where `start` says.

    If the ranks take a batch in equal parts (the first ones one more, of a last batch that does not divide), then together
    they take what a single process would, unless samples fail. `ahead` samples or more are decoded while the model
    computes: by the workers; without any by a thread, where the decoder allows it. `pin`: batches lie in pinned memory.
    """
    if start is not None and start.world != world:
        raise InputError(f"the run was begun by {start.world} processes, here are {world}", expected="the same number")
    if listed is not None and all(s.picks is None for s in found.shards):
        found = survey({s.path: s.weight for s in found.shards}, listed=listed, captions=captions)
    start = start or FeedState(rank, world)
    plan = Plan(found, Order(found.shards, seed, sampling), start.slot, world)
    samples = Samples(decoder, captions, need_uid=listed is not None, seed=seed)
    chunks = decoded(plan, samples, workers, ahead=ahead)
    if ahead and not workers and decoder.by_itself:
        chunks = beside(chunks, -(-ahead // CHUNK))
    return Feed(chunks, plan, max_failed, start, pin=pin)


def beside(chunks: Iterator[Chunk], depth: int) -> Iterator[Chunk]:
    """The same chunks, up to `depth` of them made ahead by a thread; what goes wrong there is raised here."""
    made: queue.Queue[Chunk | BaseException] = queue.Queue(depth)
    over = threading.Event()

    def put(what: Chunk | BaseException) -> None:
        while not over.is_set():
            try:
                made.put(what, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            while not over.is_set():
                put(next(chunks))
        except BaseException as e:
            put(e)

    thread = threading.Thread(target=work, name="feed", daemon=True)
    thread.start()
    try:
        while True:
            found = made.get()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        over.set()
        thread.join()
