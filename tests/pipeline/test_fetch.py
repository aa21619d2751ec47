"""One url: policy, redirects, retries, limits, refusals, all against real servers on loopback."""

from __future__ import annotations

import gzip
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.network import is_public
from pools.errors import InputError
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, serve

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as s:
        yield s


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


def test_connections_are_reused(server: Server) -> None:
    url = server.on("/a", Answer(b"x" * 100_000))
    fetcher = Fetcher(OPEN)
    assert all(isinstance(fetcher.fetch(url), Fetched) for _ in range(3))
    assert server.connections == 1


def test_an_unread_body_is_not_the_next_answer(server: Server) -> None:
    fetcher = Fetcher(replace(OPEN, max_bytes=1000))
    good = server.on("/good", Answer(b"picture"))
    for bad in (Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake", 404), Answer(b"x" * 5000)):
        assert isinstance(fetcher.fetch(server.on("/bad", bad)), FetchFailed)
        found = fetcher.fetch(good)
        assert isinstance(found, Fetched)
        assert found.body == b"picture"


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


def test_the_cap_holds_after_decompression_and_before_the_body(server: Server) -> None:
    policy = replace(OPEN, max_bytes=1_000_000)
    bomb = gzip.compress(bytes(50_000_000))
    assert reason(server.on("/bomb", Answer(bomb, headers=[("Content-Encoding", "gzip")])), policy) is Reason.TOO_LARGE
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


def test_redirects_to_names_in_other_scripts(server: Server) -> None:
    server.on("/pe%C3%B1a.jpg", Answer(b"there"))
    url = server.on("/1", Answer(raw="HTTP/1.1 302 Found\r\nLocation: /peña.jpg\r\nContent-Length: 0\r\n\r\n".encode()))
    assert body(url) == b"there"


# T27
def test_retries(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    once = replace(OPEN, retries=1)
    assert body(server.on("/busy", Answer(status=503), Answer(b"ok")), once) == b"ok"
    assert body(server.on("/reset", Answer(reset=True), Answer(b"ok")), once) == b"ok"
    assert body(server.on("/cut", Answer(b"half", cut=True), Answer(b"halfhalf")), once) == b"halfhalf"
    found = fetch(server.on("/gone", Answer(status=404)), replace(OPEN, retries=3))
    assert (found, server.count("/gone")) == (FetchFailed(Reason.HTTP_STATUS, "HTTP 404"), 1)
    assert reason(server.on("/down", Answer(status=500)), replace(OPEN, retries=2)) is Reason.HTTP_STATUS
    assert server.count("/down") == 3

    real, calls = socket.getaddrinfo, []

    def flaky(host: str, *args: Any, **kwargs: Any) -> Any:
        calls.append(host)
        if len(calls) == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return real("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", flaky)
    server.on("/named", Answer(b"ok"))
    assert body(f"http://pictures.example:{server.port}/named", once) == b"ok"
    assert len(calls) == 2


def test_waits_between_tries_grow_and_respect_the_deadline(server: Server) -> None:
    url = server.on("/busy", Answer(status=429))
    start = time.monotonic()
    assert reason(url, replace(OPEN, retries=2, retry_wait=0.2)) is Reason.HTTP_STATUS
    assert 0.6 <= time.monotonic() - start < 2  # 0.2 + 0.4
    start = time.monotonic()
    assert reason(url, replace(OPEN, retries=9, retry_wait=0.2, deadline=1)) is Reason.HTTP_STATUS
    assert time.monotonic() - start < 1


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
        ([], False),
    ],
)
def test_opt_out_headers(server: Server, headers: list[str], obeyed: bool) -> None:
    url = server.on("/i.jpg", Answer(b"x", headers=[("X-Robots-Tag", h) for h in headers]))
    found = fetch(url, replace(OPEN, agent="OurBot"))
    assert (isinstance(found, FetchFailed) and found.reason is Reason.OPT_OUT) == obeyed
    assert isinstance(found, Fetched) != obeyed


