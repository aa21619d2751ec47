"""Stores beyond this machine: web servers, S3, throttling, lost connections, and what is no passing trouble."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import aiohttp
import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pools import patience, store, uids
from pools.errors import InputError, WorkFailed
from tests import stores

MIB = 1 << 20
BODY = np.random.default_rng(0).integers(0, 256, 6 * MIB, dtype=np.uint8).tobytes()  # over one block of fsspec's


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were to be waited; nobody waits."""
    waited: list[float] = []
    monkeypatch.setattr(patience, "_sleep", waited.append)
    return waited


@pytest.fixture
def web() -> Iterator[stores.Files]:
    with stores.web() as files:
        yield files


@pytest.fixture(scope="module")
def s3_server() -> Iterator[stores.S3]:
    with stores.s3() as server:
        yield server


@pytest.fixture
def s3(s3_server: stores.S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[stores.S3]:
    """An S3 with the bucket `pools`; the client's own waiting is switched off as far as it can be."""
    names = {"ENDPOINT_URL": s3_server.url, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "MAX_ATTEMPTS": "1"}
    for name, value in {**names, "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    fsspec.filesystem("s3").makedirs("pools", exist_ok=True)
    s3_server.faults.clear()
    s3_server.requests.clear()
    yield s3_server
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture
def throttled(monkeypatch: pytest.MonkeyPatch) -> type[stores.Throttled]:
    fsspec.register_implementation("throttled", stores.Throttled, clobber=True)
    monkeypatch.setattr(stores.Throttled, "content", {})
    monkeypatch.setattr(stores.Throttled, "errors", {})
    return stores.Throttled


def lasting(error: Callable[[], BaseException], n: int = 100) -> list[BaseException]:
    return [error() for _ in range(n)]


# Throttling -----------------------------------------------------------------------------------------------------------


# T19
@pytest.mark.parametrize("step", ["open", "read"])
def test_slow_down_twice_is_waited_for_longer_each_time_and_a_lasting_one_is_told(
    step: str, throttled: type[stores.Throttled], waits: list[float]
) -> None:
    throttled.content = {"b/good": bytes(range(100)), "b/bad": bytes(100)}
    throttled.errors = {(step, "b/good"): lasting(lambda: OSError("SlowDown"), 2)}
    assert store.read_bytes("throttled://b/good") == bytes(range(100))
    assert waits == [1, 2]
    throttled.errors = {(step, "b/bad"): lasting(lambda: OSError("SlowDown: reduce your request rate"))}
    byte = ", byte 10" if step == "read" else ""
    with pytest.raises(WorkFailed) as told:
        store.read_bytes("throttled://b/bad")
    assert str(told.value) == f"throttled://b/bad{byte}: gave up after 6 tries: OSError: SlowDown: reduce your request rate"
    assert waits == [1, 2, 1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("ask", "step", "answer"),
    [
        (lambda: store.exists("throttled://b/f/x"), "info b/f/x", True),
        (lambda: store.is_dir("throttled://b/f"), "info b/f", True),
        (lambda: store.size("throttled://b/f/x"), "info b/f/x", 3),
        (lambda: store.digest("throttled://b/f/x", "throttled://b"), "info b/f/x", "f/x:3:"),
        (lambda: store.list_files("throttled://b"), "ls b/f", ["f/x"]),
        (lambda: store.find_glob("throttled://b/*/x"), "ls b/f", ["throttled://b/f/x"]),
    ],
    ids=["exists", "is_dir", "size", "digest", "list_files", "find_glob"],
)
def test_no_question_takes_throttling_for_an_answer(
    ask: Callable[[], object], step: str, answer: object, throttled: type[stores.Throttled], waits: list[float]
) -> None:
    throttled.content = {"b/f/x": b"123"}
    what, path = step.split()
    throttled.errors[what, path] = lasting(lambda: OSError("SlowDown"), 2)
    assert ask() == answer
    assert waits == [1, 2]
    throttled.errors[what, path] = lasting(lambda: OSError("SlowDown"))
    with pytest.raises(WorkFailed, match=r"^throttled://b\S*: gave up after 6 tries: OSError: SlowDown$"):
        ask()


@pytest.mark.parametrize(
    "error", [FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, InputError, KeyError]
)
def test_what_does_not_heal_is_not_tried_again(
    error: type[Exception], throttled: type[stores.Throttled], waits: list[float]
) -> None:
    throttled.content = {"b/f": b"1"}
    throttled.errors["open", "b/f"] = [error("b/f")]
    with pytest.raises(error):
        store.read_bytes("throttled://b/f")
    assert waits == []


def test_a_listing_is_whole_or_fails(throttled: type[stores.Throttled], waits: list[float]) -> None:
    """fsspec's own walk leaves out the folders that it cannot list."""
    throttled.content = {"b/1/x": b"", "b/2/x": b"", "b/3/x": b""}
    throttled.errors["ls", "b/2"] = [PermissionError("no")]
    with pytest.raises(PermissionError):
        store.list_files("throttled://b")
    throttled.errors["ls", "b/3"] = [FileNotFoundError("gone meanwhile")]
    assert store.list_files("throttled://b") == ["1/x", "2/x"]
    assert store.list_files("throttled://b/none") == []


def test_a_pattern_lists_no_folder_that_it_cannot_reach(throttled: type[stores.Throttled]) -> None:
    throttled.content = {"b/1/x": b"", "b/1/2/x": b"", "b/1/2/3/x": b""}
    throttled.errors["ls", "b/1/2"] = [PermissionError("no")]
    assert store.find_glob("throttled://b/*/x") == ["throttled://b/1/x"]
    assert throttled.errors["ls", "b/1/2"]
    with pytest.raises(PermissionError):
        store.find_glob("throttled://b/**/x")
    assert store.find_glob("throttled://b/1/**/x") == [f"throttled://b/1/{name}" for name in ("2/3/x", "2/x", "x")]


def test_an_answer_that_is_too_short_is_no_end(throttled: type[stores.Throttled], waits: list[float]) -> None:
    throttled.content = {"b/f": bytes(100)}
    throttled.errors["end", "b/f"] = lasting(OSError, 2)
    assert store.read_bytes("throttled://b/f") == bytes(100)
    assert waits == [1, 2]
    throttled.errors["end", "b/f"] = lasting(OSError)
    with pytest.raises(WorkFailed, match=r"b/f, byte 10: gave up after 6 tries: Retry: the file ended at byte 10 of 100"):
        store.read_bytes("throttled://b/f")


@settings(max_examples=60, deadline=None)
@given(
    content=st.binary(max_size=60),
    steps=st.lists(st.one_of(st.integers(1, 40), st.tuples(st.integers(0, 70), st.sampled_from([0, 2]))), max_size=8),
    failures=st.integers(0, 5),
)
def test_reads_and_seeks_are_those_of_a_plain_file(content: bytes, steps: list[int | tuple[int, int]], failures: int) -> None:
    fsspec.register_implementation("throttled", stores.Throttled, clobber=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "_sleep", lambda _: None)
        patch.setattr(stores.Throttled, "content", {"b/f": content})
        patch.setattr(stores.Throttled, "errors", {("read", "b/f"): lasting(lambda: OSError("reset"), failures)})
        with store.open_input("throttled://b/f") as file, io.BytesIO(content) as plain:
            for step in steps:
                if isinstance(step, int):
                    assert file.read(step) == plain.read(step)
                else:
                    offset, whence = step
                    offset = max(-len(content), -offset) if whence else offset
                    assert file.seek(offset, whence) == plain.seek(offset, whence) == file.tell()
            assert file.read() == plain.read()


def test_a_file_is_moved_into_place_patiently(throttled: type[stores.Throttled], waits: list[float]) -> None:
    throttled.errors["mv", "b/f"] = [OSError("the answer got lost")]
    store.write_bytes("throttled://b/f", b"1")
    assert (throttled.content, waits) == ({"b/f": b"1"}, [1])
    with pytest.raises(OSError, match="cannot write"), store.atomic("throttled://b/f"):
        raise OSError("cannot write")
    assert (throttled.content, waits) == ({"b/f": b"1"}, [1])


def test_local_files_are_opened_as_they_are(tmp_path: os.PathLike[str], waits: list[float]) -> None:
    path = store.join(os.fspath(tmp_path), "f")
    store.write_bytes(path, b"1")
    with store.open_input(path) as file:
        assert type(file) is io.BufferedReader
    with pytest.raises(FileNotFoundError):
        store.open_input(path + "x")
    assert waits == []


def test_a_name_with_brackets_is_written_as_it_is() -> None:
    store.write_bytes("memory://brackets/a[1].bin", b"1")
    assert store.read_bytes("memory://brackets/a[1].bin") == b"1"
    assert store.list_files("memory://brackets") == ["a[1].bin"]


def test_a_store_whose_package_is_absent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(InputError, match=r"^http://127\.0\.0\.1:1/f: .*aiohttp") as told:
        store.exists("http://127.0.0.1:1/f")
    assert told.value.fix == "install what such urls need: aiohttp for http, s3fs for s3"


def test_a_protocol_that_nobody_knows_is_a_users_mistake() -> None:
    with pytest.raises(InputError, match=r"^nowhere://b/f: Protocol not known: nowhere"):
        store.exists("nowhere://b/f")


# Web servers ----------------------------------------------------------------------------------------------------------


def test_a_file_on_the_web_is_read_in_any_order(web: stores.Files, waits: list[float]) -> None:
    url = web.put("/a/f.bin", BODY)
    with store.open_input(url) as file:
        assert file.read(10) == BODY[:10]
        assert file.seek(-100, io.SEEK_END) == len(BODY) - 100
        assert file.read() == BODY[-100:]
        file.seek(3 * MIB)
        assert file.read(MIB) == BODY[3 * MIB : 4 * MIB]
    assert store.read_bytes(url) == BODY
    assert (store.exists(url), store.size(url)) == (True, len(BODY))
    web.headers["Last-Modified"] = "Sun, 29 Nov 2026 10:00:00 GMT"
    assert store.digest(url) == f"f.bin:{len(BODY)}:Sun, 29 Nov 2026 10:00:00 GMT"
    assert not store.exists(web.root + "/none")
    with pytest.raises(FileNotFoundError):
        store.read_bytes(web.root + "/none")
    assert waits == []


@pytest.mark.parametrize("length", [None, ""], ids=["length said", "length not said"])
def test_servers_without_ranges_are_read_through(web: stores.Files, waits: list[float], length: str | None) -> None:
    web.ranges = False
    if length is not None:
        web.headers["Content-Length"] = length
    url = web.put("/f.bin", BODY)
    assert store.read_bytes(url) == BODY
    with store.open_input(url) as file:
        file.seek(5 * MIB + 7)
        assert file.read(5) == BODY[5 * MIB + 7 : 5 * MIB + 12]
        file.seek(3)
        assert file.read(2 * MIB) == BODY[3 : 2 * MIB + 3]
        if length is None:
            assert file.seek(-3, io.SEEK_END) == len(BODY) - 3
            assert file.read() == BODY[-3:]
        else:
            with pytest.raises(io.UnsupportedOperation, match="does not say how long"):
                file.seek(-3, io.SEEK_END)
    assert waits == []


@pytest.mark.parametrize(
    ("ranges", "faults", "waited"),
    [
        (True, [stores.CUT, stores.CUT], [1, 2]),
        (True, [stores.FINE, stores.FINE, stores.CUT], [1]),
        (False, [stores.CUT, stores.CUT], [1, 2]),
        # A HEAD, two blocks of which the second comes as a whole, and a stream that breaks on the way to it.
        (False, [stores.FINE, stores.FINE, stores.FINE, stores.CUT], [1]),
    ],
)
def test_a_connection_that_is_cut_costs_no_byte(
    web: stores.Files, waits: list[float], ranges: bool, faults: list[int], waited: list[float]
) -> None:
    web.ranges = ranges
    url = web.put("/f.bin", BODY)
    web.faults["/f.bin"] = faults
    assert store.read_bytes(url) == BODY
    assert (waits, web.faults["/f.bin"]) == (waited, [])


def test_503_is_waited_for_and_429_for_ever_is_told(web: stores.Files, waits: list[float]) -> None:
    url = web.put("/f.bin", b"content")
    # Looking at a file is a HEAD and then, as that failed, a GET.
    web.faults["/f.bin"] = [503] * 4
    assert store.read_bytes(url) == b"content"
    assert waits == [1, 2]
    web.faults["/f.bin"] = [503] * 2
    assert store.exists(url)
    web.always["/f.bin"] = 429
    with pytest.raises(WorkFailed) as told:
        store.exists(url)
    assert str(told.value).startswith(f"{url}: gave up after 6 tries: ClientResponseError: 429, message='Too Many Requests'")
    assert waits == [1, 2, 1, 1, 2, 4, 8, 16]


def test_a_server_that_is_down_is_waited_for(web: stores.Files, waits: list[float]) -> None:
    with pytest.raises(WorkFailed, match=r"gave up after 6 tries: ClientConnectorError"):
        store.read_bytes("http://127.0.0.1:1/f")
    assert len(waits) == 5


def test_403_is_no_file_to_who_asks_and_a_refusal_to_who_reads(web: stores.Files, waits: list[float]) -> None:
    web.always = {"/f": 403, "/g": 400}
    assert not store.exists(web.root + "/f")
    with pytest.raises(PermissionError, match=r"the store refuses it \(ClientResponseError: 403.*/f'\)"):
        store.read_bytes(web.root + "/f")
    with pytest.raises(WorkFailed, match=r"/g: ClientResponseError: 400, message='Bad Request'"):
        store.read_bytes(web.root + "/g")
    assert waits == []


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_which_answers_may_heal(status: int) -> None:
    answer = aiohttp.ClientResponseError(None, (), status=status)  # type: ignore[arg-type]
    wrapped = FileNotFoundError("f")
    wrapped.__cause__ = answer
    assert patience.may_heal(answer)
    assert patience.may_heal(wrapped)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 416])
