"""The demo: every stage on a made-up web, and a summary that can be checked against the truth."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from baselines.miniweb.demo import demo
from baselines.miniweb.web import MiniWeb, build
from pipeline.archive import Archive
from pipeline.download.fetch import Policy
from pipeline.download.job import DownloadSettings, download
from pipeline.engine import Options
from pipeline.extract.job import extract
from pipeline.replay import Proxy
from pools import uids
from pools.errors import InputError

QUIET = Options(workers=0, quiet=True)


@pytest.fixture
def brief_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from baselines.train import loop

    whole = loop.train
    monkeypatch.setattr(loop, "train", lambda config: whole(replace(config, samples=192)))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [r for p in sorted(folder.glob("*.parquet")) for r in pq.read_table(p).to_pylist()]


def funnel(printed: str) -> list[tuple[str, int]]:
    section = printed.split("From the web to the training set\n")[1].split("\n\n")[0]
    found = [re.fullmatch(r"  (.+?) +(-?[\d,]+)", line) for line in section.splitlines()]
    return [(m[1], int(m[2].replace(",", ""))) for m in found if m]


def test_extract_and_download_find_what_the_truth_says(tmp_path: Path) -> None:
    web = build(str(tmp_path / "web"), pictures=100, options=QUIET)
    truth = {r["uid"]: r for r in pq.read_table(web.truth).to_pylist()}
    counts = extract([web.wats], str(tmp_path / "candidates"), options=QUIET).counts
    # Of each of 20 pages the logo and the spacer, which have no text.
    assert (counts["in"], counts["kept"]) == (140, 100)
    found = rows(tmp_path / "candidates")
    assert {(r["uid"], r["url"]) for r in found} == {(u, r["url"]) for u, r in truth.items()}
    assert {r["content_language"] for r in found} >= {"en", "es", "de", "fr"}
    with Proxy(Archive(web.warcs)) as proxy:
        settings = DownloadSettings(policy=Policy(proxy=proxy.url))
        got = download(str(tmp_path / "candidates"), str(tmp_path / "pool" / "shards"), settings=settings, options=QUIET)
    assert got.counts == {"in": 100, "kept": 94, "failed:http_status": 4, "failed:not_an_image": 2}
    status = rows(tmp_path / "pool" / "shards")
    reasons = {"dead_link": "http_status", "html_answer": "not_an_image"}
    assert {r["uid"]: r["reason"] for r in status} == {u: reasons.get(r["flaw"]) for u, r in truth.items()}


@pytest.mark.usefixtures("brief_training")
def test_whole_chain_on_a_small_web(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "demo")
    accuracy = demo(folder, pictures=60)
    printed = capsys.readouterr().out
    lines = funnel(printed)
    assert lines[0] == ("image links on the pages", 60 + 2 * 12)
    left = lines[0][1]
    for name, count in lines[1:]:
        if count < 0:
            left += count
        else:
            assert count == left, name
    assert left == len(uids.read_list(folder + "/selection/uids.npy")) > 0
    commands = re.findall(r"^== [^:]+: winnow (\w+)", printed, re.MULTILINE)
    assert commands == ["extract", "download", "train", "annotate", "filter", "reshard", "train", "score"]
    written = json.loads(Path(folder, "run", "eval_results.jsonl").read_text())
    assert (written["key"], written["metrics"]["acc1"]) == ("miniweb-shapes", accuracy)
    assert f"{100 * accuracy:.1f} % (guessing: 10.0 %)" in printed
    assert re.search(r"\d+ seconds in all: build ", printed)
    for path in re.findall(rf"{re.escape(folder)}/\S+", printed.split("Where to look")[1]):
        assert Path(path).exists()
    _check_flaws(printed, MiniWeb(folder + "/web"), folder)

    # Everything is done: the same score again, and nothing is printed.
    before = {p: p.stat().st_mtime_ns for p in Path(folder).rglob("*") if p.is_file()}
    assert demo(folder, pictures=60, quiet=True) == accuracy
    assert {p: p.stat().st_mtime_ns for p in Path(folder).rglob("*") if p.is_file()} == before
    assert capsys.readouterr() == ("", "")
    with pytest.raises(InputError, match="pictures"):
        demo(folder, pictures=61, quiet=True)


def _check_flaws(printed: str, web: MiniWeb, folder: str) -> None:
    """The printed table, counted again from the truth and the verdicts."""
    kept = {r["uid"] for r in rows(Path(folder, "selection", "verdicts")) if r["dropped_by"] is None}
    total, through = Counter[str](), Counter[str]()
    for row in pq.read_table(web.truth).to_pylist():
        what = row["flaw"] or ("nothing" if row["language"] == "en" else "not in English")
        total[what] += 1
        through[what] += row["uid"] in kept
    found = re.findall(r"^  (\S[\w ]+?) +(\d+) of +(\d+)$", printed, re.MULTILINE)
    assert {n: (int(a), int(b)) for n, a, b in found} == {w.replace("_", " "): (through[w], total[w]) for w in total}
    # Rules on size, words and links have nothing to guess.
    assert not any(through[w] for w in ("too_small", "banner", "file_name", "one_word", "dead_link", "html_answer"))


@pytest.mark.slow
def test_default_demo_learns_shapes_from_what_the_recipe_keeps(tmp_path: Path) -> None:
    # Seen with three seeds: 0.39 to 0.75; guessing is right once in ten.
    assert demo(str(tmp_path / "demo"), quiet=True) > 0.3
    truth = {r["uid"]: r["flaw"] for r in pq.read_table(tmp_path / "demo" / "web" / "truth.parquet").to_pylist()}
    kept = uids.unpack(uids.read_list(str(tmp_path / "demo" / "selection" / "uids.npy"))).to_pylist()
    flaws = Counter(truth[u] for u in kept)
    # Of the 60 mismatched captions most are recognised by their scores.
    assert set(flaws) <= {None, "mismatched"} and flaws["mismatched"] < 30
