"""What is said of evaluation data before anything is scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from baselines.score.evals.check import check
from pipeline.cli import app
from pools.errors import InputError
from tests.baselines.conftest import write_task


def test_every_task_is_complete_or_told_what_it_lacks(tmp_path: Path) -> None:  # T114
    write_task(tmp_path / "wds_cifar10_test", [0, 1, 2], names="red\ngreen\nblue\n")
    (write_task(tmp_path / "wds_stl10_test", [0, 1, 2]) / "test" / "1.tar").unlink()
    write_task(tmp_path / "wds_wilds-fmow_test", [0, 1])
    write_task(tmp_path / "wds_own_test", [0, 1])
    (write_task(tmp_path / "wds_parts_test", [0]) / "dataset_type.txt").write_text("segmentation\n")
    (write_task(tmp_path / "wds_mnist_test", [0]) / "dataset_type.txt").write_text("retrieval\n")
    found = {c.task.key: c for c in check(str(tmp_path))}
    assert list(found)[40:] == ["own", "parts"] and len(found) == 42
    assert (found["cifar10"].images, found["cifar10"].obstacle, found["cifar10"].note) == (
        3,
        "",
        "the whole test set has 10,000",
    )
    assert "missing 1.tar" in found["stl10"].obstacle
    assert ".npy" in found["wilds/fmow"].obstacle
    assert found["food101"].obstacle == "no such folder"
    assert "'retrieval', but mnist is measured by acc1" in found["mnist"].obstacle
    assert (found["own"].images, found["own"].missing) == (2, False)
    assert found["parts"].obstacle and not found["parts"].missing  # which nobody counts
    assert not found["fairness/fairface"].missing  # neither
    assert sum(c.missing for c in found.values()) == 37


def test_the_command(tmp_path: Path) -> None:
    write_task(tmp_path / "wds_cifar10_test", [0, 1, 2])
    done = CliRunner().invoke(app, ["evals", "check", str(tmp_path)])
    assert done.exit_code == 1
    assert "1 of the 38 tasks that count are complete" in done.output
    assert "ok       cifar10" in done.output and "MISSING  vtab/pets" in done.output
    told = json.loads(CliRunner().invoke(app, ["evals", "check", str(tmp_path), "--json"]).output)
    assert told["tasks"]["cifar10"] == {"images": 3, "obstacle": None, "note": "the whole test set has 10,000"}
    assert len(told["missing"]) == 37
    with pytest.raises(InputError, match="no such folder"):
        list(check(str(tmp_path / "none")))


def test_other_suites(tmp_path: Path) -> None:
    write_task(tmp_path / "wds_vtab-pets_test", [0, 1, 2, 0])
    write_task(tmp_path / "wds_own_test", [0])
    found = {c.task.key: c for c in check(str(tmp_path), "within")}
    assert (found["image_to_image/pets"].images, found["image_to_image/pets"].obstacle) == (4, "")
    assert len(found) == 5 and sum(c.missing for c in found.values()) == 4
    done = CliRunner().invoke(app, ["evals", "check", str(tmp_path), "--suite", "within"])
    assert done.exit_code == 1 and "1 of the 5 tasks that count are complete" in done.output
