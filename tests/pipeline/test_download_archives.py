"""Web archives as the source of bytes: what they hold becomes a pool, and no socket is opened."""

from __future__ import annotations

import gzip
import socket
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.download.fetching.fetch import Fetched, FetchFailed, Policy
from pipeline.download.job import DownloadSettings, download
from pipeline.download.sources.archives import ArchiveFetcher, archive_fetcher, digests
from pipeline.engine import Options
from pipeline.extract.inputs import find
from pipeline.extract.job import Settings, extract
from pools.errors import InputError
from pools.schema import Reason

HERE = Options(workers=0, quiet=True)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def response(url: str, http: bytes) -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {len(http)}\r\n\r\n"
    return gzip.compress(head.encode() + http + b"\r\n\r\n")


def archive(path: Path, answers: dict[str, bytes]) -> str:
    path.write_bytes(b"".join(response(url, http) for url, http in answers.items()))
    return str(path)


OK = b"HTTP/1.1 200 OK\r\n"


def test_every_kind_of_recorded_answer(tmp_path: Path) -> None:
    packed = gzip.compress(b"unpacked bytes")
    path = archive(tmp_path / "a.warc.gz", {
        "http://h/plain.jpg": OK + b"Content-Type: image/jpeg\r\n\r\nJPEG",
        "http://h/packed.jpg": OK + b"Content-Encoding: gzip\r\n\r\n" + packed,
        "http://h/chunked.jpg": OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "http://h/moved.jpg": b"HTTP/1.1 301 Moved\r\nLocation: /plain.jpg\r\n\r\n",
        "http://h/astray.jpg": b"HTTP/1.1 302 Found\r\nLocation: //other/none.jpg\r\n\r\n",
        "http://h/loop.jpg": b"HTTP/1.1 302 Found\r\nLocation: loop.jpg\r\n\r\n",
        "http://h/gone.jpg": b"HTTP/1.1 404 Not Found\r\n\r\nno",
        "http://h/noai.jpg": OK + b"X-Robots-Tag: noarchive\r\nX-Robots-Tag: NoAI\r\n\r\nJPEG",
        "http://h/empty.jpg": OK + b"\r\n",
        "http://h/large.jpg": OK + b"\r\n" + b"x" * 21,
        "http://h/bomb.jpg": OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(10_000_000)),
        "http://h/limit.jpg": OK + b"\r\n" + b"x" * 20,
    })  # fmt: skip
    fetcher = ArchiveFetcher([path], Policy(max_bytes=20))

    def body(url: str) -> tuple[bytes, str]:
        found = fetcher.fetch(url)
        assert isinstance(found, Fetched), found
        return found.body, found.final_url

    def failure(url: str) -> tuple[Reason, str | None]:
        found = fetcher.fetch(url)
        assert isinstance(found, FetchFailed), found
        return found.reason, found.final_url

    assert body(" http://H:80/plain.jpg#x ") == (b"JPEG", "http://H:80/plain.jpg#x")
    assert body("http://h/packed.jpg")[0] == b"unpacked bytes"
    assert body("http://h/chunked.jpg")[0] == b"abcde"
    assert body("http://h/moved.jpg") == (b"JPEG", "http://h/plain.jpg")
    assert body("http://h/limit.jpg")[0] == b"x" * 20
    assert failure("http://h/astray.jpg") == (Reason.NOT_IN_ARCHIVE, "http://other/none.jpg")
    assert failure("http://h/absent.jpg") == (Reason.NOT_IN_ARCHIVE, None)
    assert failure("not an address") == (Reason.NOT_IN_ARCHIVE, None)
    assert failure("http://h/loop.jpg")[0] == Reason.TOO_MANY_REDIRECTS
    assert failure("http://h/gone.jpg") == (Reason.HTTP_STATUS, None)
    assert failure("http://h/noai.jpg") == (Reason.OPT_OUT, None)
    assert failure("http://h/empty.jpg") == (Reason.EMPTY, None)
    assert failure("http://h/large.jpg") == (Reason.TOO_LARGE, None)
    assert failure("http://h/bomb.jpg") == (Reason.TOO_LARGE, None)
    obeying_none = ArchiveFetcher([path], Policy(opt_out=()))
    assert isinstance(obeying_none.fetch("http://h/noai.jpg"), Fetched)


def test_several_archives_and_what_is_none(tmp_path: Path) -> None:
    one = archive(tmp_path / "one.warc.gz", {"http://h/a.jpg": b"HTTP/1.1 503 Busy\r\n\r\n", "http://h/b.jpg": OK + b"\r\nb"})
    archive(tmp_path / "two.warc.gz", {"http://h/a.jpg": OK + b"\r\nlater and whole"})
    both = archive_fetcher((str(tmp_path / "*.warc.gz"),), Policy())
    assert archive_fetcher((str(tmp_path / "*.warc.gz"),), Policy()) is both
    found = both.fetch("http://h/a.jpg")
    assert isinstance(found, Fetched)
    assert found.body == b"later and whole"
    assert digests([str(tmp_path)]) == digests([str(tmp_path) + "/"])
    assert len(digests([str(tmp_path / "*.warc.gz")])) == 2
    assert digests([one]) != digests([str(tmp_path / "two.warc.gz")])
    (tmp_path / "no.warc").write_text("no archive")
    for wrong in ("no.warc", "absent.warc"):
        with pytest.raises(InputError, match=wrong):
            ArchiveFetcher([str(tmp_path / wrong)], Policy())


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "rows", "kept", "addresses"),
    [("books.toscrape.warc", 20, 20, 20), ("archive-org-2008.warc.gz", 99, 69, 24)],
)
def test_a_whole_archive_becomes_a_pool(
    tmp_path: Path, shared_data: Path, name: str, rows: int, kept: int, addresses: int
) -> None:
    warc = str(shared_data / "warc" / name)
    extract(find([warc], "warc"), str(tmp_path / "candidates"), Settings(), options=HERE)
    settings = DownloadSettings(archives=(warc,), shard_size=40)
    pool = tmp_path / "pool"
    outcome = download(str(tmp_path / "candidates"), str(pool / "shards"), settings=settings, options=HERE)
    status = [row for path in sorted((pool / "shards").glob("0*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert (outcome.counts["in"], len(status)) == (rows, rows)
    assert outcome.counts.get("failed:not_in_archive", 0) == rows - kept
    fetched = [row for row in status if row["reason"] != "not_in_archive"]
    assert (len(fetched), len({row["url"] for row in fetched})) == (kept, addresses)
    assert all(row["sha256"] for row in fetched)
    # Bytes are there for each of them; two-pixel spacers are images, too.
    assert {row["reason"] for row in fetched} == {None}
    assert outcome.counts["kept"] == kept
    again = download(str(tmp_path / "candidates"), str(pool / "shards"), settings=settings, options=HERE)
    assert again.counts == outcome.counts
