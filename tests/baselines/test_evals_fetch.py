"""Evaluation data from a small hub on loopback: whole and as it says, or named as failed."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from baselines.score.evals import fetch as evals_fetch
from baselines.score.evals.check import check
from baselines.score.evals.fetch import Fetched, fetch
from baselines.score.evals.sources import Sources
from baselines.score.tasks import load_tasks
from pipeline.cli import app
from pipeline.models import fetch as fetching
from pipeline.models import streaming
from pools.errors import DiskFull, InputError
from tests.baselines.conftest import write_task
from tests.pipeline.server import Answer, Server, serve

BIG = bytes(range(256)) * 400
WORDS = {"classnames.txt": b"red\ngreen\n", "zeroshot_classification_templates.txt": b"a {c}\n", "test/nshards.txt": b"1\n"}
NAMES_SHA = "7f5a1e5cde2ae5e25f0f246c8639d745fbe5f1d2b186b7af9f84186890fb5869"  # printf 'red\ngreen\n' | sha256sum


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WAIT", 0.0)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def hub() -> Iterator[Server]:
    with serve() as server:
        yield server


def publish(hub: Server, repository: str, files: dict[str, bytes], revision: str = "main") -> dict[str, str]:
    """Puts a data set on the hub, tars and tables behind a redirect; returns the paths that their bytes are at."""
    tree: list[dict[str, Any]] = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "test"}]
    where = {}
    for name, data in files.items():
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        entry = {"type": "file", "oid": blob, "size": len(data), "path": name}
        target = f"/datasets/{repository}/resolve/{revision}/{name}"
        if name.endswith((".tar", ".parquet")):
            sha = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": sha, "size": len(data), "pointerSize": 130}
            where[name] = f"/cdn/{sha}?{repository}"
            hub.on(target, Answer.redirect(hub.root + where[name]))
            hub.on(where[name], Answer(data, headers=(("ETag", f'"{sha}"'),)))
        else:
            where[name] = target
            hub.on(target, Answer(data))
        tree.append(entry)
    hub.on(f"/api/datasets/{repository}/tree/{revision}?recursive=true", Answer(json.dumps(tree).encode()))
    return where


def publish_fairness(hub: Server, tar: bytes = BIG) -> dict[str, dict[str, str]]:
    """The four sets of suite `fairness`."""
    names = ("imagenet1k", "fairface", "dollar_street", "geode")
    return {n: publish(hub, f"djghosh/wds_{n}_test", {**WORDS, "test/0.tar": tar + 2 * n.encode()}) for n in names}


def get(root: Path, hub: Server, **options: Any) -> Fetched:
    return fetch(str(root), **{"suites": ["fairness"], "endpoint": hub.root, "quiet": True, **options})


def test_what_is_fetched_is_what_was_published(hub: Server, tmp_path: Path) -> None:
    publish_fairness(hub)
    done = get(tmp_path / "e", hub)
    assert (done.files, done.new, done.failed) == (16, 16, [])
    assert (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").read_bytes() == BIG + b"geodegeode"
    record = json.loads((tmp_path / "e" / "fetched.json").read_text())
    assert (
        len(record) == 16 and record["wds_geode_test/test/0.tar"]["sha256"] == hashlib.sha256(BIG + b"geodegeode").hexdigest()
    )
    assert record["wds_geode_test/classnames.txt"]["sha256"] == NAMES_SHA
    hub.requests.clear()
    again = get(tmp_path / "e", hub)
    assert (again.files, again.new, again.size) == (16, 0, 0)
    assert all(target.startswith("/api/") for target in hub.requests)
    left = {p.name for p in (tmp_path / "e").rglob("*") if p.is_file() and p.name.startswith(".")}
    assert left == {".fetching"}
    # One that was damaged since is fetched again, one that somebody brought is taken if it is right.
    (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").write_bytes(b"half")
    (tmp_path / "e" / "fetched.json").write_text(json.dumps({k: v for k, v in record.items() if "fairface" not in k}))
    assert get(tmp_path / "e", hub).new == 1
    assert json.loads((tmp_path / "e" / "fetched.json").read_text()) == record


def test_scoring_data_that_were_fetched_are_complete(hub: Server, tmp_path: Path) -> None:  # T114
    made = write_task(tmp_path / "made" / "wds_vtab-pets_test", [0, 1, 0], names="a\nb\n")
    files = {str(p.relative_to(made)): p.read_bytes() for p in made.rglob("*") if p.is_file()}
    publish(hub, "djghosh/wds_vtab-pets_test", files)
    publish(hub, "djghosh/wds_cars_test", {**files, "test/1.tar": files["test/1.tar"][:700]})
    done = CliRunner().invoke(
        app, ["evals", "fetch", str(tmp_path / "e"), "--suite", "within", "--endpoint", hub.root, "--quiet"]
    )
    assert done.exit_code == 1
    assert "failed: wds_imagenet1k_test: " in done.stdout and "HTTP 404" in done.stdout
    assert "10 files are here, 10 of them new" in done.stdout
    found = {c.task.key: c for c in check(str(tmp_path / "e"))}
    assert (found["vtab/pets"].images, found["vtab/pets"].obstacle) == (3, "")
    assert found["cars"].obstacle and found["imagenet1k"].obstacle == "no such folder"


def test_a_cut_is_gone_on_from_and_a_busy_hub_asked_again(hub: Server, tmp_path: Path) -> None:
    where = publish_fairness(hub)["geode"]["test/0.tar"]
    whole = BIG + b"geodegeode"
    tag = ("ETag", '"one"')
    half = len(whole) // 2
    rest = Answer(whole[half:], 206, headers=(tag, ("Content-Range", f"bytes {half}-{len(whole) - 1}/{len(whole)}")))
    hub.on(where, Answer(b"slower", 429), Answer(b"", 503), Answer(whole[:half], headers=(tag,), cut=True), rest)
    done = get(tmp_path / "e", hub)
    assert done.failed == [] and done.new == 16
    assert (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").read_bytes() == whole
    asked = [h["Range"] for target, h in zip(hub.requests, hub.headers, strict=True) if target == where]
    assert asked == [None, None, None, f"bytes={half}-"]


def test_a_later_run_goes_on_where_one_gave_up(hub: Server, tmp_path: Path) -> None:
    where = publish_fairness(hub)["geode"]["test/0.tar"]
    whole = BIG + b"geodegeode"
    half = len(whole) // 2
    hub.on(where, Answer(whole[:half], headers=(("ETag", '"one"'),), cut=True), Answer(b"", 503))
    done = get(tmp_path / "e", hub)
    assert len(done.failed) == 1 and done.failed[0].startswith("wds_geode_test/test/0.tar: ") and done.new == 15
    assert not (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").exists()
    hub.on(where, Answer(whole[half:], 206, headers=(("Content-Range", f"bytes {half}-{len(whole) - 1}/{len(whole)}"),)))
    again = get(tmp_path / "e", hub)
    assert (again.failed, again.new) == ([], 1)
    assert (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").read_bytes() == whole


def test_what_is_not_as_the_hub_says_is_not_kept(hub: Server, tmp_path: Path) -> None:
    where = publish_fairness(hub)
    hub.on(where["geode"]["test/0.tar"], Answer(BIG + b"GEODEGEODE"))
    hub.on(where["fairface"]["classnames.txt"], Answer(b"red\ngreem\n"))
    done = get(tmp_path / "e", hub)
    assert len(done.failed) == 2 and done.new == 14
    assert any("wds_geode_test/test/0.tar: " in f and "not the file that was expected: SHA-256" in f for f in done.failed)
    assert any("wds_fairface_test/classnames.txt: " in f and "git's SHA-1" in f for f in done.failed)
    assert not (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").exists()
    assert not (tmp_path / "e" / "wds_fairface_test" / "classnames.txt").exists()


def test_a_set_that_changed_since_is_said(hub: Server, tmp_path: Path) -> None:
    publish_fairness(hub)
    get(tmp_path / "e", hub)
    publish(hub, "djghosh/wds_geode_test", {**WORDS, "classnames.txt": b"red\ngreet\n", "test/0.tar": BIG + b"EDOEGEDOEG"})
    done = get(tmp_path / "e", hub)
    assert [f.partition(":")[0] for f in sorted(done.failed)] == [
        "wds_geode_test/classnames.txt",
        "wds_geode_test/test/0.tar",
    ]
    assert all("the hub has another file now (remove " in f for f in done.failed)
    (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").unlink()
    assert len(get(tmp_path / "e", hub).failed) == 1
    assert (tmp_path / "e" / "wds_geode_test" / "test" / "0.tar").read_bytes() == BIG + b"EDOEGEDOEG"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"test/0.tar": b"x"}, "has no classnames.txt, zeroshot_classification_templates.txt, test/nshards.txt"),
        ({**WORDS, "test/00.tar": b"x"}, "has no test/0.tar"),
    ],
)
def test_a_repository_that_lacks_something_is_named(hub: Server, tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    publish_fairness(hub)
    publish(hub, "djghosh/wds_geode_test", files)
    (failed,) = get(tmp_path / "e", hub).failed
    assert failed == f"wds_geode_test: djghosh/wds_geode_test {message}"


@pytest.mark.parametrize("answer", [b"<html>", b'{"error": "x"}', b'[{"type": "file"}]', b"\xff\xfe"])
def test_a_list_that_is_none(hub: Server, tmp_path: Path, answer: bytes) -> None:
    publish_fairness(hub)
    hub.on("/api/datasets/djghosh/wds_geode_test/tree/main?recursive=true", Answer(answer))
    (failed,) = get(tmp_path / "e", hub).failed
    assert failed.startswith("wds_geode_test: ") and "not a list of files" in failed


def test_names_of_a_list_lead_nowhere_else(hub: Server, tmp_path: Path) -> None:
    publish_fairness(hub)
    names = ("../../x.tar", "test/../../0.tar", "/etc/0.tar", "test/0.tar\n", "test/-1.tar", "evil.py", "test/0.tar.py")
    publish(hub, "djghosh/wds_geode_test", {**WORDS, "test/0.tar": BIG, **dict.fromkeys(names, b"x")})
    assert get(tmp_path / "e", hub).files == 16
    here = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file() and "geode" in str(p)}
    assert here == {f"e/wds_geode_test/{n}" for n in (*WORDS, "test/0.tar")}
    tables = ("../test/0.parquet", "a/test/../0.parquet", "a/b/test/0.parquet", "/test/0.parquet", "a/test/0.parquet.py")
    for name in ("flickr_1k_test_image_text_retrieval", "mscoco_2014_5k_test_image_text_retrieval"):
        files = {"TEST/test/0000.parquet": BIG, **dict.fromkeys(tables, b"x")}
        publish(hub, f"nlphuji/{name}", files, "refs%2Fconvert%2Fparquet")
    get(tmp_path / "t", hub, suites=["within"])
    assert {p.parent.parent.name + "/" + p.name for p in tmp_path.rglob("*.parquet*")} == {"TEST/0000.parquet"}


def test_tables_and_training_images(hub: Server, tmp_path: Path) -> None:
    tree = "refs%2Fconvert%2Fparquet"
    for name in ("flickr_1k_test_image_text_retrieval", "mscoco_2014_5k_test_image_text_retrieval"):
        files = {"TEST/test/0000.parquet": BIG, "TEST/train/0000.parquet": b"x", "README.md": b"x"}
        publish(hub, f"nlphuji/{name}", files, tree)
    for name in ("imagenet1k", "vtab-pets", "cars"):
        publish(hub, f"djghosh/wds_{name}_test", {**WORDS, "test/0.tar": BIG})
    publish(hub, "clip-benchmark/wds_imagenet1k", {**WORDS, "train/nshards.txt": b"1", "train/0.tar": b"t", "test/0.tar": b"x"})
    done = get(tmp_path / "e", hub, suites=["within"])
    assert done.failed == []
    here = sorted(str(p.relative_to(tmp_path / "e")) for p in (tmp_path / "e").glob("wds_*/**/*") if p.is_file())
    assert [f for f in here if "flickr" in f] == [
        "wds_retrieval-flickr_1k_test_image_text_retrieval_test/TEST/test/0000.parquet"
    ]
    assert [f for f in here if "/train/" in f] == [f"wds_imagenet1k_test/train/{n}" for n in ("0.tar", "nshards.txt")]
    assert (tmp_path / "e" / "wds_imagenet1k_test" / "test" / "0.tar").read_bytes() == BIG


def test_private_addresses_are_reached_only_from_a_private_endpoint(
    hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = publish_fairness(hub)
    monkeypatch.setattr(evals_fetch, "endpoint_is_private", lambda url: False)
    # As if the endpoint, and it alone, were a host of the open internet.
    monkeypatch.setattr(streaming, "is_public", lambda address: True)
    target = "/datasets/djghosh/wds_geode_test/resolve/main/test/0.tar"
    hub.on(target, Answer.redirect(f"http://localhost:{hub.port}{where['geode']['test/0.tar']}"))
    get_address = socket.getaddrinfo

    def resolved(host: str, *rest: Any, **more: Any) -> Any:
        if host == "localhost":
            monkeypatch.setattr(streaming, "is_public", lambda address: False)
        return get_address(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    done = get(tmp_path / "e", hub, at_once=1)
    assert "localhost is at a private address" in done.failed[0]
    assert evals_fetch.endpoint_is_private(hub.root) is False  # replaced above
    monkeypatch.undo()
    assert evals_fetch.endpoint_is_private(hub.root)
    assert not evals_fetch.endpoint_is_private("https://8.8.8.8")


def test_files_are_fetched_so_many_at_once(hub: Server, tmp_path: Path) -> None:
    for where in publish_fairness(hub).values():
        body = hub.routes[where["test/0.tar"]][0].body
        hub.on(where["test/0.tar"], Answer(body, delay=0.05))
    get(tmp_path / "e", hub, at_once=1)
    assert hub.most_at_once <= 2  # an answer that was read may not have ended yet
    get(tmp_path / "other", hub, at_once=4)
    assert hub.most_at_once >= 3


def test_a_full_disk_ends_it(hub: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_fairness(hub)
    usage = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=5000))
    with pytest.raises(DiskFull, match="free some space"):
        get(tmp_path / "e", hub)


def test_the_list_alone_needs_no_network(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["evals", "fetch", str(tmp_path / "e"), "--dry-run", "--endpoint", "http://127.0.0.1:9"])
    assert done.exit_code == 0 and done.stdout == f"{tmp_path}/e/sources.yaml\n"
    listed = yaml.safe_load((tmp_path / "e" / "sources.yaml").read_text())
    assert [p.name for p in (tmp_path / "e").iterdir()] == ["sources.yaml"]
    assert (listed["endpoint"], listed["suites"], len(listed["fetched"])) == ("http://127.0.0.1:9", ["datacomp"], 40)
    by_task = {row["tasks"][0]: row for row in listed["fetched"]}
    assert list(by_task) == list(load_tasks())
    assert by_task["vtab/caltech101"]["repository"] == "djghosh/wds_vtab-caltech101_test"
    assert by_task["fairness/geode"]["folder"] == "wds_geode_test"
    assert by_task["misc/winogavil"]["urls"] == [
        "http://127.0.0.1:9/datasets/nlphuji/winogavil/resolve/refs%2Fconvert%2Fparquet/*/test/*.parquet"
    ]
    assert by_task["mnist"]["images"] == 10_000
    assert Sources.of(["multilingual"]).by_hand.keys() == {"crossmodal3600", "multi30k"}


def test_names_are_those_of_datacomps_script() -> None:
    """`djghosh/wds_<task, / as ->_test`, without `fairness/`; `nlphuji/<task without what is before />`."""
    for source in Sources.of(["datacomp"]).fetched:
        (key,) = source.tasks
        group, _, name = key.rpartition("/")
        if group in ("retrieval", "misc"):
            assert source.repository == f"nlphuji/{name}"
        else:
            plain = name if group == "fairness" else key.replace("/", "-")
            assert source.repository == f"djghosh/wds_{plain}_test"


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no suite 'eastern'"):
        fetch(str(tmp_path), suites=["eastern"])
    with pytest.raises(InputError, match="not an address"):
        fetch(str(tmp_path), endpoint="hub.example")
    with pytest.raises(InputError, match="to this machine only"):
        fetch("s3://bucket/evals")
