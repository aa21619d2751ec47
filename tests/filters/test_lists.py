"""Lists that somebody keeps: uids, domains, addresses, and what owners say against use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from filters.lists import DomainList, UidList, UrlList, hosts_of
from filters.recipe import Recipe
from filters.safety import Nsfw, OptOut, Toxicity
from pools.errors import InputError
from tests.filters import files
from tests.filters.scans import batch, uids


def test_uids_in_a_list_and_not_in_it() -> None:
    rows = batch(text=["a", "b", "c", "d"])
    two = files.uid_list("two.npy", [uids(4)[3], uids(4)[1], "f" * 32])
    assert UidList(in_=two).keep(rows).to_pylist() == [False, True, False, True]
    plain = files.uid_list("plain.npy", [uids(4)[3]])
    Path(plain + ".json").unlink()
    assert UidList(not_in=plain).keep(rows).to_pylist() == [True, True, True, False]
    assert UidList(in_=plain).keep(rows).to_pylist() == [False, False, False, True]
    assert UidList(in_=files.uid_list("none.npy", [])).keep(rows).to_pylist() == [False] * 4
    assert UidList(in_=files.uid_list("repeats.npy", [uids(4)[2]] * 3)).keep(rows).to_pylist() == [False, False, True, False]


# T77
def test_a_list_of_the_other_kind_is_refused() -> None:
    rows = batch(text=["a"])
    keep, remove = files.uid_list("keep.npy", uids(1)), files.uid_list("remove.npy", uids(1), kind="remove")
    assert UidList(not_in=remove).keep(rows).to_pylist() == [False]
    with pytest.raises(InputError, match="this is a list of uids to remove"):
        UidList(in_=remove).keep(rows)
    with pytest.raises(InputError, match="this is a list of uids to keep"):
        UidList(not_in=keep).keep(rows)
    with pytest.raises(InputError, match="no such uid list"):
        UidList(in_="nowhere.npy").keep(rows)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.ORG/a.jpg", "example.org"),
        ("https://user:pw@example.org:8080?x=@b.org", "example.org"),
        ("http://a.org@b.org/", "b.org"),
        ("http://a.org\\@b.org/", "a.org"),
        ("http://[::1]:80/x", "[::1]"),
        ("http://example.org#b.org", "example.org"),
        (" ftp://example.org.", "example.org."),
        ("example.org/a.jpg", ""),
        ("/a.jpg", ""),
        ("", ""),
        (None, None),
    ],
)
def test_the_host_of_an_address(url: str | None, host: str | None) -> None:
    assert hosts_of(pa.array([url], pa.string())).to_pylist() == [host]


def test_hosts_in_a_list_of_domains() -> None:
    listed = files.lines("blocked.txt", ["# ours", "Example.org.", "*.b.example", "münchen.de", "", "[::1]"])
    urls = ["http://example.org/", "http://www.example.org./x", "http://anexample.org/", "http://org/", "http://B.example/"]
    urls += ["http://xn--mnchen-3ya.de/", "http://bilder.MÜNCHEN.de/", "http://[::1]:80/", "no address"]
    rows = batch(url=[*urls, None])
    found = [True, True, False, False, True, True, True, True, False, None]
    assert DomainList(in_=listed).keep(rows).to_pylist() == found
    assert DomainList(not_in=listed).keep(rows).to_pylist() == [None if f is None else not f for f in found]
    exactly = DomainList(in_=listed, subdomains=False).keep(rows).to_pylist()
    assert exactly == [True, False, False, False, True, True, False, True, False, None]
    assert DomainList(in_=listed, column="page").keep(batch(page=["http://example.org"])).to_pylist() == [True]


@pytest.mark.parametrize("line", ["http://example.org", "example.org/path", "example.org:80", "two words", "a@b.org"])
def test_a_line_that_is_no_domain_is_named(line: str) -> None:
    listed = files.lines("no_domain.txt", ["ok.org", line])
    with pytest.raises(InputError, match=r"no_domain\.txt:2: .*(.|\n)*a domain such as example\.org"):
        DomainList(in_=listed).keep(batch(url=["http://a.org"]))


def test_addresses_in_a_list() -> None:
    listed = files.lines("addresses.txt", ["http://a.org/é.jpg", "# http://a.org/2.jpg", "  http://a.org/3.jpg  "])
    rows = batch(url=["http://a.org/é.jpg", "http://a.org/2.jpg", "http://a.org/3.jpg", "http://A.org/3.jpg", "", None])
    assert UrlList(in_=listed).keep(rows).to_pylist() == [True, False, True, False, False, None]
    assert UrlList(not_in=listed).keep(rows).to_pylist() == [False, True, False, True, True, None]
    with pytest.raises(InputError, match=r"nowhere\.txt: no such list"):
        UrlList(in_="nowhere.txt").keep(rows)


def test_a_list_is_in_or_not_in() -> None:
    for rule in (UidList, DomainList, UrlList):
        none: dict[str, Any] = {}
        for options in (none, {"in_": "a", "not_in": "b"}):
            with pytest.raises(ValueError, match="takes one of in and not_in"):
                rule(**options)


def test_lists_enter_the_digest_by_what_they_hold() -> None:
    paths = [files.lines(f"{i}.txt", [said]) for i, said in enumerate(("a.org", "a.org", "b.org"))]
    same, other, third = (Recipe.parse(f"keep:\n  - domain_list: {{not_in: {p}}}").digest for p in paths)
    assert same == other != third
    assert Recipe.parse(f"keep:\n  - domain_list: {{in: {paths[0]}}}").digest != same


def test_owners_who_opt_out() -> None:
    rows = batch(opt_out=[None, "", "noai", "noindex, NoImageAI", "noindex"])
    assert OptOut().keep(rows).to_pylist() == [True, True, False, False, False]
    assert OptOut(("noai", "noimageai")).keep(rows).to_pylist() == [True, True, False, False, True]


def test_scores_of_harm_have_the_published_bounds() -> None:
    rows = batch(nsfw_image=pa.array([0.2, 0.21, None, float("nan")], pa.float32()), toxicity=[0.1, 0.1001, None, 0.0])
    assert Nsfw().keep(rows).to_pylist() == [True, False, None, None]
    assert Toxicity().keep(rows).to_pylist() == [True, False, None, True]
    assert Nsfw(max=0.8).keep(rows).to_pylist()[:2] == [True, True]
    with pytest.raises(ValueError, match=r"max 20 is not in \[0, 1\]"):
        Nsfw(max=20)
