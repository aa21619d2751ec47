"""Answers of all kinds: how their end is told, how they are packed, and what hostile ones may cost."""

from __future__ import annotations

import gzip
import http.client
import resource
import socket
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("urllib3")

from pipeline.download.fetching.clock import Clock
from pipeline.download.fetching.encoding import BadEncoding, unpack
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.fetching.http1 import BadAnswer, Connection, TooLong
from pools.schema import Reason
from tests.pipeline.server import Answer, Server

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.02, retries=0)
PICTURE = bytes(range(256)) * 300
ORIGIN = ("http", "h.example", 80)


def fetch_raw(server: Server, raw: bytes, policy: Policy = OPEN) -> Fetched | FetchFailed:
    return Fetcher(policy).fetch(server.on("/raw", Answer(raw=raw)))


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def brotli(data: bytes) -> bytes:
    import brotli as oracle

    packed: bytes = oracle.compress(data, quality=3)
    return packed


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "br": brotli,
    "zstd": zstd,
    "gzip, br": lambda data: brotli(gzip.compress(data)),
    "identity": bytes,
    "utf-8": bytes,  # no coding at all, and seen
    "gzip ": lambda data: gzip.compress(data) + b"\0" * 100,
}


@pytest.mark.parametrize("coding", PACKERS)
def test_bodies_are_unpacked(server: Server, coding: str) -> None:
    packed = PACKERS[coding](PICTURE)
    url = server.on("/a", Answer(packed, headers=[("Content-Encoding", coding)]))
    found = Fetcher(OPEN).fetch(url)
    assert isinstance(found, Fetched), found
    assert found.body == PICTURE
    assert isinstance(Fetcher(replace(OPEN, max_bytes=max(len(PICTURE), len(packed)))).fetch(url), Fetched)
    assert Fetcher(replace(OPEN, max_bytes=len(PICTURE) - 1)).fetch(url) == FetchFailed(
        Reason.TOO_LARGE, "more than 76799 bytes"
    )


