"""The characters of a page's bytes, by the encoding that a browser would take (WHATWG Encoding; HTML, 13.2.3.2)."""

from __future__ import annotations

import codecs
import re

import chardetng_py
import webencodings

from pipeline.extract.tags import Lexer

_HEAD = 8 << 10  # bytes that are searched for a statement; a browser is content with 1,024, Common Crawl's extractor is not
_SAMPLE = 256 << 10  # bytes that an encoding is guessed from
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))
_CHARSET = re.compile(r"""charset[\t\n\f\r ]*=[\t\n\f\r ]*["']?([^\t\n\f\r "';]+)""", re.IGNORECASE)
_XML = re.compile(r"""\ufeff?<\?xml\b[^>]*?\bencoding[\t\n\r ]*=[\t\n\r ]*["']([A-Za-z0-9._-]+)""")
_METAS = Lexer("meta")
# A page that could say so in these was not written in them.
_IMPOSSIBLE = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}


def decode(body: bytes, content_type: str = "") -> str:
    """The text of a page; what its encoding does not know is U+FFFD.

    The encoding is that of its byte order mark, of the header Content-Type, of its meta elements or XML declaration, else
    UTF-8 if it is that, else a guess (chardetng, which Firefox has).
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return codecs.decode(body[len(mark) :], encoding, "replace")
    found = _named(content_type) or _stated(body[:_HEAD].decode("latin-1"))
    if found is None:
        try:  # of a body that is cut the last character may be
            return codecs.getincrementaldecoder("utf-8")().decode(body)
        except UnicodeDecodeError:
            found = chardetng_py.detect(body[:_SAMPLE])
    return codecs.decode(body, found, "replace")


def _named(said: str) -> str | None:
    """Python's name of the encoding that a content type names, None if it names none that is known."""
    label = _CHARSET.search(said)
    return _known(label[1]) if label else None


def _known(label: str, *, within: bool = False) -> str | None:
    """Python's name of an encoding, None if no browser knows it; `within`: as stated in the page itself."""
    if (encoding := webencodings.lookup(label)) is None:
        return None
    if within and encoding.name in _IMPOSSIBLE:
        return _IMPOSSIBLE[encoding.name]
    name: str = encoding.codec_info.name
    return "gb18030" if name == "gbk" else name  # WHATWG Encoding, 10.1.1: its decoder is that of gb18030


def _stated(head: str) -> str | None:
    """What the first meta element says that names an encoding, else the XML declaration."""
    for tag in _METAS.tags(head):
        said = tag.attributes
        label = said.get("charset")
        if label is None and said.get("http-equiv", "").strip().lower() == "content-type":
            found = _CHARSET.search(said.get("content", ""))
            label = found[1] if found else None
        if label and (encoding := _known(label, within=True)):
            return encoding
    xml = _XML.match(head)
    return _known(xml[1], within=True) if xml else None
