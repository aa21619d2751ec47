"""Rules by lists that somebody keeps: uids, hosts, addresses."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from filters import arrays
from filters.registry import register
from pools import store, uids
from pools.errors import InputError
from pools.uids import Uids
from pools.wanted import Wanted

_HOSTS_REMEMBERED = 1 << 18
# The host of an address, behind a user's name and before a port; a backslash ends it as a slash does, as in browsers.
_HOST = r"(?i)^\s*[a-z][a-z0-9+.-]*:[/\\]{2,}(?:[^/?#\\]*@)?(?P<host>\[[^\]/?#\\]*\]|[^:/?#\\]*)"


@dataclass(frozen=True, kw_only=True)
class _Listed:
    """Rows that a list names (`in`), or those that it does not (`not_in`). A null is not judged."""

    in_: str | None = field(default=None, metadata={"file": True})
    not_in: str | None = field(default=None, metadata={"file": True})

    def __post_init__(self) -> None:
        if (self.in_ is None) == (self.not_in is None):
            raise ValueError("takes one of in and not_in, the path of a list")

    @property
    def path(self) -> str:
        path = self.in_ if self.in_ is not None else self.not_in
        assert path is not None
        return path

    def listed(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        raise NotImplementedError

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        found = self.listed(batch)
        return found if self.in_ is not None else pc.invert(found)


@register("uid_list")
@dataclass(frozen=True, kw_only=True)
class UidList(_Listed):
    """Rows whose uid stands in the list `in`, or those whose uid does not stand in the list `not_in`.

    A sorted uid list as `winnow uids` writes it, of any length: it is read as it is needed, from a copy on the local disk if it
    lies in a store. A list whose sidecar says that it is of uids to remove is refused by `in`, one of uids to keep by `not_in`.
    """

    needs: ClassVar[tuple[str, ...]] = ("uid",)

    def listed(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return arrays.booleans(_uids(self.path, self.in_ is None).find(uids.pack(batch["uid"]))[1] > 0)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch["uid"]


@functools.cache
def _uids(path: str, remove: bool) -> Wanted:
    said = store.exists(path + ".json")
    found = Wanted.open(path, kind="remove" if remove and said else "keep")
    found.summary()  # refuses one that is not sorted
    return found


@register("domain_list")
@dataclass(frozen=True, kw_only=True)
class DomainList(_Listed):
    """Rows whose host stands in the list `in`, or those whose host does not stand in the list `not_in`.

    The host is that of `column`, an address. The list has a domain a line, `#` before comments; a domain stands for its
    subdomains too (`example.org` for `www.example.org`, not for `anexample.org`), unless `subdomains` is false. Case, a
    final dot and the spelling of other scripts (Unicode or Punycode) make no difference. What is not an address has no host
    and is in no list; a null is not judged. The list is held in memory.
    """

    column: str = "url"
    subdomains: bool = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def listed(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        hosts = hosts_of(batch[self.column]).dictionary_encode()
        found = list(map(_domains(self.path, self.subdomains).__getitem__, hosts.dictionary.to_pylist()))
        return pa.array(found, pa.bool_()).take(hosts.indices)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return hosts_of(batch[self.column])


def hosts_of(urls: pa.Array) -> pa.Array:
    """(n,) host of each address as it is written, in small letters; empty for what is none, null for null."""
    found = pc.struct_field(pc.extract_regex(urls, _HOST), "host")
    return pc.if_else(pc.is_valid(urls), pc.utf8_lower(pc.fill_null(found, "")), None)


class _Domains(dict[str, bool]):
    """Whether a host is listed, worked out when first asked for; of the last quarter million hosts or fewer."""

    def __init__(self, listed: frozenset[str], subdomains: bool) -> None:
        super().__init__()
        self.listed, self.subdomains = listed, subdomains

    def __missing__(self, host: str) -> bool:
        if len(self) >= _HOSTS_REMEMBERED:
            self.clear()
        name = _canonical(host)
        parts = name.split(".") if self.subdomains else []
        parents = (".".join(parts[i:]) for i in range(1, len(parts)))
        self[host] = bool(name) and (name in self.listed or any(parent in self.listed for parent in parents))
        return self[host]


def _canonical(host: str) -> str:
    """In small letters and ASCII, without a final dot."""
    name = host.lower().rstrip(".")
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return name  # no host that could be asked for: equal to itself only


@functools.cache
def _domains(path: str, subdomains: bool) -> _Domains:
    found = set()
    for where, line in _lines(path, "domain"):
        name = _canonical(line.removeprefix("*.").lstrip("."))
        if not name or (re.search(r"[\s/@]|:[0-9]*$", name) and not name.startswith("[")):
            raise InputError(f"{line[:60]!r}", where=where, expected="a domain such as example.org")
        found.add(name)
    return _Domains(frozenset(found), subdomains)


@register("url_list")
@dataclass(frozen=True, kw_only=True)
class UrlList(_Listed):
    """Rows whose address stands in the list `in`, or those whose address does not stand in the list `not_in`.

    The address is that of `column`, compared letter for letter. The list has an address a line and takes 16 bytes an address
    in memory; lines that begin with `#` are comments. A null is not judged.
    """

    column: str = "url"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def listed(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        urls = batch[self.column]
        found = uids.count(_urls(self.path), _digests(u or "" for u in urls.to_pylist())) > 0
        return arrays.booleans(found, arrays.numpy(urls.is_null()))

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch[self.column]


@functools.cache
def _urls(path: str) -> Uids:
    return uids.sort(_digests(line for _, line in _lines(path, "address")))


def _digests(texts: Iterable[str]) -> Uids:
    md5: Callable[[bytes], bytes] = lambda data: hashlib.md5(data, usedforsecurity=False).digest()  # noqa: E731
    octets = b"".join(md5(t.encode()) for t in texts)
    words: NDArray[np.uint64] = np.frombuffer(octets, ">u8").astype(np.uint64)
    return words.view(uids.UID)


def _lines(path: str, what: str) -> Iterable[tuple[str, str]]:
    """(place, line) of a list's lines that say something."""
    if not store.exists(path):
        raise InputError("no such list", where=path, expected=f"one {what} a line")
    for i, line in enumerate(store.read_lines(path), 1):
        if (said := line.strip()) and not said.startswith("#"):
            yield f"{path}:{i}", said
