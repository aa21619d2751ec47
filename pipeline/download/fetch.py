"""One url to its bytes, or to the reason why not. No files."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationValueError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    SSLError,
)

from pipeline.download import network
from pools.errors import InputError
from pools.schema import Reason

OPT_OUT = ("noai", "noimageai", "noindex", "noimageindex", "noml")
REDIRECTS = frozenset({301, 302, 303, 307, 308})
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
PIECE = 1 << 16
# Directives that have a value: `unavailable_after: 25 Jun 2027` names no crawler.
_VALUED = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How urls are asked for."""

    deadline: float = 30.0  # seconds for one url, all its tries and redirects together
    connect_timeout: float = 5.0  # seconds
    max_bytes: int = 1 << 24  # of a body, after decompression
    max_redirects: int = 5
    retries: int = 2  # after 5xx, 429, a broken connection, a failed name resolution; never after another 4xx
    retry_wait: float = 0.5  # seconds before the first retry, doubled for each further one
    agent: str = "winnow"  # the name that a server's directives may call us by
    user_agent: str = "Mozilla/5.0 (compatible; winnow/0.1)"
    opt_out: tuple[str, ...] = OPT_OUT  # X-Robots-Tag directives that are obeyed
    proxy: str | None = None  # a forward proxy; it is sent every request whole, and names are not resolved here
    allow_private: bool = False  # whether private, loopback and link-local addresses may be reached

    def __post_init__(self) -> None:
        if min(self.deadline, self.connect_timeout, self.max_bytes) <= 0 or min(self.retries, self.max_redirects) < 0:
            raise InputError("a limit of the download is zero or negative", expected="limits above zero")


@dataclass(frozen=True)
class Fetched:
    body: bytes
    final_url: str
    headers: urllib3.HTTPHeaderDict = field(repr=False)
    seconds: float


@dataclass(frozen=True)
class FetchFailed:
    reason: Reason
    message: str
    again: bool = False  # whether another try may go better


