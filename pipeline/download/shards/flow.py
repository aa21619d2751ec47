"""Urls to what becomes of them: fetched and prepared by threads, handed on in the order in which they were named.

Memory of a process, at most: `Policy.max_bytes` for each thread, HELD_BYTES of finished images, DECODERS decoded ones (the
pixels that `ImageRules.max_pixels` allows, some copies of them), and the rows of the shards under way, mostly two.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import IO, Any

from pipeline.download.fetching.fetch import Fetched, FetchFailed
from pipeline.download.fetching.turns import Turns
from pipeline.download.images.prepare import ImageRules, Prepared, Reject, prepare
from pipeline.download.settings import Verify
from pools import store
from pools.errors import DiskFull
from pools.schema import Reason, Status

HELD_BYTES = 1 << 26  # of finished images that wait in memory for an earlier row; more wait in a file
DECODERS = 2  # images of one process that are decoded at once, whatever the number of threads
Fetch = Callable[[str], Fetched | FetchFailed]


@dataclass(frozen=True)
class Wanted:
    """One row's request: its url, the SHA-256 that its bytes should have, and the boxes to blur."""

    url: str | None
    sha256: str | None = None
    boxes: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Got:
    """What became of one url: an image, or a reason. `size`: bytes as served, of which `sha256` is."""

    image: Prepared | None
    status: Status = Status.SUCCESS
    reason: Reason | None = None
    message: str | None = None
    size: int = 0
    sha256: str | None = None
    sha256_expected: bool | None = None
    final_url: str | None = None
    original_width: int | None = None
    original_height: int | None = None
    frames: int | None = None


class Getter:
    """Fetches, checks and prepares; threads share it. Memory: a body for each thread, and DECODERS decoded images."""

    def __init__(self, fetch: Fetch, rules: ImageRules, verify: Verify) -> None:
        self._fetch, self._rules, self._verify = fetch, rules, verify
        self._free: SimpleQueue[None] = SimpleQueue()  # a token for each image that may be decoded: cheaper than a semaphore
        for _ in range(DECODERS):
            self._free.put(None)

    def __call__(self, wanted: Wanted) -> Got:
        if not wanted.url:
            return Got(None, Status.FAILED_TO_DOWNLOAD, Reason.BAD_URL, "no url")
        fetched = self._fetch(wanted.url)
        if isinstance(fetched, FetchFailed):
            return Got(None, Status.FAILED_TO_DOWNLOAD, fetched.reason, fetched.message, final_url=fetched.final_url)
        sha256 = hashlib.sha256(fetched.body).hexdigest()
        expected = None if not wanted.sha256 or self._verify == "off" else sha256 == wanted.sha256.strip().lower()
        served: dict[str, Any] = {
            "size": len(fetched.body),
            "sha256": sha256,
            "sha256_expected": expected,
            "final_url": fetched.final_url,
        }
        if expected is False and self._verify == "drop":
            said = f"the bytes have SHA-256 {sha256}"
            return Got(None, Status.FAILED_TO_DOWNLOAD, Reason.HASH_MISMATCH, said, **served)
        self._free.get()
        try:
            image = prepare(fetched.body, self._rules, wanted.boxes)
        finally:
            self._free.put(None)
        served |= {"original_width": image.original_width, "original_height": image.original_height, "frames": image.frames}
        if isinstance(image, Reject):
            return Got(None, Status.FAILED_TO_RESIZE, image.reason, image.message, **served)
        return Got(image, **served)


def in_order(
    wanted: Iterable[Wanted],
    get: Callable[[Wanted], Got],
    threads: int,
    *,
    per_host: int = 8,
    seen: Callable[[Got | None], None] = lambda got: None,
    folder: str | None = None,
) -> Generator[Got, None, None]:
    """What became of each request, in the order given, while up to 2 · threads of them are under way.

    Images that are ready wait for earlier rows in their stored form: HELD_BYTES of them in memory, more in a file without
    a name in `folder`. So a slow server stops no other, however many rows lie between. `seen` is told of each as it comes
    in, and of None at least once a second; what it raises ends the work.
    """
    turns = Turns(wanted, lambda request: request.url, per_host)
    with ThreadPoolExecutor(threads) as workers, _Waiting(folder) as ready:
        numbers: dict[Future[Got], int] = {}
        finished: SimpleQueue[Future[Got]] = SimpleQueue()
        index = 0
        try:
            while True:
                while index not in ready:
                    while len(numbers) < 2 * threads and (turn := turns.next()) is not None:
                        number, request = turn
                        future = workers.submit(get, request)
                        numbers[future] = number
                        future.add_done_callback(finished.put)
                    if not numbers:
                        return
                    try:
                        future = finished.get(timeout=1)
                    except Empty:
                        seen(None)
                        continue
                    got = future.result()
                    seen(got)
                    number = numbers.pop(future)
                    turns.done(number)
                    ready.put(number, got)
                yield ready.take(index)
                index += 1
        finally:
            workers.shutdown(wait=False, cancel_futures=True)


class _Waiting:
    """Results by number that wait for their turn; images beyond HELD_BYTES lie in a temporary file."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._here: dict[int, Got] = {}
        self._there: dict[int, tuple[int, int]] = {}  # number → offset and size in the file
        self._held = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> _Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __contains__(self, number: int) -> bool:
        return number in self._here

    def put(self, number: int, got: Got) -> None:
        if (image := got.image) is not None:
            if self._held + len(image.data) > HELD_BYTES:
                got = replace(got, image=self._spill(number, image))
            else:
                self._held += len(image.data)
        self._here[number] = got

    def take(self, number: int) -> Got:
        got = self._here.pop(number)
        if got.image is None:
            return got
        if (place := self._there.pop(number, None)) is None:
            self._held -= len(got.image.data)
            return got
        assert self._file is not None
        self._file.seek(place[0])
        data = self._file.read(place[1])
        if not self._there:
            self._file.truncate(0)
        return replace(got, image=replace(got.image, data=data))

    def _spill(self, number: int, image: Prepared) -> Prepared:
        """The image without its bytes, which go to the file's end."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
            offset = self._file.seek(0, os.SEEK_END)
            self._file.write(image.data)
        except OSError as e:
            if e.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            where = self._folder or tempfile.gettempdir()
            raise DiskFull(f"{where}: {e.strerror}, for images that wait for slower ones") from e
        self._there[number] = (offset, len(image.data))
        return replace(image, data=b"")


def spool_folder(folder: str) -> str | None:
    """Where images may wait: beside the shards if those are local, else where temporary files go."""
    return store.local_path(folder) if store.is_local(folder) else None
