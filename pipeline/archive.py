"""Recorded responses of WARC and ARC files, looked up by url; bodies are read when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urldefrag, urlsplit

from pipeline.extract import warc
from pipeline.extract.inputs import SUFFIXES, list_inputs
from pipeline.extract.response import Answer as Answer
from pipeline.extract.response import answer_of
from pipeline.extract.response import join_chunks as join_chunks
from pipeline.extract.urls import encode
from pools import store
from pools.errors import InputError, WorkFailed

_PERCENT = re.compile("%[0-9a-fA-F]{2}")
_DEFAULT_PORT = {"http": ":80", "https": ":443"}


class _Place(NamedTuple):
    path: str
    offset: int
    skip: int
    status: int


class Archive:
    """An index of `response` and `resource` records: `get(url)` gives status, headers and body.

    A url is looked up as it was recorded, then normalised (fragment and default port dropped, host in lower case, unsafe
    characters and %-digits as a client sends them). Of several responses the first with status 200 counts, else the
    first. Chunked bodies are joined; a Content-Encoding stays as recorded. `problems` names what could not be read.
    Raises InputError if a file is missing, is no WARC or ARC, or if no file holds a response.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self.problems: list[str] = []
        self._exact: dict[str, _Place] = {}
        self._normal: dict[str, _Place] = {}
        for path, _ in list_inputs(inputs, SUFFIXES["warc"]):
            self._add(path)
        if not self._exact:
            raise InputError(
                "no recorded response",
                where=", ".join(inputs),
                expected="WARC or ARC files with records of type response or resource",
            )

    @property
    def urls(self) -> list[str]:
        """The recorded urls, in the order of their first records."""
        return list(self._exact)

    def get(self, url: str, /) -> Answer | None:
        """The recorded answer, None if there is none. Raises WorkFailed if the file has changed since it was indexed."""
        place = self._exact.get(url) or self._normal.get(_normal(url))
        if place is None:
            return None
        with store.open_input(place.path) as file:
            record = warc.read_at(file, place.offset, place.skip)
        answer = answer_of(record) if isinstance(record, warc.Record) else None
        if answer is None:
            raise WorkFailed(f"{place.path}: the record of {url} cannot be read any more: {record}")
        return answer

    def _add(self, path: str) -> None:
        read, damage = 0, None
        with store.open_input(path) as file:
            for found in warc.read(file):
                if isinstance(found, warc.Damage):
                    damage = found
                    self.problems.append(f"{path}: {found}")
                    continue
                read += 1
                if found.type in ("response", "resource") and (answer := answer_of(found)) is not None:
                    place = _Place(path, found.offset, found.skip, answer[0])
                    _prefer(self._exact, found.target, place)
                    _prefer(self._normal, _normal(found.target), place)
        if not read:
            why = f" ({damage})" if damage is not None else ""
            raise InputError(f"no WARC record in this file{why}", where=path, expected="a WARC or ARC file, plain or gzip")


def _prefer(index: dict[str, _Place], url: str, place: _Place) -> None:
    known = index.get(url)
    if known is None or (known.status != 200 and place.status == 200):
        index[url] = place


def _normal(url: str) -> str:
    try:
        parts = urlsplit(encode(urldefrag(url.strip()).url))
    except ValueError:
        return url
    user, at, host = parts.netloc.rpartition("@")
    host = host.lower().removesuffix(_DEFAULT_PORT[parts.scheme])
    whole = parts._replace(netloc=user + at + host, path=parts.path or "/").geturl()
    return _PERCENT.sub(lambda m: m[0].upper(), whole)
