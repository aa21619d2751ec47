"""WARC and WAT records as crawlers write them, one gzip member each; the same records give the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

DATE = "2024-01-01T00:00:00Z"
HTTP_DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
Headers = Sequence[tuple[str, str]]
_FIELDS = "application/warc-fields"


@dataclass(frozen=True)
class Written:
    """A record that was written, as a WAT speaks of it."""

    id: str
    headers: dict[str, str]
    header_length: int  # bytes
    content_length: int  # bytes
    block_digest: str
    container: dict[str, Any]  # its file, and where it lies there


class Writer:
    """Appends records to an open file. Record ids follow from the file's name and the record's place."""

    def __init__(self, f: IO[bytes], name: str) -> None:
        self._file, self.name = f, name
        self._offset = self._count = 0

    def add(
        self, kind: str, content_type: str, block: bytes, *, uri: str | None = None, extra: Headers = (), level: int = 6
    ) -> Written:
        """Writes one record of WARC-Type `kind`; `extra` are named fields of the WARC header, `level` is gzip's."""
        record_id = f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{self.name}#{self._count}')}>"
        target = {"WARC-Target-URI": uri} if uri is not None else {}
        named = {"WARC-Type": kind, **target, "WARC-Date": DATE, "WARC-Record-ID": record_id, **dict(extra)}
        headers = {**named, "Content-Type": content_type, "Content-Length": str(len(block))}
        head = ("WARC/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode()
        data = head + block + b"\r\n\r\n"
        squeeze = zlib.compressobj(level, zlib.DEFLATED, 31)
        member = squeeze.compress(data) + squeeze.flush()
        self._file.write(member)
        container = _container(self.name, self._offset, data, member)
        written = Written(record_id, headers, len(head), len(block), sha1(block), container)
        self._offset += len(member)
        self._count += 1
        return written

    def info(self, fields: Mapping[str, str]) -> Written:
        return self.add("warcinfo", _FIELDS, _fields(fields), extra=[("WARC-Filename", self.name)])

    def metadata(self, uri: str, fields: Mapping[str, str], about: Written) -> Written:
        """What the crawler notes about a response."""
        return self.add("metadata", _FIELDS, _fields(fields), uri=uri, extra=[("WARC-Concurrent-To", about.id)])

    def response(self, uri: str, headers: Headers, body: bytes, *, level: int = 6) -> Written:
        """An HTTP 200 answer as it went over the wire. `headers` without the lengths."""
        fields = [*headers, ("Content-Length", str(len(body)))]
        block = http_head("HTTP/1.1 200 OK", fields) + body
        extra = [("WARC-Payload-Digest", sha1(body)), ("WARC-Block-Digest", sha1(block))]
        return self.add("response", "application/http; msgtype=response", block, uri=uri, extra=extra, level=level)


def _fields(fields: Mapping[str, str]) -> bytes:
    return "".join(f"{k}: {v}\r\n" for k, v in fields.items()).encode()


def http_head(first_line: str, headers: Headers) -> bytes:
    return (first_line + "\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers) + "\r\n").encode()


def sha1(data: bytes) -> str:
    """`sha1:` and 32 base32 digits, as WARC headers carry digests."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def _container(name: str, offset: int, data: bytes, member: bytes) -> dict[str, Any]:
    crc = zlib.crc32(data)
    return {
        "Filename": name,
        "Compressed": True,
        "Offset": str(offset),
        "Gzip-Metadata": {
            "Inflated-Length": str(len(data)),
            "Header-Length": "10",
            "Footer-Length": "8",
            # Java prints it as a signed 32-bit number.
            "Inflated-CRC": str(crc - (1 << 32) if crc >= 1 << 31 else crc),
            "Deflate-Length": str(len(member)),
        },
    }


class WatWriter:
    """Appends to a WAT what there is to say about records of a WARC (the layout of ia-web-commons)."""

    def __init__(self, f: IO[bytes], name: str) -> None:
        self._writer = Writer(f, name)
        self._writer.info({"Software-Info": "winnow-miniweb", "format": "WARC File Format 1.0"})

    def describe(self, record: Written, uri: str, payload: Mapping[str, Any]) -> None:
        """Writes one metadata record; `payload` is the part of Payload-Metadata that depends on the record's kind."""
        about = {
            "Container": record.container,
            "Envelope": {
                "Format": "WARC",
                "WARC-Header-Length": str(record.header_length),
                "WARC-Header-Metadata": record.headers,
                "Block-Digest": record.block_digest,
                "Actual-Content-Length": str(record.content_length),
                "Payload-Metadata": {
                    "Actual-Content-Type": record.headers["Content-Type"],
                    "Actual-Content-Length": str(record.content_length),
                    "Block-Digest": record.block_digest,
                    "Trailing-Slop-Length": "4",
                    **payload,
                },
            },
        }
        block = json.dumps(about, ensure_ascii=False, separators=(",", ":")).encode()
        self._writer.add("metadata", "application/json", block, uri=uri, extra=[("WARC-Refers-To", record.id)])
