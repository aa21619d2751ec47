"""What is tried again, and after how long."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.fetching.waits import before_retry, retry_after
from pools.schema import Reason
from tests.pipeline.server import Answer, Server

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)


def took(url: str, policy: Policy) -> tuple[Fetched | FetchFailed, float]:
    start = time.monotonic()
    found = Fetcher(policy).fetch(url)
    return found, time.monotonic() - start


# T27
def test_what_can_heal_is_tried_again_and_nothing_else(server: Server) -> None:
    once = replace(OPEN, retries=1)
    healing = {
        "/busy": Answer(status=503),
        "/reset": Answer(reset=True),
        "/cut": Answer(b"half", cut=True),
        "/head": Answer(raw=b"HTTP/1.1 200 OK\r\nContent-"),
        "/chunk": Answer(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"),
    }
    for path, bad in healing.items():
        found = Fetcher(once).fetch(server.on(path, bad, Answer(b"ok")))
        assert isinstance(found, Fetched), (path, found)
        assert (found.body, server.count(path)) == (b"ok", 2)
    for status in (400, 401, 403, 404, 410, 418, 304, 206, 501):
        path = f"/{status}"
        gone = Fetcher(replace(OPEN, retries=3)).fetch(server.on(path, Answer(status=status)))
        assert (gone, server.count(path)) == (FetchFailed(Reason.HTTP_STATUS, f"HTTP {status}"), 1)
    down = Fetcher(replace(OPEN, retries=2)).fetch(server.on("/down", Answer(status=500)))
    assert (down, server.count("/down")) == (FetchFailed(Reason.HTTP_STATUS, "HTTP 500", again=True), 3)
    for path, junk in {"/junk": b"this is no HTTP\r\n\r\n", "/two": b"HTTP/1.1 200 OK\r\nContent-Length: 1,2\r\n\r\n"}.items():
        never = Fetcher(once).fetch(server.on(path, Answer(raw=junk)))
        assert isinstance(never, FetchFailed)
        assert (never.reason, never.again, server.count(path)) == (Reason.CONNECTION, False, 1)


# T27
@pytest.mark.parametrize("code", [socket.EAI_AGAIN, socket.EAI_NONAME])
def test_a_name_is_looked_up_again(server: Server, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real, calls = socket.getaddrinfo, []

    def flaky(host: str, *args: Any, **kwargs: Any) -> Any:
        calls.append(host)
        if len(calls) == 1:
            raise socket.gaierror(code, "not now")
        return real("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", flaky)
    server.on("/named", Answer(b"ok"))
    found = Fetcher(replace(OPEN, retries=1)).fetch(f"http://pictures.example:{server.port}/named")
    assert isinstance(found, Fetched)
    assert len(calls) == 2


def test_waits_grow_and_end_before_the_deadline(server: Server) -> None:
    url = server.on("/busy", Answer(status=429))
    found, seconds = took(url, replace(OPEN, retries=2, retry_wait=0.2))
    assert isinstance(found, FetchFailed)
    assert 0.6 <= seconds < 3  # 0.2 + 0.4, and up to half of that
    found, seconds = took(url, replace(OPEN, retries=9, retry_wait=0.2, deadline=1))
    assert (found, seconds < 1.5) == (FetchFailed(Reason.HTTP_STATUS, "HTTP 429", again=True), True)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_says_when_to_come_back(server: Server, status: int) -> None:
    url = server.on("/", Answer(status=status, headers=[("Retry-After", "1")]), Answer(b"ok"))
    found, seconds = took(url, OPEN)
    assert isinstance(found, Fetched)
    assert 1 <= seconds < 3
    later = server.on("/later", Answer(status=status, headers=[("Retry-After", "5")]), Answer(b"ok"))
    failed, seconds = took(later, OPEN)  # the deadline is over by then
    assert (failed, seconds < 3, server.count("/later")) == (
        FetchFailed(Reason.HTTP_STATUS, f"HTTP {status}", again=True),
        True,
        1,
    )
    if status == 429:
        return
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    date = server.on("/date", Answer(status=status, headers=[("Retry-After", soon)]), Answer(b"ok"))
    found, seconds = took(date, OPEN)
    assert isinstance(found, Fetched)
    assert 0.9 <= seconds < 4  # a date has no fractions


def test_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    assert [retry_after(v) for v in ("7", " 0 ", "-3", "soon", "", "1.5", "²")] == [7, 0, 0, 0, 0, 0, 0]
    assert retry_after("9" * 5000) == 999_999_999
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_after("Fri, 31 Dec 9999 23:59:59 GMT") > 1e11
    hour = (datetime.now(UTC) + timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S")
    assert retry_after(hour) == pytest.approx(3600, abs=2)  # without a zone it is GMT
    assert retry_after("Sun, 06 Nov 1994 08:49:37 +9999") == 0
    monkeypatch.undo()
    time.tzset()


def test_waits_double_spread_and_repeat() -> None:
    urls = [f"http://h.example/{i}" for i in range(50)]
    for attempt in range(4):
        waits = [before_retry(url, attempt, 0.5) for url in urls]
        assert all(0.5 * 2**attempt <= w <= 0.75 * 2**attempt for w in waits)
        assert len(set(waits)) > 40
        assert waits == [before_retry(url, attempt, 0.5) for url in urls]
    assert 9 <= before_retry(urls[0], 0, 0.5, 9) <= 9.25