@pytest.mark.parametrize("coding", ["gzip", "deflate", "Deflate", "br", "zstd"])
def test_what_is_not_packed_as_it_says_or_cut_is_refused(coding: str) -> None:
    packed = PACKERS[coding](PICTURE)
    for bad in (packed[: len(packed) // 2], packed[:-1] if coding != "deflate" else packed[:-5], b"\xff\xd8\xff\xe0" + PICTURE):
        with pytest.raises(BadEncoding):
            unpack(bad, coding, 1 << 20)
    assert unpack(b"", coding, 1 << 20) == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_bombs_cost_no_more_than_the_limit(server: Server, coding: str) -> None:
    bomb = PACKERS["gzip" if "," in coding else coding](bytes(60_000_000))
    if "," in coding:
        bomb = gzip.compress(bomb)
    url = server.on("/bomb", Answer(bomb, headers=[("Content-Encoding", coding)]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = Fetcher(replace(OPEN, max_bytes=1_000_000)).fetch(url)
    assert found == FetchFailed(Reason.TOO_LARGE, "more than 1000000 bytes")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10  # KiB
    with pytest.raises(BadEncoding, match="5 codings"):
        unpack(b"x", "gzip," * 5, 1 << 20)


def answer(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (answer("HTTP/1.1 200 OK", "Content-Length: 3", body=b"abcd"), b"abc"),
        (answer("HTTP/1.1 200", "content-length:3", body=b"abc"), b"abc"),
        (answer("HTTP/1.0 200 OK", body=b"abc"), b"abc"),
        (answer("HTTP/1.1 200 OK", "Content-Length: many", body=b"abc"), b"abc"),
        (answer("HTTP/1.1 200 OK", "Content-Length: 3", "Content-Length: 3", body=b"abc"), b"abc"),
        (
            answer("HTTP/1.1 100 Continue", body=answer("HTTP/1.1 103 Early Hints", "Link: x"))
            + answer("HTTP/1.1 200 OK", body=b"a"),
            b"a",
        ),
        (b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", b"abc"),
        (answer("HTTP/1.1 200 OK", "no header", "X: 1", "  and more", ": nameless", "Content-Length : 2", body=b"abc"), b"ab"),
        (answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\nT: 1\r\n\r\n"), b"abc"),
        (answer("HTTP/1.1 200 OK", "Content-Length: 9", "Transfer-Encoding: Chunked", body=b"03\r\nabc\r\n0\r\n\r\n"), b"abc"),
        (answer("HTTP/1.1 200 OK", "X-A: \xe4", body=b"abc"), b"abc"),
    ],
)
def test_how_the_end_of_a_body_is_told(server: Server, raw: bytes, body: bytes) -> None:
    found = fetch_raw(server, raw)
    assert isinstance(found, Fetched), found
    assert found.body == body


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\nabc",
        b"HTTP/1.1 2000 OK\r\n\r\nabc",
        b"HTTP/1.1 OK\r\n\r\nabc",
        b"ICY 200 OK\r\n\r\nabc",
        answer("HTTP/1.1 101 Switching Protocols", body=b"abc"),
        answer("HTTP/1.1 200 OK", "Content-Length: 4", body=b"abc"),
        answer("HTTP/1.1 200 OK", "Content-Length: 3", "Content-Length: 4", body=b"abc"),
        answer("HTTP/1.1 200 OK", "Content-Length: 3")[:-2],
        answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n"),
        answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"-3\r\nabc\r\n0\r\n\r\n"),
        answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"2\r\nabc\r\n0\r\n\r\n"),
        answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"1" * 5000),
        answer("HTTP/1.1 200 OK", "X: " + "x" * 70_000, body=b"abc"),
        answer("HTTP/1.1 200 OK", *[f"X-{i}: {i}" for i in range(10_000)], body=b"abc"),
        answer("HTTP/1.1 200 " + "K" * 70_000, body=b"abc"),
        answer("HTTP/1.1 100 Continue") * 5000,
    ],
)
def test_what_is_no_whole_answer(server: Server, raw: bytes) -> None:
    start = time.monotonic()
    found = fetch_raw(server, raw)
    assert isinstance(found, FetchFailed), found
    assert found.reason is Reason.CONNECTION
    assert time.monotonic() - start < 3


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (["Content-Length: 99999999999999999999999999"], b"abc"),
        (["Transfer-Encoding: chunked"], b"fffffffffffffff\r\nabc"),
        (["Transfer-Encoding: chunked"], b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n0\r\n\r\n"),
        (["X: y"], b"x" * 1001),
    ],
)
def test_the_limit_holds_however_the_end_is_told(server: Server, head: list[str], body: bytes) -> None:
    found = fetch_raw(server, answer("HTTP/1.1 200 OK", *head, body=body), replace(OPEN, max_bytes=1000))
    assert found == FetchFailed(Reason.TOO_LARGE, "more than 1000 bytes")


def test_many_headers_and_long_ones_are_read_in_no_time(server: Server) -> None:
    many = [f"a{i}:" for i in range(9000)]
    start = time.monotonic()
    found = fetch_raw(server, answer("HTTP/1.1 200 OK", "X: a", *["\tb"] * 1000, *many[:5000], "X: c", body=b"abc"))
    assert isinstance(found, Fetched)
    assert (len(found.headers), found.headers["x"]) == (5001, "a" + " b" * 1000 + ", c")
    assert time.monotonic() - start < 3


@pytest.mark.parametrize("status", [203, 204, 205, 206, 300, 304])
def test_statuses_that_are_neither(server: Server, status: int) -> None:
    found = Fetcher(OPEN).fetch(server.on("/s", Answer(raw=answer(f"HTTP/1.1 {status} X", "Content-Length: 3", body=b"abc"))))
    if status in (203, 205):
        assert isinstance(found, Fetched)
    elif status == 204:
        assert found == FetchFailed(Reason.EMPTY, "no body")
    else:
        assert found == FetchFailed(Reason.HTTP_STATUS, f"HTTP {status}")


def test_an_unwanted_body_is_not_waited_for(server: Server) -> None:
    for path, slow in {
        "/404": Answer(b"x", 404, drip=0.2, endless=True),
        "/302": Answer(b"xxxxxxxxxx", 302, [("Location", "/a")], drip=0.2),
    }.items():
        server.on("/a", Answer(b"there"))
        start = time.monotonic()
        found = Fetcher(OPEN).fetch(server.on(path, slow))
        assert isinstance(found, Fetched) if path == "/302" else found == FetchFailed(Reason.HTTP_STATUS, "HTTP 404")
        assert time.monotonic() - start < 1.8


