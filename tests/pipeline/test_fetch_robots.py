"""robots.txt, where it is to be obeyed."""

from __future__ import annotations

import resource
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("protego")

from pipeline.download.fetching import robots
from pipeline.download.fetching.fetch import Fetched, Fetcher, FetchFailed, Policy
from pipeline.download.fetching.robots import Once, Rules
from pools.schema import Reason
from tests.pipeline.server import Answer, Server, serve

OBEY = Policy(allow_private=True, deadline=2, retry_wait=0.02, agent="OurBot", robots=True)
FORBIDDEN = FetchFailed(Reason.ROBOTS_DISALLOW, "robots.txt forbids it to OurBot")


def outcome(server: Server, *answers: Answer, policy: Policy = OBEY, path: str = "/p/a.jpg") -> Fetched | FetchFailed:
    server.on("/robots.txt", *answers)
    return Fetcher(policy).fetch(server.on(path, Answer(b"x")))


# T40
def test_what_is_forbidden_is_not_asked_for_and_robots_txt_once(server: Server) -> None:
    server.on("/robots.txt", Answer(b"User-agent: *\nDisallow: /p/\n", delay=0.1))
    forbidden = [server.on(f"/p/{i}.jpg", Answer(b"x")) for i in range(5)]
    allowed = [server.on(f"/q/{i}.jpg", Answer(b"x")) for i in range(2)]
    fetcher = Fetcher(OBEY)
    with ThreadPoolExecutor(7) as workers:
        found = list(workers.map(fetcher.fetch, [*forbidden, *allowed]))
    assert found[:5] == [FORBIDDEN] * 5
    assert all(isinstance(f, Fetched) for f in found[5:])
    assert sorted(server.requests) == ["/q/0.jpg", "/q/1.jpg", "/robots.txt"]
    assert isinstance(Fetcher(replace(OBEY, robots=False)).fetch(forbidden[0]), Fetched)


# T40
@pytest.mark.parametrize("answer", [Answer(status=404), Answer(status=403), Answer(b""), Answer.redirect("/robots.txt")])
def test_no_robots_txt_forbids_nothing(server: Server, answer: Answer) -> None:
    assert isinstance(outcome(server, answer), Fetched)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(status=503), "HTTP 503"),
        (Answer(b"x", drip=0.1, endless=True), "no whole answer within 2 s"),
        (Answer(b"half", cut=True), None),
        (Answer(b"x" * 65536, endless=True), None),
        (Answer.redirect("http://127.0.0.1:1/robots.txt"), None),
    ],
)
def test_a_robots_txt_that_cannot_be_had_forbids_all(server: Server, answer: Answer, why: str | None) -> None:
    found = outcome(server, answer)
    assert isinstance(found, FetchFailed)
    if answer.cut:  # as the urls themselves would fail
        assert (found.reason, found.message) == (
            Reason.CONNECTION,
            "robots.txt cannot be read: bad answer: less than it announced",
        )
    else:
        assert found.reason is Reason.ROBOTS_DISALLOW
        assert why is None or found.message == f"robots.txt cannot be read: {why}"
    assert "/p/a.jpg" not in server.requests


def test_a_host_that_cannot_be_reached_says_why() -> None:
    found = Fetcher(OBEY).fetch("http://127.0.0.1:1/a.jpg")
    assert found == FetchFailed(Reason.CONNECTION, "robots.txt cannot be read: [Errno 111] Connection refused")
    found = Fetcher(replace(OBEY, allow_private=False)).fetch("http://127.0.0.1:1/a.jpg")
    assert isinstance(found, FetchFailed)
    assert found.reason is Reason.PRIVATE_ADDRESS


def test_it_is_tried_again_where_that_may_help_and_its_time_is_its_own(server: Server) -> None:
    policy = replace(OBEY, deadline=1.5)
    busy = Answer(status=503, delay=0.6)
    found = outcome(server, busy, Answer(b"User-agent: *\nDisallow: /q/", delay=0.6), policy=policy)
    assert isinstance(found, Fetched)
    assert found.seconds < 0.6
    server.on("/p/a.jpg", Answer(b"x", delay=0.9))
    assert isinstance(Fetcher(policy).fetch(server.root + "/p/a.jpg"), Fetched)


