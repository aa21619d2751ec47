"""Long bodies over http(s): one request, its redirects followed, each host's address checked before it is connected to."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin
from urllib.request import getproxies, proxy_bypass

from pipeline.download.fetching.addresses import is_public
from pools.errors import InputError, Retry, WorkFailed

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS = 5
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
CONNECT, READ = 10.0, 60.0  # seconds: for a connection, and of silence
USER_AGENT = "winnow/0.1"


@dataclass(frozen=True)
class Answer:
    """The head of an answer; `response.stream` gives its body."""

    url: str  # where redirects led
    status: int
    headers: Mapping[str, str]
    response: Any


def get(url: str, headers: Mapping[str, str], *, allow_private: bool, trusted: bool) -> Answer:
    """The answer to a GET, whatever its status, unless that is a redirect. The caller closes its response.

    `trusted`: what comes is checked against a known hash, so that a redirect from https to http does no harm. Raises
    InputError for an address that is not fetched from, Retry for what may go better next time, WorkFailed.
    """
    at = url
    for _ in range(MAX_REDIRECTS + 1):
        response = _request(at, {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **headers}, allow_private)
        location = response.headers.get("location")
        if response.status not in REDIRECTS or not location:
            return Answer(at, response.status, response.headers, response)
        response.close()
        to = urljoin(at, location)
        if at.startswith("https:") and not to.startswith("https:") and not trusted:
            raise WorkFailed(f"{at}: redirects to {to}, which is not secured, and the file has no known SHA-256")
        at = to
    raise WorkFailed(f"{url}: more than {MAX_REDIRECTS} redirects")


def _request(url: str, headers: dict[str, str], allow_private: bool) -> Any:
    import urllib3
    from urllib3.exceptions import HTTPError, LocationParseError, SSLError

    try:
        parts = urllib3.util.parse_url(url)
    except LocationParseError:
        raise InputError("not an address", where=url, expected="http:// or https://") from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise InputError("not an address that is fetched from", where=url, expected="http:// or https://")
    options: dict[str, Any] = {
        "headers": headers, "redirect": False, "retries": False, "preload_content": False,
        "timeout": urllib3.Timeout(connect=CONNECT, read=READ),
    }  # fmt: skip
    proxy = getproxies().get(parts.scheme)
    try:
        if proxy and not proxy_bypass(parts.host):  # which has its own rules on what may be reached
            return urllib3.ProxyManager(proxy).urlopen("GET", url, **options)
        return _direct(parts, options, allow_private)
    except SSLError as e:
        raise WorkFailed(f"{url}: {e}") from e
    except HTTPError as e:
        raise Retry(f"{url}: {e}") from e


def _direct(parts: Any, options: dict[str, Any], allow_private: bool) -> Any:
    """The answer of the first of a host's addresses that can be connected to: no second lookup can lead elsewhere."""
    import urllib3
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

    host, port = parts.host.strip("[]"), parts.port or (443 if parts.scheme == "https" else 80)
    options["headers"]["Host"] = parts.host if parts.port is None else f"{parts.host}:{port}"
    try:
        found = dict.fromkeys(str(f[4][0]) for f in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError as e:
        passing = isinstance(e, socket.gaierror) and e.errno == socket.EAI_AGAIN
        raise (Retry if passing else WorkFailed)(f"{parts.url}: {host} cannot be found: {e}") from e
    allowed = [address for address in found if allow_private or is_public(address)]
    if not allowed:
        raise InputError(
            f"{host} is at a private address", where=parts.url, expected="an address of the open internet",
            fix="--allow-private, if that is meant",
        )  # fmt: skip
    for address in allowed[:-1]:
        with contextlib.suppress(ConnectTimeoutError, NewConnectionError):
            return _pool(urllib3, parts.scheme, address, port, host).urlopen("GET", parts.request_uri, **options)
    return _pool(urllib3, parts.scheme, allowed[-1], port, host).urlopen("GET", parts.request_uri, **options)


def _pool(urllib3: Any, scheme: str, address: str, port: int, host: str) -> Any:
    if scheme == "http":
        return urllib3.HTTPConnectionPool(address, port)
    return urllib3.HTTPSConnectionPool(address, port, server_hostname=host, assert_hostname=host)
