"""CLIP's ways of being quick give what open_clip's own ways give: pixels within a level, features within rounding."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("open_clip")

import open_clip
import torch
from open_clip.transform import PreprocessCfg
from PIL import Image
from torchvision.transforms import CenterCrop, InterpolationMode, Resize

from pipeline.annotate.annotator import Unscored
from pipeline.annotate.chosen import choose
from pipeline.annotate.clip import clip as clip_module
from pipeline.annotate.clip.clip import Clip, make_clip
from pipeline.annotate.clip.images import Transform
from pipeline.annotate.clip.texts import TextTower
from pipeline.annotate.pictures.picture import Picture
from pools.errors import InputError
from tests.pipeline.annotating import jpeg
from tests.pipeline.samples import FakeSample

CONFIG: dict[str, Any] = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8},
    "text_cfg": {"context_length": 40, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TEXTS = [
    "a dog",
    "",
    "word " * 90,
    "a cat on a mat in front of a house with a red door",
    "dog",
    "🙂",
    "a b c d e f g",
]  # the last ends at its ninth token


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model's config and weights, as options."""
    folder = tmp_path_factory.mktemp("clip")
    config = folder / "small-for-clip.json"
    config.write_text(json.dumps(CONFIG))
    open_clip.add_model_config(config)
    torch.manual_seed(0)
    torch.save(open_clip.create_model("small-for-clip").state_dict(), folder / "weights.pt")
    return {"name": "small", "model": str(config), "pretrained": str(folder / "weights.pt")}


