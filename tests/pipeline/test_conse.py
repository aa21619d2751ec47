"""The stand-in for CLIP: its two networks against known values, and captions of photographs against those of others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

import torch
from PIL import Image

from filters.models import EFFICIENTNET_LITE0, IMAGENET_1K_NAMES, MINILM_L6, packaged
from pipeline.annotate.annotator import Annotator, Model, Pixels
from pipeline.annotate.job import Settings, annotate
from pipeline.annotate.pictures.conse import make_conse
from pipeline.annotate.pictures.efficientnet import EfficientNetLite0, crop
from pipeline.annotate.text.language import make_language
from pipeline.annotate.text.minilm import MiniLM
from pipeline.engine import Options
from pipeline.selection import select
from pools.errors import InputError
from tests.pipeline.annotating import family, write
from tests.pipeline.samples import FakeSample, reason


def read(path: Path) -> Pixels:
    return np.asarray(Image.open(path).convert("RGB"))


@pytest.fixture(scope="module")
def sentences() -> MiniLM:
    return MiniLM(packaged(MINILM_L6), "cpu")


def test_sentences_have_the_similarities_that_the_model_is_published_with(sentences: MiniLM) -> None:
    # The example of semantic search in the documentation of sentence-transformers, for all-MiniLM-L6-v2.
    texts = ["food", "a piece of bread"]
    vectors = sentences.encode(
        ["A man is eating pasta.", *(f"A man is eating {t}." for t in texts), "A man is riding a horse."]
    )
    np.testing.assert_allclose(vectors[1:] @ vectors[0], [0.7035, 0.5272, 0.1889], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_sentence_alone_and_among_longer_ones(sentences: MiniLM) -> None:
    texts = ["a dog", "word " * 60, "🙂", "日本語の文章", "a much longer sentence on what is to be seen in some picture"]
    together = sentences.encode(texts)
    np.testing.assert_allclose(np.concatenate([sentences.encode([t]) for t in texts]), together, atol=1e-5)
    cut, long, other = sentences.encode([f"{'cat ' * 200}{'dog ' * n}" for n in (54, 400, 0)])  # 256 tokens, with both ends
    np.testing.assert_allclose(cut, long, atol=1e-5)
    assert float(cut @ other) < 0.95
    assert sentences.encode([]).shape == (0, 384)
    np.testing.assert_allclose(sentences.encode(["b", "a", "b"])[[0, 2]], sentences.encode(["b", "b"]), atol=1e-6)


# What is to be seen in a photograph beyond doubt, by COCO's number.
SEEN = {"000000160012": "pizza", "000000519208": "Asian elephant", "000000062554": "broccoli"}


@pytest.mark.shared
def test_photographs_are_of_their_class(shared_data: Path) -> None:
    network = EfficientNetLite0.load(packaged(EFFICIENTNET_LITE0), "cpu")
    names = json.loads(Path(packaged(IMAGENET_1K_NAMES)).read_text())
    paths = [next((shared_data / "coco-mini").rglob(f"{number}.jpg")) for number in SEEN]
    crops = np.stack([crop(read(p)) for p in paths])
    with torch.inference_mode():
        logits = network.logits(crops)
        alone = torch.cat([network.logits(crops[i : i + 1]) for i in range(len(crops))])
    assert logits.shape == (len(SEEN), 1000)
    assert [names[i] for i in logits.argmax(1)] == list(SEEN.values())
    assert float((logits - alone).abs().max()) < 1e-4


def test_the_middle_of_the_picture_is_looked_at() -> None:
    wide = np.zeros((256, 900, 3), np.uint8)
    wide[:, 450 - 112 : 450 + 112] = 255
    white = crop(np.full((300, 300, 3), 255, np.uint8))
    np.testing.assert_array_equal(white, np.full((3, 224, 224), 1.0, np.float32))
    np.testing.assert_array_equal(crop(wide), white)
    np.testing.assert_array_equal(crop(np.ascontiguousarray(wide.transpose(1, 0, 2))), white)
    assert crop(np.zeros((1, 1, 3), np.uint8)).shape == (3, 224, 224)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model to which all classes are one thing but those of SEEN: it is loaded at once."""
    names = json.loads(Path(packaged(IMAGENET_1K_NAMES)).read_text())
    path = tmp_path_factory.mktemp("names") / "names.json"
    path.write_text(json.dumps([name if name in SEEN.values() else "thing" for name in names]))
    annotator = make_conse({})
    return replace(annotator, classes=replace(annotator.classes, path=str(path))).load("cpu", 1)


def test_what_cannot_be_scored(small: Model) -> None:
    picture = np.zeros((8, 8, 3), np.uint8)
    assert reason(small, FakeSample(None, picture=picture)) == reason(small, FakeSample(" ", picture=picture)) == "no_text"
    assert reason(small, FakeSample("a dog")) == "no_image"


