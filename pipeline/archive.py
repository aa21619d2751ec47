"""Recorded responses of WARC files, looked up by url; bodies are read when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urldefrag, urlsplit

from pipeline.extract import warc
from pipeline.extract.inputs import list_inputs
from pipeline.extract.urls import encode
from pools import store
from pools.errors import InputError, WorkFailed

SUFFIXES = (".warc", ".warc.gz")
Answer = tuple[int, Sequence[tuple[str, str]], bytes]  # status, headers, body
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]+(\d{3})")
_BLANK = re.compile(rb"\r?\n\r?\n")
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")
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
    Raises InputError if a file is missing, is no WARC, or if no file holds a response.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self.problems: list[str] = []
        self._exact: dict[str, _Place] = {}
        self._normal: dict[str, _Place] = {}
        for path, _ in list_inputs(inputs, SUFFIXES):
            self._add(path)
        if not self._exact:
            raise InputError(
                "no recorded response", where=", ".join(inputs), expected="WARC files with records of type response or resource"
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
            raise InputError(f"no WARC record in this file{why}", where=path, expected="a WARC file, plain or gzip")


def answer_of(record: warc.Record) -> Answer | None:
    """Status, headers and body of a record; None if it is no answer to an http(s) request."""
    if not record.target.lower().startswith(("http://", "https://")):
        return None
    if record.type == "resource":
        return 200, (("Content-Type", record.headers.get("content-type", "application/octet-stream")),), record.content
    status, blank = _STATUS.match(record.content), _BLANK.search(record.content)
    if status is None:
        return None
    head = record.content[: blank.start()] if blank else record.content
    body = record.content[blank.end() :] if blank else b""
    headers = []
    for line in head.decode("latin-1").split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.strip() == name and name:
            headers.append((name, value.strip()))
    fields = {name.lower(): value.lower() for name, value in headers}
    if "chunked" in fields.get("transfer-encoding", ""):
        body = join_chunks(body)
    if "gzip" in fields.get("content-encoding", "") and not body.startswith(b"\x1f\x8b"):
        # Some crawlers store bodies decoded and headers as they came.
        headers = [(name, value) for name, value in headers if name.lower() != "content-encoding"]
    return int(status[1]), tuple(headers), body


def join_chunks(body: bytes) -> bytes:
    """The body of a chunked transfer; what is not chunked after all is given back as it is, a cut one up to the cut."""
    parts: list[bytes] = []
    at = 0
    while (size := _CHUNK.match(body, at)) is not None:
        length = int(size[1], 16)
        if length == 0:
            return b"".join(parts)
        at = size.end() + length
        parts.append(body[size.end() : at])
        at += 2 if body[at : at + 2] == b"\r\n" else 1 if body[at : at + 1] == b"\n" else 0
    return b"".join(parts) if parts and at >= len(body) else body


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
