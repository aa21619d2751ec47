"""The made-up web on disk: built again, replaced, and compared with its tables and with what the stages make of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pyarrow.parquet as pq
import pytest

from baselines.miniweb.web import MiniWeb, build
from pipeline.archive import Archive
from pipeline.download.fetching.fetch import Policy
from pipeline.download.job import DownloadSettings, download
from pipeline.engine import Options
from pipeline.extract.inputs import find
from pipeline.extract.job import Settings, extract
from pipeline.replay import Proxy
from pools.errors import InputError
from tests.baselines.webs import files, page_links

PICTURES = 500
QUIET = Options(workers=0, quiet=True)


@pytest.fixture(scope="module")
def truth(small_web: MiniWeb) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(small_web.truth).to_pylist()
    return rows


@pytest.mark.usefixtures("few_held_out")
def test_same_seed_gives_the_same_bytes(tmp_path: Path, tiny_web: MiniWeb) -> None:
    first, again, other = tiny_web.folder, str(tmp_path / "b"), str(tmp_path / "c")
    build(again, pictures=60, options=QUIET)
    assert files(first) == files(again)
    build(other, pictures=60, seed=1, options=QUIET)
    differ = {name for name, digest in files(other).items() if files(first)[name] != digest}
    assert {n.split("/")[0] for n in differ} >= {"wat", "warc", "truth.parquet", "stand_ins.parquet"}
    # What is scored on does not change with the web.
    assert not any(n.startswith("evals/") for n in differ)


def test_processes_change_nothing(tmp_path: Path, small_web: MiniWeb) -> None:
    build(str(tmp_path / "w"), pictures=PICTURES, options=Options(workers=2, quiet=True))
    assert files(str(tmp_path / "w")) == files(small_web.folder)


def test_building_again_does_nothing_and_another_web_is_refused(small_web: MiniWeb) -> None:
    before = {p: p.stat().st_mtime_ns for p in Path(small_web.folder).rglob("*")}
    build(small_web.folder, pictures=PICTURES, options=QUIET)
    assert {p: p.stat().st_mtime_ns for p in Path(small_web.folder).rglob("*")} == before
    with pytest.raises(InputError, match="its pictures is 500, here 501"):
        build(small_web.folder, pictures=PICTURES + 1, options=QUIET)
    with pytest.raises(InputError, match="seed"):
        build(small_web.folder, pictures=PICTURES, seed=1, options=QUIET)
    assert {p: p.stat().st_mtime_ns for p in Path(small_web.folder).rglob("*")} == before
    with pytest.raises(InputError, match="expected 50 or more"):
        build(small_web.folder + "-none", pictures=49, options=QUIET)
    assert not Path(small_web.folder + "-none").exists()


@pytest.mark.usefixtures("few_held_out")
def test_overwrite_replaces_another_web(tmp_path: Path, tiny_web: MiniWeb) -> None:
    folder = str(tmp_path / "w")
    build(folder, pictures=80, options=QUIET)
    build(folder, pictures=60, options=Options(workers=0, quiet=True, overwrite=True))
    assert files(folder) == files(tiny_web.folder)


# Truth ----------------------------------------------------------------------------------------------------------------


def test_truth_has_one_row_a_link_in_the_order_of_the_pages(small_web: MiniWeb, truth: list[dict[str, Any]]) -> None:
    linked = []
    for uri, page in page_links(small_web):
        base = urljoin(uri, page["Head"].get("Base", ""))
        for link in page["Links"]:
            if link["path"] == "IMG@/src" and link.get("alt"):
                linked.append((uri, urljoin(base, link["url"]), link["alt"]))
    assert [(r["page_url"], r["url"]) for r in truth] == [(page, url) for page, url, _ in linked]
    for row, (_, url, alt) in zip(truth, linked, strict=True):
        assert row["uid"] == hashlib.md5((alt + url).encode(), usedforsecurity=False).hexdigest()
    assert len(linked) == PICTURES == len({r["uid"] for r in truth})


def test_columns_of_stand_ins(small_web: MiniWeb, truth: list[dict[str, Any]]) -> None:
    table = pq.read_table(small_web.stand_ins)
    assert str(table.schema.field("nsfw_score").type) == "float"
    rows = table.to_pylist()
    assert [r["uid"] for r in rows] == [r["uid"] for r in truth]
    for row, true in zip(rows, truth, strict=True):
        low, high = (0.9, 1.0) if true["flaw"] == "unsafe" else (0.0, 0.3)
        assert low <= row["nsfw_score"] <= high
        assert len(row["face_bboxes"]) == (true["flaw"] == "face")
        for x0, y0, x1, y1 in row["face_bboxes"]:
            assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
    assert len({r["nsfw_score"] for r in rows}) > 450


def test_extract_and_download_find_what_the_truth_says(tmp_path: Path, small_web: MiniWeb, truth: list[dict[str, Any]]) -> None:
    counts = extract(find([small_web.wats]), str(tmp_path / "candidates"), Settings(), options=QUIET).counts
    # Of each of 100 pages the logo and the spacer, which have no text.
    assert (counts["in"], counts["kept"]) == (PICTURES + 200, PICTURES)
    found = {r["uid"]: r for p in (tmp_path / "candidates").glob("*.parquet") for r in pq.read_table(p).to_pylist()}
    assert {u: (r["url"], r["page_url"], r["content_language"]) for u, r in found.items()} == {
        r["uid"]: (r["url"], r["page_url"], r["page_language"]) for r in truth
    }
    with Proxy(Archive(small_web.warcs)) as proxy:
        settings = DownloadSettings(policy=Policy(proxy=proxy.url))
        got = download(str(tmp_path / "candidates"), str(tmp_path / "pool" / "shards"), settings=settings, options=QUIET)
    status = [r for p in (tmp_path / "pool" / "shards").glob("*.parquet") for r in pq.read_table(p).to_pylist()]
    reasons = {"dead_link": "http_status", "html_answer": "not_an_image", "truncated": "truncated_image", "opt_out": "opt_out"}
    assert {r["uid"]: r["reason"] for r in status} == {r["uid"]: reasons.get(r["flaw"]) for r in truth}
    assert got.counts["kept"] == PICTURES - 5 * (2 + 1 + 1 + 1)
