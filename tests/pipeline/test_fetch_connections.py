"""Connections: used again, bounded, and TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching import network
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, serve

OPEN = Policy(allow_private=True, deadline=5, retry_wait=0.05)


def reason(url: str, policy: Policy = OPEN) -> Reason:
    found = Fetcher(policy).fetch(url)
    assert isinstance(found, FetchFailed), found
    return found.reason


def test_connections_are_reused_whatever_the_answers_are(server: Server) -> None:
    fetcher = Fetcher(OPEN)
    picture = server.on("/a", Answer(b"x" * 100_000))
    urls = [picture, server.on("/gone", Answer(b"no such page", 404)), server.on("/r", Answer.redirect("/a")), picture]
    for url in urls * 5:
        fetcher.fetch(url)
    assert (len(server.requests), server.connections) == (25, 1)


def test_threads_need_no_more_connections_than_requests_at_once(server: Server) -> None:
    url = server.on("/a", Answer(b"x" * 1000, delay=0.01))
    fetcher = Fetcher(replace(OPEN, per_host=3))
    with ThreadPoolExecutor(12) as workers:
        assert all(isinstance(f, Fetched) for f in workers.map(fetcher.fetch, [url] * 60))
    assert server.connections == 3


def test_a_connection_that_was_closed_meanwhile_is_no_failure(server: Server) -> None:
    fetcher = Fetcher(replace(OPEN, retries=0))
    url = server.on("/a", Answer(b"x"), Answer(reset=True), Answer(b"y"))
    found = [fetcher.fetch(url) for _ in range(2)]
    assert [f.body for f in found if isinstance(f, Fetched)] == [b"x", b"y"]
    closing = server.on("/c", Answer(b"x", headers=[("Connection", "close")]))
    assert all(isinstance(fetcher.fetch(closing), Fetched) for _ in range(3))
    assert reason(server.on("/r", Answer(reset=True)), replace(OPEN, retries=0)) is Reason.CONNECTION


def test_open_connections_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CONNECTIONS_KEPT", 2)
    server.on("/a", Answer(b"x"))
    fetcher = Fetcher(OPEN)
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: here)
    for host in "abcbca":
        assert isinstance(fetcher.fetch(f"http://{host}.example:{server.port}/a"), Fetched)
    assert server.connections == 4


def test_an_unread_body_is_not_the_next_answer(server: Server) -> None:
    fetcher = Fetcher(replace(OPEN, max_bytes=1000))
    good = server.on("/good", Answer(b"picture"))
    fake = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake"
    for bad in (Answer(fake, 404), Answer(fake, 204), Answer(fake * 1000, 404), Answer(b"x" * 5000)):
        assert isinstance(fetcher.fetch(server.on("/bad", bad)), FetchFailed)
        found = fetcher.fetch(good)
        assert isinstance(found, Fetched)
        assert found.body == b"picture"


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
        fetcher, before = Fetcher(OPEN), server.connections
        found = [fetcher.fetch(root + "/a") for _ in range(4)]
        assert [f.body for f in found if isinstance(f, Fetched)] == [b"whole"] * 4
        assert server.connections == before + 1
        assert reason(f"https://127.0.0.1:{server.port}/a") is Reason.CONNECTION  # another name than the certificate's
        start = time.monotonic()
        assert reason(root + "/slow", replace(OPEN, deadline=1)) is Reason.TIMEOUT_TOTAL
        assert time.monotonic() - start < 2


def test_what_speaks_no_tls(server: Server) -> None:
    server.on("/", Answer(b"x"))
    found = Fetcher(OPEN).fetch(f"https://127.0.0.1:{server.port}/")
    assert isinstance(found, FetchFailed)
    assert (found.reason, found.again, found.message[:5]) == (Reason.CONNECTION, False, "TLS: ")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        start = time.monotonic()
        assert (
            reason(f"https://127.0.0.1:{mute.getsockname()[1]}/", replace(OPEN, connect_timeout=0.3)) is Reason.TIMEOUT_CONNECT
        )
        assert time.monotonic() - start < 3
