"""Consideration for hosts: few requests to one at a time, pauses between them, and no more to one that is dead."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.download.fetching.clock import Clock
from pools.schema import Reason

SILENCES = 3  # requests in a row that a host did not answer, after which it is left alone
LEFT_ALONE = 10.0  # for so many times the seconds that the last of them took; then one finds out
LONGEST = 600.0  # seconds that it is left alone at most
HOSTS_KEPT = 1 << 16


@dataclass
class _Host:
    free: threading.Semaphore
    users: int = 0
    next_start: float = 0.0  # monotonic seconds, as all times here
    silences: int = 0
    silent_at: float = 0.0
    reason: Reason = Reason.CONNECTION
    asked_again: float = 0.0


class Hosts:
    """What this process knows of the hosts it asks; threads share it."""

    def __init__(self, per_host: int, wait: float) -> None:
        self._per_host = per_host
        self._wait = wait
        self._lock = threading.Lock()
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    @contextlib.contextmanager
    def turn(self, name: str, clock: Clock) -> Iterator[None]:
        """One of the host's few places, when there is one; the clock stands still until then."""
        with self._known(name) as host:
            if not host.free.acquire(blocking=False):
                with clock.stopped():
                    host.free.acquire()
            try:
                yield
            finally:
                host.free.release()

    def pause(self, name: str, clock: Clock) -> None:
        """Waits until the host may be sent another request; the clock stands still."""
        if not self._wait:
            return
        with self._known(name) as host, clock.stopped():
            with self._lock:
                now = time.monotonic()
                start = max(now, host.next_start)
                host.next_start = start + self._wait
            time.sleep(start - now)

    def left_alone(self, name: str) -> Reason | None:
        """How the host was silent the last time, if it is to be left alone; None when its time is over, to one that asks."""
        with self._lock:
            host = self._hosts.get(name)
            if host is None or host.silences < SILENCES:
                return None
            now = time.monotonic()
            if now < host.asked_again:
                return host.reason
            host.asked_again = now + LONGEST
            return None

    def answered(self, name: str) -> None:
        host = self._hosts.get(name)
        if host is not None:
            host.silences = 0

    def was_silent(self, name: str, reason: Reason, seconds: float) -> None:
        """A request got no answer from the host in so many seconds. Those that were made at once count as one."""
        with self._known(name) as host, self._lock:
            now = time.monotonic()
            if now - seconds >= host.silent_at:
                host.silences += 1
                host.silent_at = now
            host.reason = reason
            host.asked_again = now + min(LEFT_ALONE * seconds, LONGEST)

    @contextlib.contextmanager
    def _known(self, name: str) -> Iterator[_Host]:
        """The host's entry, which stays as long as it is in use."""
        with self._lock:
            host = self._hosts.get(name)
            if host is None:
                host = self._hosts[name] = _Host(threading.Semaphore(self._per_host))
                self._forget()
            self._hosts.move_to_end(name)
            host.users += 1
        try:
            yield host
        finally:
            with self._lock:
                host.users -= 1

    def _forget(self) -> None:
        while len(self._hosts) > HOSTS_KEPT:
            name, host = self._hosts.popitem(last=False)
            if host.users:
                self._hosts[name] = host  # of which there are no more than threads
                break
