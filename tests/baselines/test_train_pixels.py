"""From the bytes of a sample to what the model is fed with."""

from __future__ import annotations

import copy
import io
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode, RandomHorizontalFlip, RandomResizedCrop
from torchvision.transforms.functional import resized_crop, to_tensor

from baselines.train.decode import Decoder
from baselines.train.pixels import Crop, as_bytes, rgb, rgb_pixels
from baselines.train.tokens import Tokens, tokens_of
from tests.baselines.conftest import uid, write_shard, write_shards
from tests.baselines.feeding import brightness, feed, lengths, transform


def picture(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def saved(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


EXIF = Image.Exif()
EXIF[0x0112] = 6  # turned, which the reference ignores
PICTURES = {
    "plain": saved(picture(61, 47)),
    "444": saved(picture(61, 47), subsampling=0),
    "422": saved(picture(64, 33), subsampling=1, quality=95),
    "progressive": saved(picture(90, 31), progressive=True),
    "restarts": saved(picture(61, 47), restart_marker_rows=1),
    "grey": saved(picture(40, 50, "L")),
    "cmyk": saved(picture(40, 50, "CMYK")),
    "rgb": saved(picture(40, 50), keep_rgb=True),
    "turned": saved(picture(40, 50), exif=EXIF),
    "one pixel": saved(picture(1, 1)),
    "more behind": saved(picture(40, 50)) + b"\xff\xd8\xff\xd9 more",
    "png": saved(picture(40, 50), "PNG"),
    "transparent": saved(picture(40, 50, "RGBA"), "PNG"),
    "palette": saved(picture(40, 50, "P"), "PNG"),
    "webp": saved(picture(40, 50), "WEBP"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pixels_are_pillows(name: str) -> None:
    expected = np.asarray(Image.open(io.BytesIO(PICTURES[name])).convert("RGB"))
    assert np.array_equal(rgb_pixels(PICTURES[name]), expected)


def test_what_pillow_refuses_is_refused() -> None:
    whole = PICTURES["plain"]
    for bad in (
        b"",
        b"\xff\xd8\xff",
        whole[: len(whole) // 2],
        b"\xff\xd8\xff" + bytes(100),
        b"no picture",
        PICTURES["png"][:60],
    ):
        with pytest.raises(ValueError, match=r"image|truncated"):
            rgb_pixels(bad)


@pytest.mark.shared
def test_pixels_of_real_pictures_are_pillows(shared_data: Path) -> None:
    judged = 0
    for path in sorted((shared_data / "images-edge").iterdir()):
        data = path.read_bytes()
        if data[:3] != b"\xff\xd8\xff":
            continue
        try:
            expected = np.asarray(rgb(data))
        except ValueError:
            continue
        judged += 1
        assert np.array_equal(rgb_pixels(data), expected), path.name
    assert judged > 3


@pytest.mark.parametrize("name", ["plain", "grey", "png", "422"])
def test_a_crop_is_torchvisions_and_its_floats_are_to_the_bit(name: str) -> None:
    reference = transform(24)
    parts = as_bytes(reference)
    assert parts is not None
    crop, normalise = parts
    assert isinstance(crop, Crop)
    whole = Image.open(io.BytesIO(PICTURES[name])).convert("RGB")
    norm = reference.transforms[-1]
    for seed in range(5):
        top, left, height, width = crop.box(whole.height, whole.width, random.Random(seed))
        cut = resized_crop(whole, top, left, height, width, [24, 24], InterpolationMode.BICUBIC)
        pixels = torch.from_numpy(crop(PICTURES[name], seed).copy()).permute(2, 0, 1)
        assert np.array_equal(pixels.permute(1, 2, 0).numpy(), np.asarray(cut))
        assert torch.equal(normalise(pixels[None])[0], norm(to_tensor(cut)))


def test_crops_are_drawn_as_torchvision_draws_them() -> None:
    settings = ((0.5, 1.0), (0.75, 4 / 3))
    crop = Crop((8, 8), *settings, 3)
    torch.manual_seed(0)
    for width, height in ((100, 80), (37, 200)):
        image = Image.new("RGB", (width, height))
        ours = np.array([crop.box(height, width, random.Random(i)) for i in range(800)], float)
        theirs = np.array([RandomResizedCrop.get_params(image, *map(list, settings)) for _ in range(800)], float)
        spread = theirs.std(axis=0) * (2 / 800) ** 0.5
        assert (abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 4 * spread).all()
        assert ours.std(axis=0) == pytest.approx(theirs.std(axis=0), rel=0.12)
        assert (ours[:, 0] + ours[:, 2] <= height).all() and (ours[:, 1] + ours[:, 3] <= width).all()
    small = np.array([crop.box(12, 10, random.Random(i)) for i in range(400)])
    for at, side in ((0, 12), (1, 10)):  # from the first row or column to the last
        part = small[small[:, at + 2] < side]
        assert part[:, at].min() == 0 and (part[:, at] + part[:, at + 2]).max() == side
    for size in ((1000, 10), (10, 1000), (1, 1)):  # of which no drawn part fits
        expected = RandomResizedCrop.get_params(Image.new("RGB", size), *map(list, settings))
        assert crop.box(size[1], size[0], random.Random(0)) == expected


def test_a_decoder_leaves_bytes_side_by_side(tmp_path: Path) -> None:
    data = write_shard(tmp_path / "d" / "0.tar", {uid(i): {"jpg": PICTURES[n], "txt": b"t"} for i, n in enumerate(PICTURES)})
    quick, slow = Decoder(transform(8), lengths, uint8=True), Decoder(transform(8), lengths)
    batch = feed(data, decoder=quick).take(20)
    assert batch.images.dtype is torch.uint8 and batch.images.shape == (20, 3, 8, 8)
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    floats = feed(data, decoder=slow).take(20)
    assert floats.images.dtype is torch.float32 and floats.uids == batch.uids
    assert quick.by_itself and not slow.by_itself
    assert quick.normalise(batch.images).mean() == pytest.approx(floats.images.mean().item(), abs=0.1)
    assert slow.normalise(floats.images) is floats.images
    assert pickle.loads(pickle.dumps(quick)).normalise == quick.normalise  # noqa: S301


def test_other_transforms_stay_as_they_are(tmp_path: Path) -> None:
    steps = transform(8).transforms
    flipped = type(transform(8))([*steps[:2], RandomHorizontalFlip(), *steps[2:]])
    data = write_shards(tmp_path / "d", list(range(12)))
    batches = [feed(data, decoder=Decoder(flipped, lengths, uint8=u)).take(12) for u in (True, False)]
    assert batches[0].images.dtype is torch.uint8
    normalise = Decoder(flipped, lengths, uint8=True).normalise
    assert torch.equal(normalise(batches[0].images), batches[1].images)  # the same draws, at that
    assert as_bytes(type(transform(8))(steps[:3])) is None and as_bytes(brightness) is None
    assert isinstance(Decoder(brightness, lengths, uint8=True).normalise(torch.ones(1)), Tensor)


TEXTS = [
    "A dog on the BEACH's edge, isn't it? 3.5m (x2)  tab\there",
    "",
    "   ",
    "caf\u00e9 na\u00efve \u2014 \u201cquoted\u201d",
    "Tom &amp; Jerry &lt;3",
    "a" * 300,
    "word " * 100,
    "\u72ac\u304c\u8d70\u308b",
    "new\nline\r\nand <start_of_text> <end_of_text>",
    "\x1b[31mred\x1b[0m",
    "sch\u00c3\u00b6n",
    "!!??...###",
    "I'LL we'Ve 12th",
]


def tokenizer() -> Any:
    """Of its own state, without reading the vocabulary anew."""
    made = copy.copy(open_clip.tokenizer._tokenizer)
    made.cache = dict(made.cache)
    return made


def test_tokens_are_open_clips() -> None:
    rng = random.Random(0)
    printable = [chr(c) for c in range(32, 127)]
    texts = TEXTS + ["".join(rng.choices(printable, k=rng.randrange(1, 60))) for _ in range(300)]
    reference, other = tokenizer(), tokenizer()
    for length in (16, 77):
        reference.context_length = other.context_length = length
        quick = tokens_of(other)
        assert isinstance(quick, Tokens)
        for _ in range(2):  # the second time they are looked up
            assert torch.equal(quick(texts), reference(texts))


def test_words_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baselines.train.tokens._WORDS", 5)
    quick = Tokens(tokenizer())
    assert torch.equal(quick(TEXTS), tokenizer()(TEXTS))
    assert len(quick._known) <= 5


def test_other_tokenizers_stay_as_they_are() -> None:
    cleaned, reduced = tokenizer(), tokenizer()
    cleaned.clean_fn = open_clip.tokenizer.get_clean_fn("canonicalize")
    reduced.reduction_fn = open_clip.tokenizer.simple_mask_tokenize
    for other in (cleaned, reduced, lengths):
        assert tokens_of(other) is other
