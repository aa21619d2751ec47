"""The replay proxy, asked by a real client over loopback."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from pipeline.archive import Answer, Archive, join_chunks
from pipeline.replay import Proxy, replay
from pools.errors import InputError, WorkFailed

PAGE = "http://e.example/a.html"


def record(url: str, content: bytes, kind: str = "response", content_type: str = "application/http;msgtype=response") -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nContent-Type: {content_type}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n%b\r\n\r\n" % (len(content), content)


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode() + body


def write(path: Path, *records: bytes) -> str:
    path.write_bytes(b"".join(gzip.compress(r) for r in records) if path.suffix == ".gz" else b"".join(records))
    return str(path)


@contextlib.contextmanager
def client(proxy: Proxy, size: int = 4) -> Iterator[urllib3.HTTPConnectionPool]:
    """A pool of connections to the proxy, to be asked for whole addresses: urllib3's own proxy support tunnels https."""
    with urllib3.HTTPConnectionPool("127.0.0.1", proxy.port, maxsize=size, retries=False, timeout=20) as pool:
        yield pool


def ask(lookup: Any, url: str, method: str = "GET", **more: Any) -> urllib3.BaseHTTPResponse:
    with Proxy(lookup) as proxy, client(proxy) as manager:
        return manager.request(method, url, assert_same_host=False, **more)


def test_a_dict_of_answers_is_served_for_http_and_https() -> None:
    web: dict[str, Answer] = {
        "http://e.example/i.jpg": (200, [("Content-Type", "image/jpeg")], b"one"),
        "https://e.example/i.jpg": (200, [("Content-Type", "image/png"), ("X-Robots-Tag", "noai")], b"two"),
        "http://e.example/moved": (301, [("Location", "https://e.example/i.jpg")], b""),
    }
    with Proxy(web) as proxy, client(proxy) as manager:
        plain = manager.request("GET", "http://e.example/i.jpg", assert_same_host=False)
        secure = manager.request("GET", "https://e.example/i.jpg", assert_same_host=False)
        assert (plain.status, plain.headers["content-type"], plain.data) == (200, "image/jpeg", b"one")
        assert (secure.status, secure.headers["x-robots-tag"], secure.data) == (200, "noai", b"two")
        assert (
            manager.request("GET", "http://e.example/moved", redirect=False, assert_same_host=False).headers["location"]
            == "https://e.example/i.jpg"
        )


def test_an_unknown_address_is_404_and_says_so() -> None:
    response = ask({}, "http://nowhere.example/i.jpg")
    assert (response.status, response.data) == (404, b"No response is recorded for http://nowhere.example/i.jpg\n")


def exchange(proxy: Proxy, *requests: str) -> bytes:
    """All that comes back on one connection; the last request asks for its end."""
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as s:
        *first, last = requests
        for line in first:
            s.sendall(f"{line} HTTP/1.1\r\nHost: e.example\r\n\r\n".encode())
        s.sendall(f"{last} HTTP/1.1\r\nHost: e.example\r\nConnection: close\r\n\r\n".encode())
        return s.makefile("rb").read()


