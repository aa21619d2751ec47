"""`winnow extract`: what is read, what is printed, how it ends."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app, main
from pipeline.extract.inputs import Source, sample
from pools import patience
from tests import stores
from tests.pipeline import wats
from tests.pipeline.extracting import expected, left_behind, listing, made_up, parquet, results, rows, write

ROOT = Path(__file__).parent.parent.parent
WORLD = made_up(files=3)
ID = "CC-MAIN-2025-33"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Exit status, standard output and standard error of `winnow extract ARGS`, in this process."""

    def called(*args: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["winnow", "extract", *map(str, args), "--workers", "0"])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return called


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write(WORLD, tmp_path / "in")


def test_the_help_shows_examples_and_every_choice() -> None:
    done = CliRunner().invoke(app, ["extract", "--help"], prog_name="winnow")
    said = " ".join(done.output.split())
    assert done.exit_code == 0
    assert "Example: winnow extract --crawl CC-MAIN-2025-33 --wats 100 --seed 0 --output candidates" in said
    assert "Example: winnow extract 'segments/*.wat.gz' --output candidates" in said
    for choice in ("<wat|warc>", "<image|image_only|audio|video|text>", "<alt|title|both>", "--keep-opted-out", "--scratch"):
        assert choice in said


def test_the_summary_is_a_funnel_or_json_or_nothing(tmp_path: Path, files: Path, call: Call) -> None:
    status, out, err = call(files, "--output", tmp_path / "out")
    lines = [line.split() for line in out.splitlines()]
    # 36 links: 3 files of 3 pages with 4 of them; 18 that only one page has, and 3 that are everywhere.
    assert ["in", "36", "100.0", "%"] in lines
    assert ["dropped", "duplicate", "15", "41.7", "%"] in lines
    assert ["kept", "21", "58.3", "%"] in lines
    assert lines[-2:] == [["also:", "records", "12,", "pages", "9,", "bad", "record", "0"], ["→", f"{tmp_path}/out"]]
    assert (status, [line.partition(" in ")[0] for line in err.splitlines()]) == (
        0,
        ["extract: 3 of 3 units", "merge: 1 of 1 units"],
    )
    status, out, err = call(files, "--output", tmp_path / "new", "--json", "--quiet")
    told = json.loads(out)
    assert (status, err, out.count("\n")) == (0, "", 1)
    assert (told["stage"], told["output"], told["problems"]) == ("extract", f"{tmp_path}/new", [])
    assert {name: n for name, n in told["counts"].items() if n} == {
        **{"in": 36, "kept": 21, "dropped:duplicate": 15},
        **{"records": 12, "pages": 9},
    }
    assert call(files, "--output", tmp_path / "new", "--quiet") == (0, "", "")


def test_files_folders_patterns_and_lists_are_inputs(tmp_path: Path, files: Path, call: Call) -> None:
    named = listing(tmp_path, [f"in/{n:02}.wat.gz" for n in range(3)])
    for n, inputs in enumerate([[files], [files / "0*.gz"], [files / "02.wat.gz", files / "0[01]*"], [named]]):
        assert call(*inputs, "--output", tmp_path / f"{n}", "--quiet")[0] == 0
        assert rows(tmp_path / f"{n}") == expected(WORLD)
    assert call(files, "--wats", "2", "--seed", "3", "--output", tmp_path / "two", "--quiet")[0] == 0
    chosen = sample([Source("", f"{n:02}", "") for n in range(3)], 2, 3)
    assert {row["source_file"] for row in rows(tmp_path / "two")} == {f"{source.stem}.wat.gz" for source in chosen}


def test_what_is_asked_for_is_done(tmp_path: Path, call: Call) -> None:
    others = [{"path": "A@/href", "url": "s.mp3", "text": "a song"}]
    page = wats.page("http://e.example/", [("1.jpg", "one"), ("2.jpg", "")], title="Title", others=others)
    objecting = wats.page("http://e.example/b", [("3.jpg", "three")], metas=[{"name": "robots", "content": "noai"}])
    wat = wats.write(tmp_path / "a.wat", [page, objecting])
    cases: list[tuple[list[str], list[tuple[str, str]]]] = [
        ([], [("one", "one")]),
        (["--keep-opted-out"], [("one", "one"), ("three", "three")]),
        (["--documents", "image_only"], [("", ""), ("one", "one")]),
        (["--documents", "audio"], [("a song", "a song")]),
        (["--text", "title"], [("one", "Title")]),
        (["--text", "both"], [("one", "one Title")]),
        (["--parts", "3", "--scratch", f"{tmp_path}/s"], [("one", "one")]),
    ]
    for n, (options, wanted) in enumerate(cases):
        assert call(wat, "--output", tmp_path / f"{n}", "--quiet", *options) == (0, "", "")
        assert sorted((row["alt"], row["text"]) for row in rows(tmp_path / f"{n}")) == wanted
    assert left_behind(tmp_path) == []


