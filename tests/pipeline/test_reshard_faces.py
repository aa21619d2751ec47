"""Faces on the way into new shards: what has one is blurred or not written, and everything else keeps its bytes."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("cv2")

from PIL import Image

from pipeline.download.images import blur
from pipeline.engine import Options
from pipeline.reshard import faces
from pipeline.reshard.job import reshard
from pipeline.reshard.settings import Settings
from pools import shards, uids
from pools.errors import InputError, WorkFailed
from tests.pipeline.resharding import QUIET, uid, write_list, written
from tests.pipeline.test_cli import call

BOX = [0.25, 0.25, 0.5, 0.5]
# number → boxes: a face, none, nobody has looked, no row at all, two faces in a PNG, a broken picture with a face
BOXES: dict[int, Any] = {1: [BOX], 2: [], 3: None, 5: [BOX, [0.6, 0.6, 0.9, 0.9]], 6: [BOX]}


def picture(kind: str) -> bytes:
    levels = np.tile(np.array([0, 0, 255, 255], np.uint8), (300, 100))  # columns of 2 pixels: grey where they are blurred
    out = io.BytesIO()
    Image.fromarray(levels).convert("RGB").save(out, kind, quality=95)
    return out.getvalue()


JPEG, PNG = picture("JPEG"), picture("PNG")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with shards.write(str(tmp_path / "shards" / "0.tar")) as out:
        for n in range(1, 7):
            image = {5: ("png", PNG), 6: ("jpg", JPEG[:200])}.get(n, ("jpg", JPEG))
            fields = json.dumps({"uid": uid(n), "width": 400}).encode()
            out.add(f"{n:06d}", {image[0]: image[1], "txt": b"caption", "json": fields})
    return tmp_path / "shards"


def write_boxes(path: Path, boxes: dict[int, Any] = BOXES) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    column = pa.array(list(boxes.values()), pa.list_(pa.list_(pa.float32())))
    pq.write_table(pa.table({"uid": [uid(n) for n in boxes], "face_bboxes": column}), path)
    return str(path)


def blurred_at(data: bytes, x: int, y: int) -> bool:
    levels = np.asarray(Image.open(io.BytesIO(data)).convert("L")).astype(int)[y - 2 : y + 2, x - 2 : x + 2]
    return int(np.ptp(levels)) < 128


@pytest.mark.parametrize(("form", "kind"), [("jpg", "JPEG"), ("webp", "WEBP")])
def test_faces_are_blurred_and_what_nobody_looked_at_is_left_out(tmp_path: Path, source: Path, form: str, kind: str) -> None:
    settings = Settings(blur=write_boxes(tmp_path / "boxes.parquet"), format=form)  # type: ignore[arg-type]
    listed = write_list(tmp_path, 1, 1, 2, 3, 3, 4, 5, 6)
    outcome = reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)
    counts = {"in": 8, "kept": 4, "dropped:missing": 0, "dropped:no_boxes": 3, "failed:undecodable_face": 1, "repeats": 2}
    assert outcome.counts == counts
    assert len(outcome.problems) == 1
    assert outcome.problems[0].startswith(f"{uid(6)}: undecodable_face")
    found = {key: parts for _, key, _, parts in written(tmp_path / "out")}
    assert sorted(found) == sorted([f"{uid(1)}-0", f"{uid(1)}-1", f"{uid(2)}-0", f"{uid(5)}-0"])
    for key in (f"{uid(1)}-0", f"{uid(1)}-1", f"{uid(5)}-0"):
        assert list(found[key]) == [form, "txt", "json"]
        assert Image.open(io.BytesIO(found[key][form])).format == kind
        assert blurred_at(found[key][form], 150, 112)
        assert not blurred_at(found[key][form], 350, 20)
    assert blurred_at(found[f"{uid(5)}-0"][form], 300, 225)
    assert not blurred_at(found[f"{uid(1)}-0"][form], 300, 225)
    assert found[f"{uid(2)}-0"]["jpg"] == JPEG
    unseen = uids.unpack(uids.load(str(tmp_path / "out" / "no_boxes.npy"))).to_pylist()
    assert unseen == sorted([uid(3), uid(3), uid(4)])
    ids = uids.unpack(uids.read_list(str(tmp_path / "out" / "sample_ids.npy"))).to_pylist()
    assert ids == sorted([uid(1), uid(1), uid(2), uid(5)])


def test_what_is_not_written_for_its_faces_is_a_failure_if_strict(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boxes = write_boxes(tmp_path / "boxes.parquet")
    command = ["reshard", str(source), write_list(tmp_path, 1, 4), "--blur-faces", boxes, "--workers", "0", "-o"]
    status, _, err = call(monkeypatch, capsys, *command, str(tmp_path / "out"))
    assert status == 0
    assert f"reshard: not looked at for faces: {uid(4)}\n" in err
    assert call(monkeypatch, capsys, *command, str(tmp_path / "out"), "--strict")[0] == 1
    broken = write_list(tmp_path, 1, 6, name="broken.npy")
    assert call(monkeypatch, capsys, "reshard", str(source), broken, *command[3:], str(tmp_path / "two"))[0] == 1


@pytest.mark.parametrize(
    "box", [[100.0, 50.0, 200.0, 90.0], [0.1, 0.1, math.nan, 0.2], [0.1, 0.2, 0.3], [0.5, 0.5, 0.5, 0.9], None], ids=str
)
def test_a_box_that_marks_nothing_is_no_reason_to_leave_a_face_as_it_is(tmp_path: Path, source: Path, box: Any) -> None:
    settings = Settings(blur=write_boxes(tmp_path / "boxes.parquet", {1: [BOX, box], 2: []}))
    outcome = reshard(str(source), write_list(tmp_path, 1, 2), str(tmp_path / "out"), settings=settings, options=QUIET)
    assert outcome.counts == {"in": 2, "kept": 1, "dropped:missing": 0, "dropped:no_boxes": 0, "failed:bad_boxes": 1}
    assert [n for _, _, n, _ in written(tmp_path / "out")] == [2]


def test_of_rows_that_share_a_uid_all_boxes_count_and_one_null_is_enough(tmp_path: Path, source: Path) -> None:
    folder = tmp_path / "boxes"
    write_boxes(folder / "a.parquet", {1: [[0.6, 0.6, 0.9, 0.9]], 2: [BOX], 4: []})
    write_boxes(folder / "b.parquet", {1: [BOX], 2: None, 4: [BOX]})
    outcome = reshard(
        str(source), write_list(tmp_path, 1, 2, 4), str(tmp_path / "out"), settings=Settings(blur=str(folder)), options=QUIET
    )
    assert outcome.counts["dropped:no_boxes"] == 1
    found = {n: parts["jpg"] for _, _, n, parts in written(tmp_path / "out")}
    assert sorted(found) == [1, 4]
    assert blurred_at(found[1], 150, 112) and blurred_at(found[1], 300, 225)
    assert blurred_at(found[4], 150, 112)


def test_boxes_come_from_a_pools_metadata_or_its_annotations(tmp_path: Path, source: Path) -> None:
    pool = tmp_path / "pool"
    write_boxes(pool / "metadata" / "0.parquet")
    annotated = tmp_path / "annotated"
    (annotated / "metadata").mkdir(parents=True)
    pq.write_table(pa.table({"uid": [uid(n) for n in BOXES]}), annotated / "metadata" / "0.parquet")
    write_boxes(annotated / "annotations" / "faces" / "0.parquet")
    listed = write_list(tmp_path, 1, 2)
    for i, where in enumerate((pool, annotated, annotated / "annotations" / "faces", pool / "metadata")):
        out = tmp_path / f"out{i}"
        reshard(str(source), listed, str(out), settings=Settings(blur=str(where)), options=QUIET)
        assert written(out) == written(tmp_path / "out0")
        assert blurred_at(written(out)[0][3]["jpg"], 150, 112)


def test_what_holds_no_boxes_is_refused_before_anything_is_written(tmp_path: Path, source: Path) -> None:
    pq.write_table(pa.table({"uid": [uid(1)], "face_bboxes": ["x"]}), tmp_path / "text.parquet")
    (tmp_path / "pool" / "metadata").mkdir(parents=True)
    pq.write_table(pa.table({"uid": [uid(1)]}), tmp_path / "pool" / "metadata" / "0.parquet")
    for where, what in (
        ("none.parquet", "no such file"),
        ("text.parquet", "holds string"),
        ("pool", "no column 'face_bboxes'"),
    ):
        settings = Settings(blur=str(tmp_path / where))
        with pytest.raises(InputError, match=what):
            reshard(str(source), write_list(tmp_path, 1), str(tmp_path / "out"), settings=settings, options=QUIET)
        assert not list((tmp_path / "out").glob("*.tar"))


def test_boxes_are_written_into_the_json_with_or_without_blur(tmp_path: Path, source: Path) -> None:
    boxes = write_boxes(tmp_path / "boxes.parquet")
    listed = write_list(tmp_path, 1, 2, 3, 4)
    reshard(str(source), listed, str(tmp_path / "out"), settings=Settings(inject=boxes), options=QUIET)
    fields = {n: json.loads(parts["json"]) for _, _, n, parts in written(tmp_path / "out")}
    assert fields == {
        1: {"uid": uid(1), "width": 400, "face_bboxes": [BOX]},
        2: {"uid": uid(2), "width": 400, "face_bboxes": []},
        3: {"uid": uid(3), "width": 400},
        4: {"uid": uid(4), "width": 400},
    }
    assert all(parts["jpg"] == JPEG for *_, parts in written(tmp_path / "out"))
    reshard(str(source), listed, str(tmp_path / "both"), settings=Settings(inject=boxes, blur=boxes), options=QUIET)
    both = {n: parts for _, _, n, parts in written(tmp_path / "both")}
    assert sorted(both) == [1, 2]
    assert json.loads(both[1]["json"])["face_bboxes"] == [BOX]
    assert blurred_at(both[1]["jpg"], 150, 112)


def test_threads_change_no_byte(tmp_path: Path, source: Path) -> None:
    settings = Settings(blur=write_boxes(tmp_path / "boxes.parquet"))
    listed = write_list(tmp_path, *[1] * 40, 2, *[5] * 10)
    for workers in (0, 3):
        out = str(tmp_path / f"out{workers}")
        reshard(str(source), listed, out, settings=settings, options=Options(workers=workers, quiet=True))
    assert written(tmp_path / "out0") == written(tmp_path / "out3")


def test_a_failure_in_one_shard_is_retold_by_the_run_that_goes_on(tmp_path: Path, source: Path) -> None:
    settings = Settings(blur=write_boxes(tmp_path / "boxes.parquet"), shard_size=1, strict=True)
    listed = write_list(tmp_path, 1, 2, 6)
    for _ in range(2):
        with pytest.raises(WorkFailed, match="1 of 3 entries"):
            reshard(str(source), listed, str(tmp_path / "out"), settings=settings, options=QUIET)
        (tmp_path / "out" / "_manifest.json").unlink()
        ids = uids.read_list(str(tmp_path / "out" / "sample_ids.npy"))
        assert uids.unpack(ids).to_pylist() == sorted([uid(1), uid(2)])


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize(
    "boxes", [[BOX], [BOX, [0.0, 0.9, 0.2, 1.2]], [[0.5, 0.5, 0.5001, 0.5001]], [[-0.5, 0.0, 1.0, 1.0]]], ids=str
)
def test_the_blur_about_the_boxes_is_the_downloads(colour: bool, boxes: list[list[float]]) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (300, 400, 3) if colour else (300, 400), np.uint8)
    ours = faces.softened(pixels, boxes).astype(int)
    theirs = blur.blurred(pixels, blur.usable(boxes)).astype(int)
    # A border may lie a pixel further out, where a face is cut by it.
    inside = ours[20:-20, 20:-20] - theirs[20:-20, 20:-20]
    assert np.mean(np.abs(inside)) < 1.5
    assert (ours != pixels).any()