@pytest.mark.shared
def test_a_caption_that_names_what_is_to_be_seen_has_the_higher_score(small: Model, shared_data: Path) -> None:
    pictures = [read(next((shared_data / "coco-mini").rglob(f"{number}.jpg"))) for number in SEEN]
    samples = [FakeSample(f"{thing} in a photograph", picture=p) for p in pictures for thing in SEEN.values()]
    found = small.annotate([small.prepare(s) for s in samples])
    assert found.arrays is not None
    scores = np.asarray(found.columns["conse_similarity_score"])
    np.testing.assert_allclose(scores, (found.arrays["conse_img"] * found.arrays["conse_txt"]).sum(1), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.arrays["conse_img"], axis=1), 1, atol=1e-5)
    assert scores.reshape(len(SEEN), -1).argmax(1).tolist() == list(range(len(SEEN)))
    alone = [small.annotate([small.prepare(s)]).columns["conse_similarity_score"][0] for s in samples[:4]]  # T52
    np.testing.assert_allclose(alone, scores[:4], atol=1e-5)


def test_weights_of_something_else(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match="expected the weights of efficientnet-lite0"):
        EfficientNetLite0.load(str(tmp_path / "other.pth"), "cpu")
    with pytest.raises(InputError, match="expected the files of all-MiniLM-L6-v2"):
        MiniLM(str(tmp_path), "cpu")
    with pytest.raises(InputError, match="conse knows no option 'model'"):
        make_conse({"model": "ViT-B-32"})
    assert "not CLIP" in make_conse({}).header()["model"]


def auc(own: NDArray[Any], others: NDArray[Any]) -> float:
    """How often one's own score is above another's."""
    below = np.searchsorted(np.sort(others), own, "left") + np.searchsorted(np.sort(others), own, "right")
    return float(below.mean() / 2 / len(others))


@pytest.mark.slow
@pytest.mark.shared
def test_captions_match_their_own_photograph(shared_data: Path) -> None:
    model = make_conse({}).load("cpu", 1)
    with (shared_data / "coco-mini" / "captions.jsonl").open(encoding="utf-8") as f:
        listed = [json.loads(line) for line in f]
    rows = [(shared_data / "coco-mini" / r["file_name"], r["captions"]) for r in listed if r["image_included"]]
    samples = [FakeSample(texts[0], picture=read(path)) for path, texts in rows]
    found = model.annotate([model.prepare(s) for s in samples])
    assert found.arrays is not None
    images, texts = found.arrays["conse_img"], found.arrays["conse_txt"]
    assert images.shape == texts.shape == (51, 384)
    scores = images @ texts.T
    np.testing.assert_allclose(found.columns["conse_similarity_score"], scores.diagonal(), atol=1e-5)
    own = np.eye(len(rows), dtype=bool)
    assert auc(scores[own], scores[~own]) > 0.92
    assert (scores.argmax(1) == np.arange(len(rows))).mean() > 0.35  # one in 51 by chance


@pytest.mark.slow
@pytest.mark.shared
def test_shards_are_annotated_and_filtered(tmp_path: Path, shared_data: Path) -> None:
    bodies = [next((shared_data / "coco-mini").rglob(f"{number}.jpg")).read_bytes() for number in SEEN]
    texts = ["a pizza on a table", "broccoli on a plate", None]  # the second is that of the third
    write(tmp_path / "pool", "a", [(f"{i:032x}", t, b) for i, (t, b) in enumerate(zip(texts, bodies, strict=True))])
    annotators: list[tuple[str, Annotator]] = [("conse", make_conse({})), ("language", make_language({}))]
    here = Options(workers=0, quiet=True)
    annotate(str(tmp_path / "pool"), annotators, settings=Settings(), options=here)
    rows = family(tmp_path / "pool", "conse", "a")
    assert [r["conse_reason"] for r in rows] == [None, None, "no_text"]
    assert rows[0]["conse_similarity_score"] > 0.4 > 0.2 > rows[1]["conse_similarity_score"]
    assert rows[2]["conse_similarity_score"] is None
    with np.load(tmp_path / "pool/annotations/conse/a.npz") as arrays:
        assert sorted(arrays) == ["conse_img", "conse_txt"]
        assert {(a.shape, a.dtype) for a in arrays.values()} == {((3, 384), np.dtype(np.float16))}
        assert not arrays["conse_img"][2].any()
    (tmp_path / "mine.yaml").write_text("keep:\n  - score: {column: conse_similarity_score, min: 0.3}\n  - language: {is: en}")
    select(str(tmp_path / "mine.yaml"), str(tmp_path / "pool"), str(tmp_path / "out"), options=here)
    assert np.load(tmp_path / "out/uids.npy")["f1"].tolist() == [0]
