"""What is never reached, whatever a url or a server says."""

from __future__ import annotations

import socket
from typing import Any

import pytest

pytest.importorskip("urllib3")

from pipeline.download.fetching import addresses
from pipeline.download.fetching.addresses import is_public
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pools.errors import InputError
from pools.schema import Reason
from tests.pipeline.server import Answer, Server


def reason(url: str, policy: Policy) -> Reason:
    found = Fetcher(policy).fetch(url)
    assert isinstance(found, FetchFailed), found
    return found.reason


HERE = (
    "127.0.0.1 [::1] 127.1 0x7f.1 0x7f000001 0177.0.0.1 2130706433 0.0.0.0 localhost LOCALHOST [::ffff:127.0.0.1] "
    "[::ffff:7f00:1] [::] user:word@127.0.0.1 a.example@127.0.0.1 %31%32%37.0.0.1"
)


@pytest.mark.parametrize("host", HERE.split())
def test_this_machine_is_refused(server: Server, host: str) -> None:
    server.on("/", Answer(b"secret"))
    for scheme in ("http", "https"):
        assert reason(f"{scheme}://{host}:{server.port}/", Policy()) is Reason.PRIVATE_ADDRESS
    assert server.connections == 0


INNER = (
    "169.254.169.254 [fd00:ec2::254] 100.100.100.200 168.63.129.16 10.0.0.1 [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [ff02::1] "
    "[2002:7f00:1::] [fe80::1] [fe80::1%25lo] 224.0.0.1 255.255.255.255 0251.0376.0251.0376 0xa9fea9fe"
)


@pytest.mark.parametrize("host", INNER.split())
def test_inner_networks_are_refused(host: str) -> None:
    assert reason(f"http://{host}/latest/meta-data/", Policy(connect_timeout=0.1)) is Reason.PRIVATE_ADDRESS


@pytest.mark.parametrize("name", ["pictures.example", "localhost.", "LocalHost.Example."])
def test_a_name_for_a_private_address_is_refused_and_looked_up_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    calls = []

    def inside(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        calls.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", inside)
    assert reason(f"http://{name}:{server.port}/", Policy()) is Reason.PRIVATE_ADDRESS
    # The checked answer is the one connected to: a second lookup could be answered otherwise.
    assert (calls, server.requests) == ([name.lower()], [])


def test_of_a_names_addresses_only_public_ones_are_connected_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1")  # which stands for the open internet
    names = {"mixed.example": ["127.0.0.2", "127.0.0.1"], "inner.example": ["127.0.0.2"]}
    found = {name: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ips] for name, ips in names.items()}
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **kwargs: found[host])
    server.on("/", Answer(b"x"))
    with socket.create_server(("127.0.0.2", server.port)) as inner:
        policy = Policy(deadline=2, retries=0)
        assert isinstance(Fetcher(policy).fetch(f"http://mixed.example:{server.port}/"), Fetched)
        assert reason(f"http://inner.example:{server.port}/", policy) is Reason.PRIVATE_ADDRESS
        inner.settimeout(0)
        with pytest.raises(BlockingIOError):
            inner.accept()
    assert server.connections == 1


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://169.254.169.254/latest/meta-data/", Reason.PRIVATE_ADDRESS),
        ("http://10.0.0.1/", Reason.PRIVATE_ADDRESS),
        ("https://[::1]:{port}/", Reason.PRIVATE_ADDRESS),
        ("//127.0.0.2:{port}/", Reason.PRIVATE_ADDRESS),
        ("file:///etc/passwd", Reason.BAD_URL),
        ("gopher://127.0.0.1:{port}/", Reason.BAD_URL),
    ],
)
def test_a_redirect_leads_nowhere_that_a_url_may_not(
    server: Server, monkeypatch: pytest.MonkeyPatch, target: str, expected: Reason
) -> None:
    # The server stands for one on the open internet.
    monkeypatch.setattr(addresses, "is_public", lambda address: address == "127.0.0.1" or is_public(address))
    target = target.format(port=server.port)
    found = Fetcher(Policy()).fetch(server.on("/1", Answer.redirect("/2")))
    assert isinstance(found, FetchFailed)
    assert found.reason is Reason.HTTP_STATUS  # a redirect within is followed
    server.on("/2", Answer.redirect(target))
    found = Fetcher(Policy()).fetch(server.root + "/1")
    assert isinstance(found, FetchFailed)
    assert (found.reason, found.final_url) == (expected, target if target[0] != "/" else "http:" + target)
    assert server.requests == ["/1", "/2"] * 2


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


@pytest.mark.parametrize("agent", ["a\r\nEvil: 1", "\u00fcmlaut", "a\x00"])
def test_a_user_agent_cannot_smuggle_a_header(agent: str) -> None:
    with pytest.raises(InputError, match="not a user agent"):
        Policy(user_agent=agent)
    with pytest.raises(InputError, match="not a crawler's name"):
        Policy(agent=agent)


def test_words_in_a_url_are_told_to_nobody(server: Server) -> None:
    server.on("/", Answer(b"x"))
    Fetcher(Policy(allow_private=True)).fetch(f"http://user:word@127.0.0.1:{server.port}/")
    assert "word" not in str(server.headers[0].values()) + server.requests[0]
