"""Bodies of archived responses: unpacked, and as text."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Callable

import brotli
import pyarrow as pa
import pytest

from pipeline.extract import charset, response

TEXT = "Красивый вид на вечерний город, улица и дома. "
PAGE = b"".join(b'<img src="%d.jpg" alt="number %d">' % (n * 7919 % 10_007, n) for n in range(9000))


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "brotli": ("br", brotli.compress),
    "zstd": ("zstd", lambda data: pa.compress(data, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("name", PACKERS)
def test_a_body_is_unpacked_up_to_the_limit(name: str) -> None:
    coding, pack = PACKERS[name]
    assert response.unpack([("content-encoding", coding)], pack(PAGE)) == PAGE
    assert response.unpack([("Content-Encoding", coding)], pack(PAGE), limit=1000) == PAGE[:1000]


@pytest.mark.parametrize("name", PACKERS)
def test_a_body_that_was_stored_unpacked_stays(name: str) -> None:
    assert response.unpack([("Content-Encoding", PACKERS[name][0])], PAGE) == PAGE


@pytest.mark.parametrize("name", sorted(PACKERS.keys() - {"zstd"}))  # whose one block is all there is
def test_a_cut_body_gives_what_there_is(name: str) -> None:
    coding, pack = PACKERS[name]
    packed = pack(PAGE)
    part = response.unpack([("Content-Encoding", coding)], packed[: len(packed) * 2 // 3])
    assert PAGE.startswith(part)
    assert len(part) > len(PAGE) // 3


def test_several_codings_are_undone_from_the_last() -> None:
    packed = brotli.compress(gzip.compress(PAGE))
    assert response.unpack([("Content-Encoding", "gzip, br")], packed) == PAGE
    assert response.unpack([("Content-Encoding", "gzip"), ("Content-Encoding", "br")], packed) == PAGE
    assert response.unpack([("Content-Encoding", "identity, unheard-of")], PAGE) == PAGE


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (TEXT.encode(), "text/html; charset=utf-8", TEXT),
        (TEXT.encode("cp1251"), "text/html;charset=windows-1251", TEXT),
        (TEXT.encode("cp1251"), "text/html; Charset = 'x-cp1251'", TEXT),
        ("①髙 表".encode("cp932"), "text/html; charset=Shift_JIS", "①髙 表"),  # which Python's shift_jis does not know
        ("똠방".encode("cp949"), "text/html; charset=EUC-KR", "똠방"),
        ("€ㄥ".encode("gb18030"), "text/html; charset=gb2312", "€ㄥ"),
        ("“quoted”".encode("cp1252"), "text/html; charset=iso-8859-1", "“quoted”"),
        ("日本".encode("iso2022_jp"), "text/html; charset=iso-2022-jp", "日本"),
        # A byte order mark goes before all, and is no part of the text.
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "text/html; charset=utf-8", TEXT),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "", TEXT),
        (codecs.BOM_UTF8 + TEXT.encode(), "text/html; charset=windows-1251", TEXT),
        # The header goes before the page, though it is wrong; one that means nothing does not.
        ("<meta charset=windows-1251>é".encode(), "text/html; charset=utf-8", "<meta charset=windows-1251>é"),
        ("é".encode(), "text/html; charset=iso-8859-1", "Ã©"),
        (b"<meta charset=windows-1251>\xe9", "text/html; charset=none", "<meta charset=windows-1251>й"),
        (b"<META content='text/html; charset=koi8-r' http-equiv=Content-Type>\xca", "text/html", None),
        (b"<meta name=x content='charset=koi8-r'><meta charset=bogus><meta charset=koi8-r>\xca", "", None),
        (b"<meta http-equiv=refresh content='0;url=?charset=koi8-r'><meta charset=windows-1251>\xe9", "", None),
        (b"<!-- <meta charset=koi8-r> --><meta charset=windows-1251>\xe9", "", None),
        (b"<?xml version='1.0' encoding='windows-1251'?>\xe9", "", None),
        ("<meta charset=utf-16>é".encode(), "", "<meta charset=utf-16>é"),
        (b"<p>" * 1000 + b"<meta charset=windows-1251>\xe9", "", None),
        # Nothing says it: UTF-8 if it can be, of a cut body too; else a guess.
        ("zażółć".encode(), "", "zażółć"),
        ("zażółć".encode()[:-1], "", "zażół"),
        ((TEXT * 3).encode("cp1251"), "", TEXT * 3),
        (("東京タワーの夜景の写真です。" * 3).encode("euc_jp"), "", "東京タワーの夜景の写真です。" * 3),
        (b"", "", ""),
        (b"a\xffb", "text/html; charset=utf-8", "a\ufffdb"),
    ],
)
def test_the_encoding_is_that_of_the_first_place_that_names_one(body: bytes, content_type: str, expected: str | None) -> None:
    text = charset.decode(body, content_type)
    if expected is None:  # the last character is й
        assert text[-1] == "й"
    else:
        assert text == expected
