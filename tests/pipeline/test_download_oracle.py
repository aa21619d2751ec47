"""Our shards beside those that img2dataset writes of the same urls."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("img2dataset")

from PIL import Image

from pipeline.download.fetching.fetch import Policy
from pipeline.download.images.prepare import EncodeFormat, ImageRules, Prepared, prepare
from pipeline.download.images.resize import ResizeMode
from pipeline.download.job import DownloadSettings, download
from pipeline.engine import Options
from tests.pipeline.server import Answer, serve

IMG2DATASET = """
import sys
from img2dataset import download
if __name__ == "__main__":
    download(
        url_list=sys.argv[1], output_folder=sys.argv[2], input_format="parquet", url_col="url", caption_col="text",
        save_additional_columns=["uid"], output_format="webdataset", image_size=512, resize_mode="keep_ratio_largest",
        resize_only_if_bigger=True, skip_reencode=True, encode_quality=95, processes_count=1, thread_count=4,
        number_sample_per_shard=10000, oom_shard_count=4, compute_hash="sha256", retries=0, timeout=5,
    )
"""


def photograph(number: int, size: tuple[int, int], kind: str, mode: str = "RGB") -> bytes:
    rng = np.random.default_rng(number)
    small = rng.integers(0, 256, (8, 8, 4 if mode == "RGBA" else 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).convert(mode).save(out, kind)
    return out.getvalue()


def samples(folder: Path) -> dict[str, tuple[bytes, dict[str, Any]]]:
    """{uid: (stored image, json)} of the one tar of a folder."""
    found = {}
    (path,) = folder.glob("*.tar")
    with tarfile.open(path) as tar:
        data = {i.name: (tar.extractfile(i) or io.BytesIO()).read() for i in tar}
    for name, body in data.items():
        if name.endswith(".json"):
            sidecar = json.loads(body)
            found[sidecar["uid"]] = data[name.removesuffix("json") + "jpg"], sidecar
    return found


@pytest.mark.slow
def test_layout_pixels_and_columns_are_those_of_img2dataset(tmp_path: Path) -> None:
    served = {
        "small.jpg": photograph(1, (300, 200), "JPEG"),
        "large.jpg": photograph(2, (1300, 700), "JPEG"),
        "tall.jpg": photograph(3, (400, 1100), "JPEG"),
        "grey.jpg": photograph(4, (900, 900), "JPEG", "L"),
        "small.png": photograph(5, (300, 200), "PNG"),
        "large.png": photograph(6, (800, 600), "PNG"),
        "clear.png": photograph(7, (700, 300), "PNG", "RGBA"),
        "photo.webp": photograph(8, (900, 400), "WEBP"),
        "gone.html": b"<html>gone</html>",
    }
    with serve() as server:
        urls = [server.on(f"/{name}", Answer(body)) for name, body in served.items()] + [f"{server.root}/absent.jpg"]
        source = tmp_path / "list.parquet"
        uids = [f"{i:032x}" for i in range(len(urls))]
        pq.write_table(pa.table({"uid": uids, "url": urls, "text": [f"text {i}" for i in uids]}), source)
        script = tmp_path / "run.py"
        script.write_text(IMG2DATASET)
        quiet = {**os.environ, "NO_ALBUMENTATIONS_UPDATE": "1", "WANDB_MODE": "disabled"}
        theirs, ours = tmp_path / "theirs", tmp_path / "ours" / "shards"
        subprocess.run([sys.executable, script, source, theirs], check=True, env=quiet, capture_output=True, timeout=200)
        settings = DownloadSettings(policy=Policy(allow_private=True, retries=0), threads=4)
        download(str(source), str(ours), settings=settings, options=Options(workers=0, quiet=True))

    names = {p.name.lstrip("0") for p in ours.glob("0*")}
    assert names == {p.name.lstrip("0") for p in theirs.glob("0*")}
    left, right = samples(ours), samples(theirs)
    assert list(left) == sorted(right)
    for uid, (image, sidecar) in right.items():
        assert left[uid][0] == image, served
        shared = set(sidecar) - {"key", "exif"}
        assert {k: left[uid][1][k] for k in shared} == {k: sidecar[k] for k in shared}
    (table,) = theirs.glob("*.parquet")
    status = {r["uid"]: r for r in pq.read_table(ours / "00000000.parquet").to_pylist()}
    for row in pq.read_table(table).to_pylist():
        assert set(row) - {"exif"} <= set(status[row["uid"]])
        assert status[row["uid"]]["status"] == row["status"]
    (stats,) = theirs.glob("*_stats.json")
    mine = json.loads((ours / "00000000_stats.json").read_text())
    for name in ("count", "successes", "failed_to_download", "failed_to_resize"):
        assert mine[name] == json.loads(stats.read_text())[name]


# img2dataset's resizer is slow to import, not to run: all of its ways in one test.
@pytest.mark.slow
def test_pixels_and_bytes_are_those_of_the_peers_resizer() -> None:
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    from img2dataset.blurrer import BoundingBoxBlurrer
    from img2dataset.resizer import Resizer

    sizes = [(300, 200), (200, 301), (128, 128), (90, 60), (129, 513), (40, 700)]
    kinds = [("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB"), ("PNG", "L"), ("PNG", "RGBA"), ("WEBP", "RGB"), ("BMP", "RGB")]
    formats: list[tuple[EncodeFormat, int]] = [("jpg", 95), ("webp", 90), ("png", 3)]
    compared = 0
    for mode, only, (form, quality) in itertools.product(get_args(ResizeMode), (True, False), formats):
        theirs = Resizer(
            128, mode, only, encode_format=form, encode_quality=quality, skip_reencode=True, blurrer=BoundingBoxBlurrer()
        )
        rules = ImageRules(image_size=128, resize_mode=mode, only_if_bigger=only, encode_format=form, quality=quality)
        for number, (size, (kind, picture)) in enumerate(itertools.product(sizes, kinds)):
            body = photograph(number, size, kind, picture)
            boxes = [[0.2, 0.1, 0.6, 0.55], [0.7, 0.7, 1.0, 0.9]] if number % 3 == 0 else None
            data, *shape, error = theirs(io.BytesIO(body), boxes)
            found = prepare(body, rules, boxes)
            assert error is None
            assert isinstance(found, Prepared), found
            assert [found.width, found.height, found.original_width, found.original_height] == shape
            if boxes and data == body:
                assert found.data != body  # the peer forgets to blur what it does not resize
                continue
            assert found.data == data, (mode, only, form, size, kind, picture)
            compared += 1
    assert compared > 1000
