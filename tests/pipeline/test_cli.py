"""The command line: help that teaches, one message for a mistake, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline import lists
from pipeline.cli import app, main, recipe_path
from pools import uids

COMMANDS = [[c.name or str(c.callback.__name__)] for c in app.registered_commands if c.callback]
COMMANDS += [["uids", str(c.callback.__name__)] for c in lists.app.registered_commands if c.callback]


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `winnow ARGS`, in this process."""
    monkeypatch.setattr(sys, "argv", ["winnow", *args])
    with pytest.raises(SystemExit) as stop:
        main()
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="winnow")
    assert done.exit_code == 0
    assert "Example:" in done.output
    assert f"winnow {' '.join(command)}" in " ".join(done.output.split())


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    table = {
        "uid": [f"{i:032x}" for i in range(4)],
        "text": ["a dog runs in the park", "a dog", "photo of a red house", None],
        "original_width": pa.array([640, 640, 100, 640], pa.int32()),
        "original_height": pa.array([480] * 4, pa.int32()),
    }
    (tmp_path / "pool").mkdir()
    pq.write_table(pa.table(table), tmp_path / "pool" / "0.parquet")
    return tmp_path / "pool"


def test_a_filter_run_prints_a_funnel_that_adds_up(
    tmp_path: Path, pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    status, said, _ = call(monkeypatch, capsys, "filter", "basic", str(pool), "--output", out, "--workers", "0")
    assert status == 0
    lines = [line.split() for line in said.splitlines()]
    assert ["in", "4", "100.0", "%"] in lines
    assert ["dropped", "0-image_size", "1", "25.0", "%"] in lines
    assert ["dropped", "1-caption", "2", "50.0", "%"] in lines
    assert ["kept", "1", "25.0", "%"] in lines
    status, said, _ = call(monkeypatch, capsys, "filter", "basic", str(pool), "--output", out, "--json")
    assert json.loads(said)["counts"]["kept"] == 1
    status, said, _ = call(monkeypatch, capsys, "filter", "basic", str(pool), "--output", out, "--quiet")
    assert (status, said) == (0, "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("filter", "nosuch", "{pool}", "--output", "{out}"), "nosuch: no such recipe"),
        (("filter", "basic", "{out}", "--output", "{out}2"), "no such folder; expected a pool"),
        (("filter", "clip_score_l14_30", "{pool}", "--output", "{out}"), "no column 'clip_l14_similarity_score'"),
        (("filter", "basic", "{pool}", "--output", "{out}", "--engine", "dask"), "dask"),
        (("filter", "basic", "{pool}"), "--output"),
        (("reshard", "{pool}", "{out}.npy", "--output", "{out}"), "no such uid list"),
        (("uids", "info", "{out}.xlsx"), "unknown kind of file .xlsx"),
        (("download", "{pool}", "--output", "{out}"), "shards"),
        (("extract", "{out}/nothing*.gz", "--output", "{out}"), "nothing*.gz"),
        (("replay", "{out}/no.warc"), "no.warc"),
        (("train", "--data", "{out}", "--output", "{out}2", "--scale", "gigantic"), "gigantic"),
        (("score", "--evals", "{out}"), "no model"),
    ],
    ids=lambda a: " ".join(a[:2]) if isinstance(a, tuple) else "",
)
def test_a_mistake_gets_one_message_and_exit_2(
    tmp_path: Path,
    pool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    message: str,
) -> None:
    names = {"pool": str(pool), "out": str(tmp_path / "out")}
    status, _, err = call(monkeypatch, capsys, *(a.format(**names) for a in args))
    assert status == 2
    assert message.format(**names) in err
    assert "Traceback" not in err


def test_recipes_are_found_by_name_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Path(recipe_path("basic")).name == "basic.yaml"
    assert recipe_path("../recipes/basic") == "../recipes/basic"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "basic").write_text("keep: []")
    assert recipe_path("basic") == "basic"
    status, said, _ = call(monkeypatch, capsys, "recipes")
    assert status == 0
    assert {line.split()[0] for line in said.splitlines()} >= {"no_filter", "basic", "clip_score_l14_30"}


# T71, T98
def test_uids_are_combined_converted_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, members in (("a", "123"), ("b", "325")):
        Path(f"{name}.txt").write_text("".join(f"0000000000000000000000000000000{m}\n" for m in members))
        assert call(monkeypatch, capsys, "uids", "convert", f"{name}.txt", "--output", f"{name}.npy")[0] == 0
    expected = {"intersect": "23", "union": "1235", "minus": "1"}
    for operation, members in expected.items():
        assert call(monkeypatch, capsys, "uids", operation, "a.npy", "b.npy", "--output", "c.csv")[0] == 0
        assert [line.strip('"')[-1] for line in Path("c.csv").read_text().split()[1:]] == list(members)
    assert "3 uids of dtype u8,u8, sorted" in call(monkeypatch, capsys, "uids", "verify", "a.npy")[1]
    assert "distinct  3" in call(monkeypatch, capsys, "uids", "info", "a.npy")[1]
    np.save("bad.npy", uids.read_list("a.npy")[::-1])
    assert call(monkeypatch, capsys, "uids", "verify", "bad.npy")[0] == 2


# T126
def test_the_doctor_finds_this_environment_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, capsys, "doctor")[:1] == (0,)


# T126
@pytest.mark.parametrize(
    ("module", "extra", "command"),
    [("torch", "train", "train --data x"), ("msgspec", "extract", "extract x"), ("urllib3", "download", "download x")],
)
def test_a_missing_extra_is_one_message(tmp_path: Path, module: str, extra: str, command: str) -> None:
    arguments = ["winnow", *command.split(), "--output", str(tmp_path / "shards")]
    # In a process of its own: the modules that are tried are loaded in this one.
    program = f"import sys; sys.modules[{module!r}] = None; sys.argv = {arguments!r}; from pipeline.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"winnow: {module} is not installed, which the extra {extra!r} brings\n" + (
        f"  → pip install -e '.[{extra}]', in the checkout\n"
    )


# T126
def test_an_extra_that_is_missed_in_a_worker_is_the_same_message(
    tmp_path: Path, pool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from filters import lid, models

    models._model.cache_clear()
    monkeypatch.setattr(lid, "_asked", 0)  # a process that has judged many captions needs fastText no longer
    monkeypatch.setitem(sys.modules, "fasttext", None)
    status, _, err = call(monkeypatch, capsys, "filter", "basic", str(pool), "-o", str(tmp_path / "out"), "--workers", "0")
    assert status == 2
    assert err.endswith(
        "fasttext is not installed, which the extra 'filter' brings\n  → pip install -e '.[filter]', in the checkout\n"
    )


# T126
def test_the_doctor_names_what_is_missing_and_what_clashes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    from pipeline import doctor

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    assert call(monkeypatch, capsys, "doctor")[:1] == (0,)
    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"filters": ["winnow", "filters"]})
    status, said, _ = call(monkeypatch, capsys, "doctor")
    assert status == 1
    assert "filters also installs a package 'filters'" in said
    assert "train: no torch\n           → pip install -e '.[train]'" in said


def test_it_says_its_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    version = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
    assert call(monkeypatch, capsys, "--version") == (0, f"winnow {version}\n", "")


def test_the_module_runs_from_a_checkout() -> None:
    done = subprocess.run([sys.executable, "-m", "pipeline.cli", "recipes"], capture_output=True, text=True, check=True)
    assert "no_filter" in done.stdout