@given(
    bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    framing=st.lists(st.sampled_from(["length", "chunks"]), min_size=4, max_size=4),
    cuts=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    names=st.lists(st.sampled_from(["A: 1", "a:2", "Set-Cookie: a=b, c", "X:  y", "Connection: keep-alive"]), max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_answers_on_one_connection_are_those_that_http_client_reads(
    bodies: list[bytes], framing: list[str], cuts: list[int], names: list[str]
) -> None:
    """Several answers one after the other, cut into packets at will."""
    streams = []
    for body, how in zip(bodies, framing, strict=False):
        if how == "length":
            streams.append(answer("HTTP/1.1 200 OK", *names, f"Content-Length: {len(body)}", body=body))
        else:
            parts = [body[i : i + 7] for i in range(0, len(body), 7)]
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
            streams.append(answer("HTTP/1.1 200 OK", *names, "Transfer-Encoding: chunked", body=chunks))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = b"".join(streams)

        def send() -> None:
            at, turn = 0, 0
            while at < len(data):
                size = cuts[turn % len(cuts)]
                theirs.sendall(data[at : at + size])
                at, turn = at + size, turn + 1

        thread = threading.Thread(target=send)
        thread.start()
        connection = Connection(ours, ORIGIN, Clock(5))
        for body, stream in zip(bodies, streams, strict=True):
            head = connection.head()
            oracle, feed = socket.socketpair()
            with oracle, feed:
                feed.sendall(stream)
                feed.shutdown(socket.SHUT_WR)
                expected = http.client.HTTPResponse(oracle)
                expected.begin()
                assert head.status == expected.status
                assert head.merged() == {k.lower(): expected.getheader(k) for k in expected.headers}
                assert connection.body(head, 1000) == expected.read() == body
            assert connection.free
        thread.join()
        assert connection.is_quiet()
        theirs.sendall(b"x")
        assert not connection.is_quiet()


def test_a_limit_of_zero_bytes_left_is_a_limit() -> None:
    with pytest.raises(TooLong):
        unpack(gzip.compress(b"ab"), "gzip", 1)


def test_a_connection_is_free_after_a_whole_answer_alone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, ORIGIN, Clock(5))

        def ask(reply: bytes, limit: int = 100) -> bytes:
            connection.send(b"GET / HTTP/1.1\r\n\r\n", Clock(5))
            theirs.sendall(reply)
            return connection.body(connection.head(), limit)

        assert not connection.free
        assert ask(answer("HTTP/1.1 200 OK", "Content-Length: 3", body=b"abc")) == b"abc"
        assert (connection.free, connection.is_quiet()) == (True, True)
        assert ask(answer("HTTP/1.1 200 OK", "Content-Length: 3", body=b"abcd")) == b"abc"
        assert (connection.free, connection.is_quiet()) == (True, False)  # one byte too many, which came with the others
        with pytest.raises(BadAnswer):
            ask(b"\n")
        assert not connection.free
        other, theirs_too = socket.socketpair()
    with other, theirs_too:
        connection, theirs = Connection(other, ORIGIN, Clock(5)), theirs_too
        for headers, free in (
            (["Content-Length: 1"], True),
            (["Content-Length: 1", "Connection: Keep-Alive, Close"], False),
            (["Content-Length: 1", "Connection: upgrade"], True),
        ):
            assert ask(answer("HTTP/1.1 200 OK", *headers, body=b"a")) == b"a"
            assert connection.free == free
        assert ask(answer("HTTP/1.0 200 OK", "Content-Length: 1", body=b"a")) == b"a"
        assert not connection.free
        assert ask(answer("HTTP/1.0 200 OK", "Content-Length: 1", "Connection: keep-alive", body=b"a")) == b"a"
        assert connection.free
        assert ask(answer("HTTP/1.1 204 No Content")) == b""
        assert connection.free
        assert ask(answer("HTTP/1.1 204 No Content", "Content-Length: 4")) == b""
        assert not connection.free
        with pytest.raises(TooLong):
            ask(answer("HTTP/1.1 200 OK", "Content-Length: 101", body=b"a"))
        assert not connection.free
        third, last = socket.socketpair()
    with third, last:
        connection = Connection(third, ORIGIN, Clock(5))
        last.sendall(answer("HTTP/1.1 200 OK", body=b"a"))
        last.shutdown(socket.SHUT_WR)
        assert connection.body(connection.head(), 100) == b"a"
        assert not connection.free
