"""Faces in pictures: by detectors that play one, and by CenterFace on real pictures."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")

from PIL import Image

from filters.models import packaged
from pipeline.annotate.annotator import Pixels
from pipeline.annotate.faces import detectors as face_detectors
from pipeline.annotate.faces import faces
from pipeline.annotate.faces.finding import Detector, Floats, find_faces, frames
from pipeline.annotate.onnx_shape import freed
from pipeline.annotate.pictures.picture import Picture
from pipeline.download.images.prepare import ImageRules, Prepared, prepare
from pools.errors import InputError

# Around forehead, ears and chin, marked by eye in pixels.
MARKED = {
    "astronaut.png": [[180, 64, 271, 188]],
    "two_people.jpg": [[226, 40, 389, 234], [779, 40, 945, 266]],
    "obama-240p.jpg": [[191, 18, 252, 96]],
}
# Those of coco-mini that show no face of a person, a doll or a drawing.
FACELESS = """
    train2017/078499 train2017/084284 train2017/107438 train2017/114174 train2017/121647 train2017/125870 train2017/159269
    train2017/177977 train2017/196393 train2017/212679 train2017/213148 train2017/216794 train2017/231460 train2017/252639
    train2017/358083 train2017/408805 train2017/516008 train2017/525891 val2017/062554 val2017/099053 val2017/126107
    val2017/205401 val2017/229997 val2017/255165 val2017/359219 val2017/377575 val2017/403353 val2017/434204 val2017/460229
    val2017/475678 val2017/551780 val2017/553664 val2017/557172 val2017/568290
"""
BEAR = "val2017/000000229997.jpg"  # one of them, whose ears are taken for a face, but not in the mirror


def with_face(width: int, height: int, box: tuple[int, int, int, int]) -> Pixels:
    """A white face on grey."""
    picture = np.full((height, width, 3), 60, np.uint8)
    picture[box[1] : box[3], box[0] : box[2]] = 255
    return picture


def white(frame: Pixels, most: float = 1.0) -> tuple[Floats, Floats]:
    """A detector of the one white thing in a frame, if each of its sides is less than `most` of the frame's."""
    assert frame.dtype == np.uint8
    assert frame.shape[0] % 32 == frame.shape[1] % 32 == 0
    edges = []
    for axis in (0, 1):
        light = np.clip((frame[..., 0].max(axis=axis) - 60.0) / 195, 0, 1)  # of columns, of rows: how far they are white
        lit = np.flatnonzero(light > 0.02)
        if not len(lit):
            return np.empty((0, 4), np.float32), np.empty(0, np.float32)
        edges.append((lit[0] + 1 - light[lit[0]], lit[-1] + light[lit[-1]]))
    box = [edges[0][0], edges[1][0], edges[0][1], edges[1][1]]
    if box[2] - box[0] >= most * frame.shape[1] or box[3] - box[1] >= most * frame.shape[0]:
        return np.empty((0, 4), np.float32), np.empty(0, np.float32)
    return np.array([box], np.float32), np.array([0.9], np.float32)


def found(picture: Pixels, detect: Detector, side: int = 640, sure: float = 0.0) -> Floats:
    """Boxes in the picture's pixels."""
    height, width = picture.shape[:2]
    boxes = find_faces(frames(picture, side), detect, 0.3, sure)[0]
    return np.asarray(boxes * np.array([width, height, width, height]), np.float32)


# T57
@pytest.mark.parametrize(
    ("width", "height", "box"),
    [
        (640, 481, (100, 50, 180, 170)),
        (33, 31, (4, 5, 14, 17)),
        (1, 1, (0, 0, 1, 1)),
        (1300, 700, (400, 100, 800, 500)),
        (2000, 20, (500, 0, 900, 20)),
        (20, 2000, (0, 500, 20, 900)),
    ],
)
def test_any_size_is_padded_and_boxes_are_in_the_pictures_own_pixels(
    width: int, height: int, box: tuple[int, int, int, int]
) -> None:
    (one,) = found(with_face(width, height, box), white)
    assert one == pytest.approx(box, abs=0.01 if max(width, height) <= 640 else 1)