def smooth(width: int, height: int) -> bytes:
    """A JPEG of large soft shapes with some edges, as photographs have them."""
    rng = np.random.default_rng(width)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    pixels = np.array(coarse)
    pixels[height // 3 : height // 2, width // 4 : width // 3] = (250, 20, 20)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def plain(pixels: Any, size: int, interpolation: InterpolationMode = InterpolationMode.BICUBIC) -> Any:
    """What open_clip's transform makes of a picture before it becomes floats."""
    return np.asarray(CenterCrop(size)(Resize(size, interpolation)(Image.fromarray(pixels)))).astype(int)


def transform(size: int, **changes: Any) -> Transform:
    return Transform({**asdict(PreprocessCfg()), "size": size, **changes})


@pytest.mark.parametrize("shape", [(30, 40), (224, 224), (301, 500), (640, 427), (20, 1500), (32, 33)], ids=str)
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_squares_are_at_most_a_level_from_pillows(shape: tuple[int, int], interpolation: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    mode = InterpolationMode(interpolation)
    for size in (32, 224):
        square = transform(size, interpolation=interpolation).square(pixels)
        assert square.shape == (size, size, 3)
        difference = np.abs(square - plain(pixels, size, mode))
        assert difference.max() <= (1 if size < min(shape) else 2)
        assert difference.mean() < 0.03


@pytest.mark.parametrize("way", [{"resize_mode": "squash"}, {"resize_mode": "longest"}, {"size": (32, 48)}], ids=str)
def test_other_ways_are_open_clips_own(way: dict[str, Any]) -> None:
    from open_clip.transform import image_transform_v2

    pixels = np.random.default_rng(0).integers(0, 256, (50, 90, 3), np.uint8)
    made = transform(**{"size": 32, **way})
    assert made.min_side is None
    expected = image_transform_v2(PreprocessCfg(**{"size": 32, **way}), is_train=False)(Image.fromarray(pixels))
    assert torch.equal(made.batch([made.square(pixels)], "cpu")[0], expected)


def test_batches_are_normalised_to_the_bit() -> None:
    from torchvision.transforms import Compose, Normalize, ToTensor

    config = PreprocessCfg()
    squares = [np.random.default_rng(i).integers(0, 256, (32, 32, 3), np.uint8) for i in range(3)]
    expected = torch.stack([Compose([ToTensor(), Normalize(config.mean, config.std)])(s) for s in squares])
    assert torch.equal(transform(32).batch(squares, "cpu"), expected)


# Sizes that are no multiples of 2, 4 or 8 are where a reduced picture's last pixels stand for less.
@pytest.mark.parametrize(("width", "height", "reduced"), [(257, 133, 2), (391, 259, 4), (771, 1025, 8), (126, 200, 1)])
def test_reduced_pictures_stay_close_to_whole_ones(width: int, height: int, reduced: int) -> None:
    picture, size = Picture(smooth(width, height)), 32
    made = transform(size)
    few = picture.pixels(made.min_side)
    assert few.shape == (-(-height // reduced), -(-width // reduced), 3)
    assert picture.size() == (width, height)
    difference = np.abs(made.square(few, picture.size()) - plain(picture.pixels(), size))
    assert difference.mean() < 1.5
    assert difference.max() <= 32


@pytest.mark.shared
def test_reduced_photographs_stay_close_to_whole_ones(shared_data: Path) -> None:
    size, made, means, highest = 96, transform(96), [], 0
    for path in sorted((shared_data / "coco-mini").glob("**/*.jpg")):
        picture = Picture(path.read_bytes())
        few = picture.pixels(made.min_side)
        if few.shape != picture.pixels().shape:
            difference = np.abs(made.square(few, picture.size()) - plain(picture.pixels(), size))
            means.append(difference.mean())
            highest = max(highest, int(difference.max()))
    assert len(means) > 20
    assert max(means) < 1.5
    assert highest <= 32


def test_a_turned_picture_is_decoded_whole_and_upright() -> None:
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # the top is at the right
    Image.open(io.BytesIO(smooth(400, 200))).save(out, "JPEG", exif=exif, quality=95)
    picture = Picture(out.getvalue())
    assert picture.pixels(40).shape == (400, 200, 3)
    assert picture.size() == (200, 400)


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.usefixtures("files")
def test_short_texts_have_the_features_of_padded_ones(custom: bool) -> None:
    torch.manual_seed(0)
    model = open_clip.create_model("small-for-clip", force_custom_text=custom).eval()
    tokens = open_clip.get_tokenizer("small-for-clip")(TEXTS).numpy()
    seen: list[int] = []
    tower = TextTower(model)
    model_layers = getattr(model, "text", model).transformer
    model_layers.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    with torch.inference_mode():
        expected = model.encode_text(torch.from_numpy(tokens), normalize=True)
        seen.clear()
        found = tower.encode(tokens, "cpu")
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)
    assert seen == [8, 16, 40]


def test_texts_whose_attention_looks_ahead_keep_their_padding(tmp_path: Path) -> None:
    config = tmp_path / "small-looking-ahead.json"
    config.write_text(json.dumps({**CONFIG, "text_cfg": {**CONFIG["text_cfg"], "no_causal_mask": True}, "custom_text": True}))
    open_clip.add_model_config(config)
    torch.manual_seed(0)
    model = open_clip.create_model("small-looking-ahead").eval()
    tokens = open_clip.get_tokenizer("small-looking-ahead")(TEXTS).numpy()
    with torch.inference_mode():
        expected = model.encode_text(torch.from_numpy(tokens), normalize=True)
        assert torch.equal(TextTower(model).encode(tokens, "cpu"), expected)


def test_features_alone_and_in_a_batch(files: dict[str, str]) -> None:
    model = make_clip(files).load("cpu", 1)
    samples = [FakeSample(t or "x", picture=Picture(jpeg(i)).pixels()) for i, t in enumerate(TEXTS)]
    inputs = [model.prepare(s) for s in samples]
    together, single = model.annotate(inputs), [model.annotate([i]) for i in inputs]
    assert together.arrays is not None
    for name in ("small_img", "small_txt"):
        np.testing.assert_allclose(
            together.arrays[name], np.concatenate([s.arrays[name] for s in single if s.arrays]), atol=1e-6
        )
        np.testing.assert_allclose(np.linalg.norm(together.arrays[name], axis=1), 1, atol=1e-6)
    scores = np.asarray(together.columns["clip_small_similarity_score"])
    np.testing.assert_allclose(scores, (together.arrays["small_img"] * together.arrays["small_txt"]).sum(1), atol=1e-6)


def test_bf16_is_close_and_said(files: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(clip_module, "_BF16", {"no_processor_has_this"})
    exact, rounded = make_clip(files), make_clip({**files, "precision": "bf16"})
    assert exact.header()["precision"] == "fp32"
    assert rounded.header() == {**exact.header(), "precision": "bf16"}
    sample = FakeSample("a dog", picture=Picture(jpeg(1)).pixels())
    vectors = []
    for clip in (exact, rounded):
        model = clip.load("cpu", 1)
        arrays = model.annotate([model.prepare(sample)]).arrays
        assert arrays is not None
        vectors.append(arrays["small_img"][0])
    assert "bf16 takes longer" in capsys.readouterr().err
    assert 0.999 < float(vectors[0] @ vectors[1]) < 1 - 1e-7
    with pytest.raises(InputError, match="fp16 is for GPUs"):
        make_clip({**files, "precision": "fp16"}).load("cpu", 1)


# T50: pictures alone, when that is said
def test_pictures_alone(files: dict[str, str]) -> None:
    clip = make_clip({**files, "text": "false"})
    assert (clip.reads, clip.fields, clip.arrays) == ((), (), {"small_img": 32})
    model, both = clip.load("cpu", 1), make_clip(files).load("cpu", 1)
    pixels = Picture(jpeg(1)).pixels()
    alone = model.annotate([model.prepare(FakeSample(None, picture=pixels))])
    with_text = both.annotate([both.prepare(FakeSample("a dog", picture=pixels))])
    assert alone.columns == {}
    assert alone.arrays is not None
    assert with_text.arrays is not None
    np.testing.assert_array_equal(alone.arrays["small_img"], with_text.arrays["small_img"])
    with pytest.raises(Unscored, match="no_text"):
        both.prepare(FakeSample(" \n", picture=pixels))


def test_flags_are_the_clips_where_there_are_several_annotators(files: dict[str, str]) -> None:
    chosen = choose(["language,clip"], [], dict(files))
    assert [a.name for _, a in chosen] == ["language", "small"]
    assert chosen[1][1] == make_clip(files)


def test_options_are_checked_and_named(files: dict[str, str]) -> None:
    def refused(**options: str) -> str:
        with pytest.raises(InputError) as e:
            make_clip(options)
        return str(e.value)

    assert "model" in refused(name="x")
    assert "--name" in refused(model="ViT-B-32", pretrained="x.pt")
    assert "colour" in refused(**files, colour="red")
    assert "fp32, bf16, fp16" in refused(**files, precision="int8")
    assert "reduced, full" in refused(**files, decode="half")
    assert "true or false" in refused(**files, text="no")
    assert make_clip({k if k != "pretrained" else "weights": v for k, v in files.items()}) == make_clip(files)
    whole = make_clip({**files, "decode": "full"})
    assert whole != make_clip(files)
    assert whole.header() != make_clip(files).header()
    sample = FakeSample("a", picture=Picture(smooth(300, 200)).pixels())
    for clip, asked in ((whole, None), (make_clip(files), 64)):
        sample.asked.clear()
        clip.load("cpu", 1).prepare(sample)
        assert sample.asked[0] == asked
    assert isinstance(whole, Clip)
    assert hash(whole)


def archive(folder: Path, config: dict[str, Any], *, half: bool) -> tuple[str, str, Any]:
    """A config, a TorchScript archive as OpenAI published CLIP, and the model that is in it."""
    path = folder / "published-for-clip.json"
    path.write_text(json.dumps(config))
    open_clip.add_model_config(path)
    torch.manual_seed(1)
    model = open_clip.create_model("published-for-clip").eval()
    if half:
        model = model.half().float()  # numbers that 16 bits hold
    model.register_buffer("input_resolution", torch.tensor(32))  # a number that is no weight
    inputs = {"encode_image": torch.zeros(1, 3, 32, 32), "encode_text": torch.ones(1, 40, dtype=torch.int64)}
    with torch.no_grad():
        traced = torch.jit.trace_module(model, inputs, check_trace=False)  # type: ignore[no-untyped-call]
        traced.save(folder / "published.pt")
    return str(path), str(folder / "published.pt"), model


def test_a_network_with_its_code_gives_its_weights_and_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, weights, model = archive(tmp_path, CONFIG, half=True)
    monkeypatch.setattr(torch.jit, "load", None)
    loaded = make_clip({"name": "x", "model": config, "pretrained": weights}).load("cpu", 1)._model.state_dict()
    expected = {name: value for name, value in model.state_dict().items() if name != "input_resolution"}
    assert loaded.keys() == expected.keys()
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())
    wider = tmp_path / "wider.json"
    wider.write_text(json.dumps({**CONFIG, "embed_dim": 48}))
    with pytest.raises(InputError, match=r"published\.pt: cannot be read as weights of wider\.json"):
        make_clip({"name": "x", "model": str(wider), "pretrained": weights}).load("cpu", 1)


def test_published_models_come_with_their_architecture(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="clip-vit-b32"):  # not here, and nothing is fetched
        make_clip({"model": "clip-vit-b32"})
    (tmp_path / "b.pt").write_bytes(b"weights")
    clip = make_clip({"model": "clip-vit-b32", "weights": str(tmp_path / "b.pt")})
    assert (clip.name, clip.files.architecture) == ("b32", "ViT-B-32-quickgelu")
    assert make_clip({"model": "clip-vit-l14", "weights": str(tmp_path / "b.pt"), "name": "mine"}).name == "mine"