def test_head_gives_the_length_and_no_body() -> None:
    with Proxy({PAGE: (200, [("Content-Type", "text/html")], b"12345")}) as proxy:
        head, body, rest = (
            exchange(proxy, f"HEAD {PAGE}", f"GET {PAGE}").partition(b"HTTP/1.1 200 OK\r\n")[2].partition(b"HTTP/")
        )
    assert head == b"Content-Type: text/html\r\nContent-Length: 5\r\n\r\n"
    assert (body + rest).endswith(b"Content-Length: 5\r\nConnection: close\r\n\r\n12345")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    with Proxy({PAGE: (status, [], b"body"), "http://e.example/b": (200, [], b"b")}) as proxy:
        said = exchange(proxy, f"GET {PAGE}", "GET http://e.example/b")
    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert said.split(b"\r\n\r\n")[1:] == [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close", b"b"]


def test_what_a_forward_proxy_does_not_do_is_refused_with_the_reason() -> None:
    with Proxy({}) as proxy, client(proxy) as manager:
        assert manager.request("POST", PAGE, body=b"x", assert_same_host=False).status == 501
        direct = urllib3.request("GET", proxy.url + "/i.jpg")
        assert direct.status == 400
        assert b"forward proxy" in direct.data
        said = exchange(proxy, "CONNECT e.example:443")
        assert said.startswith(b"HTTP/1.1 405 ")
        assert b"forward" in said


def test_recorded_headers_of_the_old_connection_are_not_sent_on_and_cannot_break_out() -> None:
    headers = [("Transfer-Encoding", "chunked"), ("Content-Length", "999"), ("Connection", "close"), ("X-A", "1\r\nX-B: 2")]
    response = ask({PAGE: (200, [*headers, ("X-C", "é")], b"body")}, PAGE)
    assert response.data == b"body"
    assert {k.lower() for k in response.headers} == {"content-length", "x-c"}


@pytest.mark.parametrize(("status", "expected"), [(100, 502), (0, 502), (999, 999)])
def test_a_recorded_status_that_ends_no_request_does_not_hang_a_client(status: int, expected: int) -> None:
    assert ask({PAGE: (status, [], b"body")}, PAGE).status == expected


def test_a_failing_lookup_is_502() -> None:
    class Broken:
        def get(self, url: str, /) -> Answer | None:
            raise WorkFailed("the file has gone")

    response = ask(Broken(), PAGE)
    assert response.status == 502
    assert b"the file has gone" in response.data


def test_a_port_that_is_taken_or_none_is_the_users_error() -> None:
    with Proxy({}) as proxy, pytest.raises(InputError, match="cannot be had"):
        Proxy({}, proxy.port)
    with pytest.raises(InputError, match="70000"):
        Proxy({}, 70000)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_responses_and_resources_of_a_warc_are_served(tmp_path: Path, name: str) -> None:
    chunked = b"4\r\nWiki\r\n6;x=y\r\npedia \r\n0\r\n\r\n"
    packed = gzip.compress(b"packed", mtime=0)
    warc = write(
        tmp_path / name,
        record("http://e.example/", answer(b"root", "Content-Type: text/html")),
        record("https://e.example/chunked", answer(chunked, "Transfer-Encoding: chunked")),
        record("http://e.example/not-chunked", answer(b"plain", "Transfer-Encoding: chunked")),
        record("http://e.example/packed", answer(packed, "Content-Encoding: gzip")),
        record("http://e.example/unpacked", answer(b"plain", "Content-Encoding: gzip")),
        record("http://e.example/file.png", b"\x89PNG", "resource", "image/png"),
        record("http://e.example/asked", b"GET / HTTP/1.1\r\n\r\n", "request"),
        record("dns:e.example", answer(b"x")),
        record("http://e.example/404", answer(b"gone", status="404 Not Found")),
    )
    archive = Archive([warc])
    assert (len(archive.urls), archive.problems) == (7, [])
    with Proxy(archive) as proxy, client(proxy) as manager:

        def body(url: str) -> tuple[int, bytes]:
            response = manager.request("GET", url, assert_same_host=False)
            return response.status, response.data

        assert body("http://e.example/") == (200, b"root")
        assert body("https://e.example/chunked") == (200, b"Wikipedia ")
        assert body("http://e.example/not-chunked") == (200, b"plain")
        assert body("http://e.example/packed") == (200, b"packed")
        assert body("http://e.example/unpacked") == (200, b"plain")
        assert body("http://e.example/file.png") == (200, b"\x89PNG")
        assert body("http://e.example/404") == (404, b"gone")
        assert body("http://e.example/asked")[0] == 404
        assert manager.request("GET", "http://e.example/packed", decode_content=False, assert_same_host=False).data == packed


def test_of_several_responses_the_first_good_one_counts(tmp_path: Path) -> None:
    warc = write(
        tmp_path / "a.warc",
        record(PAGE, answer(b"busy", status="503 Slow Down")),
        record(PAGE, answer(b"first")),
        record(PAGE, answer(b"second")),
    )
    assert Archive([warc]).get(PAGE) == (200, (), b"first")


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        ("http://e.example/a#part", "http://e.example/a"),
        ("http://e.example/a", "http://e.example/a#part"),
        ("http://e.example:80/a", "http://E.example/a"),
        ("https://e.example/a", "https://e.example:443/a"),
        ("http://e.example", "http://e.example/"),
        ("http://e.example/a%c3%b1", "http://e.example/a%C3%B1"),
        ("http://e.example/a peña", "http://e.example/a%20pe%C3%B1a"),
        ("<http://e.example/a>", "http://e.example/a"),
    ],
)
def test_addresses_that_clients_write_otherwise_are_found(tmp_path: Path, recorded: str, asked: str) -> None:
    archive = Archive([write(tmp_path / "a.warc", record(recorded, answer(b"x")))])
    assert archive.get(asked) is not None
    for other in (asked.partition("#")[0] + "b", asked.replace("e.", "f.").replace("E.", "f.")):
        assert archive.get(other) is None


