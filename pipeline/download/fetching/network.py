"""Connections for fetching hostile urls: kept open, made to no address but a checked one, bounded by the url's clock."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections import OrderedDict

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from pipeline.download.fetching import addresses
from pipeline.download.fetching.clock import Clock
from pipeline.download.fetching.http1 import BadAnswer, Connection, Head
from pipeline.download.fetching.resolve import MISSING, Address, RememberedError, Resolver
from pools.errors import InputError

CONNECTIONS_KEPT = 256  # open and unused; the first to go are those to the origin that was left alone the longest
_TRIED = 4  # addresses of one host
_PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int]  # scheme, host, port


class BadUrl(ValueError):
    """Not an address of the web."""


class PrivateAddress(Exception):
    """A host whose addresses are all private, loopback, link-local, multicast or reserved."""


class NoName(Exception):
    """The host's name leads to no address, or not in time.

    `missing`: there is no such name, so the resolver says; `known`: it said so earlier.
    """

    def __init__(self, message: str, *, missing: bool = False, known: bool = False) -> None:
        super().__init__(message)
        self.missing, self.known = missing, known


class NoConnection(Exception):
    """The host refuses, or cannot be reached."""


class ConnectTimeout(NoConnection):
    """The host did not answer in time."""


class TlsFailure(Exception):
    """The host cannot prove who it is, or speaks no TLS."""


FAILURES = (BadUrl, PrivateAddress, NoName, NoConnection, TlsFailure, BadAnswer, OSError)


def is_silence(error: Exception) -> bool:
    """Whether a request failed without a word from its host, or from whoever should know where it is."""
    return isinstance(error, NoConnection | OSError) or (isinstance(error, NoName) and not error.missing)


def parse(url: str) -> Url:
    """A url in its parts, with what may not stand in one percent-encoded. Raises BadUrl."""
    try:
        parts = parse_url(url)
    except LocationParseError as e:
        raise BadUrl(str(e)) from None
    if parts.scheme not in _PORTS:
        raise BadUrl(f"scheme {parts.scheme or 'missing'}, only http and https are fetched")
    if not parts.host:
        raise BadUrl("no host")
    return parts


def origin_of(url: Url) -> Origin:
    assert url.scheme is not None
    assert url.host is not None
    return url.scheme, url.host, url.port or _PORTS[url.scheme]


class Web:
    """Requests to any host, or all of them to a forward proxy, which is sent each url whole, https too (no tunnels)."""

    def __init__(self, *, user_agent: str, connect_timeout: float, allow_private: bool, proxy: str | None = None) -> None:
        self._connect_timeout = connect_timeout
        self._allow_private = allow_private or proxy is not None  # a proxy is named by the user, and often on loopback
        self._proxy = None if proxy is None else _proxy(proxy)
        self._headers = (
            f"User-Agent: {user_agent}\r\nAccept: image/*,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
        )
        self._resolver = Resolver()
        self._tls = ssl.create_default_context()  # one for all connections: making one takes 16 ms
        self._tls.set_alpn_protocols(["http/1.1"])
        self._lock = threading.Lock()
        self._idle: OrderedDict[Origin, list[Connection]] = OrderedDict()
        self._kept = 0

    def request(self, url: Url, clock: Clock, *, afresh: bool = False) -> tuple[Head, Connection]:
        """The head of a url's answer, and the connection to read its body from, to be given to `release`.

        `afresh`: a name that is remembered as missing is looked up again. Raises FAILURES.
        """
        origin = origin_of(url)
        scheme, host, port = origin
        name = host if port == _PORTS[scheme] else f"{host}:{port}"
        target = url.request_uri if self._proxy is None else f"{scheme}://{name}{url.request_uri}"
        request = f"GET {target} HTTP/1.1\r\nHost: {name}\r\n{self._headers}".encode("latin-1")
        while True:
            connection = self._reused(self._proxy or origin)
            fresh = connection is None
            connection = connection or self._dial(self._proxy or origin, clock, afresh)
            try:
                connection.send(request, clock)
                return connection.head(), connection
            except (ConnectionError, ssl.SSLEOFError):
                connection.close()
                if fresh:  # else it was closed just now, for its age
                    raise
            except BaseException:
                connection.close()
                raise

    def release(self, connection: Connection) -> None:
        """Keeps a connection whose answer was read to its end, closes others."""
        old: Connection | None = connection
        if connection.free:
            with self._lock:
                self._idle.setdefault(connection.origin, []).append(connection)
                self._idle.move_to_end(connection.origin)
                self._kept += 1
                old = self._take(next(iter(self._idle)), 0) if self._kept > CONNECTIONS_KEPT else None
        if old is not None:
            old.close()

    def _reused(self, origin: Origin) -> Connection | None:
        while True:
            with self._lock:
                connection = self._take(origin, -1) if origin in self._idle else None
            if connection is None or connection.is_quiet():
                return connection
            connection.close()

    def _take(self, origin: Origin, which: int) -> Connection:
        connections = self._idle[origin]
        connection = connections.pop(which)
        self._kept -= 1
        if not connections:
            del self._idle[origin]
        return connection

    def _dial(self, origin: Origin, clock: Clock, afresh: bool) -> Connection:
        """Resolves, checks each address, and connects to the very address it checked: no second lookup can differ."""
        scheme, host, port = origin
        host, left = host.strip("[]"), clock.remaining()
        try:
            found = self._resolver.addresses(host, port, left, afresh=afresh)
        except socket.gaierror as e:
            raise NoName(str(e), missing=e.errno in MISSING, known=isinstance(e, RememberedError)) from None
        except TimeoutError:
            raise NoName("no answer from the resolver in time") from None
        except ValueError:
            raise BadUrl(f"{host}: not a host name") from None
        allowed = [f for f in found if self._allow_private or addresses.is_public(str(f[1][0]))]
        if not allowed:
            raise PrivateAddress(f"{host} is at a private address")
        until = time.monotonic() + min(self._connect_timeout, clock.remaining())
        sock = _connect(allowed[:_TRIED], until)
        return Connection(sock if scheme == "http" else self._secured(sock, host, until), origin, clock)

    def _secured(self, sock: socket.socket, host: str, until: float) -> ssl.SSLSocket:
        try:
            sock.settimeout(max(until - time.monotonic(), 0.001))
            return self._tls.wrap_socket(sock, server_hostname=host.rstrip("."))
        except (OSError, ValueError) as e:
            sock.close()
            match e:
                case TimeoutError():
                    raise ConnectTimeout("no TLS in time") from None
                case ssl.SSLCertVerificationError():
                    raise TlsFailure(f"TLS: {e.verify_message}") from None
                case ssl.SSLError():
                    raise TlsFailure(f"TLS: {e.reason}") from None
                case OSError():
                    raise
            raise TlsFailure(f"TLS: {e}") from None


def _connect(found: list[Address], until: float) -> socket.socket:
    """A connection to one of the addresses, each of which gets an equal share of the time."""
    error = OSError("no address")
    for i, (family, address) in enumerate(found):
        with contextlib.ExitStack() as failed:
            try:
                sock = failed.enter_context(socket.socket(family, socket.SOCK_STREAM))
                sock.settimeout(max((until - time.monotonic()) / (len(found) - i), 0.001))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.connect(address)
            except OSError as e:
                error = e
            else:
                failed.pop_all()
                return sock
    raise (ConnectTimeout if isinstance(error, TimeoutError) else NoConnection)(str(error))


def _proxy(url: str) -> Origin:
    wrong = InputError(f"not a proxy: {url}", expected="http://HOST:PORT")
    try:
        parts = parse(url)
    except BadUrl:
        raise wrong from None
    if parts.scheme != "http":
        raise wrong
    return origin_of(parts)
