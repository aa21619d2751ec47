"""Which rows a WAT record gives."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import optout
from pipeline.extract import urls as urls_of
from pipeline.extract import wat
from pipeline.extract.page import Page, Wanted
from tests.pipeline.wats import page_json

PAGE = "http://shop.example/a/b.html"
BASES = [
    *("http://h.example", "http://h.example/", "https://h.example/a/b.html?x=1", "http://H.example:80/a//b/../c/d"),
    *("http://h.example/a;p/b;q", "http://u@h.example/ü/x y/z", "http://h.example/a/b#f", "http://h.example/a/b/"),
    *("http://h.example?q/r", "http://h.example/.", "http://h.example/a/..", "http://h.example/a?b/c"),
]


def parse(content: bytes, url: str = PAGE, wanted: Wanted = Wanted()) -> Page:  # noqa: B008
    page = wat.parse(content, url, wanted)
    assert page is not None
    return page


def urls(links: list[tuple[Any, ...]], page: str = PAGE, **more: Any) -> list[str]:
    return [c.url for c in parse(page_json(links, **more), page).candidates]


def counts(links: list[tuple[Any, ...]]) -> dict[str, int]:
    return dict(parse(page_json(links)).counts)


@pytest.mark.parametrize(
    ("page", "base", "source", "expected"),
    [
        (PAGE, None, "pics/c.jpg", "http://shop.example/a/pics/c.jpg"),  # T01
        (PAGE, None, "/c.jpg", "http://shop.example/c.jpg"),
        (PAGE, None, "../../c.jpg", "http://shop.example/c.jpg"),
        (PAGE, None, "?id=7", "http://shop.example/a/b.html?id=7"),
        (PAGE, "http://cdn.example/x/", "y.png", "http://cdn.example/x/y.png"),  # T02
        (PAGE, "/img/", "y.png", "http://shop.example/img/y.png"),
        (PAGE, "//cdn.example/x/", "y.png", "http://cdn.example/x/y.png"),
        (PAGE, "data:,", "y.png", "http://shop.example/a/y.png"),
        ("https://p.example/q", None, "//cdn.example/i.jpg", "https://cdn.example/i.jpg"),  # T03
        ("http://p.example/q", None, "//cdn.example/i.jpg", "http://cdn.example/i.jpg"),  # T03
        (PAGE, None, "http://e.example/i.jpg?w=1&amp;h=2", "http://e.example/i.jpg?w=1&h=2"),  # T13
        (PAGE, None, "http://e.example/i.jpg?a=1&copy=2", "http://e.example/i.jpg?a=1&copy=2"),  # T14
        (PAGE, None, "http://e.example/i.jpg?a=1&notit;=2", "http://e.example/i.jpg?a=1&notit;=2"),  # T14
        (PAGE, None, "http://e.example/i&#x2E;jpg", "http://e.example/i.jpg"),
        (PAGE, None, " http://e.example/a peña.jpg\n", "http://e.example/a%20pe%C3%B1a.jpg"),  # T17
        (PAGE, None, "http://e.example/a%20b%c3%b1 c.jpg", "http://e.example/a%20b%c3%b1%20c.jpg"),  # T17
        (PAGE, None, "http://e.example/100%.jpg", "http://e.example/100%.jpg"),
        (PAGE, None, "htt\np://e.exa\tmple/i.jpg", "http://e.example/i.jpg"),
        (PAGE, None, "pics\\c.jpg?a\\b", "http://shop.example/a/pics/c.jpg?a\\b"),
        (PAGE, None, 'a"b<c>.jpg', "http://shop.example/a/a%22b%3Cc%3E.jpg"),
        (PAGE, None, "HTTP://E.example:8080/i.jpg", "http://E.example:8080/i.jpg"),
        (PAGE, None, "http://b\u00fccher.example:81/i.jpg", "http://xn--bcher-kva.example:81/i.jpg"),
        (PAGE, None, "http://[2001:db8::1]/i.jpg", "http://[2001:db8::1]/i.jpg"),
        (PAGE, None, "http://e.example/\ud800.jpg", "http://e.example/%EF%BF%BD.jpg"),  # T16
    ],
)
def test_a_source_becomes_an_absolute_url(page: str, base: str | None, source: str, expected: str) -> None:
    assert urls([(source, "chair")], page, base=base) == [expected]


def test_what_is_no_http_url_is_counted_by_its_reason() -> None:  # T04
    links = [("data:image/png;base64,AAAA", "a"), ("javascript:void(0)", "b"), ("", "c"), (" \n", "d"), ("file:///x.jpg", "e")]
    assert counts(links) == {"in": 5, "dropped:scheme": 3, "dropped:empty_url": 2}


@pytest.mark.parametrize(
    "source", ["http://", "http://[::1/x.jpg", "http://a b/x.jpg", "http://h:99999/x.jpg", "http://h:x/x.jpg", "//h|/x.jpg"]
)
def test_an_impossible_host_is_a_bad_url(source: str) -> None:
    assert counts([(source, "a")]).get("dropped:bad_url") == 1


def test_a_page_without_an_address_gives_its_absolute_links_only() -> None:
    page = parse(page_json([("x.jpg", "a"), ("http://e.example/x.jpg", "b")]), "urn:uuid:1")
    assert [c.url for c in page.candidates] == ["http://e.example/x.jpg"]
    assert page.counts["dropped:bad_url"] == 1


def test_a_row_needs_a_caption_and_0_is_one() -> None:  # T05
    page = parse(page_json([("1.jpg",), ("2.jpg", ""), ("3.jpg", "   "), ("4.jpg", "0"), ("5.jpg", None)]))
    assert [(c.url, c.caption) for c in page.candidates] == [("http://shop.example/a/4.jpg", "0")]
    assert page.counts == {"in": 5, "dropped:no_text": 4}


@pytest.mark.parametrize(
    ("alt", "text"),
    [
        ("Tom &amp; Ann", "Tom & Ann"),  # T13
        ("a &lt;b&gt; &#39;c&#39; &amp;lt;", "a <b> 'c' &lt;"),
        ("R&D &copy 5", "R&D &copy 5"),  # T14
        ("CLR® stain – 50%", "CLR® stain – 50%"),  # T15
        ("  two\r\n\twords\u3000here ", "two words here"),
        ("a\x00b\ud83d", "a\ufffdb\ufffd"),  # T16
        ("&#0;&#xD800;", "\ufffd\ufffd"),  # T16
        ("\U0001f642", "\U0001f642"),
    ],
)
def test_text_is_cleaned_and_alt_stays_raw(alt: str, text: str) -> None:
    (found,) = parse(page_json([("i.jpg", alt)])).candidates
    assert found.caption == text
    assert found.alt == alt.replace("\x00", "\ufffd").replace("\ud83d", "\ufffd")


@pytest.mark.parametrize("broken", [rb"\ud800", rb"\u0000", b"\x00", b"\xff", b"\t"])
def test_a_broken_character_does_not_lose_the_record(broken: bytes) -> None:  # T16
    content = page_json([("i.jpg", "red MARK chair"), ("j.jpg", "second")]).replace(b"MARK", broken)
    first, second = parse(content).candidates
    assert first.caption == ("red chair" if broken == b"\t" else "red \ufffd chair")
    assert second.caption == "second"


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": {"Headers": {}}}, "x": "IMG@/src"}}).encode(),
        page_json(None),
        page_json(None, title="IMG@/src"),
        b'["IMG@/src"]',
        b'{"Envelope": [], "x": "IMG@/src"}',
        b'{"Envelope":{"Payload-Metadata":{"HTTP-Response-Metadata":{"HTML-Metadata":{"Links":"IMG@/src"}}}}}',
        b'{"Envelope":{"Payload-Metadata":{"HTTP-Response-Metadata":{"HTML-Metadata":["IMG@/src"]}}}}',
    ],
)
def test_a_record_without_links_gives_no_rows_and_no_error(content: bytes) -> None:  # T12
    assert wat.parse(content, PAGE) is None


@pytest.mark.parametrize("content", [b'{"Envelope": {"IMG@/src', b"<html>IMG@/src</html>", b"[" * 100_000 + b"IMG@/src"])
def test_what_is_no_json_is_a_bad_record(content: bytes) -> None:  # T11
    with pytest.raises(wat.BadRecord):
        wat.parse(content, PAGE)


def test_values_of_another_type_are_bad_links() -> None:  # T18
    page = parse(page_json([({"a": 1}, "a"), (7, "b"), ("i.jpg", ["c"]), ("j.jpg", "d")]))
    assert [c.caption for c in page.candidates] == ["d"]
    assert page.counts == {"in": 4, "dropped:bad_link": 3}


def test_odd_shapes_elsewhere_do_not_lose_the_links() -> None:
    content = json.loads(page_json([("i.jpg", "chair")]))
    response = content["Envelope"]["Payload-Metadata"]["HTTP-Response-Metadata"]
    response["Headers"] = ["no", "object"]
    response["HTML-Metadata"]["Head"] = {"Metas": {"name": "robots"}, "Title": ["t"], "Base": 5}
    response["HTML-Metadata"]["Links"] += [None, "text", 3]
    page = parse(json.dumps(content).encode())
    assert ([c.url for c in page.candidates], page.title, page.language) == (["http://shop.example/a/i.jpg"], None, None)


@pytest.mark.parametrize(
    ("metas", "headers", "language"),
    [
        ([], {}, None),
        ([], {"content-language": "fr"}, "fr"),
        ([], {"Content-Language": ["", "de, en"]}, "de, en"),
        ([{"http-equiv": "Content-Language", "content": "Japanese"}], {"Content-Language": "fr"}, "Japanese"),
        (
            [{"http-equiv": "content-language", "content": "en"}, {"name": "HTML@/lang", "content": "pt-BR"}],
            {"Content-Language": "fr"},
            "pt-BR",
        ),
        ([{"name": "HTML@/lang", "content": " "}], {"Content-Language": "fr"}, "fr"),
    ],
)
def test_the_language_is_the_most_specific_one_that_is_stated(metas: Any, headers: Any, language: str | None) -> None:
    assert parse(page_json([("i.jpg", "a")], metas=metas, headers=headers)).language == language


def about(said: Any) -> bytes:
    """A WAT record on a page's metadata, with this value of `languages-cld2`."""
    fields = [{"Name": "charset-detected", "Value": "UTF-8"}, {"Name": "languages-cld2", "Value": said}]
    return json.dumps({"Envelope": {"Payload-Metadata": {"WARC-Metadata-Metadata": {"Metadata-Records": fields}}}}).encode()


