"""One url: policy, redirects, retries, limits, refusals, all against real servers on loopback."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pools.errors import InputError
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, never_connecting

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)


def fetch(url: str, policy: Policy = OPEN) -> Fetched | FetchFailed:
    return Fetcher(policy).fetch(url)


def reason(url: str, policy: Policy = OPEN) -> Reason:
    found = fetch(url, policy)
    assert isinstance(found, FetchFailed), found
    return found.reason


def body(url: str, policy: Policy = OPEN) -> bytes:
    found = fetch(url, policy)
    assert isinstance(found, Fetched), found
    return found.body


def test_body_headers_and_final_url(server: Server) -> None:
    url = server.on("/a,b/c.jpg", Answer(b"picture", headers=[("Content-Type", "image/jpeg")]))  # T21
    found = fetch(url)
    assert isinstance(found, Fetched)
    assert (found.body, found.final_url, found.headers["content-type"]) == (b"picture", url, "image/jpeg")
    assert server.requests == ["/a,b/c.jpg"]


def test_what_is_asked_for(server: Server) -> None:
    fetch(server.on("/a?b=c,d;e", Answer(b"x")), replace(OPEN, user_agent="Crawler/1.0 (+http://a.example)"))
    (headers,) = server.headers
    assert server.requests == ["/a?b=c,d;e"]
    assert (headers["Host"], headers["User-Agent"]) == (f"127.0.0.1:{server.port}", "Crawler/1.0 (+http://a.example)")
    assert headers["Accept-Encoding"] == "gzip, deflate, br, zstd"


# T24
@pytest.mark.parametrize("part", ["body", "status line", "header", "chunk size"])
def test_a_slow_server_ends_at_the_deadline(server: Server, part: str) -> None:
    if part == "body":
        url = server.on("/slow", Answer(b"x", drip=0.2, endless=True))
    else:
        start = {
            "status line": b"",
            "header": b"HTTP/1.1 200 OK\r\nX-A: ",
            "chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        }[part]
        url = dripping(start)
    begin = time.monotonic()
    assert reason(url, replace(OPEN, deadline=1)) is Reason.TIMEOUT_TOTAL
    assert 0.9 < time.monotonic() - begin < 2


def dripping(start: bytes) -> str:
    """A server that sends `start` and then one byte after the other for ever."""
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            try:
                connection.sendall(start)
                while True:
                    connection.sendall(b"0")
                    time.sleep(0.1)
            except OSError:
                return

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/"


# T25
def test_an_endless_body_is_cut_off_at_the_cap(server: Server) -> None:
    url = server.on("/endless", Answer(b"x" * 65536, endless=True))
    assert reason(url, replace(OPEN, max_bytes=1_000_000)) is Reason.TOO_LARGE
    # What the kernel's buffers took besides.
    assert server.sent < 20_000_000


def test_the_cap_holds_before_the_body(server: Server) -> None:
    policy = replace(OPEN, max_bytes=1_000_000)
    said = server.on("/said", Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n"))
    assert reason(said, policy) is Reason.TOO_LARGE
    whole = server.on("/whole", Answer(b"x" * 1_000_000))
    assert len(body(whole, policy)) == 1_000_000


# T26
def test_redirects(server: Server) -> None:
    url = server.on("/1", Answer.redirect("/2", 301))
    server.on("/2", Answer.redirect(f"{server.root}/3#part", 307))
    server.on("/3", Answer(b"there"))
    found = fetch(url)
    assert isinstance(found, Fetched)
    assert found.body == b"there"
    assert found.final_url.split("#")[0] == f"{server.root}/3"
    loop = server.on("/loop", Answer.redirect("/loop"))
    assert reason(loop, replace(OPEN, max_redirects=4)) is Reason.TOO_MANY_REDIRECTS
    assert server.count("/loop") == 5
    failed = fetch(server.on("/4", Answer.redirect("/gone", 308)))
    assert failed == FetchFailed(Reason.HTTP_STATUS, "HTTP 404", final_url=server.root + "/gone")
    assert fetch(server.root + "/gone") == FetchFailed(Reason.HTTP_STATUS, "HTTP 404")
    assert reason(server.on("/zero", Answer.redirect("/3")), replace(OPEN, max_redirects=0)) is Reason.TOO_MANY_REDIRECTS


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("there", "/a/there"),
        ("../there", "/there"),
        ("?x=1", "/a/from?x=1"),
        ("//{host}/there", "/there"),
        ("HTTP://{host}/there#part", "/there"),
        (" /there ", "/there"),
        ("/a b", "/a%20b"),
        ("/pe\u00f1a", "/pe%C3%B1a"),
        ("http://user:word@{host}/there", "/there"),
    ],
)
def test_where_redirects_lead(server: Server, location: str, path: str) -> None:
    location = location.format(host=server.root.removeprefix("http://"))
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    server.on(path, Answer(b"there"))
    assert body(server.on("/a/from", Answer(raw=head.encode()))) == b"there"
    assert server.requests == ["/a/from", path]
    assert "authorization" not in {name.lower() for name in server.headers[-1]}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("", Reason.HTTP_STATUS),
        ("javascript:alert(1)", Reason.BAD_URL),
        ("data:image/png;base64,AAAA", Reason.BAD_URL),
        ("http://[::1/", Reason.BAD_URL),
        ("http://a b/", Reason.BAD_URL),
        ("http://a.example:99999/", Reason.BAD_URL),
    ],
)
def test_redirects_to_nowhere(server: Server, location: str, expected: Reason) -> None:
    assert reason(server.on("/r", Answer.redirect(location))) is expected
    assert server.requests == ["/r"]


# T39
@pytest.mark.parametrize(
    ("headers", "obeyed"),
    [
        (["noai"], True),
        (["NOAI, noarchive"], True),
        (["otherbot: noai"], False),
        (["ourbot: noimageai"], True),
        (["noarchive", "noindex"], True),
        (["otherbot: noarchive, noml"], False),
        (["unavailable_after: 25 Jun 2037 15:00:00 PST, noml"], True),
        (
            ["unavailable_after: Thursday, 25-Jun-37 15:00:00 PST, noai"],
            True,
        ),  # RFC 850: what stands before its colons is no name
        (["unavailable_after: Thu, 25 Jun 2037, 15:00:00, otherbot: noai"], False),
        (["max-image-preview:large, noai"], True),
        (["otherbot: noarchive", "OURBOT: nofollow, NoML"], True),
        (["noai:", "ourbots: noai", "noaimages"], False),
        (["*: noindex"], True),
        ([], False),
    ],
)
def test_opt_out_headers(server: Server, headers: list[str], obeyed: bool) -> None:
    url = server.on("/i.jpg", Answer(b"x", headers=[("X-Robots-Tag", h) for h in headers]))
    found = fetch(url, replace(OPEN, agent="OurBot"))
    assert (isinstance(found, FetchFailed) and found.reason is Reason.OPT_OUT) == obeyed
    assert isinstance(found, Fetched) != obeyed


def test_what_is_obeyed_can_be_chosen(server: Server) -> None:
    url = server.on("/i.jpg", Answer(b"x", headers=[("X-Robots-Tag", "noai, nopix")]))
    assert isinstance(fetch(url, replace(OPEN, opt_out=())), Fetched)
    assert fetch(url, replace(OPEN, opt_out=("NoPix",))) == FetchFailed(Reason.OPT_OUT, "X-Robots-Tag: NoPix")


def test_failures_have_their_reasons(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(server.on("/empty", Answer(b""))) is Reason.EMPTY
    assert reason(server.on("/302", Answer(status=302))) is Reason.HTTP_STATUS
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert reason(f"http://127.0.0.1:{port}/") is Reason.CONNECTION
    assert reason(server.on("/junk", Answer(raw=b"this is no HTTP\r\n\r\n"))) is Reason.CONNECTION
    assert reason(server.on("/gz", Answer(b"not gzip", headers=[("Content-Encoding", "gzip")]))) is Reason.CONNECTION
    with never_connecting() as port:
        assert reason(f"http://127.0.0.1:{port}/", replace(OPEN, connect_timeout=0.3)) is Reason.TIMEOUT_CONNECT

    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert reason("http://nowhere.example/") is Reason.NAME_RESOLUTION


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "ftp://h.example/a.jpg",
        "//h.example/a.jpg",
        "http://",
        "http://h.example:99999/a.jpg",
        "http://[::1/a.jpg",
        "http://" + "a" * 300 + ".example/a.jpg",
        "",
        "http:///a.jpg",
        "http:/h.example/a.jpg",
        "javascript:alert(1)",
        "http://h.example\n.evil/",
        "http://h .example/",
        "http://a..example/",
        "gopher://h.example/",
        "h.example/a.jpg",
    ],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert reason(url) is Reason.BAD_URL


def test_a_proxy_gets_http_and_https_whole(server: Server) -> None:
    policy = Policy(proxy=server.root)
    server.on("http://a.invalid/x.jpg", Answer(b"one"))
    server.on("https://b.invalid/y.jpg", Answer.redirect("https://c.invalid/z.jpg?q=1"))
    server.on("https://c.invalid/z.jpg?q=1", Answer(b"two"))
    assert body("http://a.invalid/x.jpg#part", policy) == b"one"
    assert body("https://b.invalid/y.jpg", policy) == b"two"
    assert server.requests == ["http://a.invalid/x.jpg", "https://b.invalid/y.jpg", "https://c.invalid/z.jpg?q=1"]
    with pytest.raises(InputError, match="not a proxy"):
        Fetcher(Policy(proxy="socks5://127.0.0.1:1"))
