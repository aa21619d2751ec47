"""Names to addresses: remembered, asked for once, and never waited for beyond the deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching import resolve
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.fetching.resolve import RememberedError, Resolver
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, never_connecting

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)
HERE = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
Dns = Callable[[Callable[[str], None]], Counter[str]]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Dns:
    """Installs a resolver for which every name is this machine, unless the given function raises; counts what it is asked."""

    def install(behave: Callable[[str], None]) -> Counter[str]:
        asked: Counter[str] = Counter()

        def getaddrinfo(host: str, *args: Any, **kwargs: Any) -> Any:
            asked[host] += 1
            behave(host)
            return [HERE]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return install


def missing(host: str) -> None:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_name_is_looked_up_once_for_all_its_urls(server: Server, dns: Dns) -> None:
    asked = dns(lambda host: time.sleep(0.1))
    url = f"http://pictures.example:{server.port}{server.on('/a', Answer(b'x'))[len(server.root) :]}"
    fetcher = Fetcher(replace(OPEN, per_host=16))
    with ThreadPoolExecutor(16) as workers:
        assert all(isinstance(f, Fetched) for f in workers.map(fetcher.fetch, [url] * 64))
    assert asked == {"pictures.example": 1}


def test_a_missing_name_is_looked_up_again_by_no_other_url(dns: Dns) -> None:
    asked = dns(missing)
    fetcher = Fetcher(replace(OPEN, retries=2))
    first = fetcher.fetch("http://nowhere.example/0")
    assert (first, asked) == (
        FetchFailed(Reason.NAME_RESOLUTION, "[Errno -2] Name or service not known", again=True),
        {"nowhere.example": 3},
    )
    start = time.monotonic()
    others = [fetcher.fetch(f"http://nowhere.example/{i}") for i in range(1, 500)]
    assert set(others) == {FetchFailed(Reason.NAME_RESOLUTION, "[Errno -2] Name or service not known")}
    assert (asked["nowhere.example"], time.monotonic() - start < 5) == (3, True)


def test_what_is_remembered_is_forgotten_in_time(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dns(lambda host: missing(host) if host == "gone.example" else None)
    resolver = Resolver()
    for _ in range(3):
        assert resolver.addresses("a.example", 80, 1) == [(socket.AF_INET, ("127.0.0.1", 80))]
        assert resolver.addresses("a.example", 443, 1) == [(socket.AF_INET, ("127.0.0.1", 443))]
        with pytest.raises(socket.gaierror):
            resolver.addresses("gone.example", 80, 1)
    assert asked == {"a.example": 1, "gone.example": 1}
    with pytest.raises(RememberedError):
        resolver.addresses("gone.example", 80, 1)
    with pytest.raises(socket.gaierror):
        resolver.addresses("gone.example", 80, 1, afresh=True)
    assert asked["gone.example"] == 2
    now = time.monotonic()
    for later, expected in ((61, (1, 3)), (301, (2, 4))):
        monkeypatch.setattr(time, "monotonic", lambda later=later: now + later)
        resolver.addresses("a.example", 80, 1)
        with pytest.raises(socket.gaierror):
            resolver.addresses("gone.example", 80, 1)
        assert (asked["a.example"], asked["gone.example"]) == expected


def test_a_resolver_in_trouble_is_asked_by_each_url(dns: Dns) -> None:
    def trouble(host: str) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    asked = dns(trouble)
    resolver = Resolver()
    for _ in range(3):
        with pytest.raises(socket.gaierror):
            resolver.addresses("a.example", 80, 1)
    assert asked == {"a.example": 3}


def test_names_kept_are_bounded(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "NAMES", 10)
    asked = dns(lambda host: None)
    resolver = Resolver()
    for i in range(30):
        resolver.addresses(f"{i}.example", 80, 1)
        resolver.addresses("often.example", 80, 1)
    assert asked["often.example"] == 1  # the least recently used goes
    assert len(resolver._known) == 10


def test_a_resolver_that_hangs_costs_no_more_than_the_deadline(server: Server, dns: Dns) -> None:
    hang = threading.Event()
    asked = dns(lambda host: void(hang.wait(10)) if host.startswith("hangs") else None)
    fetcher = Fetcher(replace(OPEN, deadline=0.5))
    try:
        start = time.monotonic()
        urls = [f"http://hangs-{i % 5}.example/{i}" for i in range(20)]
        with ThreadPoolExecutor(20) as workers:
            found = list(workers.map(fetcher.fetch, urls))
            assert set(found) == {FetchFailed(Reason.NAME_RESOLUTION, "no answer from the resolver in time", again=True)}
        assert 0.5 <= time.monotonic() - start < 3
        # Each name holds one of the resolver's threads; other names have theirs.
        assert asked == {f"hangs-{i}.example": 1 for i in range(5)}
        server.on("/a", Answer(b"x"))
        assert isinstance(fetcher.fetch(f"http://well.example:{server.port}/a"), Fetched)
    finally:
        hang.set()


def test_one_of_several_addresses_is_enough(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("/a", Answer(b"x"))
    dead = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{i}", 0)) for i in (2, 3)]  # where nobody listens
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [*dead, HERE])
    assert isinstance(Fetcher(OPEN).fetch(f"http://a.example:{server.port}/a"), Fetched)
    with never_connecting() as port:
        stuck = [HERE] * 4
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: stuck)
        start = time.monotonic()
        found = Fetcher(replace(OPEN, connect_timeout=0.4)).fetch(f"http://b.example:{port}/a")
        assert found == FetchFailed(Reason.TIMEOUT_CONNECT, "no connection within 0.4 s")
        assert 0.35 < time.monotonic() - start < 1.2


def void(_: object) -> None:
    pass


def test_lookups_at_once_are_bounded(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "LOOKUPS", 3)
    lock, counts = threading.Lock(), Counter[str]()

    def slow(host: str) -> None:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        time.sleep(0.05)
        with lock:
            counts["now"] -= 1

    asked = dns(slow)
    resolver = Resolver()
    with ThreadPoolExecutor(12) as workers:
        list(workers.map(lambda i: resolver.addresses(f"{i}.example", 80, 5), range(12)))
    assert (len(asked), counts["most"]) == (12, 3)
    monkeypatch.setattr(resolve, "LOOKUPS", 9)
    for i in range(5):
        resolver.addresses(f"again-{i}.example", 80, 5)
    assert resolver._threads == 3  # idle ones are used again


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "::1"])
def test_an_address_is_not_looked_up(host: str) -> None:
    resolver = Resolver()
    (_, address), *more = resolver.addresses(host, 80, 1)
    assert (address[0], address[1], more) == ("::1" if host == "::1" else "127.0.0.1", 80, [])
    assert resolver._threads == 0


def test_what_can_be_no_name(dns: Dns) -> None:
    with pytest.raises(ValueError, match="label"):
        Resolver().addresses("a" * 300 + ".example", 80, 1)
