"""Image addresses as pages have them → absolute http(s) urls that a client can ask for."""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Literal
from urllib.parse import quote, urljoin, urlsplit

from pipeline.extract.text import decode_entities, repair

Why = Literal["no_text", "bad_link", "empty_url", "scheme", "bad_url"]

# Addresses in which nothing has to be resolved, decoded (no `;`) or encoded, whole or behind their page's host or folder:
# most links of a crawl are such. `urljoin` drops empty and dotted parts of a path, and a bare `?`.
_SAFE, _NAME = r"[!$-.0-:=@-\[\]-~]", r"[0-9A-Z_a-z~%-]"
_PLAIN = re.compile(r"https?://[a-z0-9-]+(?:\.[a-z0-9-]+)+/[!#-:=?-\[\]-~]*")
_ROOTED = re.compile(rf"(?:/(?!\.){_SAFE}+)+(?:\?[!$-:=?-\[\]-~]+)?")
_BELOW = re.compile(rf"{_NAME}(?:(?!:){_SAFE})*(?:/(?!\.){_SAFE}+)*(?:\?[!$-:=?-\[\]-~]+)?")
# A plain url up to the last slash of its path, which has neither empty nor dotted parts; its host; its scheme.
_PLACE = re.compile(
    rf"((https?:)//[a-z0-9-]+(?:\.[a-z0-9-]+)+)/(?:(?!\.){_SAFE}+/)*(?={_SAFE}*(?:[?#][!#-:=?-\[\]-~]*)?\Z)(?!\.)"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NO_HOST = re.compile(r"(?:https?:)?//(?:[/?#]|\Z)", re.IGNORECASE)
_ENDS = "".join(map(chr, range(0x21)))  # C0 controls and the space
_BREAKS = re.compile("[\t\r\n]")
# What cannot stand in a request line; `%` stays, so that nothing is encoded twice.
_UNSAFE = re.compile("[^!#-;=?-~]")
_HOST = re.compile(r"(?:[A-Za-z0-9_~.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")


class Rejected(ValueError):
    """An address that is no candidate; `why` names the counter."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class Base:
    """What the links of a page are relative to: its `<base href>`, itself relative to the page, or the page."""

    def __init__(self, page: str, base: str | None = None) -> None:
        self.url = page
        if base:
            with contextlib.suppress(Rejected):
                self.url = resolve(base, Base(page))

    @functools.cached_property
    def before(self) -> tuple[str, str, str]:
        """What stands before an address that begins with two slashes, one, or a name; empty if the base is no http(s) url."""
        if (place := _PLACE.match(self.url)) is not None:
            return place[2], place[1], place[0]
        try:
            host = encode(urljoin(self.url, "/x"))[:-2]
            return host[: host.index("//")], host, encode(urljoin(self.url, "x"))[:-1]
        except ValueError:
            return "", "", ""


def resolve(address: str, base: Base) -> str:
    """The absolute url of a source attribute on a page.

    Entities that end in `;` are decoded, ends trimmed, line breaks and tabs removed, a backslash before the query is a
    slash, and what no request line may hold is percent-encoded as UTF-8 (WHATWG URL, section 4.4). Raises Rejected.
    """
    if _PLAIN.fullmatch(address):
        return address
    scheme, host, folder = base.before
    if address.startswith("//") and scheme and _PLAIN.fullmatch(whole := scheme + address):
        return whole
    if _ROOTED.fullmatch(address) and host:
        return host + address
    if _BELOW.fullmatch(address) and folder:
        return folder + address
    address = _BREAKS.sub("", repair(decode_entities(address)).strip(_ENDS))
    if not address:
        raise Rejected("empty_url")
    said = _SCHEME.match(address)
    if said and said[1].lower() not in ("http", "https"):
        raise Rejected("scheme")
    if "\\" in address:
        path, mark, query = address.partition("?")
        address = path.replace("\\", "/") + mark + query
    if _NO_HOST.match(address):  # joining would give it the page's host
        raise Rejected("bad_url")
    try:
        return encode(urljoin(base.url, address))
    except ValueError as e:
        raise Rejected("bad_url") from e


def after_host(url: str) -> str:
    """Path, query and fragment of an absolute url."""
    return url[url.find("/", url.find("//") + 2) :] if url.count("/") > 2 else ""


def encode(url: str) -> str:
    """An absolute http(s) url with its host in ASCII and unsafe characters percent-encoded. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an absolute http(s) url: {url!r}")
    user, at, host = parts.netloc.rpartition("@")
    if not host.isascii():
        port = "" if parts.port is None else f":{parts.port}"
        host = parts.hostname.encode("idna").decode() + port
        url = parts._replace(netloc=user + at + host).geturl()
    if not _HOST.fullmatch(host) or not (parts.port is None or parts.port > 0):
        raise ValueError(f"no such host can be: {host!r}")
    return _UNSAFE.sub(_percent, url)


def _percent(match: re.Match[str]) -> str:
    return quote(match[0], safe="")
