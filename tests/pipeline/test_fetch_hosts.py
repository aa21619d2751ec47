"""Consideration for hosts, and what dead ones may cost."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching import hosts, turns
from pipeline.download.fetching.clock import Clock
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.fetching.turns import Turns
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, never_connecting

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)


def fetch_all(fetcher: Fetcher, urls: list[str], threads: int) -> tuple[list[Fetched | FetchFailed], float]:
    start = time.monotonic()
    with ThreadPoolExecutor(threads) as workers:
        return list(workers.map(fetcher.fetch, urls)), time.monotonic() - start


def test_requests_to_one_host_at_once_and_the_clock_of_those_that_wait(server: Server) -> None:
    url = server.on("/slow", Answer(b"x", delay=0.3))
    found, seconds = fetch_all(Fetcher(replace(OPEN, per_host=3, deadline=1)), [url] * 15, 15)
    assert server.most_at_once == 3
    # The last three waited longer than their deadline, for others of the same host.
    assert all(isinstance(f, Fetched) and 0.29 < f.seconds < 1 for f in found)
    assert 1.5 <= seconds < 4.5


def test_a_redirect_waits_for_a_place_at_its_own_host(server: Server) -> None:
    server.on("/slow", Answer(b"x", delay=0.2))
    url = server.on("/r", Answer.redirect(f"http://localhost:{server.port}/slow"))
    found, _ = fetch_all(Fetcher(replace(OPEN, per_host=1)), [url] * 4, 4)
    assert all(isinstance(f, Fetched) for f in found)
    assert server.most_at_once <= 2  # one at each name


def test_requests_to_one_host_start_apart(server: Server) -> None:
    url = server.on("/a", Answer(b"x"))
    found, _ = fetch_all(Fetcher(replace(OPEN, host_wait=0.2, deadline=0.7)), [url] * 5, 5)
    assert all(isinstance(f, Fetched) and f.seconds < 0.7 for f in found)
    starts = sorted(server.times)
    assert all(after - before > 0.15 for before, after in itertools.pairwise(starts))


def test_a_dead_host_is_left_alone_and_another_is_not(server: Server) -> None:
    fetcher = Fetcher(replace(OPEN, connect_timeout=0.2, retries=0))
    with never_connecting() as port:
        urls = [f"http://127.0.0.1:{port}/{i}" for i in range(300)]
        found, seconds = fetch_all(fetcher, urls, 4)
    assert {f.reason for f in found if isinstance(f, FetchFailed)} == {Reason.TIMEOUT_CONNECT}
    words = [f.message for f in found if isinstance(f, FetchFailed)]
    assert set(words) == {"no connection within 0.2 s", "not asked: its host had given no answer 3 times in a row"}
    assert words.count("no connection within 0.2 s") <= 3 * 4
    assert seconds < 5  # not 300 · 0.2 s / 4
    assert isinstance(fetcher.fetch(f"http://localhost:{server.port}/"), FetchFailed)
    assert server.requests == ["/"]


def test_a_silent_host_is_left_alone_and_asked_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "LEFT_ALONE", 3.0)
    fetcher = Fetcher(replace(OPEN, deadline=0.4, retries=0))
    url = server.on("/", *[Answer(b"late", delay=1)] * 3, Answer(b"well"))
    for _ in range(3):
        assert fetcher.fetch(url) == FetchFailed(Reason.TIMEOUT_TOTAL, "no whole answer within 0.4 s")
    told = fetcher.fetch(url)
    assert told == FetchFailed(Reason.TIMEOUT_TOTAL, "not asked: its host had given no answer 3 times in a row")
    assert server.count("/") == 3
    time.sleep(1.25)
    assert [isinstance(fetcher.fetch(url), Fetched) for _ in range(3)] == [True] * 3


def test_while_one_request_finds_out_others_leave_the_host_alone() -> None:
    known = hosts.Hosts(1, 0)
    for _ in range(3):
        known.was_silent("h", Reason.TIMEOUT_CONNECT, 0.0)
    assert [known.left_alone("h") for _ in range(3)] == [None, Reason.TIMEOUT_CONNECT, Reason.TIMEOUT_CONNECT]
    known.answered("h")
    assert known.left_alone("h") is None


def test_answers_between_and_requests_at_once_do_not_make_a_host_dead() -> None:
    known = hosts.Hosts(8, 0)
    for _ in range(9):
        with known.turn("h", Clock(1)):
            known.was_silent("h", Reason.CONNECTION, 100.0)  # all were made before the first failed
    assert known.left_alone("h") is None
    known.answered("h")
    for _ in range(2):
        known.was_silent("h", Reason.CONNECTION, 0.0)
    assert known.left_alone("h") is None


def test_a_host_that_answers_badly_is_not_dead(server: Server) -> None:
    fetcher = Fetcher(replace(OPEN, retries=0))
    bad = server.on("/bad", Answer(b"half", cut=True))
    assert all(isinstance(fetcher.fetch(bad), FetchFailed) for _ in range(5))
    assert isinstance(fetcher.fetch(server.on("/good", Answer(b"x"))), Fetched)


def test_what_is_known_of_hosts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "HOSTS_KEPT", 100)
    known = hosts.Hosts(2, 0)
    with known.turn("first", Clock(1)):
        for i in range(1000):
            with known.turn(str(i), Clock(1)):
                pass
        assert len(known._hosts) <= 101
        assert known._hosts["first"].users == 1
    assert known._hosts["first"].users == 0


def test_many_dead_hosts_cost_their_deadlines_shared_by_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, threads, wait = 160, 16, 0.1
    with never_connecting() as port:
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [address])
        fetcher = Fetcher(replace(OPEN, connect_timeout=wait, deadline=1))
        found, seconds = fetch_all(fetcher, [f"http://dead-{i}.example:{port}/" for i in range(rows)], threads)
    assert {f.reason for f in found if isinstance(f, FetchFailed)} == {Reason.TIMEOUT_CONNECT}
    assert wait * rows / threads <= seconds < 4 * wait * rows / threads


def test_turns_hold_no_thread_for_a_host_that_has_enough(server: Server) -> None:
    """40 urls of a host that takes 0.3 s for each, and 10 of another behind them."""
    slow = server.on("/slow", Answer(b"x", delay=0.3))
    server.on("/quick", Answer(b"x"))
    quick = f"http://localhost:{server.port}/quick"
    queue = Turns([slow] * 40 + [quick] * 10, lambda url: url, per_host=2)
    fetcher, done, lock = Fetcher(replace(OPEN, per_host=2)), [], threading.Lock()

    def work(number: int, url: str) -> int:
        fetcher.fetch(url)
        with lock:
            done.append(number)
        return number

    start, quick_done = time.monotonic(), 0.0
    with ThreadPoolExecutor(4) as workers:
        under_way: list[Any] = []
        while not quick_done:
            while len(under_way) < 4 and (turn := queue.next()) is not None:
                under_way.append(workers.submit(work, *turn))
            for future in [f for f in under_way if f.done()]:
                under_way.remove(future)
                queue.done(future.result())
            if sum(number >= 40 for number in done) == 10:
                quick_done = time.monotonic() - start
            time.sleep(0.005)
    assert quick_done < 3  # not the 6 s of the others


def test_turns_keep_the_order_of_each_host_and_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = ["http://a/0", "http://a/1", "http://a/2", None, "http://b/4", "http://A:8/5", "no url", "http://[b"]
    queue = Turns(urls, lambda url: url, per_host=2)
    first = [queue.next() for _ in range(7)]
    assert first == [(0, urls[0]), (1, urls[1]), (3, None), (4, urls[4]), (6, urls[6]), (7, urls[7]), None]
    queue.done(1)
    assert [queue.next(), queue.next()] == [(2, urls[2]), None]
    queue.done(0)
    queue.done(2)
    assert [queue.next(), queue.next()] == [(5, urls[5]), None]
    for number in (3, 4, 5, 6, 7):
        queue.done(number)
    assert queue.next() is None

    monkeypatch.setattr(turns, "WINDOW", 3)
    coming = iter(["http://a/"] * 10)
    few = Turns(coming, lambda url: url, per_host=1)
    taken = []
    while (turn := few.next()) is not None:
        taken.append(turn[0])
        assert few.next() is None
        few.done(turn[0])
        if turn[0] == 0:
            assert len(list(coming)) == 6  # one was under way and three waited
    assert taken == list(range(4))
