"""Which rows an archived page gives: by hand, and on any bytes."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.extract import markup, warc, wat
from pipeline.extract.page import DOCUMENTS, Documents, Page, Wanted

PAGE = "http://shop.example/a/b.html"
ALL = Wanted("image_only")


def record(content: bytes, *, kind: str = "response", url: str = PAGE, fields: str = "") -> warc.Record:
    """A WARC record, as the reader gives it; `fields` are more lines of its header."""
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n{fields}Content-Length: {len(content)}\r\n\r\n"
    (found,) = warc.read(io.BytesIO(head.encode() + content + b"\r\n\r\n"))
    assert isinstance(found, warc.Record)
    return found


def response(
    body: bytes | str, *headers: str, status: str = "200 OK", content_type: str = "text/html", **more: Any
) -> warc.Record:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *headers, "", ""])
    return record(head.encode() + (body.encode() if isinstance(body, str) else body), **more)


def parse(body: bytes | str, *headers: str, wanted: Wanted = ALL, **more: Any) -> Page | None:
    return markup.parse(response(body, *headers, **more), wanted)


def rows(body: bytes | str, *headers: str, wanted: Wanted = ALL, **more: Any) -> list[tuple[str, str]]:
    """(url, alt) of the candidates; what leads to shop.example/a/ without it."""
    page = parse(body, *headers, wanted=wanted, **more)
    return [(c.url.removeprefix("http://shop.example/a/"), c.alt) for c in page.candidates] if page else []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<img src=a.jpg alt=chair>", [("a.jpg", "chair")]),
        ("<IMG ALT='red  chair' SRC = \"a.jpg\" />", [("a.jpg", "red  chair")]),
        ("<img src=a.jpg>", [("a.jpg", "")]),
        ("<img/src=a.jpg\nalt>", [("a.jpg", "")]),
        ("<img src=a.jpg src=b.jpg alt=1 ALT=2>", [("a.jpg", "1")]),
        ('<img src="a.jpg" alt="3 > 2">', [("a.jpg", "3 > 2")]),
        ("<img src=a.jpg alt=it's>", [("a.jpg", "it's")]),
        ("<img src=a.jpg alt='x'title=y>", [("a.jpg", "x")]),
        ("<img src=a.jpg alt='Tom &amp; Ann &#x26; &copy 5 &notit; &hellip'>", [("a.jpg", "Tom & Ann & © 5 &notit; &hellip")]),
        ("<img src='a.jpg?x=1&copy=2&amp;y&copy_z' alt=c>", [("a.jpg?x=1&copy=2&y&copy_z", "c")]),
        ("<img src=a.jpg alt='one\r\ntwo'>", [("a.jpg", "one\r\ntwo")]),  # as a WAT has it; a browser makes it \n
        ("<img src=a.jpg alt='\0&#0;&#xD800;'>", [("a.jpg", "\ufffd\ufffd\ufffd")]),
        (f"<img src=a.jpg alt='&#{'9' * 5000};'>", [("a.jpg", f"\ufffd{'9' * 4968};")]),
        ("<noscript><img src=a.jpg></noscript>", [("a.jpg", "")]),
        ("<template><img src=a.jpg></template>", [("a.jpg", "")]),
        ("<noframes><img src=a.jpg></noframes><textarea><img src=b.jpg></textarea>", [("a.jpg", ""), ("b.jpg", "")]),
        ("<a href=x><img src=a.jpg></a>", [("a.jpg", "")]),
        ("<p title='<img src=a.jpg>'><img src=b.jpg>", [("b.jpg", "")]),
        (
            "<!-- <img src=a.jpg> --><img src=b.jpg><!--><img src=c.jpg><!-- --!><img src=d.jpg>",
            [(x, "") for x in ("b.jpg", "c.jpg", "d.jpg")],
        ),
        ("<script>'<img src=a.jpg>'</script><img src=b.jpg><style><img src=c.jpg></style >", [("b.jpg", "")]),
        ("<script src=x.js /><img src=b.jpg>", [("b.jpg", "")]),
        ("<scripts><img src=b.jpg>", [("b.jpg", "")]),
        ("<svg><image href=a.jpg /></svg><image src=a.jpg><imgs src=a.jpg><img src=b.jpg></img>", [("b.jpg", "")]),
        ("1 < 2 <3 </ <? x ?><![CDATA[<img src=no.jpg>]]><img src=b.jpg>", [("b.jpg", "")]),
        ("<img src=b.jpg><img src=http://e.example/cut.jp", [("b.jpg", "")]),
        ("<img src=b.jpg><!-- <img src=a.jpg>", [("b.jpg", "")]),
        ("<img src=b.jpg><script><img src=a.jpg>", [("b.jpg", "")]),
    ],
)
def test_an_image_is_found_where_a_browser_or_a_wat_finds_one(body: str, expected: list[tuple[str, str]]) -> None:
    assert rows(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<img src=s.jpg srcset='a.jpg 100w, b.jpg 900w'>", ["s.jpg", "b.jpg"]),
        ("<img src=b.jpg srcset='a.jpg 100w, b.jpg 900w'>", ["b.jpg"]),
        ("<img src=b.jpg srcset='a.jpg 100w, //shop.example/a/b.jpg 900w'>", ["b.jpg"]),
        ("<img srcset='a.jpg, b.jpg 2x'>", ["b.jpg"]),
        ("<img src=s.jpg data-srcset='a.jpg 100w, b.jpg 900w'>", ["s.jpg", "b.jpg"]),
        ("<img src=s.jpg srcset='data:,x 2000w' data-srcset='b.jpg 900w'>", ["s.jpg", "b.jpg"]),
        ("<img src=data:image/gif;base64,R0 data-src=a.jpg>", ["a.jpg"]),
        ("<img data-original=a.jpg>", ["a.jpg"]),
        ("<img src='' data-lazy-src=a.jpg data-lazy=b.jpg>", ["a.jpg", "b.jpg"]),
        ("<img src=/x/blank.gif data-src=a.jpg data-original=a.jpg>", ["http://shop.example/x/blank.gif", "a.jpg"]),
        ("<img src=img_placeholder.png?v=1 data-src=a.jpg>", ["img_placeholder.png?v=1", "a.jpg"]),
        ("<img src=s.jpg class='x lazyload' data-src=a.jpg>", ["s.jpg", "a.jpg"]),
        ("<img src=s.jpg data-src=a.jpg>", ["s.jpg"]),  # nothing says that the source is not the image
        ("<img src=/blank/pixelated.jpg data-src=a.jpg>", ["http://shop.example/blank/pixelated.jpg"]),
        ("<img src=data:,x data-lazy=true data-src='{\"a\":\"b.jpg\"}' data-original='<b>.'>", []),
        (
            "<picture><source srcset='a.jpg 100w'><source srcset='b.webp 900w'><img src=s.jpg srcset='c.jpg 500w'></picture>",
            ["s.jpg", "b.webp"],
        ),
        ("<picture><source srcset='b.webp 900w'><img src=b.webp></picture><img src=s.jpg>", ["b.webp", "s.jpg"]),
        (
            "<picture><source data-srcset=a.jpg><img class=lazy src=s.jpg><source srcset='b.jpg 900w'></picture>"
            "<img src=c.jpg>",
            ["s.jpg", "a.jpg", "c.jpg"],
        ),
        ("<picture><source srcset=a.jpg></picture><img src=s.jpg>", ["s.jpg"]),
        ("<video><source src=v.mp4 srcset='b.jpg 900w'></video><img src=s.jpg>", ["s.jpg"]),
    ],
)
def test_the_largest_size_and_what_is_loaded_late_are_found_too(body: str, expected: list[str]) -> None:
    found = rows(body.replace("<img ", "<img alt=chair "))
    assert found == [(url, "chair") for url in expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "<figure><img src=a.jpg><figcaption>A <b>red</b>\n chair<br>&amp; table</figcaption></figure>",
            ["A red chair & table"],
        ),
        ("<figure><img src=a.jpg alt=' &#32; '><figcaption>x</figcaption></figure>", ["x"]),
        ("<figure><img src=a.jpg alt=own><figcaption>x</figcaption></figure>", ["own"]),
        ("<figure><figcaption>x</figcaption><img src=a.jpg><p><img src=b.jpg></p></figure><img src=c.jpg>", ["x", "x", ""]),
        (
            "<figure><figure><img src=a.jpg><figcaption>x</figcaption></figure><img src=b.jpg><figcaption>y</figure>",
            ["x", "y"],
        ),
        ("<figure><figure><img src=a.jpg></figure><figcaption>y</figcaption></figure>", [""]),
        ("<figcaption>x</figcaption><img src=a.jpg></figure><img src=b.jpg>", ["", ""]),
        ("<figure><img src=a.jpg><figcaption>un<wbr>closed<script>no</script></figure>", ["unclosed"]),
        (
            "<figure><img src=a.jpg><figcaption> </figcaption><figcaption>y</figcaption><figcaption>z</figcaption>",
            ["y"],
        ),
        ("<figure><figcaption>x <img src=a.jpg alt=> y</figcaption></figure>", ["x y"]),
    ],
)
def test_a_caption_describes_an_image_without_alt_text(body: str, expected: list[str]) -> None:
    assert [alt for _, alt in rows(body)] == expected


def test_every_pair_is_counted() -> None:
    body = "<img src=a.jpg alt=1 srcset='b.jpg 2x'><img src=data:, alt=2 data-src=c.jpg><img src='' alt=3><img src=d.jpg>"
    page = parse(body, wanted=Wanted("image"))
    assert page is not None
    assert [(c.url[-5:], c.caption) for c in page.candidates] == [("a.jpg", "1"), ("b.jpg", "1"), ("c.jpg", "2")]
    assert page.counts == {"in": 6, "dropped:scheme": 1, "dropped:empty_url": 1, "dropped:no_text": 1}


def test_a_uid_is_that_of_a_wat_that_decodes_references() -> None:
    page = parse("<img src=i.jpg alt='Tom &amp;amp; Ann'>")
    told = wat.describe(PAGE, {}, [], None, None).consider([("i.jpg", "Tom &amp; Ann")], ALL)
    assert page is not None
    assert page.candidates == told.candidates
    assert (
        hashlib.md5((page.candidates[0].alt + page.candidates[0].url).encode()).hexdigest()
        == "4d25758757f655fcba4d7334a03d5d21"
    )


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("<base href=http://cdn.example/x/><base href=/y/>", "http://cdn.example/x/i.jpg"),
        ("<base target=_top><BASE HREF='/y/&amp;/'>", "http://shop.example/y/&/i.jpg"),
        ("<base href='javascript:alert(1)'>", "http://shop.example/a/i.jpg"),
        ("<base href=''>", "http://shop.example/a/i.jpg"),
        ("<!-- <base href=/y/> -->", "http://shop.example/a/i.jpg"),
    ],
)
def test_the_first_base_counts(base: str, expected: str) -> None:
    page = parse(f"<img src=i.jpg>{base}")
    assert page is not None
    assert [c.url for c in page.candidates] == [expected]


@pytest.mark.parametrize(
    ("content_type", "fields", "is_html"),
    [
        ("text/html; charset=utf-8", "", True),
        ("application/XHTML+xml", "", True),
        ("text/plain", "", False),
        ("", "", False),
        ("text/plain", "WARC-Identified-Payload-Type: text/html\r\n", True),
        ("text/html", "WARC-Identified-Payload-Type: application/rss+xml\r\n", False),
    ],
)
def test_what_is_no_html_is_no_page(content_type: str, fields: str, is_html: bool) -> None:
    assert (parse("<img src=i.jpg>", content_type=content_type, fields=fields) is not None) == is_html


def test_which_records_tell_of_pages() -> None:
    body = b"<img src=i.jpg>"
    answer = b"HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\n\r\n" + body
    assert markup.parse(record(answer), ALL) is not None  # as in a WAT
    assert markup.parse(record(answer, kind="revisit"), ALL) is None
    assert markup.parse(record(b"GET /a/b.html HTTP/1.0\r\nContent-Type: text/html\r\n\r\n", kind="request"), ALL) is None
    assert markup.parse(record(body, kind="resource", fields="Content-Type: text/html\r\n"), ALL) is not None
    assert markup.parse(record(body, kind="resource", fields="Content-Type: image/png\r\n"), ALL) is None
    assert markup.parse(record(answer, url="dns:shop.example"), ALL) is None
    assert parse("<p>no image</p>") is None
    assert parse("<p title='<img src=i.jpg>'>") is None


IMG = "<img src=i.jpg alt=x>"


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ("<html lang=en>", (), "en"),
        ("<HTML LANG=' de '><meta http-equiv=content-language content=fr>", ("Content-Language: pt",), "de"),
        ("<html lang><meta http-equiv=Content-Language content=fr>", ("Content-Language: pt",), "fr"),
        ("<html xml:lang=es>", ("content-language: pt", "Content-Language: it"), "pt"),
        ("<html xml:lang=es>", (), None),  # a WAT's is not looked at either
        ("<meta name=content-language content=fr>", (), None),
    ],
)
def test_the_language_is_that_of_the_first_place_that_names_one(
    body: str, headers: tuple[str, ...], expected: str | None
) -> None:
    page = parse(body + IMG, *headers)
    assert page is not None
    assert page.language == expected


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ("<meta name=robots content='NOAI, follow'>", (), "noai"),
        ("<meta content=noimageai name='Winnow'>", (), "noimageai"),
        ("<meta name=otherbot content=noai>", (), None),
        ("<meta name=robots><meta http-equiv=robots content=noai>", (), None),
        ("", ("X-Robots-Tag: noai", "x-robots-tag: otherbot: noml, noindex"), "noai"),
        ("", ("X-Robots-Tag: nofollow", "X-Robots-Tag: noindex"), "noindex"),
    ],
)
def test_a_page_objects_in_its_head_or_its_headers(body: str, headers: tuple[str, ...], expected: str | None) -> None:
    page = parse(body + IMG, *headers)
    assert page is not None
    assert page.opt_out == expected
    assert len(page.candidates) == (0 if expected else 1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<title> Red\n chairs &amp; <3 </title><title>second</title>", "Red chairs & <3"),
        ("<svg><title>logo</title></svg><title>page</title>", "page"),
        ("<svg/><title>page</title>", "page"),
        ("<title>never closed<p>text", "never closed"),
        ("<title></title>", None),
        ("", None),
        (f"<title>{'word ' * 50}</title>", ("word " * 26)[:128].strip()),  # what a WAT keeps of it
    ],
)
def test_the_title_is_the_first_outside_of_drawings(body: str, expected: str | None) -> None:
    page = parse(body + IMG)
    assert page is not None
    assert page.title == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<a href=a.pdf>Annual <b>report</b>,\n\t&nbsp; 2030</a>", [("a.pdf", "Annual report, 2030")]),
        ("<a href='a.pdf?x=1&amp;y=2' alt=no title=no></a>", [("a.pdf?x=1&y=2", "")]),
        ("<a href=a.pdf>one<br>two<p>three</p>four<td>five</td></a>", [("a.pdf", "onetwothree fourfive")]),  # as a WAT has it
        (f"<a href=a.pdf>{'word ' * 50}</a>", [("a.pdf", ("word " * 26)[:128].strip())]),
        ("<a href=a.pdf>text<script>'</a>'</script><!-- </a> --> more</a>", [("a.pdf", "text more")]),
        ("<a href=a.pdf />text</a>", [("a.pdf", "")]),
        ("<a href=a.pdf>a<a name=x>b</a>c</a><a href=b.PDF>d", [("a.pdf", "a"), ("b.PDF", "")]),
        ("<a href=page.html>x</a><a href=a.pdf.html>x</a><a name=a.pdf>x</a><a href=a.epub#p>x</a>", [("a.epub#p", "x")]),
        (
            "<embed src=a.pdf><iframe src=b.pdf></iframe><object data=c.pdf></object><area href=d.pdf>",
            [(f"{x}.pdf", "") for x in "abcd"],
        ),
        (
            "<blockquote cite=a.txt><q cite=b.txt><form action=c.md><button formaction=d.md>",
            [("a.txt", ""), ("b.txt", ""), ("c.md", ""), ("d.md", "")],
        ),
        (
            "<tr data-href=a.pdf><li DATA-URI='b.pdf'><a data-href=c.pdf href=d.pdf>t</a><td background=e.pdf>",
            [("a.pdf", ""), ("b.pdf", ""), ("c.pdf", ""), ("d.pdf", "t"), ("e.pdf", "")],
        ),
        (
            "<div onclick=\"window.location.href = 'a.pdf'\"><input onclick='javascript:window.open(\"b.pdf\", 1)'>",
            [("a.pdf", ""), ("b.pdf", "")],
        ),
        ("<p onclick=\"location='a.pdf'\"><div onclick='go(\"b.pdf\")'>c.pdf</div>", []),
        ("<link href=a.pdf><script src=b.pdf></script><img srcset=c.pdf><!-- <a href=d.pdf>d</a> -->", []),
        (
            "<img src=a.pdf longdesc=b.txt><video src=c.txt poster=d.txt><track src=e.txt><source src=f.txt>",
            [("a.pdf", "")] + [(f"{x}.txt", "") for x in "bcdef"],
        ),
    ],
)
def test_other_documents_are_the_links_that_a_wat_lists(body: str, expected: list[tuple[str, str]]) -> None:
    assert rows(body, wanted=Wanted("text")) == expected


def test_documents_are_told_by_their_kind() -> None:
    body = "<audio src=a.mp3><source src=b.ogg></audio><video src=c.mp4 poster=d.jpg><a href=e.webm?x>film</a>"
    assert rows(body, wanted=Wanted("audio")) == [("a.mp3", ""), ("b.ogg", "")]
    assert rows(body, wanted=Wanted("video")) == [("c.mp4", ""), ("e.webm?x", "film")]
    assert parse(body, wanted=Wanted("text")) is None


PIECES = """<img src=a.jpg| alt='|"|>|<a href=x.pdf>|</a>|<figure>|<figcaption>|</figure>|<picture>|<source srcset='a 1x,
|<script>|</script>|<!--|-->|<title>|<base href=|<meta charset=|&amp;|&#|=|/|\0|é| |<svg|1w"""


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(PIECES.split("|")), max_size=40).map(lambda parts: "".join(parts).encode()),
    st.sampled_from(DOCUMENTS),
)
def test_any_bytes_give_a_page_whose_counts_add_up(body: bytes, documents: Documents) -> None:
    page = parse(body, "Content-Encoding: gzip", "Transfer-Encoding: chunked", wanted=Wanted(documents))
    if page is not None:
        dropped = sum(n for why, n in page.counts.items() if why != "in")
        assert page.counts["in"] == len(page.candidates) + dropped > 0
        "".join(c.url + c.alt + c.caption for c in page.candidates).encode()  # raises where it is no Unicode