def test_which_answers_do_not(status: int) -> None:
    assert not patience.may_heal(aiohttp.ClientResponseError(None, (), status=status))  # type: ignore[arg-type]


def test_a_body_called_compressed_is_read_as_it_lies_there(web: stores.Files) -> None:
    """A client that inflates it would stop after the first of the members."""
    members = gzip.compress(b"one") + gzip.compress(b"two")
    web.headers["Content-Encoding"] = "gzip"
    assert store.read_bytes(web.put("/f.gz", members)) == members


def test_a_pool_of_uids_is_read_from_the_web(web: stores.Files) -> None:
    listed = uids.sort(uids.pack([f"{i:032x}" for i in range(50)]))
    out = io.BytesIO()
    np.save(out, listed)
    assert (uids.read_list(web.put("/l.npy", out.getvalue())) == listed).all()


# S3 -------------------------------------------------------------------------------------------------------------------


def test_an_s3_bucket_is_written_listed_and_read(s3: stores.S3, waits: list[float]) -> None:
    root = "s3://pools/a"
    store.write_bytes(f"{root}/sub/f.bin", BODY)
    store.write_bytes(f"{root}/x[1].wat", b"1")
    assert store.list_files(root) == ["sub/f.bin", "x[1].wat"]
    assert store.find_glob(f"{root}/*/f.*") == [f"{root}/sub/f.bin"]
    assert store.find_glob(f"{root}/x[1].wat") == [f"{root}/x[1].wat"]
    assert (store.is_dir(root), store.is_dir(f"{root}/x[1].wat"), store.is_dir("s3://pools")) == (True, False, True)
    assert (store.exists(root), store.exists(f"{root}/none"), store.exists("s3://none/x")) == (True, False, False)
    with store.open_input(f"{root}/sub/f.bin") as file:
        file.seek(5 * MIB)
        assert file.read(10) == BODY[5 * MIB : 5 * MIB + 10]
    assert store.read_bytes(f"{root}/sub/f.bin") == BODY
    before = store.digest(f"{root}/x[1].wat", root)
    store.write_bytes(f"{root}/x[1].wat", b"2")
    assert store.digest(f"{root}/x[1].wat", root) != before
    store.remove_tree(root)
    assert not store.exists(root)
    with pytest.raises(FileNotFoundError):
        store.read_bytes(f"{root}/x[1].wat")
    assert waits == []