def test_failures_have_their_reasons(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason(server.on("/empty", Answer(b""))) is Reason.EMPTY
    assert reason(server.on("/302", Answer(status=302))) is Reason.HTTP_STATUS
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert reason(f"http://127.0.0.1:{port}/") is Reason.CONNECTION
    assert reason(server.on("/junk", Answer(raw=b"this is no HTTP\r\n\r\n"))) is Reason.CONNECTION
    assert reason(server.on("/gz", Answer(b"not gzip", headers=[("Content-Encoding", "gzip")]))) is Reason.CONNECTION
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # Fills the queue of a server that accepts no one.
        waiting = [socket.socket() for _ in range(4)]
        for w in waiting:
            w.setblocking(False)
            w.connect_ex(full.getsockname())
        stuck = f"http://127.0.0.1:{full.getsockname()[1]}/"
        assert reason(stuck, replace(OPEN, connect_timeout=0.3)) is Reason.TIMEOUT_CONNECT
        for w in waiting:
            w.close()

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
    ],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert reason(url) is Reason.BAD_URL


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "127.1", "2130706433", "0.0.0.0", "localhost", "[::ffff:127.0.0.1]"])
def test_this_machine_is_refused(server: Server, host: str) -> None:
    server.on("/", Answer(b"secret"))
    assert reason(f"http://{host}:{server.port}/", Policy()) is Reason.PRIVATE_ADDRESS
    assert reason(f"https://{host}:{server.port}/", Policy()) is Reason.PRIVATE_ADDRESS
    assert server.requests == []


def test_a_name_for_a_private_address_is_refused_and_looked_up_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def inside(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        calls.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", inside)
    assert reason(f"http://pictures.example:{server.port}/", Policy()) is Reason.PRIVATE_ADDRESS
    # The checked answer is the one connected to: a second lookup could be answered otherwise.
    assert (calls, server.requests) == (["pictures.example"], [])


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "file:///etc/passwd"])
def test_a_redirect_leads_nowhere_that_a_url_may_not(server: Server, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    import pipeline.download.network as network

    # The server stands for one on the open internet.
    monkeypatch.setattr(network, "is_public", lambda address: address == "127.0.0.1" or is_public(address))
    found = reason(server.on("/r", Answer.redirect(target)), Policy())
    assert found is (Reason.BAD_URL if target.startswith("file") else Reason.PRIVATE_ADDRESS)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.100.100.200", False),
        ("192.0.0.192", False),
        ("168.63.129.16", False),
        ("224.0.0.1", False),
        ("239.1.1.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b:1::a9fe:a9fe", False),
        ("fec0::1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(address) == public


def test_a_url_cannot_smuggle_a_header(server: Server) -> None:
    policy = Policy(proxy=server.root)
    for url in ("http://a.invalid/x HTTP/1.1\r\nEvil: 1\r\n\r\n", " http://a.invalid/pe\u00f1a x%20.jpg\n"):
        assert reason(url, policy) is Reason.HTTP_STATUS
    assert server.requests == ["http://a.invalid/x%20HTTP/1.1%0D%0AEvil:%201", "http://a.invalid/pe%C3%B1a%20x%20.jpg"]


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


def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*make, *subject, "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with serve(lambda s: context.wrap_socket(s, server_side=True)) as server:
        server.on("/a", Answer(b"whole"))
        server.on("/slow", Answer(b"x", drip=0.2, endless=True))
        root = f"https://localhost:{server.port}"
        assert reason(root + "/a") is Reason.CONNECTION  # nobody vouches for the certificate
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert body(root + "/a") == b"whole"
        assert reason(f"https://127.0.0.1:{server.port}/a") is Reason.CONNECTION  # another name than the certificate's
        start = time.monotonic()
        assert reason(root + "/slow", replace(OPEN, deadline=1)) is Reason.TIMEOUT_TOTAL
        assert time.monotonic() - start < 2