@pytest.mark.parametrize(
    ("body", "joined"),
    [
        (b"3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", b"abcde"),
        (b"3\nabc\n0\n\n", b"abc"),
        (b"3\r\nabc\r\n5\r\nde", b"abcde"),  # cut
        (b"3\r\nabc", b"abc"),
        (b"<html>", b"<html>"),
        (b"3\r\nabcdefgh", b"3\r\nabcdefgh"),
        (b"3\r\nabc\r\nzz\r\n", b"3\r\nabc\r\nzz\r\n"),
        (b"", b""),
    ],
)
def test_chunks_are_joined_where_there_are_any(body: bytes, joined: bytes) -> None:
    assert join_chunks(body) == joined


def test_what_precedes_the_damage_is_served_and_the_damage_named(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    write(path, record(PAGE, answer(b"one")), record("http://e.example/b", answer(b"two" * 100)))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-20])
    archive = Archive([str(path)])
    assert archive.urls == [PAGE]
    assert len(archive.problems) == 1
    assert archive.problems[0].startswith(f"{path}: truncated at byte {size - 20}")
    path.write_bytes(b"")
    with pytest.raises(WorkFailed, match="cannot be read any more"):
        archive.get(PAGE)


def test_files_that_hold_nothing_to_replay_are_refused(tmp_path: Path) -> None:
    (tmp_path / "page.warc").write_bytes(b"<html>")
    with pytest.raises(InputError, match="no WARC record"):
        replay([str(tmp_path / "page.warc")])
    with pytest.raises(InputError, match="no such file"):
        replay([str(tmp_path / "absent.warc")])
    with pytest.raises(InputError, match="no recorded response"):
        replay([write(tmp_path / "asked.warc", record(PAGE, b"GET / HTTP/1.1\r\n\r\n", "request"))])


def test_replay_tells_its_address_and_ends_on_an_interrupt(tmp_path: Path) -> None:
    warc = write(tmp_path / "a.warc", record(PAGE, answer(b"x")))
    # A background job of a shell ignores interrupts, and so do its children, unless they say otherwise.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pipeline.replay import replay; replay(sys.argv[1:])"
    )
    with subprocess.Popen([sys.executable, "-c", program, warc], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = line.split()[-1]
        assert line.startswith("replaying 1 urls")
        with urllib3.ProxyManager(address) as manager:
            assert manager.request("GET", PAGE, assert_same_host=False).data == b"x"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT


@pytest.mark.shared
def test_sixteen_threads_get_the_twenty_images_of_a_real_page(shared_data: Path) -> None:
    warc = shared_data / "warc" / "books.toscrape.warc"
    # The records' bodies by an independent parser.
    fastwarc = pytest.importorskip("fastwarc.warc")
    recorded = {}
    with warc.open("rb") as f:
        for r in fastwarc.ArchiveIterator(f, record_types=fastwarc.WarcRecordType.response):
            if r.http_content_type == "image/jpeg":
                recorded[r.headers["WARC-Target-URI"]] = hashlib.sha1(r.reader.read()).hexdigest()
    images = [u for u in recorded if "/media/cache/" in u]
    assert len(images) == 20
    with Proxy(Archive([str(warc)])) as proxy, client(proxy, 16) as manager, ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda u: manager.request("GET", u, assert_same_host=False), images * 5))
    assert {r.status for r in answers} == {200}
    assert {r.headers["content-type"] for r in answers} == {"image/jpeg"}
    assert [hashlib.sha1(r.data).hexdigest() for r in answers] == [recorded[u] for u in images] * 5
    assert all(r.data.startswith(b"\xff\xd8\xff") for r in answers)


@pytest.mark.shared
def test_bodies_of_a_real_archive_have_the_digests_that_the_crawler_wrote(shared_data: Path) -> None:
    path = shared_data / "warc" / "archive-org-2008.warc.gz"
    raw = gzip.decompress(path.read_bytes())
    archive = Archive([str(path)])
    checked = 0
    # Split by hand: no record of this file holds another's version line.
    for part in raw.split(b"WARC/0.17\r\n")[1:]:
        fields = dict(line.split(": ", 1) for line in part.split(b"\r\n\r\n")[0].decode().split("\r\n"))
        found = archive.get(fields.get("WARC-Target-URI", ""))
        if fields["WARC-Type"] == "response" and "WARC-Payload-Digest" in fields and found is not None:
            digest = "sha1:" + base64.b32encode(hashlib.sha1(found[2]).digest()).decode()
            checked += digest == fields["WARC-Payload-Digest"]
    assert checked > 200