def test_its_own_opt_out_header_and_rules_do_not_count(server: Server) -> None:
    rules = Answer(b"User-agent: *\nDisallow: /robots.txt\nDisallow: /q", headers=[("X-Robots-Tag", "noai")])
    assert isinstance(outcome(server, rules), Fetched)


def test_redirects_lead_to_other_rules(server: Server) -> None:
    server.on("/robots.txt", Answer(b"User-agent: *\nDisallow: /p/"))
    server.on("/p/a.jpg", Answer(b"x"))
    url = server.on("/r", Answer.redirect("/p/a.jpg"))
    assert Fetcher(OBEY).fetch(url) == replace(FORBIDDEN, final_url=server.root + "/p/a.jpg")
    with serve() as other:
        other.on("/robots.txt", Answer.redirect(server.root + "/robots.txt"))
        assert Fetcher(OBEY).fetch(other.on("/p/a.jpg", Answer(b"x"))) == FORBIDDEN
        assert isinstance(Fetcher(OBEY).fetch(other.on("/q/a.jpg", Answer(b"x"))), Fetched)


def test_a_proxy_is_asked_for_it(server: Server) -> None:
    server.on("https://a.invalid:443/robots.txt", Answer(b"nothing"))
    server.on("https://a.invalid/robots.txt", Answer(b"User-agent: ourbot\nDisallow: /p/"))
    policy = replace(OBEY, proxy=server.root, allow_private=False)
    assert Fetcher(policy).fetch("https://a.invalid/p/x.jpg") == FORBIDDEN
    assert server.requests == ["https://a.invalid/robots.txt"]


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: OURBOT\nDisallow: /q", "/a", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: ourbot/2.0\nAllow: /", "/a", True),
        ("User-agent: *\nAllow: /\n\nUser-agent: our\nDisallow: /", "/a", True),  # a name, not the start of one
        ("User-agent: ourbot2\nDisallow: /", "/a", True),
        ("User-agent: one\nUser-agent: ourbot\nDisallow: /", "/a", False),
        ("User-agent: one\nDisallow: /x\nUser-agent: two\nDisallow: /a", "/a", True),
        ("User-agent: ourbot # us\nDisallow: /a # this", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b.jpg", True),  # the longest pattern counts
        ("User-agent: *\nDisallow: /*.jpg$", "/x/y.jpg", False),
        ("User-agent: *\nDisallow: /*.jpg$", "/x/y.jpg?z", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9/a", False),
        ("\ufeffUser-agent: *\nDisallow: /", "/a", False),
        ("<html><body>User-agent: *</body></html>", "/a", True),
        ("User-agent: *\r\nDisallow: /a?b=1,2\r\n", "/a?b=1,2", False),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert Rules(text.encode(), "OurBot").allow("http://h.example" + path) == allowed


def test_hostile_rules_cost_little() -> None:
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many = b"".join(b"User-agent: a%d\n" % i for i in range(15_000)) + b"Disallow: /\n" * 25_000
    assert Rules(many, "ourbot").allow("http://h.example/a")
    stars = b"User-agent: *\nDisallow: /" + b"*a" * 100_000 + b"b"
    assert Rules(stars, "ourbot").allow("http://h.example/" + "a" * 5000)
    cut = b"User-agent: *\nDisallow: /a\n" + b"#" * robots.MAX_BYTES + b"\nDisallow: /b"
    assert [Rules(cut, "ourbot").allow(f"http://h.example/{p}") for p in "ab"] == [False, True]
    Rules(bytes(range(256)) * 2000, "ourbot").allow("http://h.example/a")
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def test_what_is_remembered_of_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(key: str) -> Any:
        reads.append(key)
        return len(reads)

    once = Once(read, seconds=100, keys=2)
    assert [once.get(k) for k in "aabac"] == [1, 1, 2, 1, 3]
    assert [once.get(k) for k in "acb"] == [1, 3, 4]  # the least recently used went
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 101)
    assert once.get("b") == 5

    def fail(key: str) -> Any:
        reads.append(key)
        raise ValueError(key)

    failing = Once(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="z"):
            failing.get("z")
    assert reads[-2:] == ["z", "z"]