@pytest.mark.parametrize(
    ("said", "language"),
    [
        # As the crawler writes it.
        (
            '{"reliable":false,"text-bytes":3080,"languages":[{"code":"es","code-iso-639-3":"spa","text-covered":0.69,'
            '"score":335.0,"name":"SPANISH"}]}',
            "es",
        ),
        ('{"languages":[{"code":"zh-Hant"},{"code":"en"}]}', "zh-Hant"),
        ('{"languages":[]}', None),
        ('{"languages":[{"code":"un"}]}', None),
        ('{"languages":[{"code":" "}]}', None),
        ('{"languages":[{"name":"SPANISH"}]}', None),
        ('{"languages":[{"code":7}]}', None),
        ('{"languages":"es"}', None),
        ('{"languages":[{"code":"es"}', None),
        ("[" * 100_000, None),
        ('"languages-cld2"', None),
        ("", None),
        (None, None),
        ({"languages": [{"code": "es"}]}, None),
    ],
)
def test_the_detected_language_is_the_first_that_is_named(said: Any, language: str | None) -> None:
    assert wat.detected_language(about(said)) == language


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"languages-cld2",
        b'"languages-cld2"',
        b'{"languages-cld2": "es"}',
        b'{"Envelope": {"Payload-Metadata": {"WARC-Metadata-Metadata": {"Metadata-Records": "languages-cld2"}}}}',
        b'{"Envelope": {"Payload-Metadata": {"WARC-Metadata-Metadata": ["languages-cld2"]}}}',
        about('{"languages":[{"code":"es"}]}')[:-1],
        about('{"languages":[{"code":"es"}]}').replace(b'"languages-cld2"', b'"languages-cld3", "x": "languages-cld2"'),
    ],
)
def test_a_record_of_another_form_names_no_language(content: bytes) -> None:
    assert wat.detected_language(content) is None


