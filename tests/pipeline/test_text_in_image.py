"""Text in pictures: cards on which it is known what stands where, and photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from PIL import Image, ImageDraw, ImageFont

from filters import models
from pipeline.annotate.annotator import Model, Pixels
from pipeline.annotate.pictures.ocr import Reader, spelled
from pipeline.annotate.pictures.text_in_image import make_text_in_image
from pools.errors import InputError
from tests.pipeline.samples import FakeSample, answers, reason

FOLDER = models.folder() / "rapidocr_onnxruntime" / "models"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="PP-OCRv4 is not installed")
PAPER, INK = (240, 240, 230), (20, 20, 60)


@pytest.fixture(scope="module")
def model() -> Model:
    return make_text_in_image({"weights": str(FOLDER)}).load("cpu", 1)


def card(*lines: tuple[str, tuple[int, int], int], size: tuple[int, int] = (640, 360), turned: float = 0) -> Pixels:
    """Lines of text, each with the place of its upper left corner and the height of its letters, on paper."""
    picture = Image.new("RGB", size, PAPER)
    for text, place, height in lines:
        ImageDraw.Draw(picture).text(place, text, INK, ImageFont.load_default(height))
    return np.asarray(picture.rotate(turned, Image.Resampling.BICUBIC, fillcolor=PAPER))


def test_lines_are_read_in_order(model: Model) -> None:
    right, left = ("12 May", (400, 200), 40), ("Saturday", (60, 206), 40)
    found = answers(model, [FakeSample(picture=card(right, left, ("Grand opening", (60, 60), 48)))])
    assert list(found["text_in_image"]) == ["Grand opening\nSaturday\n12 May"]
    assert list(found["text_in_image_lines"]) == [3]


def test_the_area_is_that_of_the_lines(model: Model) -> None:
    picture = card(("READABLE WORDS", (40, 100), 60))
    ys, xs = np.nonzero((picture != PAPER).any(axis=2))
    tight = (np.ptp(ys) + 1) * (np.ptp(xs) + 1) / (picture.shape[0] * picture.shape[1])
    alone, twice = (
        answers(model, [FakeSample(picture=p)])["text_in_image_area"][0]
        for p in (picture, card(("READABLE WORDS", (40, 40), 60), ("READABLE WORDS", (40, 220), 60)))
    )
    assert tight < alone < 1.7 * tight  # a box leaves some air around the letters
    assert twice == pytest.approx(2 * alone, rel=0.1)


@pytest.mark.parametrize(("turned", "size"), [(12, (640, 360)), (90, (480, 640))])
def test_a_line_that_is_not_level(model: Model, turned: float, size: tuple[int, int]) -> None:
    picture = card(("Tilted words", (160, size[1] // 2 - 24), 48), size=size, turned=-turned if turned == 90 else turned)
    assert list(answers(model, [FakeSample(picture=picture)])["text_in_image"]) == ["Tilted words"]


# T53: a picture without text is judged, and has none
@pytest.mark.parametrize("size", [(640, 360), (1, 1), (900, 8)])
def test_a_picture_without_text(model: Model, size: tuple[int, int]) -> None:
    found = answers(model, [FakeSample(picture=card(size=size))])
    assert {k: list(v) for k, v in found.items()} == {
        "text_in_image": [""],
        "text_in_image_lines": [0],
        "text_in_image_area": [0],
    }


def test_a_picture_is_read_as_in_any_company(model: Model) -> None:
    pictures = [card((t, (40, 80), 40), size=(640, 200)) for t in ("one", "a line that is much longer than others")]
    together = answers(model, [FakeSample(picture=p) for p in pictures])
    for i in (0, 1):
        alone = answers(model, [FakeSample(picture=pictures[i])])
        assert {k: list(v) for k, v in alone.items()} == {k: [v[i]] for k, v in together.items()}


def test_large_pictures_are_looked_at_in_the_same_size(model: Model) -> None:
    picture = card(("Large print", (60, 120), 64))
    large = np.asarray(Image.fromarray(picture).resize((2560, 1440), Image.Resampling.BICUBIC))
    found = answers(model, [FakeSample(picture=picture), FakeSample(picture=large)])
    assert list(found["text_in_image"]) == ["Large print"] * 2
    assert found["text_in_image_area"][0] == pytest.approx(found["text_in_image_area"][1], rel=0.05)


def test_steps_to_letters() -> None:
    steps = np.array([[0.9, 0.1, 0], [0.1, 0.6, 0.3], [0, 0.7, 0.3], [0.9, 0.1, 0], [0.2, 0.8, 0], [0, 0.4, 0.6]], np.float32)
    text, score = spelled(steps, ["", "a", "b"])
    assert text == "aab"
    assert score == pytest.approx((0.6 + 0.8 + 0.6) / 3)
    assert spelled(steps[:1], ["", "a", "b"]) == ("", 0.0)


def test_what_has_no_picture_or_no_network(model: Model, tmp_path: Path) -> None:
    assert reason(model, FakeSample("a dog")) == "no_image"
    with pytest.raises(InputError, match="expected a model in ONNX"):
        make_text_in_image({"weights": str(tmp_path)}).load("cpu", 1)
    with pytest.raises(InputError, match="text_in_image knows no option 'model'"):
        make_text_in_image({"model": "x"})


@pytest.mark.shared
@pytest.mark.slow
def test_what_stands_in_photographs(shared_data: Path) -> None:
    reader = Reader(str(FOLDER), "cpu", 1)
    said = {}
    for path in sorted((shared_data / "coco-mini").rglob("*.jpg")):
        lines, area = reader.read(np.asarray(Image.open(path).convert("RGB")))
        said[path.stem] = ([line.text for line in lines], area)
    # Shop signs and street signs, read by eye.
    for number, words in {
        "000000525891": ["STOP"],
        "000000460229": ["STOP"],
        "000000107438": ["WELCOMETO", "ARDNAMURCHAN POINT"],
        "000000231460": ["47-129", "NOIR", "ISTANBUL GRILL", "Gehweg-"],
        "000000408805": ["DRY", "CHEMICAL", "FIRES"],
    }.items():
        assert set(words) <= set(said[number][0])
    assert sum(not lines for lines, _ in said.values()) >= 25
    assert all(area < 0.1 for number, (_, area) in said.items() if number != "000000551780")  # letters as high as the wall
    assert said["000000551780"][1] > 0.4
