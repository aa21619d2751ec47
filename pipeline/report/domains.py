"""Registered domains of addresses: what is registered under a public suffix, `example.co.uk` of `img.example.co.uk`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

LOADED_LATE = ("publicsuffixlist",)
_REMEMBERED = 1 << 16


def encode(urls: pa.Array) -> tuple[NDArray[np.int32], list[str]]:
    """(n,) addresses → (n,) places among the hosts, and the hosts as they stand there; of what is no address it is empty."""
    found: dict[str, int] = {}
    places = np.fromiter((found.setdefault(_authority(url), len(found)) for url in texts(urls)), np.int32, len(urls))
    return places, list(found)


def texts(values: pa.Array) -> Sequence[str | None]:
    """A column's texts; what is no UTF-8 in them, as foreign writers leave it, is replaced."""
    try:
        found: list[str | None] = values.to_pylist()
    except UnicodeDecodeError:
        found = [None if v is None else v.decode("utf-8", "replace") for v in values.cast(pa.binary()).to_pylist()]
    return found


def repaired(values: pa.Array) -> pa.Array:
    """A column of texts, the same if they are UTF-8."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(texts(values), pa.large_string())
    return values


def _authority(url: str | None) -> str:
    pieces = (url or "").split("/", 3)
    return pieces[2] if len(pieces) > 2 and not pieces[1] and pieces[0].endswith(":") else ""


@functools.lru_cache(_REMEMBERED)
def registered(authority: str) -> tuple[str, str]:
    """The registered domain and the top-level domain of a host, with or without user and port, in small letters, punycode.

    A number is its own domain, without a top-level one; so is a name that has no public suffix, or is one.
    """
    host = authority.split("?", 1)[0].split("#", 1)[0].split("\\", 1)[0].rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0] + "]", ""
    host = host.partition(":")[0].strip(".").lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return host, ""
    top = host.rpartition(".")[2]
    if top.isdigit() or top == host:
        return host, ""
    return _suffixes().privatesuffix(host) or host, top


@functools.cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(only_icann=True)  # the registries' own: a blog under blogspot.com has registered nothing