def test_title_and_page_address_come_along() -> None:
    page = parse(page_json([("i.jpg", "a")], title=" Fish\n &amp; chips "))
    assert (page.title, page.url) == ("Fish & chips", PAGE)


@pytest.mark.parametrize(
    ("metas", "headers", "expected"),
    [
        ([], {}, None),
        ([{"name": "robots", "content": "noimageai"}], {}, "noimageai"),  # T07
        ([{"name": "ROBOTS", "content": "NOARCHIVE, NoAI"}], {}, "noai"),
        ([], {"X-Robots-Tag": "noai"}, "noai"),  # T07
        ([], {"x-robots-tag": "noindex"}, "noindex"),  # T08
        ([], {"X-Robots-Tag": ["noindex", "noai"]}, "noai,noindex"),  # T08
        ([{"name": "description", "content": "noai"}], {"X-Robots-Tag": "nofollow"}, None),
    ],
)
def test_pages_that_object_give_nothing_unless_they_are_wanted(metas: Any, headers: Any, expected: str | None) -> None:
    content = page_json([("i.jpg", "a"), ("j.jpg",)], metas=metas, headers=headers)
    page = parse(content)
    assert page.opt_out == expected
    if expected is None:
        assert page.counts == {"in": 2, "dropped:no_text": 1}
    else:
        assert page.counts == {"in": 2, "dropped:opt_out": 2}
    kept = parse(content, wanted=Wanted(opted_out=True))
    assert (kept.opt_out, [c.caption for c in kept.candidates], kept.counts["dropped:no_text"]) == (expected, ["a"], 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["otherbot: noai"], None),  # T39
        (["otherbot: noai, noindex"], None),
        (["winnow: noimageai"], "noimageai"),  # T39
        (["otherbot: noai, winnow: noml"], "noml"),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, noai"], "noai"),
        (["all", "noindex"], "noindex"),  # T39
    ],
)
def test_directives_for_other_crawlers_are_not_for_us(values: list[str], expected: str | None) -> None:
    assert optout.directives(values) == expected


