"""robots.txt (RFC 9309): its rules for us, and a memory that asks each origin once, however many threads want to know."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from protego import Protego

MAX_BYTES = 500 << 10  # of a file that count (RFC 9309, 2.5)
KEPT_SECONDS = 24 * 3600.0  # (2.4)
ORIGINS_KEPT = 1 << 12
_GROUP = re.compile(r"(\s*user[ \t-]?agent[ \t]*:?[ \t]*)([^#]*)(?:#.*)?", re.IGNORECASE)
T = TypeVar("T")


class Rules:
    """What a robots.txt says to one agent; `body` None: nothing."""

    def __init__(self, body: bytes | None, agent: str) -> None:
        self._agent = agent.lower()
        self._rules = None if not body else Protego.parse("\n".join(self._groups(body[:MAX_BYTES])))

    def allow(self, url: str) -> bool:
        return self._rules is None or self._rules.can_fetch(url, self._agent)

    def _groups(self, body: bytes) -> list[str]:
        """The file's lines, where all agents but ours have one name: files that name many would fill the memory."""
        lines = []
        for line in body.decode("utf-8-sig", "replace").splitlines():
            if group := _GROUP.fullmatch(line):
                name = group[2].strip().lower()
                line = group[1] + (
                    name if name == "*" else self._agent if name.partition("/")[0] == self._agent else "another one"
                )
            lines.append(line)
        return lines


class Once(Generic[T]):
    """Remembers what `read` gives for a key. One thread reads, others that want the same wait for it."""

    def __init__(self, read: Callable[[str], T], seconds: float = KEPT_SECONDS, keys: int = ORIGINS_KEPT) -> None:
        self._read, self._seconds, self._keys = read, seconds, keys
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Future[T]]] = OrderedDict()  # key → (monotonic expiry, value)

    def get(self, key: str) -> T:
        with self._lock:
            expiry, future = self._known.get(key, (0.0, None))
            if future is not None and expiry > time.monotonic():
                self._known.move_to_end(key)
                mine = False
            else:
                future, mine = Future(), True
                self._known[key] = time.monotonic() + self._seconds, future
                if len(self._known) > self._keys:
                    self._known.popitem(last=False)
        if mine:
            try:
                future.set_result(self._read(key))
            except BaseException as e:
                with self._lock:
                    self._known.pop(key, None)
                future.set_exception(e)
        return future.result()