def test_what_another_process_writes_to_s3_is_seen(s3: stores.S3) -> None:
    store.write_bytes("s3://pools/b/1", b"")
    assert store.list_files("s3://pools/b") == ["1"]
    assert store.is_dir("s3://pools/b")
    code = "from pools import store; store.write_bytes('s3://pools/b/2', b'')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert store.exists("s3://pools/b/2")
    assert store.list_files("s3://pools/b") == ["1", "2"]


# T19
def test_s3_that_says_slow_down_is_waited_for(s3: stores.S3, waits: list[float]) -> None:
    store.write_bytes("s3://pools/c/f", b"content")
    s3.faults["HEAD", "/f"] = [(503, "SlowDown"), (503, "SlowDown")]
    s3.faults["GET", "/f"] = [(500, "InternalError")]
    assert store.read_bytes("s3://pools/c/f") == b"content"
    assert waits == [1, 2, 1]
    s3.faults["HEAD", "/f"] = [(503, "SlowDown")] * 50
    with pytest.raises(WorkFailed, match=r"^s3://pools/c/f: gave up after 6 tries: OSError: "):
        store.exists("s3://pools/c/f")
    s3.faults["HEAD", "/f"] = [(403, "AccessDenied")]
    waits.clear()
    with pytest.raises(PermissionError, match=r"the store refuses it .*s3://pools/c/f"):
        store.read_bytes("s3://pools/c/f")
    assert waits == []


def test_s3_without_credentials_says_so_at_once(s3: stores.S3, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with pytest.raises(PermissionError, match="Unable to locate credentials"):
        store.read_bytes("s3://pools/c/f")
    assert waits == []
