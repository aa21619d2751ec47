"""One url to its bytes, or to the reason why not. No files."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import time
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

from urllib3.util import Url

from pipeline import optout
from pipeline.download.fetching import network
from pipeline.download.fetching.clock import Clock
from pipeline.download.fetching.encoding import BadEncoding, unpack
from pipeline.download.fetching.hosts import SILENCES, Hosts
from pipeline.download.fetching.http1 import BadAnswer, Connection, Head, TooLong
from pipeline.download.fetching.robots import Once, Rules
from pipeline.download.fetching.waits import before_retry, retry_after
from pools.errors import InputError
from pools.schema import Reason

REDIRECTS = frozenset({301, 302, 303, 307, 308})
RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
ROBOTS_BYTES = 4 << 20  # of a robots.txt; one that is longer counts as one that cannot be had
ROBOTS_REDIRECTS = 5  # (RFC 9309, 2.3.1.2)
# The failures before any answer.
_UNREACHED = (Reason.NAME_RESOLUTION, Reason.TIMEOUT_CONNECT, Reason.CONNECTION, Reason.PRIVATE_ADDRESS, Reason.BAD_URL)
FAILURES = (*network.FAILURES, TooLong, BadEncoding)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How urls are asked for."""

    deadline: float = 30.0  # seconds for one url, all its tries, waits and redirects together, our own queues left out
    connect_timeout: float = 5.0  # seconds
    max_bytes: int = 1 << 24  # of a body, both as it is sent and after decompression
    max_redirects: int = 5
    retries: int = 2  # after 5xx, 429, a broken connection, a failed name resolution; never after another 4xx
    retry_wait: float = 0.5  # seconds before the first retry, doubled for each further one; Retry-After may make it longer
    per_host: int = 8  # requests to one host at once, from one process
    host_wait: float = 0.0  # seconds between the starts of two requests to one host, from one process
    agent: str = optout.AGENT  # the name that a server's directives and robots.txt may call us by
    user_agent: str = "Mozilla/5.0 (compatible; winnow/0.1)"
    opt_out: tuple[str, ...] = optout.DIRECTIVES  # X-Robots-Tag directives that are obeyed
    robots: bool = False  # whether robots.txt is obeyed
    proxy: str | None = None  # a forward proxy; it is sent every request whole, and names are not resolved here
    allow_private: bool = False  # whether private, loopback and link-local addresses may be reached

    def __post_init__(self) -> None:
        if min(self.deadline, self.connect_timeout, self.max_bytes, self.per_host) <= 0:
            raise InputError("a limit of the download is zero or negative", expected="limits above zero")
        if min(self.retries, self.max_redirects, self.retry_wait, self.host_wait) < 0:
            raise InputError("a number or a wait of the download is negative", expected="zero or more")
        if not re.fullmatch(r"[\w.-]+", self.agent, re.ASCII):
            raise InputError(f"not a crawler's name: {self.agent!r}", expected="letters, digits, `.`, `-` and `_`")
        if not (self.user_agent.isascii() and self.user_agent.isprintable()):
            raise InputError(f"not a user agent: {self.user_agent!r}", expected="printable ASCII characters")


@dataclass(frozen=True)
class Fetched:
    body: bytes
    final_url: str
    headers: dict[str, str] = field(repr=False)  # names in lower case, several values comma-separated
    seconds: float  # without those in our own queues


@dataclass(frozen=True)
class FetchFailed:
    reason: Reason
    message: str
    again: bool = False  # whether another try may go better
    final_url: str | None = None  # where it failed, if redirects led there
    status: int | None = field(default=None, compare=False)  # of the answer, where that is the reason
    retry_after: float = field(default=0.0, compare=False)  # seconds that the server asks to be left alone


@dataclass(frozen=True)
class _Job:
    """What one url may take."""

    clock: Clock
    max_bytes: int
    max_redirects: int
    image: bool = True  # else a robots.txt, which is not asked for permission


