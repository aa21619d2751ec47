"""Extraction that was killed, split among calls, or not able to read a file: what a rerun does, and that it ends the same."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import engine
from pipeline.extract import job
from pipeline.extract.job import Settings
from pools import patience
from pools.errors import InputError, WorkFailed
from pools.manifest import Outcome, Run
from tests import stores
from tests.pipeline import wats
from tests.pipeline.extracting import (
    Page,
    everything,
    expected,
    left_behind,
    listing,
    made_up,
    parquet,
    results,
    rows,
    run,
    write,
)

ROOT = Path(__file__).parent.parent.parent
WORLD = made_up(files=4)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[stores.Files]:
    monkeypatch.setattr(patience, "_sleep", lambda _: None)
    with stores.web() as files:
        yield files


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a job up to its n-th merge of runs."""
    merge = job.merge_range

    def interrupted(*args: Any, merges: int, **options: Any) -> None:
        left = [None] * merges

        def until(unit: engine.Unit) -> Outcome:
            if not left:
                raise KeyboardInterrupt
            left.pop()
            return merge(unit)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(job, "merge_range", until)
            run(*args, **options)

    return interrupted


def statuses(output: Path, outcome: Outcome) -> list[tuple[str, str]]:
    """(name, status) of each source; the problems that stand beside them are those of the outcome."""
    lines = [json.loads(line) for line in (output / "_sources.jsonl").read_text().splitlines()]
    assert sorted(problem for line in lines for problem in line["problems"]) == sorted(outcome.problems)
    assert sum(line["counts"].get("in", 0) for line in lines) == outcome.counts["in"]
    return [(Path(line["source"]).name, line["status"]) for line in lines]


# Killed, and done -----------------------------------------------------------------------------------------------------