def test_warcs_are_read_where_they_are_asked_for(tmp_path: Path, files: Path, call: Call) -> None:
    for n in range(3):
        wats.write(files / f"{n}.warc.gz", [wats.response(f"http://e.example/{n}", [(f"{n}.jpg", f"page {n}")])])

    def read(*options: str) -> set[str]:
        assert call(files, "--output", tmp_path / "out", "--quiet", "--overwrite", *options) == (0, "", "")
        return {row["alt"] for row in rows(tmp_path / "out")}

    every = {f"page {n}" for n in range(3)}
    assert read("--from", "warc") == every
    assert read().isdisjoint(every)
    two = read("--warcs", "2", "--seed", "1")
    assert (len(two), two < every, two == read("--from", "warc", "--warcs", "2", "--seed", "1")) == (2, True, True)


# Crawls ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, files: Path) -> Iterator[stores.Files]:
    """A web server with a crawl of the three files."""
    monkeypatch.setattr(patience, "_sleep", lambda _: None)
    with stores.web() as served:
        names = [f"crawl-data/{ID}/segments/1/wat/{n:02}.wat.gz" for n in range(3)]
        served.put(f"/crawl-data/{ID}/wat.paths.gz", gzip.compress("\n".join(names).encode()))
        for n, name in enumerate(names):
            served.put("/" + name, (files / f"{n:02}.wat.gz").read_bytes())
        yield served


def test_a_crawl_is_read_from_the_web_or_a_mirror(tmp_path: Path, web: stores.Files, call: Call) -> None:
    for path, content in web.content.items():
        (tmp_path / "mirror" / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mirror" / path[1:]).write_bytes(content)
    for n, root in enumerate([web.root, str(tmp_path / "mirror")]):
        assert call("--crawl", ID, "--root", root, "--output", tmp_path / f"{n}", "--quiet") == (0, "", "")
        assert rows(tmp_path / f"{n}") == [row | {"crawl": ID} for row in expected(WORLD)]
    assert parquet(tmp_path / "0") == parquet(tmp_path / "1")


def test_a_sample_of_a_crawl_is_decided_by_the_seed(tmp_path: Path, web: stores.Files, call: Call) -> None:
    def read(*options: str) -> set[str]:
        assert call("--crawl", ID, "--root", web.root, "--output", tmp_path / "out", "--quiet", "--overwrite", *options)[0] == 0
        return {row["source_file"] for row in rows(tmp_path / "out")}

    samples = {seed: read("--wats", "1", "--seed", str(seed)) for seed in range(4)}
    for seed, found in samples.items():
        chosen = sample([Source("", f"{n:02}", "") for n in range(3)], 1, seed)
        assert found == {f"{chosen[0].stem}.wat.gz"}
        assert found < read("--wats", "2", "--seed", str(seed))
    assert len({frozenset(found) for found in samples.values()}) > 1
    assert read("--wats", "1") == samples[0]


# T19
def test_a_part_of_a_crawl_that_is_not_served_is_exit_status_1(tmp_path: Path, web: stores.Files, call: Call) -> None:
    lost = f"crawl-data/{ID}/segments/1/wat/01.wat.gz"
    web.always["/" + lost] = 503
    arguments = ("--crawl", ID, "--root", web.root, "--output", tmp_path / "out")
    status, out, err = call(*arguments)
    assert status == 1
    assert f"extract: {web.root}/{lost}: gave up after 6 tries" in err
    assert "1 of 3 files were not read" in err
    assert "Traceback" not in err
    kept = len({row["uid"] for n in (0, 2) for row in expected([WORLD[n]])})
    assert ["kept", f"{kept}"] in [line.split()[:2] for line in out.splitlines()]
    web.always.clear()
    status, _, err = call(*arguments)
    assert (status, "2 of 3 units done before, 1 to do" in err) == (0, True)
    assert call(*arguments[:4], "--output", tmp_path / "new", "--quiet")[0] == 0
    assert results(tmp_path / "out") == results(tmp_path / "new")


# Mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("", "nothing to read; expected INPUT… or --crawl ID"),
        ("{in} --crawl CC-MAIN-2025-33", "INPUT and --crawl: both are given; expected one of the two"),
        ("{in} --root s3://commoncrawl", "--root: there is no --crawl that it could be of"),
        ("--crawl CC-MAIN-2025-3 --root {in}", "--crawl: 'CC-MAIN-2025-3'; expected a crawl's id"),
        ("--crawl CC-MAIN-2025-33 --root {in}", "/crawl-data/CC-MAIN-2025-33/wat.paths.gz: no such crawl here"),
        ("{in} --wats 1 --from warc", "--wats with --from warc; expected --warcs"),
        ("{in} --warcs 1 --from wat", "--warcs with --from wat; expected --wats"),
        ("{in} --wats 1 --warcs 1", "--wats with --from warc; expected --warcs"),
        ("{in} --wats 4", "a sample of 4 files; expected a number from 1 to 3"),
        ("{in} --wats 0", "'--wats'"),
        ("{in} --from warc", "a folder of WAT files"),
        ("{in}/none.wat", "none.wat: no such file"),
        ("{in} --from arc", "'--from'"),
        ("{in} --documents pictures", "'--documents'"),
        ("{in} --text caption", "'--text'"),
        ("{in} --parts 0", "'--parts'"),
        ("{in} --part 2/2", "--part: '2/2'; expected I/N with 0 ≤ I < N"),
        ("{in} --part 0/2 --overwrite", "--overwrite, --part: each part would remove what the others have done"),
        ("{in} --engine dask", "'--engine'"),
    ],
)
def test_a_mistake_is_one_message_and_exit_status_2(tmp_path: Path, files: Path, call: Call, args: str, message: str) -> None:
    status, out, err = call(*(word.format(**{"in": files}) for word in args.split()), "--output", tmp_path / "out")
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_an_output_is_needed(files: Path, call: Call) -> None:
    status, _, err = call(files)
    assert (status, "'--output'" in err) == (2, True)