# T58
@pytest.mark.parametrize(("width", "height"), [(512, 512), (100, 100), (1600, 1200), (300, 640)])
def test_a_face_that_fills_the_picture_is_found_in_the_small_one(width: int, height: int) -> None:
    box = (round(width * 0.1), round(height * 0.1), round(width * 0.9), round(height * 0.9))

    def shy(frame: Pixels) -> tuple[Floats, Floats]:
        return white(frame, 0.4)

    assert len(shy(frames(with_face(width, height, box), 640)[0].pixels)[0]) == 0
    (one,) = found(with_face(width, height, box), shy)
    assert one == pytest.approx(box, abs=2)


def test_small_faces_are_not_taken_from_the_small_picture() -> None:
    def only_small_frames(frame: Pixels) -> tuple[Floats, Floats]:
        return white(frame) if frame.shape[1] < 640 else (np.empty((0, 4), np.float32), np.empty(0, np.float32))

    assert len(found(with_face(640, 640, (100, 100, 300, 300)), only_small_frames)) == 0
    assert len(found(with_face(640, 640, (100, 100, 340, 340)), only_small_frames)) == 1


def fixed(*answers: tuple[list[float], float]) -> Detector:
    """A detector that sees the same in the picture, and in its mirror image, which it knows by its corner; else nothing."""

    def detect(frame: Pixels) -> tuple[Floats, Floats]:
        seen = answers if frame.shape[:2] == (640, 640) else ()
        boxes = np.array([box for box, _ in seen], np.float32).reshape(-1, 4)
        return boxes, np.array([score for _, score in seen], np.float32)

    return detect


def test_boxes_are_cut_sorted_by_score_and_one_a_face() -> None:
    picture = np.zeros((640, 640, 3), np.uint8)
    detect = fixed(
        ([10, 10, 100, 100], 0.5),
        ([14, 12, 104, 98], 0.9),  # the same face
        ([600, 600, 700, 660], 0.7),
        ([-20, 300, 40, 400], 0.7),
        ([300, 300, 400, 400], 0.29),  # not sure enough
        ([650, 10, 700, 50], 0.8),  # not in the picture
        ([200, 200, 260, 260], 0.3),
    )
    boxes, scores = find_faces(frames(picture, 640), detect, 0.3, 0.0)
    assert (boxes * 640).round().tolist() == [[14, 12, 104, 98], [0, 300, 40, 400], [600, 600, 640, 640], [200, 200, 260, 260]]
    assert scores.tolist() == pytest.approx([0.9, 0.7, 0.7, 0.3])
    assert boxes.dtype == scores.dtype == np.float32


def test_doubtful_faces_must_be_seen_in_the_mirror_too() -> None:
    picture = np.zeros((640, 640, 3), np.uint8)
    # Of the first two the mirror image, with the same answers, has the other in the same place; of the third none.
    detect = fixed(([100, 100, 200, 200], 0.4), ([440, 100, 540, 200], 0.4), ([0, 300, 90, 400], 0.4), ([0, 500, 90, 590], 0.6))
    boxes, _ = find_faces(frames(picture, 640), detect, 0.3, 0.5)
    assert (boxes * 640).round().tolist() == [[0, 500, 90, 590], [100, 100, 200, 200], [440, 100, 540, 200]]
    assert len(find_faces(frames(picture, 640), detect, 0.3, 0.0)[0]) == 4