# T20
@pytest.mark.parametrize("parts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_job_that_is_killed_anywhere_goes_on_to_the_same_bytes(tmp_path: Path, parts: int) -> None:
    write(WORLD, tmp_path / "in")
    command = [sys.executable, "-m", "tests.pipeline.kill_extract", str(tmp_path / "in"), str(tmp_path), str(parts)]
    last = int(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    # Four files and their marks, the merged one and its mark, names of the folders, report, manifest, removal; more in parts.
    assert last >= {1: 15, 2: 27}[parts]
    assert rows(tmp_path / "whole") == expected(WORLD)
    whole = results(tmp_path / "whole")
    for n in range(1, last + 1):
        assert results(tmp_path / str(n)) == whole, n
    assert left_behind(tmp_path) == []
    if parts == 1:
        for n in (6, 7):  # behind the second mark, and within the third file
            before, now, _ = (tmp_path / f"{n}.log").read_text().splitlines()
            assert before == "extract: 2 of 4 units done before, 2 to do"
            assert now.startswith("extract: 2 of 2 units in ")


def test_a_finished_job_does_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(WORLD, tmp_path / "in")
    first = run(tmp_path / "in", tmp_path / "out")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    again = run(tmp_path / "in", tmp_path / "out", Settings(parts=3, scratch=str(tmp_path / "s")), quiet=False)
    assert first == again
    assert capsys.readouterr().err == f"extract: done before, nothing to do ({tmp_path}/out)\n"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()} == written


@pytest.mark.parametrize("merges", [0, 1, 2])
@pytest.mark.parametrize("parts", [1, 3])
def test_an_interrupted_job_may_go_on_in_another_number_of_parts(
    tmp_path: Path, interrupt: Callable[..., None], merges: int, parts: int
) -> None:
    write(WORLD, tmp_path / "in")
    interrupt(tmp_path / "in", tmp_path / "out", Settings(parts=2), merges=merges)
    run(tmp_path / "in", tmp_path / "out", Settings(parts=parts))
    assert rows(tmp_path / "out") == expected(WORLD)
    assert left_behind(tmp_path) == []


OTHERS: dict[str, tuple[Settings, str]] = {
    "documents": (Settings("image_only"), "its documents is 'image', here 'image_only'"),
    "text": (Settings(text="title"), "its text is 'alt', here 'title'"),
    "opted out": (Settings(opted_out=True), "its opted_out is False, here True"),
    "changed": (Settings(), "its input files are others, or have changed"),
    "more": (Settings(), "its input files are others, or have changed"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("done", [True, False])
def test_another_job_in_the_same_output_is_refused_or_replaces_it(
    tmp_path: Path, interrupt: Callable[..., None], other: str, done: bool
) -> None:
    scratch = str(tmp_path / "scratch")
    write(WORLD[:2], tmp_path / "in")
    if done:
        run(tmp_path / "in", tmp_path / "out", Settings(scratch=scratch))
    else:
        interrupt(tmp_path / "in", tmp_path / "out", Settings(scratch=scratch), merges=0)
    if other in ("changed", "more"):
        wats.write(tmp_path / "in" / {"changed": "01.wat.gz", "more": "02.wat.gz"}[other], [wats.numbered(5)])
    settings, difference = OTHERS[other]
    settings = Settings(settings.documents, settings.text, settings.opted_out, scratch=scratch)
    before = everything(tmp_path)
    with pytest.raises(InputError, match=f"belongs to another run \\({difference}\\)") as told:
        run(tmp_path / "in", tmp_path / "out", settings)
    assert (told.value.where, "--overwrite" in str(told.value.fix)) == (str(tmp_path / "out"), True)
    assert everything(tmp_path) == before
    run(tmp_path / "in", tmp_path / "out", settings, overwrite=True)
    run(tmp_path / "in", tmp_path / "new", settings)
    assert results(tmp_path / "out") == results(tmp_path / "new")
    assert left_behind(tmp_path) == []


def test_jobs_may_share_a_scratch_folder(
    tmp_path: Path, interrupt: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    write(WORLD, tmp_path / "in")
    write(WORLD[:3], tmp_path / "less")
    scratch = str(tmp_path / "scratch")
    interrupt(tmp_path / "in", tmp_path / "a", Settings(scratch=scratch), merges=0)
    assert (len(left_behind(tmp_path / "scratch")), left_behind(tmp_path / "a")) == (1, [])
    run(tmp_path / "less", tmp_path / "b", Settings("image_only", scratch=scratch))
    assert len(rows(tmp_path / "b")) == len(expected(WORLD[:3]))
    capsys.readouterr()
    run(tmp_path / "in", tmp_path / "a", Settings(scratch=scratch), quiet=False)
    assert "extract: 4 of 4 units done before, 0 to do" in capsys.readouterr().err
    assert rows(tmp_path / "a") == expected(WORLD)


def test_rows_may_lie_in_the_output_itself(tmp_path: Path) -> None:
    write(WORLD, tmp_path / "in")
    for n, scratch in enumerate(["out0", "out1/scratch"]):
        run(tmp_path / "in", tmp_path / f"out{n}", Settings(parts=2, scratch=str(tmp_path / scratch)))
        assert rows(tmp_path / f"out{n}") == expected(WORLD)
    assert left_behind(tmp_path) == []


# Job arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2])
def test_calls_share_the_files_and_the_last_one_merges(tmp_path: Path, capsys: pytest.CaptureFixture[str], parts: int) -> None:
    world = made_up(files=6)
    write(world, tmp_path / "in")
    for index in (2, 0):
        assert run(tmp_path / "in", tmp_path / "out", Settings(parts=parts), part=(index, 3), quiet=False) == Outcome()
        said = capsys.readouterr().err.splitlines()
        assert said[-1] == f"extract: part {index}/3 is done, others are not yet"
        assert parquet(tmp_path / "out") == {}
    outcome = run(tmp_path / "in", tmp_path / "out", Settings(parts=parts), part=(1, 3), quiet=False)
    assert rows(tmp_path / "out") == expected(world)
    run(tmp_path / "in", tmp_path / "new")
    assert results(tmp_path / "out") == results(tmp_path / "new")
    assert outcome.counts["in"] == 6 * 3 * 4
    assert left_behind(tmp_path) == []


def test_a_call_of_an_array_that_failed_is_made_again(tmp_path: Path) -> None:
    write(WORLD, tmp_path / "in")
    (tmp_path / "in/02.wat.gz").rename(tmp_path / "gone")
    inputs = listing(tmp_path / "in", [f"{n:02}.wat.gz" for n in range(4)])
    for index in (0, 1):
        assert run(inputs, tmp_path / "out", part=(index, 2)) == Outcome()
    (tmp_path / "gone").rename(tmp_path / "in/02.wat.gz")
    assert run(inputs, tmp_path / "out", part=(0, 2)).problems == ()
    assert rows(tmp_path / "out") == expected(WORLD)


# Files that cannot be read --------------------------------------------------------------------------------------------


# T19
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_files_that_fail_are_named_and_tried_again_when_the_others_are_done(
    tmp_path: Path, web: stores.Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], parts: int
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(patience, "_sleep", waits.append)
    write(WORLD, tmp_path / "in")
    urls = {n: web.put(f"/{n:02}.wat.gz", (tmp_path / f"in/{n:02}.wat.gz").read_bytes()) for n in (1, 3)}
    (tmp_path / "in/02.wat.gz").rename(tmp_path / "gone")
    inputs = listing(tmp_path / "in", ["00.wat.gz", urls[1], "02.wat.gz", urls[3]])
    web.faults["/01.wat.gz"] = [503] * 4
    web.always["/03.wat.gz"] = 503
    outcome = run(inputs, tmp_path / "out", Settings(parts=parts), quiet=False)
    assert waits[:2] == [1, 2]  # the store served it then
    assert outcome.problems == (
        f"{tmp_path}/in/02.wat.gz: no such file",
        f"{urls[3]}: gave up after 6 tries: ClientResponseError: 503, message='Service Unavailable', url='{urls[3]}'",
    )
    assert rows(tmp_path / "out") == expected(WORLD[:2])
    assert statuses(tmp_path / "out", outcome) == [(f"{n:02}.wat.gz", "read" if n < 2 else "failed") for n in range(4)]
    assert "2 of 4 files were not read" in capsys.readouterr().err.splitlines()[-1]
    asked = web.requests.count(("GET", "/01.wat.gz", None))
    assert run(inputs, tmp_path / "out", Settings(parts=parts)) == outcome
    (tmp_path / "gone").rename(tmp_path / "in/02.wat.gz")
    web.always.clear()
    assert run(inputs, tmp_path / "out", Settings(parts=parts)).problems == ()
    assert web.requests.count(("GET", "/01.wat.gz", None)) == asked
    assert rows(tmp_path / "out") == expected(WORLD)
    assert left_behind(tmp_path) == []
    run(inputs, tmp_path / "new")
    assert results(tmp_path / "out") == results(tmp_path / "new")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("missing", "no such file"),
        ("folder", "Is a directory"),
        ("refused", "the store refuses it"),
        ("page", "no WARC record"),
    ],
)
def test_each_failure_is_one_line_that_names_the_file(tmp_path: Path, web: stores.Files, what: str, why: str) -> None:
    write(WORLD[:1], tmp_path)
    path = f"{tmp_path}/01.wat.gz"
    if what == "folder":
        (tmp_path / "01.wat.gz").mkdir()
    elif what == "refused":
        path = web.put("/01.wat.gz", b"")
        web.always["/01.wat.gz"] = 403
    elif what == "page":
        (tmp_path / "01.wat.gz").write_bytes(b"<html>503</html>")
    inputs = listing(tmp_path, ["00.wat.gz", path])
    (problem,) = run(inputs, tmp_path / "out").problems
    assert problem.startswith(f"{path}: {why}")
    assert "\n" not in problem
    assert rows(tmp_path / "out") == expected(WORLD[:1])
    # Nothing at all could be read, and that is the user's mistake.
    with pytest.raises(InputError, match=why) as told:
        run(listing(tmp_path, [path]), tmp_path / "none")
    assert told.value.where == path


def test_a_store_that_serves_nothing_is_failed_work(tmp_path: Path, web: stores.Files) -> None:
    web.always["/1.wat"] = 503
    with pytest.raises(WorkFailed, match=r"/1\.wat: gave up after 6 tries"):
        run(listing(tmp_path, [web.root + "/1.wat"]), tmp_path / "out")


# T09
def test_damaged_files_count_as_read_as_far_as_they_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = [bytearray(m) for m in wats.members(wats.numbered(n) for n in range(3))]
    content = b"".join(packed)
    packed[1][-6] ^= 0xFF
    wats.write(tmp_path / "in/0.wat.gz", [wats.numbered(7)])
    (tmp_path / "in/1.wat.gz").write_bytes(content[:-20])
    (tmp_path / "in/2.wat.gz").write_bytes(b"".join(packed))
    outcome = run(tmp_path / "in", tmp_path / "out", Settings(parts=2))
    assert sorted(row["text"] for row in rows(tmp_path / "out")) == [f"picture {n}" for n in (0, 1, 2, 7)]
    assert [problem.partition(" at byte")[0].partition(" (")[0].partition(",")[0] for problem in outcome.problems] == [
        f"{tmp_path}/in/1.wat.gz: truncated",
        f"{tmp_path}/in/2.wat.gz: damaged gzip data",
    ]
    assert statuses(tmp_path / "out", outcome) == [("0.wat.gz", "read"), ("1.wat.gz", "damaged"), ("2.wat.gz", "damaged")]
    assert left_behind(tmp_path) == []
    assert run(tmp_path / "in", tmp_path / "out", quiet=False) == outcome
    assert "nothing to do" in capsys.readouterr().err


def test_what_is_damaged_is_told_again_when_what_failed_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(WORLD, tmp_path)
    (tmp_path / "00.wat.gz").write_bytes((tmp_path / "00.wat.gz").read_bytes()[:-30])
    (tmp_path / "03.wat.gz").rename(tmp_path / "gone")
    inputs = listing(tmp_path, [f"{n:02}.wat.gz" for n in range(4)])
    first = run(inputs, tmp_path / "out", Settings(parts=2))
    assert [status for _, status in statuses(tmp_path / "out", first)] == ["damaged", "read", "read", "failed"]
    assert run(inputs, tmp_path / "out", Settings(parts=2)) == first
    (tmp_path / "gone").rename(tmp_path / "03.wat.gz")
    last = run(inputs, tmp_path / "out", Settings(parts=2), quiet=False)
    assert "extract 2/2: 1 of 2 units done before, 1 to do" in capsys.readouterr().err
    assert last.problems == first.problems[:1]
    assert [status for _, status in statuses(tmp_path / "out", last)] == ["damaged", "read", "read", "read"]


def test_files_of_an_earlier_run_that_could_read_more_do_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_ROWS", 8)
    write(WORLD, tmp_path)
    inputs = listing(tmp_path, [f"{n:02}.wat.gz" for n in range(5)])
    run(inputs, tmp_path / "out")
    before = len(parquet(tmp_path / "out"))
    shutil.rmtree(tmp_path / "out/.winnow/scratch")
    for n in (1, 2, 3):
        (tmp_path / f"{n:02}.wat.gz").unlink()
    run(inputs, tmp_path / "out")
    assert len(parquet(tmp_path / "out")) < before
    assert rows(tmp_path / "out") == expected(WORLD[:1])


def test_a_hopeless_job_ends_early_and_what_was_done_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(WORLD[:1], tmp_path)
    inputs = listing(tmp_path, [f"{n:02}.wat.gz" for n in range(13)])
    with pytest.raises(WorkFailed, match="11 of 13 units failed, 1 done") as told:
        run(inputs, tmp_path / "out")
    assert "  05: " + str(tmp_path / "05.wat.gz: no such file") in str(told.value)
    assert parquet(tmp_path / "out") == {}
    write([*WORLD[:1], *[[Page("http://e.example/", ())]] * 2], tmp_path)
    assert len(run(inputs, tmp_path / "out", quiet=False).problems) == 10
    assert "extract: 1 of 13 units done before, 12 to do" in capsys.readouterr().err
    assert rows(tmp_path / "out") == expected(WORLD[:1])


def fails(unit: engine.Unit) -> Outcome:
    """A unit that fails if its argument says so."""
    if unit.args[0]:
        raise InputError("no such file", where=unit.name)
    return Outcome()


@pytest.mark.parametrize(("failing", "units", "ends"), [(10, 20, False), (11, 20, True), (15, 300, False), (16, 300, True)])
def test_ten_files_may_fail_or_five_of_a_hundred(tmp_path: Path, failing: int, units: int, ends: bool) -> None:
    work = [engine.Unit(str(n), "", (n < failing,)) for n in range(units)]
    given = Run(str(tmp_path), "rows", 1, {}), work, fails, engine.Options(workers=0, quiet=True)
    if ends:
        with pytest.raises(WorkFailed, match=f"{failing} of {units} units failed"):
            engine.do(*given, lenient=True)
    else:
        assert len(engine.do(*given, lenient=True).failed) == failing