@pytest.mark.parametrize(
    "hostile",
    [
        "<div>" * 100_000,
        "<svg>" * 100_000,
        "<figure><figcaption>" * 50_000,
        "<picture><source srcset=x>" * 50_000,
        "<a href=x.pdf>" * 20_000,
        f"<img {' '.join(f'a{i}=1' for i in range(50_000))}>",
        f"<p title='{'a' * 1_000_000}'>",
        f"<img alt='{'&lt;' * 100_000}'>",
        f"<img src=data: data-src='{'.' * 100_000}{{'>",
        "<!-->" * 100_000,
        "<script></script" * 50_000 + ">",
        "<title><" * 100_000,
        "=" * 100_000 + "<img a" + " = " * 50_000 + ">",
    ],
    ids=lambda h: h[:20],
)
@pytest.mark.timeout(60)
def test_hostile_pages_take_linear_time(hostile: str) -> None:
    assert ("i.jpg", "x") in rows(hostile + IMG)
    assert ("last.pdf", "y") in rows(hostile + "<a href=last.pdf>y</a>", wanted=Wanted("text"))


@pytest.mark.parametrize("unclosed", ["<!--", "<script>", "<a", "<img ", "<a b='", '<img src="', "<", "</script", "<!"])
@pytest.mark.timeout(60)
def test_what_is_never_closed_takes_linear_time(unclosed: str) -> None:
    assert rows(IMG + unclosed * 200_000)[0] == ("i.jpg", "x")