def test_another_job_in_the_output_is_exit_status_2_or_replaces_it(tmp_path: Path, files: Path, call: Call) -> None:
    assert call(files, "--output", tmp_path / "out", "--quiet")[0] == 0
    status, _, err = call(files / "00.wat.gz", "--output", tmp_path / "out")
    assert status == 2
    assert "its input files are others, or have changed" in err
    assert call(files / "00.wat.gz", "--output", tmp_path / "out", "--quiet", "--overwrite")[0] == 0
    assert rows(tmp_path / "out") == expected(WORLD[:1])


# T11
def test_a_file_that_is_no_archive_is_exit_status_2_alone_and_1_among_others(tmp_path: Path, files: Path, call: Call) -> None:
    (files / "03.wat").write_bytes(b"<html>")
    status, _, err = call(files / "03.wat", "--output", tmp_path / "alone")
    assert (status, f"{files}/03.wat: no WARC record in this file" in err, "Traceback" in err) == (2, True, False)
    status, _, err = call(files, "--output", tmp_path / "among")
    assert (status, f"extract: {files}/03.wat: no WARC record in this file" in err) == (1, True)
    assert rows(tmp_path / "among") == expected(WORLD)


# T09
def test_a_cut_file_is_exit_status_1_each_time(tmp_path: Path, files: Path, call: Call) -> None:
    (files / "00.wat.gz").write_bytes((files / "00.wat.gz").read_bytes()[:-30])
    for _ in range(2):
        status, _, err = call(files, "--output", tmp_path / "out")
        assert (status, f"extract: {files}/00.wat.gz: truncated at byte" in err) == (1, True)


def test_calls_of_an_array_end_well_and_the_last_one_merges(tmp_path: Path, files: Path, call: Call) -> None:
    status, _, err = call(files, "--output", tmp_path / "out", "--part", "0/2")
    assert (status, parquet(tmp_path / "out")) == (0, {})
    assert "extract: part 0/2 is done, others are not yet" in err
    assert call(files, "--output", tmp_path / "out", "--part", "1/2")[0] == 0
    assert rows(tmp_path / "out") == expected(WORLD)


# Processes ------------------------------------------------------------------------------------------------------------


def test_the_module_is_a_program(tmp_path: Path, files: Path) -> None:
    job = str(ROOT / "pipeline/extract/job.py")
    command = [sys.executable, job, str(files), "--output", str(tmp_path / "out"), "--workers", "2", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["counts"]["kept"] == len(expected(WORLD))
    assert rows(tmp_path / "out") == expected(WORLD)


def test_an_interrupt_ends_it_with_130_and_it_goes_on(tmp_path: Path, files: Path, call: Call) -> None:
    # The second file is a pipe: the one that writes waits until somebody reads.
    inputs = listing(tmp_path, [f"in/{n:02}.wat.gz" for n in range(3)])
    (files / "01.wat.gz").rename(tmp_path / "01")
    os.mkfifo(files / "01.wat.gz")
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pipeline.cli import main; main()"
    command = [sys.executable, "-c", code, "extract", str(inputs), "--output", str(tmp_path / "out"), "--workers", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        pipe = os.open(files / "01.wat.gz", os.O_WRONLY)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(20) == 130
        os.close(pipe)
    assert "Traceback" not in said
    (tmp_path / "01").rename(files / "01.wat.gz")
    status, _, err = call(inputs, "--output", tmp_path / "out")
    assert (status, "1 of 3 units done before, 2 to do" in err) == (0, True)
    assert rows(tmp_path / "out") == expected(WORLD)