class Session:
    """A model whose answers are known."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers, self.seen = answers, np.empty((0, 0, 0, 0))

    def get_inputs(self) -> list[Any]:
        return [type("Input", (), {"name": "x"})]

    get_outputs = property(lambda self: lambda: self.answers)

    def run(self, _: None, inputs: dict[str, Any]) -> list[Any]:
        self.seen = inputs["x"]
        return self.answers


def test_scrfd_is_read_by_its_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [np.zeros((1, 2 * (64 // s) * (96 // s), 1), np.float32) for s in (8, 16, 32)]
    reach = [np.zeros((len(s[0]), 4), np.float32) for s in scores]
    keys = [np.zeros((len(s[0]), 10), np.float32) for s in scores]
    scores[0][0, 2 * (12 * 3 + 5) + 1] = 0.8  # row 3, column 5, second anchor, at stride 8
    reach[0][2 * (12 * 3 + 5) + 1] = [1, 2, 3, 4]
    scores[2][0, 2 * (3 * 1 + 2)] = 0.6  # row 1, column 2 at stride 32
    reach[2][2 * (3 * 1 + 2)] = [0.5, 0.5, 0.25, 0.5]
    session = Session([*scores, *reach, *keys])
    monkeypatch.setattr(face_detectors, "open_any_size", lambda *_: session)
    frame = np.zeros((64, 96, 3), np.uint8)
    frame[0, 0] = (255, 127, 0)
    boxes, sure = face_detectors.Scrfd("", "cpu", 1)(frame)
    assert boxes.tolist() == [[32, 8, 64, 56], [48, 16, 72, 48]]
    assert sure.tolist() == pytest.approx([0.8, 0.6])
    assert session.seen.shape == (1, 3, 64, 96)
    assert session.seen[0, :, 0, 0].tolist() == pytest.approx([127.5 / 128, -0.5 / 128, -127.5 / 128])


def test_centerface_is_read_by_its_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    heat, size, offset = (np.zeros((1, n, 16, 24), np.float32) for n in (1, 2, 2))
    heat[0, 0, 5, 7] = 0.7
    size[0, :, 5, 7] = np.log([5, 3])  # height, width in fourths
    offset[0, :, 5, 7] = [0.25, -0.25]
    session = Session([heat, size, offset, np.zeros((1, 10, 16, 24))])
    monkeypatch.setattr(face_detectors, "open_any_size", lambda *_: session)
    boxes, sure = face_detectors.CenterFace("", "cpu", 1)(np.full((64, 96, 3), 200, np.uint8))
    assert boxes[0] == pytest.approx([29 - 6, 23 - 10, 29 + 6, 23 + 10])  # around (7 + .5 - .25, 5 + .5 + .25) · 4
    assert sure.tolist() == pytest.approx([0.7])
    assert session.seen.max() == 200


@pytest.fixture(scope="module")
def model() -> faces.FacesModel:
    return faces.make_faces({}).load("cpu", 1)


def boxes_of(model: faces.FacesModel, body: bytes) -> list[list[float]]:
    """Of a picture's bytes, as they lie in a shard."""
    answer = model.annotate([model.prepare(Picture(body))])  # type: ignore[arg-type]
    boxes, scores = answer.columns["face_bboxes"][0], answer.columns["face_scores"][0]
    assert len(boxes) == len(scores)
    assert list(scores) == sorted(scores, reverse=True)
    assert all(0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1 for x0, y0, x1, y1 in boxes)
    return list(boxes)


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    shared = max(0.0, width) * max(0.0, height)
    return shared / (sum((b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)) - shared)


@pytest.mark.shared
@pytest.mark.parametrize("name", MARKED)
def test_all_faces_are_found_where_they_are(shared_data: Path, model: faces.FacesModel, name: str) -> None:
    body = (shared_data / "images-faces" / name).read_bytes()
    width, height = Image.open(io.BytesIO(body)).size
    got = sorted(boxes_of(model, body))
    assert len(got) == len(MARKED[name])
    for box, marked in zip(got, MARKED[name], strict=True):
        assert overlap([box[0] * width, box[1] * height, box[2] * width, box[3] * height], marked) > 0.7


@pytest.mark.shared
def test_a_face_that_fills_the_picture_is_found(shared_data: Path, model: faces.FacesModel) -> None:
    picture = Image.open(shared_data / "images-faces/two_people.jpg").crop((205, 0, 410, 250)).resize((1000, 1220))
    out = io.BytesIO()
    picture.save(out, "JPEG")
    (box,) = boxes_of(model, out.getvalue())
    assert overlap(box, [21 / 205, 40 / 250, 184 / 205, 234 / 250]) > 0.7


@pytest.mark.shared
def test_a_picture_without_faces_has_an_empty_list(shared_data: Path, model: faces.FacesModel) -> None:
    assert boxes_of(model, (shared_data / "images-faces/blur/original.png").read_bytes()) == []
    trusting = faces.make_faces({"sure": "0"}).load("cpu", 1)
    body = (shared_data / "coco-mini" / BEAR).read_bytes()
    assert boxes_of(model, body) == []
    assert boxes_of(trusting, body) != []


@pytest.mark.slow
@pytest.mark.shared
def test_no_faces_are_seen_where_there_are_none(shared_data: Path, model: faces.FacesModel) -> None:
    files = [shared_data / "coco-mini" / f.replace("/", "/000000") for f in FACELESS.split()]
    alarms = [f.name for f in files if boxes_of(model, f.with_suffix(".jpg").read_bytes())]
    assert len(files) == 34
    assert alarms == []


