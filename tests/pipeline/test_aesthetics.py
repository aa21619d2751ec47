"""A linear head on features that a pool has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from pipeline.annotate.clip.aesthetics import make_aesthetics, read_head
from pools.errors import InputError
from tests.pipeline.samples import FakeSample, answers, reason


def head(folder: Path, name: str = "head.npz") -> str:
    np.savez(folder / name, weight=np.array([[3.0, -1.0, 0.5]]), bias=np.array([5.0]))
    return str(folder / name)


def test_the_score_is_that_of_the_direction(tmp_path: Path) -> None:
    annotator = make_aesthetics({"weights": head(tmp_path)})
    assert (annotator.reads, annotator.wants_image) == (("l14_img",), False)
    model = annotator.load("cpu", 1)
    vectors = [np.array([1, 0, 0], np.float16), [0.0, 2.0, 0.0], np.array([0, 3, 4], np.float32)]
    found = answers(model, [FakeSample(columns={"l14_img": v}) for v in vectors])
    np.testing.assert_allclose(found["aesthetics_score"], [8.0, 4.0, 5 - 0.6 + 0.4], atol=1e-6)
    assert reason(model, FakeSample(columns={"l14_img": None})) == "no_features"
    assert reason(model, FakeSample(columns={"l14_img": np.zeros(3)})) == "no_features"  # T53: as rows have that had no score
    with pytest.raises(InputError, match="'l14_img' has vectors of 2 numbers; expected 3"):
        model.prepare(FakeSample(columns={"l14_img": np.ones(2)}))


def test_layers_one_after_the_other_are_one(tmp_path: Path) -> None:
    # As improved-aesthetic-predictor's are: linear layers with dropout in between, and nothing else.
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(), torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)).eval()
    saved = {f"layers.{name}": tensor for name, tensor in reversed(layers.state_dict().items())}
    torch.save(saved, tmp_path / "deep.pth")
    torch.save(torch.nn.Linear(6, 1).state_dict(), tmp_path / "flat.pth")
    vectors = torch.randn(5, 6)
    with torch.inference_mode():
        expected = layers(vectors)[:, 0].numpy()
    weight, bias = read_head(str(tmp_path / "deep.pth"))
    np.testing.assert_allclose(vectors.numpy() @ weight + bias, expected, atol=1e-6)
    assert read_head(str(tmp_path / "flat.pth"))[0].shape == (6,)


def test_a_file_that_is_no_head(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no weights of its own"):
        make_aesthetics({})
    np.savez(tmp_path / "two.npz", weight=np.ones((2, 3)), bias=np.ones(1))
    unfit = {"a.weight": np.ones((2, 3)), "a.bias": np.ones(2), "b.weight": np.ones((1, 3)), "b.bias": np.ones(1)}
    torch.save({name: torch.from_numpy(array) for name, array in unfit.items()}, tmp_path / "unfit.pth")
    torch.save({"weight": torch.ones(1, 3)}, tmp_path / "half.pth")
    np.savez(tmp_path / "none.npz", other=np.ones(3))
    torch.save(torch.nn.Linear(3, 1), tmp_path / "whole.pth")  # code, which is not loaded
    torch.save([1, 2], tmp_path / "list.pth")
    (tmp_path / "text.pth").write_text("not found")
    for name in ("two.npz", "unfit.pth", "half.pth", "none.npz", "whole.pth", "list.pth", "text.pth"):
        with pytest.raises(InputError, match=rf"{name}: (no such head|cannot be read)"):
            make_aesthetics({"weights": str(tmp_path / name)}).load("cpu", 1)
