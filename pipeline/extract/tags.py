"""The tags of a page, found as a browser's tokenizer finds them (WHATWG HTML, 13.2.5), in time linear in its length.

No tree is built: what is asked of a page is where its tags stand, as Common Crawl's extractor asks it. The parsers that build
one (lexbor in selectolax 1.0.2 and Resiliparse 2.0.1) took 28 s for 40,000 nested <div> or 20 s for a tag with 50,000
attributes, where this takes milliseconds; and an attribute keeps the line ends that a WAT has.

Comments, scripts and style sheets are passed over. All else is looked into, as the extractor does: <noscript>, <template>,
<noframes>, <textarea>.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.entities import html5
from typing import NamedTuple

_S = r"[\t\n\f\r ]"
_ENDS_NAME = r"[\t\n\f\r />]"
_REST = rf"""(?:[^>=]++|={_S}*+(?:"[^"]*+"?+|'[^']*+'?+|[^\t\n\f\r >]++)?+)*+"""  # of a tag, behind its name
_ATTRIBUTE = re.compile(
    rf"""([^\t\n\f\r />][^\t\n\f\r />=]*+)(?:{_S}*+={_S}*+(?:"([^"]*+)"?+|'([^']*+)'?+|([^\t\n\f\r >"'][^\t\n\f\r >]*+))?+)?+"""
)
_OPAQUE = rf"(?ai:script|style)(?={_ENDS_NAME})"
_COMMENT = r"!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)"
_BOGUS = r"(?:[!?]|/(?![A-Za-z]))[^>]*+>?+"  # <!doctype>, <?xml?>, <![CDATA[ and </3, which end at the next `>`
# Bounded, as int() refuses thousands of digits.
_REFERENCE = re.compile(r"&(?:#[0-9]{1,32};?|#[xX][0-9a-fA-F]{1,32};?|[A-Za-z][A-Za-z0-9]{1,31};?)")


def _opaque(name: str) -> str:
    """An element that holds no tags, up to its closing tag. One that closes itself is empty, as in XHTML."""
    rest = rf"(?:(?<=/)>|>(?:[^<]++|<(?!/(?ai:{name}){_ENDS_NAME}))*+)?+"
    return rf"(?ai:{name})(?={_ENDS_NAME}){_REST}{rest}"


class Tag(NamedTuple):
    """A tag in a page[start:end]: its name in lower case, and its attributes as they stand."""

    name: str
    closing: bool
    written: str
    start: int
    end: int

    @property
    def attributes(self) -> dict[str, str]:
        """Values by names in lower case, references decoded; of repeated names the first."""
        found: dict[str, str] = {}
        for name, double, single, bare in _ATTRIBUTE.findall(self.written):
            value = double or single or bare
            found.setdefault(name.lower(), decode(value) if "&" in value else value)
        return found

    @property
    def empty(self) -> bool:
        """Whether it closes itself."""
        return self.written.endswith("/")


_MARKUP = re.compile(
    rf"<(?:/?+(?!{_OPAQUE})([A-Za-z][^\t\n\f\r />]*+){_REST}>?+"
    rf"|{_opaque('script')}|{_opaque('style')}|/{_OPAQUE}{_REST}>?+|{_COMMENT}|{_BOGUS})"
)
# Elements of which none begins or ends within a word (ia-web-commons, ExtractingParseObserver).
_BLOCKS = """address article aside blockquote body br button canvas caption center cite col colgroup datalist dd details div dl
dt embed fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr iframe img input label legend li map noframes
noscript object ol optgroup output p pre progress q section select summary table tbody td textarea tfoot th thead time title tr
ul video"""
_PARTING = frozenset(_BLOCKS.split())
_CONTROLS = re.compile(r"[\0-\x1f\x7f\xa0]")
_SPACES = re.compile(r"(\s)\s+")


def text(markup: str, *, opening: bool = True) -> str:
    """The text of a piece of a page: markup dropped, references decoded, runs of white space as one character.

    A space stands for a tag of an element that parts words, or only for a closing one, as Common Crawl's extractor has it.
    """

    def instead(tag: re.Match[str]) -> str:
        parts = tag[1] and (opening or tag[0][1] == "/") and tag[1].lower() in _PARTING
        return " " if parts else ""

    bare = _MARKUP.sub(instead, markup)
    bare = _REFERENCE.sub(lambda m: html.unescape(m[0]), bare) if "&" in bare else bare
    return _SPACES.sub(r"\1", _CONTROLS.sub(" ", bare)).strip()


class Lexer:
    """Finds the tags of these names, all if there are none, in pages."""

    def __init__(self, *names: str) -> None:
        wanted = rf"(?ai:{'|'.join(names)})(?={_ENDS_NAME})" if names else rf"(?!{_OPAQUE})[A-Za-z][^\t\n\f\r />]*+"
        self._wanted = re.compile(rf"<(/?)({wanted})({_REST})>")
        other = rf"/?+(?!{_OPAQUE}|{wanted})[A-Za-z]{_REST}>?+"
        closing = rf"/{_OPAQUE}{_REST}>?+"
        inside = "|".join((other, _opaque("script"), _opaque("style"), closing, _COMMENT, _BOGUS, r"(?![A-Za-z/!?])"))
        self._between = re.compile(rf"(?:[^<]++|<(?:{inside}))*+")

    def tags(self, page: str) -> Iterator[Tag]:
        """The tags in their order. One that the page ends within is none."""
        at = 0
        while (found := self._wanted.match(page, self._between.match(page, at).end())) is not None:  # type: ignore[union-attr]
            at = found.end()
            yield Tag(found[2].lower(), bool(found[1]), found[3], found.start(), at)


def decode(value: str) -> str:
    """An attribute's value with its character references decoded.

    A named one without a semicolon counts only where no `=`, `-`, `_`, letter or digit follows: `&copy=2` is a parameter of
    an address. (WHATWG HTML, 13.2.5.73; `-` and `_` as Common Crawl's extractor has it)
    """
    return _REFERENCE.sub(_decode, value)


def _decode(match: re.Match[str]) -> str:
    reference = match[0]
    if reference[1] == "#":
        return html.unescape(reference)
    if not reference.endswith(";") and match.string[match.end() : match.end() + 1] in ("=", "-", "_"):
        return reference
    return html5.get(reference[1:], reference)