class Fetcher:
    """Fetches under one policy; threads share it, and with it the open connections."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._web: urllib3.PoolManager | urllib3.HTTPConnectionPool
        if policy.proxy is None:
            self._web = network.direct()
        else:
            try:
                self._web = network.through(policy.proxy)
            except LocationValueError:
                raise InputError(f"not a proxy: {policy.proxy}", expected="http://HOST:PORT") from None

    def fetch(self, url: str) -> Fetched | FetchFailed:
        """The body behind a url after redirects and retries, within the policy's deadline."""
        policy, url = self.policy, url.strip()
        start = time.monotonic()
        private = policy.allow_private or policy.proxy is not None  # a proxy is named by the user, and often on loopback
        with network.call(start + policy.deadline, allow_private=private):
            for attempt in itertools.count():
                found = self._follow(url, start)
                if isinstance(found, Fetched) or not found.again or attempt == policy.retries:
                    return found
                wait = policy.retry_wait * 2**attempt
                if time.monotonic() + wait >= start + policy.deadline:
                    return found
                time.sleep(wait)
        raise AssertionError("unreachable")

    def _follow(self, url: str, start: float) -> Fetched | FetchFailed:
        for _ in range(self.policy.max_redirects + 1):
            if (wrong := _refused(url)) is not None:
                return wrong
            step = self._ask(url, start)
            if not isinstance(step, str):
                return step
            url = step
        return FetchFailed(Reason.TOO_MANY_REDIRECTS, f"more than {self.policy.max_redirects} redirects")

    def _ask(self, url: str, start: float) -> Fetched | FetchFailed | str:
        """One request: the body, a failure, or where it redirects to."""
        try:
            # A pool of one proxy is asked for the url as it stands; it reads the absolute form as a request to forward.
            response = self._web.urlopen(
                "GET",
                url,
                redirect=False,
                assert_same_host=False,
                retries=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=self.policy.connect_timeout, read=self.policy.deadline),
                headers={"User-Agent": self.policy.user_agent, "Accept": "image/*,*/*;q=0.8"},
            )
        except (HTTPError, OSError, ValueError) as e:
            return self._failure(e)
        try:
            return self._answer(response, url, start)
        except (HTTPError, OSError, ValueError) as e:
            return self._failure(e)
        finally:
            # An unread body is not waited for. One read to its end has given its connection back, which stays open.
            response.close()
            response.release_conn()

    def _answer(self, response: urllib3.BaseHTTPResponse, url: str, start: float) -> Fetched | FetchFailed | str:
        location = response.headers.get("location")
        if response.status in REDIRECTS and location:
            return urljoin(url, _header_text(location))
        if not 200 <= response.status < 300:
            return FetchFailed(Reason.HTTP_STATUS, f"HTTP {response.status}", response.status in RETRIED_STATUSES)
        if directive := opted_out(response.headers.getlist("x-robots-tag"), self.policy.agent, self.policy.opt_out):
            return FetchFailed(Reason.OPT_OUT, f"X-Robots-Tag: {directive}")
        too_large = FetchFailed(Reason.TOO_LARGE, f"more than {self.policy.max_bytes} bytes")
        declared = response.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self.policy.max_bytes:
            return too_large
        pieces, size = [], 0
        while piece := response.read1(PIECE, decode_content=True):
            size += len(piece)
            if size > self.policy.max_bytes:
                return too_large
            pieces.append(piece)
            network.remaining()
        if not size:
            return FetchFailed(Reason.EMPTY, "no body")
        return Fetched(b"".join(pieces), url, response.headers, time.monotonic() - start)

    def _failure(self, error: Exception) -> FetchFailed:
        """An exception as a row's reason; the words hold nothing that changes from run to run."""
        late = FetchFailed(Reason.TIMEOUT_TOTAL, f"no whole answer within {self.policy.deadline:g} s")
        match error:
            case network.PrivateAddress():
                return FetchFailed(Reason.PRIVATE_ADDRESS, str(error))
            case NameResolutionError():
                return FetchFailed(Reason.NAME_RESOLUTION, str(error.__cause__ or "name resolution failed"), again=True)
            case NewConnectionError():  # before the timeout, of which it is a kind
                return FetchFailed(Reason.CONNECTION, str(error.__cause__))
            case ConnectTimeoutError():
                return FetchFailed(Reason.TIMEOUT_CONNECT, f"no connection within {self.policy.connect_timeout:g} s")
            case urllib3.exceptions.TimeoutError() | TimeoutError():
                return late
            case ProtocolError() if isinstance(_cause(error), TimeoutError):
                return late
            case SSLError():
                return FetchFailed(Reason.CONNECTION, f"TLS: {error}")
            case ProtocolError() | urllib3.exceptions.IncompleteRead() | OSError():
                return FetchFailed(Reason.CONNECTION, f"connection broken: {type(_cause(error)).__name__}", again=True)
            case LocationValueError() | ValueError():
                return FetchFailed(Reason.BAD_URL, str(error))
        return FetchFailed(Reason.CONNECTION, f"{type(error).__name__}: {error}")


@functools.cache
def fetcher(policy: Policy) -> Fetcher:
    """The one fetcher of this process under a policy."""
    return Fetcher(policy)


def _refused(url: str) -> FetchFailed | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is no number up to 65535
    except ValueError as e:
        return FetchFailed(Reason.BAD_URL, str(e))
    if parts.scheme.lower() not in ("http", "https"):
        return FetchFailed(Reason.BAD_URL, f"scheme {parts.scheme or 'missing'}, only http and https are fetched")
    return None if parts.hostname else FetchFailed(Reason.BAD_URL, "no host")


def opted_out(values: Iterable[str], agent: str, directives: Iterable[str]) -> str | None:
    """The first directive of `X-Robots-Tag` headers that asks us not to use the image, None if there is none.

    `noai, noindex` is said to all; `somebot: noai` to that crawler alone, up to the header's end or the next name.
    """
    obeyed = {d.lower() for d in directives}
    for value in values:
        for_us = True
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if colon and name.strip() not in _VALUED:
                for_us, part = name.strip() in (agent.lower(), "*"), rest
            if for_us and part.strip() in obeyed:
                return part.strip()
    return None


def _header_text(value: str) -> str:
    """A header as servers mean it: http.client reads it as Latin-1, and most send UTF-8."""
    try:
        return value.encode("latin-1").decode("utf-8").strip()
    except UnicodeError:
        return value.strip()


def _cause(error: BaseException) -> BaseException:
    """What urllib3 wrapped: the operating system's or http.client's own error."""
    return next((a for a in error.args if isinstance(a, BaseException)), error.__cause__ or error)
