"""Which url to fetch next, so that threads do not wait for a host that has enough of them."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

WINDOW = 10_000  # requests that may wait for their hosts; while so many do, no further ones are looked at
T = TypeVar("T")


class Turns(Generic[T]):
    """Hands out numbered requests in order, but for those to whose host `per_host` are under way: they come after one of these.

    However many urls of a slow host stand together, it thus holds no more than `per_host` threads, and the others go on with
    what stands behind. One thread uses this.
    """

    def __init__(self, requests: Iterable[T], url_of: Callable[[T], str | None], per_host: int) -> None:
        self._coming = enumerate(requests)
        self._url_of = url_of
        self._per_host = per_host
        self._under_way: Counter[str | None] = Counter()
        self._hosts: dict[int, str | None] = {}  # of those under way
        self._waiting: defaultdict[str | None, deque[tuple[int, T]]] = defaultdict(deque)
        self._waits = 0
        self._free: deque[tuple[int, T]] = deque()  # whose hosts have a place for them

    def next(self) -> tuple[int, T] | None:
        """The next request and its number, from 0; None if there is none, or none before one that is under way is done."""
        if self._free:
            return self._free.popleft()
        while self._waits < WINDOW and (found := next(self._coming, None)) is not None:
            host = _host(self._url_of(found[1]))
            if host is None or self._under_way[host] < self._per_host:
                self._go(found[0], host)
                return found
            self._waiting[host].append(found)
            self._waits += 1
        return None

    def done(self, number: int) -> None:
        """A request that was handed out is no longer under way."""
        host = self._hosts.pop(number)
        self._under_way[host] -= 1
        if waiting := self._waiting.get(host):
            self._free.append(waiting.popleft())
            self._waits -= 1
            self._go(self._free[-1][0], host)
        elif not self._under_way[host]:
            del self._under_way[host]
            self._waiting.pop(host, None)

    def _go(self, number: int, host: str | None) -> None:
        self._hosts[number] = host
        self._under_way[host] += 1


def _host(url: str | None) -> str | None:
    """None for what is no url, and fails at once."""
    try:
        return urlsplit(url or "").hostname
    except ValueError:
        return None