LINKS = [
    {"path": "IMG@/src", "url": "a.jpg", "alt": "chair"},
    {"path": "IMG@/src", "url": "b.jpg"},
    {"path": "A@/href", "url": "song.MP3?x=1", "text": " my &amp; song "},
    {"path": "A@/href", "url": "http://e.example/get.php?file=talk.ogg", "text": "talk"},
    {"path": "EMBED@/src", "url": "/films/f.webm"},
    {"path": "SOURCE@/src", "url": "f.mp4#t=10", "alt": "not this", "text": ""},
    {"path": "A@/href", "url": "paper.pdf", "text": "Paper"},
    {"path": "A@/href", "url": "http://e.md", "text": "a host, no file"},
    {"path": "A@/href", "url": "mailto:a@e.pdf", "text": "no http"},
    {"path": "A@/href", "url": "pdf", "text": "no ending"},
    {"path": "A@/href", "url": {"a": "x.pdf"}, "text": "no text"},
    {"path": "A@/href", "url": "x.mp3.html", "text": "another ending"},
]


@pytest.mark.parametrize(
    ("documents", "found", "counts"),
    [
        ("image", [("a.jpg", "chair")], {"in": 2, "dropped:no_text": 1}),
        ("image_only", [("a.jpg", "chair"), ("b.jpg", "")], {"in": 2}),
        ("audio", [("song.MP3?x=1", "my & song"), ("http://e.example/get.php?file=talk.ogg", "talk")], {"in": 2}),
        ("video", [("/films/f.webm", ""), ("f.mp4#t=10", "")], {"in": 2}),
        ("text", [("paper.pdf", "Paper")], {"in": 3, "dropped:bad_url": 1, "dropped:scheme": 1}),
    ],
)
def test_documents_of_each_kind(documents: Any, found: list[tuple[str, str]], counts: dict[str, int]) -> None:
    content = json.loads(page_json([]))
    content["Envelope"]["Payload-Metadata"]["HTTP-Response-Metadata"]["HTML-Metadata"]["Links"] = LINKS
    page = parse(json.dumps(content).encode(), wanted=Wanted(documents))
    assert [(c.url, c.caption) for c in page.candidates] == [(urljoin(PAGE, url), caption) for url, caption in found]
    assert page.counts == counts


@given(st.text("abcZ019/.:?#%-_~!$&'()*+,=@[]|^`{}x", max_size=14), st.sampled_from(BASES))
@settings(max_examples=3000, deadline=None)
def test_what_is_joined_the_short_way_is_what_joining_gives(address: str, page: str) -> None:
    try:
        found = urls_of.resolve(address, urls_of.Base(page))
    except urls_of.Rejected:
        return
    assert found == urls_of.encode(urljoin(page, address))