# T59
@pytest.mark.shared
def test_the_face_of_a_sideways_picture_is_blurred_where_it_is_seen(shared_data: Path, model: faces.FacesModel) -> None:
    upright = Image.open(shared_data / "images-faces/astronaut.png").convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6  # the file's rows are the picture's columns, from the right
    out = io.BytesIO()
    upright.rotate(90, expand=True).save(out, "JPEG", quality=95, exif=exif)
    body = out.getvalue()
    (box,) = boxes_of(model, body)
    assert overlap([x * 512 for x in box], MARKED["astronaut.png"][0]) > 0.7

    half = ImageRules(image_size=256, encode_format="png", quality=1)
    sharp, blurred = (
        np.asarray(Image.open(io.BytesIO(done.data))).astype(int)
        for done in (prepare(body, half, []), prepare(body, half, [box]))
        if isinstance(done, Prepared)
    )
    assert blurred.shape == (256, 256, 3)
    x0, y0, x1, y1 = (round(v * 256) for v in box)
    eyes = np.s_[y0 + 10 : y0 + 30, x0 + 5 : x1 - 5]
    assert np.abs(blurred - sharp)[eyes].mean() > 10
    away = np.abs(blurred - sharp)
    away[max(0, y0 - 20) : y1 + 20, x0 - 20 : x1 + 20] = 0
    assert away.max() <= 1


@pytest.mark.shared
def test_a_batch_changes_nothing(shared_data: Path, model: faces.FacesModel) -> None:
    bodies = [(shared_data / "images-faces" / name).read_bytes() for name in ("astronaut.png", "obama-240p.jpg")]
    inputs = [model.prepare(Picture(body)) for body in bodies]  # type: ignore[arg-type]
    together = model.annotate(inputs).columns
    assert [boxes_of(model, body) for body in bodies] == list(together["face_bboxes"])
    backwards = model.annotate(inputs[::-1]).columns
    assert list(backwards["face_scores"]) == list(together["face_scores"])[::-1]


def test_a_model_for_one_size_takes_any() -> None:
    path = packaged("centerface")
    session = face_detectors.open_any_size(path, "cpu", 1)
    for height, width in ((64, 96), (32, 32), (64, 96)):
        heat, *_ = session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3, height, width), np.float32)})
        assert heat.shape == (1, 1, height // 4, width // 4)
    for junk in (b"", b"\xff" * 40, Path(path).read_bytes()[:5000]):
        if junk:
            with pytest.raises(InputError, match=r"x\.onnx: cannot be read; expected a model in ONNX"):
                freed(junk, where="x.onnx")


def test_wrong_options_are_named(tmp_path: Path) -> None:
    def refused(**given: str) -> str:
        with pytest.raises(InputError) as e:
            faces.make_faces(given).load("cpu", 1)
        return str(e.value)

    assert "min_score, sure, side" in refused(colour="red")
    assert "centerface, scrfd-10g" in refused(model="mtcnn")
    assert "'lots'" in refused(min_score="lots")
    assert "min_score of faces is 1.5" in refused(min_score="1.5")
    assert "side of faces is 10" in refused(side="10")
    assert "sure of faces is -1" in refused(sure="-1")
    assert "a model of 4 outputs; expected SCRFD" in refused(model="scrfd-10g", weights=packaged("centerface"))
    (tmp_path / "junk.onnx").write_bytes(b"no model at all")
    assert "junk.onnx: cannot be read" in refused(weights=str(tmp_path / "junk.onnx"))
    assert "absent.onnx" in refused(weights=str(tmp_path / "absent.onnx"))


def test_what_the_boxes_depend_on_is_in_the_header() -> None:
    annotator = faces.make_faces({"min_score": "0.4"})
    header = annotator.header()
    assert (header["model"], header["min_score"], header["mirrored_below"]) == ("centerface", 0.4, 0.5)
    assert len(header["weights_sha256"]) == 64
    assert [f"{f.name}: {f.type}" for f in annotator.fields] == [
        "face_bboxes: list<item: list<item: float>>",
        "face_scores: list<item: float>",
    ]
    assert [f.name for f in faces.make_faces({"name": "mine"}).fields] == ["mine_bboxes", "mine_scores"]
