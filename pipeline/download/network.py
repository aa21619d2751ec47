"""Connections for fetching hostile urls: a deadline over every blocking read, and no way into private networks.

urllib3's own timeouts start again with each read, so a server that sends a byte now and then holds a thread for ever.
Here the thread that makes a call states until when it may run (`call`), and its sockets read no longer than that: status
line, headers, chunk sizes and body alike. The one thing it does not bound is name resolution, which has the system
resolver's own limits.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationParseError, NameResolutionError, NewConnectionError

HOSTS_KEPT = 256  # hosts with open connections, the least recently used is closed
CONNECTIONS_KEPT = 64  # open connections to one host, or to the proxy
# Addresses that count as global and lead inside all the same: cloud platforms' own services, and 6to4 relays.
_INWARD = tuple(ipaddress.ip_network(n) for n in ("168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2002::/16"))
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_current = threading.local()


class PrivateAddress(HTTPError):
    """A host whose addresses are all private, loopback, link-local, multicast or reserved."""


@contextlib.contextmanager
def call(deadline: float, *, allow_private: bool) -> Iterator[None]:
    """What this thread's connections may do inside the block: read until `deadline` (monotonic seconds), reach whom."""
    _current.deadline, _current.allow_private = deadline, allow_private
    try:
        yield
    finally:
        del _current.deadline, _current.allow_private


def remaining() -> float:
    """Seconds left to this thread's call. Raises TimeoutError where none are."""
    left: float = _current.deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the call's time is over")
    return left


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open internet's."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_public(str(ip.ipv4_mapped))
        if ip not in _GLOBAL_UNICAST:  # NAT64's prefix, which carries any IPv4 address, lies outside
            return False
    inward = any(ip in network for network in _INWARD)
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or inward)


class _Socket(socket.socket):
    """A socket whose reads end at the call's deadline."""

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(remaining())
        return super().recv_into(*args, **kwargs)


class _TlsSocket(ssl.SSLSocket):
    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(remaining())
        return super().recv_into(*args, **kwargs)


class _Dial:
    """Resolves, checks each address, and connects to the very address it checked: no second lookup can differ."""

    _dns_host: str
    port: int
    timeout: float | None

    def _new_conn(self) -> socket.socket:
        host: Any = self._dns_host.strip("[]")
        try:
            found = socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM)
        except socket.gaierror as e:
            raise NameResolutionError(host, self, e) from e  # type: ignore[arg-type]
        except (UnicodeError, ValueError):
            raise LocationParseError(f"{host}: not a host name") from None
        allowed = [f for f in found if _current.allow_private or is_public(str(f[4][0]))]
        if not allowed:
            raise PrivateAddress(f"{host} is at a private address")
        return self._connect(allowed)

    def _connect(self, addresses: list[Any]) -> socket.socket:
        until = time.monotonic() + min(self.timeout or remaining(), remaining())
        error: OSError = OSError("no address")
        for family, kind, protocol, _, address in addresses:
            sock = _Socket(family, kind, protocol)
            try:
                sock.settimeout(max(until - time.monotonic(), 0.001))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.connect(address)
                return sock
            except OSError as e:
                sock.close()
                error = e
        if isinstance(error, TimeoutError):
            raise ConnectTimeoutError(self, "no connection in time") from error
        raise NewConnectionError(self, str(error)) from error  # type: ignore[arg-type]


class _Http(_Dial, HTTPConnection):
    pass


class _Https(_Dial, HTTPSConnection):
    pass


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


def direct() -> urllib3.PoolManager:
    """Connections to any host, kept open for reuse; one TLS context for all of them (making one costs 16 ms)."""
    context = ssl.create_default_context()
    context.sslsocket_class = _TlsSocket
    manager = urllib3.PoolManager(HOSTS_KEPT, maxsize=CONNECTIONS_KEPT, ssl_context=context)
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager


def through(proxy: str) -> HTTPConnectionPool:
    """Connections to a forward proxy, which is sent the absolute url of every request, https too (no tunnels)."""
    url = urllib3.util.parse_url(proxy)
    if url.scheme != "http" or not url.host:
        raise LocationParseError(f"{proxy}: not a proxy's address")
    return _HttpPool(url.host, url.port or 80, maxsize=CONNECTIONS_KEPT)
