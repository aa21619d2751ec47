"""The benchmarks of the trainer run as they are; what they measure is not looked at here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.train.model import new_model
from tests.benchmarks import train_gpu


@pytest.mark.parametrize(("name", "gmacs"), [("ViT-B-32", 7.40), ("ViT-B-16", 20.57)])
def test_operations_of_a_model_are_the_published_ones(name: str, gmacs: float) -> None:
    from open_clip import get_model_config

    config = get_model_config(name)
    # The papers' tools leave the products within attention out, or not; these are 2 %.
    assert train_gpu.forward_flops(config) / 2e9 == pytest.approx(gmacs, rel=0.03)
    assert train_gpu.forward_flops(new_model("winnow-vit-tiny").config) > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)  # several processes that import PyTorch, on machines with much else to do
def test_the_gpu_script_runs_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    train_gpu.main(["--tiny", "--json", str(figures)])
    said = capsys.readouterr().out
    assert "of the matrix product's rate" in said and "times as fast as open_clip_train" in said
    found = json.loads(figures.read_text())["winnow-vit-tiny"]
    assert found.keys() == {"forward and backward, resident", "winnow", "open_clip_train"} and min(found.values()) > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)  # several processes that import PyTorch, on machines with much else to do
def test_the_cpu_script_compares_both_trainers() -> None:
    options = "--model winnow-vit-tiny --batch 8 --few 1 --many 4 --shards 2 --rows 40 --rounds 1 --ours 0 --peer 1:1"
    said = python("-m", "tests.benchmarks.train", *options.split())
    assert said.count("samples/s after start-up") == 2 and "the whole process: " in said
    heavy = "sys.modules.keys() & {'img2dataset', 'pyspark'}"
    assert python("-c", f"import sys, tests.benchmarks.train, tests.benchmarks.train_gpu; print({heavy})") == "set()\n"


def python(*given: str) -> str:
    """What python says, from the checkout."""
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, *given], capture_output=True, text=True, cwd=root, check=True).stdout