class Fetcher:
    """Fetches under one policy; threads share it, and with it connections, names, and what is known of hosts."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._web = network.Web(
            user_agent=policy.user_agent,
            connect_timeout=policy.connect_timeout,
            allow_private=policy.allow_private,
            proxy=policy.proxy,
        )
        self._hosts = Hosts(policy.per_host, policy.host_wait)
        self._robots = Once(self._read_robots)

    def fetch(self, url: str) -> Fetched | FetchFailed:
        """The body behind a url after redirects and retries, within the policy's deadline.

        The deadline counts what the url itself takes: neither the wait for a place among the requests to its host, nor
        that for a robots.txt, so that no url fails for those that stand before it.
        """
        policy = self.policy
        return self._tried(url.strip(), _Job(Clock(policy.deadline), policy.max_bytes, policy.max_redirects))

    def _tried(self, url: str, job: _Job) -> Fetched | FetchFailed:
        for attempt in itertools.count():
            found = self._followed(url, job, afresh=attempt > 0)
            if isinstance(found, Fetched) or not found.again or attempt == self.policy.retries:
                return found
            wait = before_retry(url, attempt, self.policy.retry_wait, found.retry_after)
            if wait >= job.clock.left:
                return found
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _followed(self, url: str, job: _Job, *, afresh: bool) -> Fetched | FetchFailed:
        at = url
        for _ in range(job.max_redirects + 1):
            step = self._step(at, job, afresh)
            if isinstance(step, Fetched):
                return step
            if isinstance(step, FetchFailed):
                return step if at == url else replace(step, final_url=at)
            at = step
        return FetchFailed(Reason.TOO_MANY_REDIRECTS, f"more than {job.max_redirects} redirects", final_url=at)

    def _step(self, url: str, job: _Job, afresh: bool) -> Fetched | FetchFailed | str:
        """One request, if it is allowed: the body, a failure, or where it redirects to."""
        try:
            parts = network.parse(url)
        except network.BadUrl as e:
            return FetchFailed(Reason.BAD_URL, str(e))
        if job.image and self.policy.robots and (forbidden := self._forbidden(parts, job.clock)) is not None:
            return forbidden
        host, clock = str(parts.host), job.clock
        with self._hosts.turn(host, clock):
            if (reason := self._hosts.left_alone(host)) is not None:
                return FetchFailed(reason, f"not asked: its host had given no answer {SILENCES} times in a row")
            self._hosts.pause(host, clock)
            began = clock.passed
            try:
                head, connection = self._web.request(parts, clock, afresh=afresh)
            except FAILURES as e:
                failed = _failure(e, self.policy, clock)
                # Through a proxy it may be the proxy that is silent.
                if network.is_silence(e) and self.policy.proxy is None:
                    self._hosts.was_silent(host, failed.reason, clock.passed - began)
                return failed
            self._hosts.answered(host)
            try:
                return self._answer(url, job, head, connection)
            except FAILURES as e:
                return _failure(e, self.policy, clock)
            finally:
                self._web.release(connection)

    def _answer(self, url: str, job: _Job, head: Head, connection: Connection) -> Fetched | FetchFailed | str:
        status, location = head.status, head.get("location")
        if status in REDIRECTS and location:
            connection.drain(head)
            return _joined(url, location)
        if not 200 <= status < 300 or status == 206:  # of which nobody asked for a part
            connection.drain(head)
            wait = retry_after(head.get("retry-after")) if status in (429, 503) else 0.0
            return FetchFailed(
                Reason.HTTP_STATUS, f"HTTP {status}", status in RETRIED_STATUSES, status=status, retry_after=wait
            )
        if job.image and (said := optout.directives(head.all("x-robots-tag"), self.policy.agent, self.policy.opt_out)):
            return FetchFailed(Reason.OPT_OUT, f"X-Robots-Tag: {said}")
        body = unpack(connection.body(head, job.max_bytes), head.get("content-encoding"), job.max_bytes)
        if not body:
            return FetchFailed(Reason.EMPTY, "no body")
        return Fetched(body, url, head.merged(), job.clock.passed)

    def _forbidden(self, url: Url, clock: Clock) -> FetchFailed | None:
        scheme, host, port = network.origin_of(url)
        with clock.stopped():
            rules = self._robots.get(f"{scheme}://{host}:{port}/robots.txt")
        if isinstance(rules, FetchFailed):
            return rules
        if rules.allow(f"{scheme}://{host}{url.request_uri}"):
            return None
        return FetchFailed(Reason.ROBOTS_DISALLOW, f"robots.txt forbids it to {self.policy.agent}")

    def _read_robots(self, url: str) -> Rules | FetchFailed:
        """The rules of an origin (RFC 9309, 2.3.1): none where there is no file; all is forbidden where it cannot be had."""
        found = self._tried(url, _Job(Clock(self.policy.deadline), ROBOTS_BYTES, ROBOTS_REDIRECTS, image=False))
        if isinstance(found, Fetched):
            return Rules(found.body, self.policy.agent)
        missing = found.status is not None and 400 <= found.status < 500
        if missing or found.reason in (Reason.EMPTY, Reason.TOO_MANY_REDIRECTS):
            return Rules(b"", self.policy.agent)
        # Where the host itself cannot be reached, that is what its urls fail for.
        reason = found.reason if found.reason in _UNREACHED and found.final_url is None else Reason.ROBOTS_DISALLOW
        return FetchFailed(reason, f"robots.txt cannot be read: {found.message}")


def _failure(error: Exception, policy: Policy, clock: Clock) -> FetchFailed:
    """An exception as a row's reason; the words hold nothing that changes from run to run."""
    late = FetchFailed(Reason.TIMEOUT_TOTAL, f"no whole answer within {policy.deadline:g} s")
    match error:
        case network.PrivateAddress():
            return FetchFailed(Reason.PRIVATE_ADDRESS, str(error))
        case network.NoName():
            return FetchFailed(Reason.NAME_RESOLUTION, str(error), again=not error.known)
        case network.ConnectTimeout():
            connect = FetchFailed(Reason.TIMEOUT_CONNECT, f"no connection within {policy.connect_timeout:g} s")
            return connect if clock.left > 0 else late
        case network.NoConnection() | network.TlsFailure() | BadEncoding():
            return FetchFailed(Reason.CONNECTION, str(error))
        case TimeoutError():
            return late
        case TooLong():
            return FetchFailed(Reason.TOO_LARGE, f"more than {policy.max_bytes} bytes")
        case BadAnswer():
            return FetchFailed(Reason.CONNECTION, f"bad answer: {error}", again=error.cut)
        case OSError():
            return FetchFailed(Reason.CONNECTION, f"connection broken: {type(error).__name__}", again=True)
    return FetchFailed(Reason.BAD_URL, str(error))


def _joined(url: str, location: str) -> str:
    """Where a redirect leads; a header as servers mean it, who send UTF-8 mostly."""
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        return urljoin(url, location.strip())
    except ValueError:  # an IPv6 address that is none
        return location.strip()


@functools.cache
def fetcher(policy: Policy) -> Fetcher:
    """The one fetcher of this process under a policy."""
    return Fetcher(policy)
