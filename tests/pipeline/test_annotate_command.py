"""`winnow annotate`: which annotators with which options, and what is said of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.annotate import catalogue
from pipeline.annotate.chosen import choose
from pipeline.cli import main
from pools.errors import InputError
from tests.pipeline.annotating import family, rows, write

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("brightness", "length"):
        monkeypatch.setitem(catalogue.ANNOTATORS, name, f"tests.pipeline.annotators:make_{name}")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Exit status, standard output and standard error of `winnow annotate ARGS`, in this process."""

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["winnow", "annotate", *args])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return int(stop.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    samples = rows(3)
    samples[1] = (samples[1][0], "even", b"junk")
    write(tmp_path / "pool", "00000000", samples)
    return tmp_path / "pool"


def test_several_in_one_run(pool: Path, call: Call) -> None:
    status, out, _ = call(
        str(pool), "--with", "brightness:bright,length", "--set", "bright.min_side=8", "--set", "length.column=n"
    )
    assert status == 0
    assert [r["n"] for r in family(pool, "length")] == [None, 4.0, None]
    assert family(pool, "bright")[1]["bright_reason"] == "not_an_image"
    lines = [line.split() for line in out.splitlines()]
    assert ["annotate", "brightness"] in lines
    assert ["failed", "not_an_image", "1", "33.3", "%"] in lines
    assert ["→", f"{pool}/annotations/length"] in lines
    assert "rows/s; seconds:" in out


def test_json_is_a_line(pool: Path, call: Call) -> None:
    status, out, _ = call(str(pool), "--with", "length", "--json")
    told = json.loads(out)
    assert status == 0
    assert (told["stage"], told["output"]) == ("annotate length", f"{pool}/annotations/length")
    assert told["counts"] == {"in": 3, "kept": 1, "failed:odd": 2}
    assert told["speed"]["rows"] == 3
    status, out, _ = call(str(pool), "--with", "length", "--with", "brightness", "--json")
    told = json.loads(out)
    assert [f["stage"] for f in told["families"]] == ["annotate length", "annotate brightness"]
    assert told["families"][0]["speed"] is None  # done before


def test_nothing_that_can_be_judged_is_a_failure(tmp_path: Path, call: Call) -> None:
    write(tmp_path, "00000000", [(uid, None, image) for uid, _, image in rows(2)])
    status, _, err = call(str(tmp_path), "--with", "length")  # T50
    assert status == 1
    assert "none of 2 rows could be judged: no_text" in err


def test_a_dry_run_writes_nothing(pool: Path, call: Call) -> None:
    status, out, _ = call(str(pool), "--with", "length", "--dry-run")
    assert status == 0
    assert "1 of 1 files to do, 3 rows" in out
    assert not (pool / "annotations").exists()


def test_own_scores(tmp_path: Path, pool: Path, call: Call) -> None:
    pq.write_table(pa.table({"uid": [rows(1)[0][0], "f" * 32], "mine": [0.5, 1]}), tmp_path / "s.parquet")
    status, out, _ = call(str(pool), "--from", str(tmp_path / "s.parquet"), "--name", "own")
    assert status == 0
    assert "also: unknown uids 1" in out
    assert [r["mine"] for r in family(pool, "own")] == [0.5, None, None]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--with, --from: what to add?"),
        (("--with", "length", "--from", "s.parquet"), "expected one of the two"),
        (("--with", ","), "no annotator"),
        (("--with", "lenght"), "did you mean length?"),
        (("--with", "lenght"), "expected one of "),
        (("--with", "length,length"), "'length' is named twice"),
        (("--with", "length", "--set", "colour=red"), "knows no option 'colour'"),
        (("--with", "length", "--set", "column"), "--set: 'column'"),
        (("--with", "length", "--set", "bright.column=n"), "expected NAME.KEY=VALUE with one of length"),
        (("--with", "length,brightness", "--set", "column=n"), "say --set length.column=… --set brightness.column=…"),
        (("--with", "length,brightness", "--name", "x"), "whose option is that?"),
        (("--with", "length", "--precision", "bf16"), "knows no option 'precision'"),
        (("--with", "brightness", "--device", "cuda:x"), "unknown device 'cuda:x'"),
        (("--from", "s.parquet"), "--name"),
        (("--from", "s.parquet", "--name", "x", "--model", "m"), "--model says nothing of scores"),
    ],
    ids=" ".join,
)
def test_a_mistake_gets_one_message(pool: Path, call: Call, args: tuple[str, ...], message: str) -> None:
    status, out, err = call(str(pool), *args)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not (pool / "annotations").exists()


def test_flags_are_the_only_annotators_or_the_clips() -> None:
    assert choose(["length"], ["column=n"], {"name": "x"})[0][1].name == "x"
    assert [a.name for _, a in choose(["brightness:a", "brightness:b,length"], [], {})] == ["a", "b", "length"]
    with pytest.raises(InputError, match=r"b32\.weights"):
        choose(["clip:b32,length"], [], {"weights": "x"})


def test_every_annotator_is_found_and_described(call: Call) -> None:
    status, out, _ = call("--list")
    assert status == 0
    for name in catalogue.ANNOTATORS:
        at = out.splitlines().index(f"{name}:")
        assert len(out.splitlines()[at + 1].strip()) > 10
