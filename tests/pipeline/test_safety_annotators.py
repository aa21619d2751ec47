"""Unsafe pictures and toxic captions through the command, on a pool with odd rows."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

from PIL import Image

from filters.models import SHA256
from pipeline.cli import main
from pools import shards

# T56, and pictures of two kinds, one that is cut, one that is missing.
TEXTS = ["a dog on the beach", "", "🙂🙂", "You are so dumb and stupid! " * 1000, None]
REASONS = [None, "no_text", "no_known_words", None, "no_text"]


def jpeg(number: int) -> bytes:
    file = io.BytesIO()
    rng = np.random.default_rng(number)
    Image.fromarray(rng.integers(0, 256, (50, 70, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    uids = [f"{i:032x}" for i in range(len(TEXTS))]
    pictures = [jpeg(0), jpeg(1), jpeg(2)[:200], None, jpeg(0)]
    folder = tmp_path / "pool"
    (folder / "metadata").mkdir(parents=True)
    pq.write_table(pa.table({"uid": uids, "text": pa.array(TEXTS, pa.string())}), folder / "metadata" / "0.parquet")
    features = np.random.default_rng(0).normal(size=(len(uids), 4)).astype(np.float16)
    features[2] = 0
    np.savez(folder / "metadata" / "0.npz", l14_img=features)
    with shards.write(str(folder / "shards" / "0.tar")) as tar:
        for i, (uid, picture) in enumerate(zip(uids, pictures, strict=True)):
            members = {"txt": (TEXTS[i] or "").encode(), "json": json.dumps({"uid": uid}).encode()}
            tar.add(f"{i:05d}", members if picture is None else {"jpg": picture, **members})
    return folder


def annotate(monkeypatch: pytest.MonkeyPatch, pool: Path, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["winnow", "annotate", str(pool), "--device", "cpu", "--quiet", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)


def written(pool: Path, name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    table = pq.read_table(pool / "annotations" / name / "0.parquet")
    return table.to_pylist(), json.loads(table.schema.metadata[b"winnow"])


# T53, T56
def test_both_in_one_run(pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    annotate(monkeypatch, pool, "--with", "nsfw_image,toxicity")
    rows, header = written(pool, "toxicity")
    assert [r["toxicity_reason"] for r in rows] == REASONS
    assert [r["toxicity"] is None for r in rows] == [r is not None for r in REASONS]
    assert rows[3]["toxicity"] > 0.9 > rows[0]["toxicity"] > 0
    assert header["weights_sha256"] == SHA256["toxic-comment-classifier"]
    rows, header = written(pool, "nsfw_image")
    assert [r["nsfw_image"] is None for r in rows] == [False, False, True, True, False]
    assert rows[2]["nsfw_image_reason"]
    assert rows[3]["nsfw_image_reason"] == "no_image"
    assert rows[0]["nsfw_image"] == pytest.approx(rows[4]["nsfw_image"], abs=1e-5)
    assert header["weights_sha256"] == SHA256["open-nsfw"]


def test_a_head_on_features_needs_no_picture(pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The features' sum, through the logistic function.
    head: dict[str, Any] = {
        "norm.mean": np.zeros(4), "norm.variance": np.ones(4), "linear_1.weight": np.ones((1, 4)), "linear_1.bias": np.zeros(1),
    }  # fmt: skip
    np.savez(tmp_path / "head.npz", **head)
    (pool / "shards" / "0.tar").unlink()
    annotate(monkeypatch, pool, "--with", "nsfw_image", "--weights", str(tmp_path / "head.npz"))
    rows, _ = written(pool, "nsfw_image")
    features = np.load(pool / "metadata" / "0.npz")["l14_img"].astype(float)
    expected = [None if i == 2 else 1 / (1 + np.exp(-f.sum())) for i, f in enumerate(features)]
    assert rows[2]["nsfw_image_reason"] == "no_features"
    for row, score in zip(rows, expected, strict=True):
        assert row["nsfw_image"] == (None if score is None else pytest.approx(score, abs=1e-6))
