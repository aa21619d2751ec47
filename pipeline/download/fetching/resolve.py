"""Host names to addresses: a cache, one lookup for all who ask at once, and no wait beyond the asker's own limit."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

TTL = 300.0  # seconds that an answer is kept; the system resolver does not tell the record's own
MISSING_TTL = 60.0  # seconds that it is remembered that a name does not exist
NAMES = 1 << 16  # names kept, the least recently used goes
LOOKUPS = 128  # at once; one that hangs holds its place until the system resolver gives up, 10 to 30 s as a rule
# Other errors are the resolver's own, and may be gone the next moment.
MISSING = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

Address = tuple[socket.AddressFamily, tuple[Any, ...]]  # family, and (ip, port, …)
_Answer = list[Address] | socket.gaierror | ValueError


class RememberedError(socket.gaierror):
    """What an earlier lookup of the name came to."""


class Resolver:
    """Looks names up in threads of its own, each name once at a time and LOOKUPS of them; many threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, _Answer]] = OrderedDict()  # name → (monotonic expiry, answer)
        self._asked: dict[str, Future[_Answer]] = {}
        self._queue: queue.SimpleQueue[tuple[str, Future[_Answer]]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    def addresses(self, host: str, port: int, timeout: float, *, afresh: bool = False) -> list[Address]:
        """Where a host is, in the system's order of preference. `afresh`: a remembered failure is not taken for an answer.

        Raises gaierror; RememberedError, where another asked before; TimeoutError after `timeout` seconds; ValueError for
        what can be no name.
        """
        known = None if _is_numeric(host) else self._cached(host, afresh)
        found = known or (_ask(host) if _is_numeric(host) else self._look_up(host).result(timeout))
        # Raised anew for each asker: an exception collects the frames of all who raise it.
        if isinstance(found, socket.gaierror):
            raise (RememberedError if known else socket.gaierror)(*found.args)
        if isinstance(found, ValueError):
            raise ValueError(str(found))
        return [(family, (address[0], port, *address[2:])) for family, address in found]

    def _cached(self, host: str, afresh: bool) -> _Answer | None:
        with self._lock:
            expiry, answer = self._known.get(host, (0.0, None))
            if expiry < time.monotonic() or (afresh and not isinstance(answer, list)):
                return None
            self._known.move_to_end(host)
            return answer

    def _look_up(self, host: str) -> Future[_Answer]:
        with self._lock:
            future = self._asked.get(host)
            if future is not None:
                return future
            future = self._asked[host] = Future()
            self._queue.put((host, future))
            if not self._idle.acquire(blocking=False) and self._threads < LOOKUPS:
                # Daemons, for no exit should wait for a name server.
                threading.Thread(target=self._work, name="lookup", daemon=True).start()
                self._threads += 1
        return future

    def _work(self) -> None:
        while True:
            host, future = self._queue.get()
            answer = _ask(host)
            with self._lock:
                del self._asked[host]
                if isinstance(answer, list):
                    self._known[host] = time.monotonic() + TTL, answer
                elif isinstance(answer, socket.gaierror) and answer.errno in MISSING:
                    self._known[host] = time.monotonic() + MISSING_TTL, answer
                if len(self._known) > NAMES:
                    self._known.popitem(last=False)
            future.set_result(answer)
            self._idle.release()


def _is_numeric(host: str) -> bool:
    """Whether this is an address, in any of the notations that the system takes (`127.1`, `0x7f.1`, `2130706433`)."""
    if ":" in host:
        return True
    try:
        socket.inet_aton(host)
    except (OSError, ValueError):
        return False
    return True


def _ask(host: str) -> _Answer:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, ValueError) as e:  # a UnicodeError, where it can be no name
        return e.with_traceback(None)
    except OSError as e:
        return socket.gaierror(socket.EAI_FAIL, str(e))
    return [(family, address) for family, _, _, _, address in found]
