"""Perceptual hashes, the index of evaluation images, and what in a pool is near one of them."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("cv2")
pytest.importorskip("faiss")
pytest.importorskip("pdqhash")
pytest.importorskip("torch")

import imagehash
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from typer.testing import CliRunner

from filters import hamming
from filters.registry import FILTERS, Filter
from pipeline.annotate.chosen import choose
from pipeline.annotate.duplicates.descriptors import Descriptor
from pipeline.annotate.duplicates.eval_index import Index, read_manifest
from pipeline.annotate.duplicates.near_duplicate import make_near_duplicate
from pipeline.annotate.duplicates.perceptual import mirrored, pdq
from pipeline.annotate.duplicates.phash import make_phash
from pipeline.annotate.job import Settings, annotate
from pipeline.annotate.pictures.picture import Picture
from pipeline.decontaminate import index, sources
from pipeline.decontaminate_command import app as decontaminate
from pipeline.engine import Options
from pools import shards
from pools.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*:FutureWarning")
HERE = Options(workers=0, quiet=True)


def scene(number: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """A picture with some large and small things in it."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
    return small.resize(size, Image.Resampling.BICUBIC)


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def answers(annotator: Any, *bodies: bytes) -> dict[str, list[Any]]:
    """Columns of some pictures, as they lie in a shard."""
    model = annotator.load("cpu", 1)
    batch = model.annotate([model.prepare(Picture(body)) for body in bodies])
    assert {f.name for f in annotator.fields} == set(batch.columns)
    return {f.name: pa.array(batch.columns[f.name], f.type).to_pylist() for f in annotator.fields}


def test_the_hash_is_imagehashs() -> None:
    pictures = [scene(i) for i in range(5)]
    found = answers(make_phash({"pdq": "true"}), *(encoded(p) for p in pictures))
    assert [f"{value:016x}" for value in found["phash"]] == [str(imagehash.phash(p)) for p in pictures]
    assert all(len(bytes.fromhex(digits)) == 32 for digits in found["pdq"])
    assert all(quality == 100 for quality in found["pdq_quality"])
    plain = answers(make_phash({"pdq": "true"}), encoded(Image.new("RGB", (50, 40), "blue")))
    assert plain["pdq_quality"] == [0]
    assert list(answers(make_phash({}), encoded(pictures[0]))) == ["phash"]
    assert list(answers(make_phash({"name": "mine", "pdq": "true"}), encoded(pictures[0]))) == [
        "mine",
        "mine_pdq",
        "mine_pdq_quality",
    ]


# T61
TURN = Image.Transpose


@pytest.mark.parametrize(("tag", "turned"), [(6, TURN.ROTATE_90), (8, TURN.ROTATE_270), (3, TURN.ROTATE_180)])
def test_orientation_comes_before_the_hash(tag: int, turned: Image.Transpose) -> None:
    exif = Image.Exif()
    exif[0x0112] = tag
    upright, stored = encoded(scene(1)), encoded(scene(1).transpose(turned), exif=exif)
    found = answers(make_phash({"pdq": "true"}), upright, stored, encoded(scene(1).transpose(turned)))
    assert found["phash"][0] == found["phash"][1] != found["phash"][2]
    assert found["pdq"][0] == found["pdq"][1] != found["pdq"][2]


# T62
def test_shapes_that_only_the_alpha_channel_has_are_told_apart() -> None:
    bodies = []
    for box in ((10, 10, 60, 90), (70, 30, 120, 60)):
        picture = Image.new("RGBA", (128, 128), (0, 0, 0, 0))
        alpha = Image.new("L", (128, 128), 0)
        ImageDraw.Draw(alpha).ellipse(box, fill=255)
        picture.putalpha(alpha)
        bodies.append(encoded(picture))
    found = answers(make_phash({"pdq": "true"}), *bodies)
    assert found["phash"][0] != found["phash"][1]
    assert found["pdq"][0] != found["pdq"][1]


def tar_of(path: Path, pictures: dict[str, bytes | None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with shards.write(str(path)) as tar:
        for key, body in pictures.items():
            tar.add(key, {"cls": b"0"} if body is None else {"png": body, "cls": b"0"})


@pytest.fixture
def evals(tmp_path: Path) -> Path:
    """Two evaluation sets in DataComp's form."""
    root = tmp_path / "evals"
    tar_of(root / "wds_food101_test/test/0.tar", {f"s{i}": encoded(scene(i)) for i in range(3)})
    tar_of(root / "wds_food101_test/test/1.tar", {"s3": encoded(scene(3)), "s4": b"no picture", "s5": None})
    tar_of(root / "wds_vtab-dtd_test/test/0.tar", {"t0": encoded(scene(10), "JPEG", quality=90)})
    return root


def test_an_index_names_each_image_and_counts_what_it_cannot_read(evals: Path, tmp_path: Path) -> None:
    outcome = index([str(evals)], str(tmp_path / "index"), options=HERE)
    assert outcome.counts == {"in": 7, "kept": 5, "failed:not_an_image": 1, "dropped:no_image": 1}
    images = pq.read_table(tmp_path / "index/images.parquet").to_pylist()
    assert [f"{i['dataset']}/{i['key']}" for i in images] == [
        *(f"food101/0.tar/s{i}" for i in range(3)),
        "food101/1.tar/s3",
        "vtab-dtd/0.tar/t0",
    ]
    vectors = np.load(tmp_path / "index/descriptors.npy")
    assert (vectors.shape, vectors.dtype) == ((10, 32), np.uint8)  # each and its mirror image
    assert vectors[2].tobytes() == pdq(np.asarray(scene(1)))[0].tobytes()
    assert vectors[3].tobytes() == pdq(mirrored(np.asarray(scene(1))))[0].tobytes()
    hashes = np.load(tmp_path / "index/phash.npy").tolist()
    assert hashes == sorted(hashes)
    assert {int(str(imagehash.phash(scene(i))), 16) for i in range(4)} <= set(hashes)
    assert len(hashes) == 5
    manifest = json.loads((tmp_path / "index/_manifest.json").read_text())
    assert manifest["options"]["descriptor"]["model"].startswith("PDQ")


def test_folders_of_pictures_and_of_shards_are_indexed_too(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / "deep").mkdir(parents=True)
    (mine / "a.png").write_bytes(encoded(scene(1)))
    (mine / "deep/b.JPG").write_bytes(encoded(scene(2), "JPEG"))
    (mine / "notes.txt").write_text("no picture")
    tar_of(tmp_path / "pool/00000000.tar", {"k": encoded(scene(3))})
    assert index([str(mine), str(tmp_path / "pool")], str(tmp_path / "index"), options=HERE).counts["kept"] == 3
    names = [tuple(i.values()) for i in pq.read_table(tmp_path / "index/images.parquet").to_pylist()]
    assert names == [("mine", "a.png"), ("deep", "b.JPG"), ("pool", "00000000.tar/k")]
    with pytest.raises(InputError, match=r"absent: no such folder"):
        index([str(tmp_path / "absent")], str(tmp_path / "other"), options=HERE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no picture and no tar here"):
        index([str(tmp_path / "empty")], str(tmp_path / "other"), options=HERE)
    (tmp_path / "empty/x.png").write_bytes(b"x")
    with pytest.raises(InputError, match="no picture that can be decoded"):
        index([str(tmp_path / "empty")], str(tmp_path / "other"), options=HERE)


def test_one_set_alone_has_its_own_name(evals: Path) -> None:
    assert {s.dataset for s in sources(str(evals / "wds_food101_test"))} == {"food101"}


INDEX_FILES = ("descriptors.npy", "images.parquet", "phash.npy")


def test_only_what_is_new_is_described(evals: Path, tmp_path: Path, capsys: Any) -> None:
    loud = Options(workers=0)
    index([str(evals)], str(tmp_path / "one"), options=HERE)
    before = [(tmp_path / "one" / f).read_bytes() for f in INDEX_FILES]
    index([str(evals)], str(tmp_path / "one"), options=loud)
    assert "nothing to do" in capsys.readouterr().err
    assert [(tmp_path / "one" / f).read_bytes() for f in INDEX_FILES] == before
    tar_of(evals / "wds_zz_test/test/0.tar", {"z": encoded(scene(20))})
    assert index([str(evals)], str(tmp_path / "one"), options=loud).counts["kept"] == 6
    assert "3 of 4 units done before" in capsys.readouterr().err
    assert len(np.load(tmp_path / "one/descriptors.npy")) == 12


@pytest.mark.slow
def test_workers_change_no_byte(evals: Path, tmp_path: Path) -> None:
    index([str(evals)], str(tmp_path / "one"), options=HERE)
    index([str(evals)], str(tmp_path / "two"), options=Options(workers=2, quiet=True))
    one, two = ([(tmp_path / folder / f).read_bytes() for f in INDEX_FILES] for folder in ("one", "two"))
    assert one == two


def test_the_command_makes_an_index_and_a_pool_is_looked_up_in_it(evals: Path, tmp_path: Path) -> None:
    folder, pool = str(tmp_path / "index"), tmp_path / "pool"
    done = CliRunner().invoke(decontaminate, ["index", str(evals), "--output", folder, "--workers", "0", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["counts"]["kept"] == 5
    uids = [f"{i:032x}" for i in range(3)]
    (pool / "metadata").mkdir(parents=True)
    pq.write_table(pa.table({"uid": uids, "text": ["a", "b", "c"]}), pool / "metadata/00000000.parquet")
    bodies = [encoded(ImageOps.mirror(scene(2))), b"no picture", encoded(scene(77))]
    tar_of(pool / "shards/00000000.tar", dict(zip(uids, bodies, strict=True)))
    chosen = choose(["near_duplicate,phash"], [f"near_duplicate.index={folder}"], {})
    annotate(str(pool), chosen, settings=Settings("cpu", 2), options=HERE)
    near = pq.read_table(pool / "annotations/near_duplicate/00000000.parquet").to_pylist()
    assert [r["eval_nearest"] for r in near][:2] == ["food101/0.tar/s2", None]
    assert [r["eval_similarity"] for r in near][:2] == [1.0, None]
    assert near[2]["eval_similarity"] < 0.75
    assert near[1]["near_duplicate_reason"] == "not_an_image"
    hashes = pq.read_table(pool / "annotations/phash/00000000.parquet")["phash"]
    assert hashes.type == pa.uint64()
    assert hashes.to_pylist()[1] is None
    assert f"{hashes.to_pylist()[2]:016x}" == str(imagehash.phash(scene(77)))


def test_copies_of_evaluation_images_are_found_by_name(evals: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "index")
    index([str(evals)], folder, options=HERE)
    copy = Image.open(io.BytesIO(encoded(scene(1))))
    edits = [
        copy,
        ImageOps.mirror(copy),
        copy.resize((160, 120)),
        copy.filter(ImageFilter.GaussianBlur(2)),
        ImageEnhance.Brightness(copy).enhance(0.8),
        copy.convert("L"),
    ]
    bodies = [encoded(p) for p in edits] + [encoded(copy, "JPEG", quality=20), encoded(scene(99))]
    found = answers(make_near_duplicate({"index": folder}), *bodies)
    assert found["eval_nearest"][:-1] == ["food101/0.tar/s1"] * 7
    assert found["eval_similarity"][0] == 1
    assert found["eval_similarity"][1] == 1
    assert min(found["eval_similarity"][:-1]) > 0.8
    assert found["eval_similarity"][-1] < 0.7
    rows = pa.record_batch({"eval_similarity": pa.array(found["eval_similarity"], pa.float32())})
    rule = FILTERS.build("eval_similarity", {"below": 0.75})
    assert isinstance(rule, Filter)
    assert rule.keep(rows).to_pylist() == [False] * 7 + [True]
    # The same by the perceptual hashes that the filter looks up itself; a mirror image is none to them.
    hashes = answers(make_phash({}), *bodies)["phash"]
    near = hamming.read_index(f"{folder}/phash.npy", 6).nearest(np.array(hashes, np.uint64))
    assert (near <= 6).tolist() == [True, False, True, True, True, True, True, False]


def test_the_similarity_is_the_share_of_equal_bits(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    (tmp_path / "e/a.png").write_bytes(encoded(scene(1)))
    index([str(tmp_path / "e")], str(tmp_path / "index"), options=HERE)
    other = answers(make_near_duplicate({"index": str(tmp_path / "index")}), encoded(scene(2)))["eval_similarity"][0]
    one = np.unpackbits(pdq(np.asarray(scene(2)))[0])
    shares = [float((one == np.unpackbits(pdq(p)[0])).mean()) for p in (np.asarray(scene(1)), mirrored(np.asarray(scene(1))))]
    assert other == pytest.approx(max(shares))


class Means(torch.nn.Module):
    """A descriptor of 12 numbers: means of the quarters of the square, in each colour."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.adaptive_avg_pool2d(x, (2, 2)).flatten(1)


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "means.torchscript.pt"
    torch.jit.script(Means()).save(str(path))  # type: ignore[no-untyped-call]
    return str(path)


def test_a_models_vectors_are_compared_by_their_cosine(evals: Path, tmp_path: Path, network: str) -> None:
    folder = str(tmp_path / "index")
    index([str(evals)], folder, model="sscd-disc-mixup", weights=network, options=HERE)
    vectors = np.load(f"{folder}/descriptors.npy")
    assert (vectors.shape, vectors.dtype) == ((5, 12), np.float32)
    assert not Path(f"{folder}/phash.npy").exists()
    # By hand: squeezed to a square, normalised, averaged.
    square = np.asarray(scene(2).resize((320, 320), Image.Resampling.BILINEAR)).astype(np.float32) / 255
    square = (square - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    means = np.array([square[y : y + 160, x : x + 160, c].mean() for c in range(3) for y in (0, 160) for x in (0, 160)])
    np.testing.assert_allclose(vectors[2], means / np.linalg.norm(means), atol=1e-5)

    annotator = make_near_duplicate({"index": folder, "model": "sscd-disc-mixup", "weights": network})
    bodies = [encoded(scene(i)) for i in (2, 50, 0)]
    found = answers(annotator, *bodies)
    assert found["eval_nearest"][0] == "food101/0.tar/s2"
    assert found["eval_similarity"][0] == pytest.approx(1, abs=1e-5)
    alone = [answers(annotator, body)["eval_similarity"][0] for body in bodies]
    np.testing.assert_allclose(found["eval_similarity"], alone, atol=1e-5)
    square50 = np.stack([annotator.load("cpu", 1).prepare(Picture(bodies[1]))])  # type: ignore[arg-type]
    mine = Means()(torch.from_numpy(square50)).numpy()[0]
    assert found["eval_similarity"][1] == pytest.approx(float((vectors @ (mine / np.linalg.norm(mine))).max()), abs=1e-5)
    header = annotator.header()
    assert header["preprocessing"]["size"] == [320, 320]
    assert (header["metric"], header["index"]["images"], len(header["weights_sha256"])) == ("cosine", 5, 64)


def test_a_picture_without_a_description_has_no_similarity(evals: Path, tmp_path: Path, network: str) -> None:
    folder = str(tmp_path / "index")
    index([str(evals)], folder, model="isc-ft-v107", weights=network, size=64, options=HERE)
    model = make_near_duplicate({"index": folder, "model": "isc-ft-v107", "weights": network, "size": "64"}).load("cpu", 1)
    zeros = np.zeros((3, 64, 64), np.float32)
    batch = model.annotate([zeros, np.full_like(zeros, np.nan), zeros + 1])
    assert list(batch.columns["eval_similarity"])[:2] == [None, None]
    assert list(batch.columns["eval_nearest"])[:2] == [None, None]
    assert batch.reasons == ["no_description", "no_description", None]


def test_an_index_of_another_model_is_refused(
    evals: Path, tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    perceptual, modelled = str(tmp_path / "p"), str(tmp_path / "m")
    index([str(evals)], perceptual, options=HERE)
    index([str(evals)], modelled, model="sscd-disc-mixup", weights=network, options=HERE)
    torch.jit.script(torch.nn.Sequential(Means(), torch.nn.Linear(12, 12))).save(str(tmp_path / "other.pt"))  # type: ignore[no-untyped-call]

    def refused(**given: str) -> str:
        with pytest.raises(InputError) as e:
            make_near_duplicate(given)
        return str(e.value)

    ours = {"model": "sscd-disc-mixup", "weights": network}
    assert "another model's: its model is 'PDQ" in refused(index=perceptual, **ours)
    assert "its model is 'sscd-disc-mixup'" in refused(index=modelled)
    assert "its weights_sha256 is" in refused(index=modelled, model="sscd-disc-mixup", weights=str(tmp_path / "other.pt"))
    assert "its preprocessing is" in refused(index=modelled, size="288", **ours)
    assert "winnow decontaminate index EVALS" in refused()
    assert "no finished index" in refused(index=str(tmp_path / "nowhere"))
    assert "no descriptor is called 'dino'" in refused(index=perceptual, model="dino")
    monkeypatch.setenv("WINNOW_WEIGHTS", str(tmp_path / "none"))
    assert "or take --model perceptual, which needs no weights" in refused(index=perceptual, model="isc-ft-v107")
    assert "no weights and no size" in refused(index=perceptual, weights=network)
    (tmp_path / "junk.onnx").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"junk\.onnx"):
        index([str(evals)], str(tmp_path / "j"), model="sscd-disc-mixup", weights=str(tmp_path / "junk.onnx"), options=HERE)
    assert not (tmp_path / "j").exists()
    torch.save({"state_dict": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(InputError, match=r"checkpoint\.pt: cannot be read: .*expected TorchScript or ONNX"):
        index([str(evals)], str(tmp_path / "j"), model="sscd-disc-mixup", weights=str(tmp_path / "checkpoint.pt"), options=HERE)
    with pytest.raises(InputError, match="belongs to another run"):
        index([str(evals)], perceptual, model="sscd-disc-mixup", weights=network, options=HERE)


@pytest.mark.parametrize("metric", ["hamming", "cosine"])
def test_the_nearest_of_many_is_that_of_comparing_with_each(monkeypatch: pytest.MonkeyPatch, metric: Any) -> None:
    monkeypatch.setattr("pipeline.annotate.duplicates.eval_index._BLOCK", 300)
    rng = np.random.default_rng(0)
    rows = 2 if metric == "hamming" else 1
    if metric == "hamming":
        known, wanted = rng.integers(0, 256, (1000, 32), np.uint8), rng.integers(0, 256, (70, 32), np.uint8)
        wanted[:20] = known[rng.integers(0, 1000, 20)]
        same = np.unpackbits(wanted[:, None] ^ known, axis=2).mean(axis=2)
        expected = 1 - same
    else:
        known, wanted = (rng.normal(size=(n, 24)).astype(np.float32) for n in (1000, 70))
        expected = wanted @ known.T
    names = pa.array([f"k{i}" for i in range(1000 // rows)])
    found = Index(known, names, names, metric, rows)
    similar, images = found.nearest(wanted)
    np.testing.assert_allclose(similar, expected.max(axis=1), atol=1e-5)
    by_image = expected.reshape(70, -1, rows).max(axis=2)
    np.testing.assert_allclose(by_image[np.arange(70), images], expected.max(axis=1), atol=1e-5)
    assert found.name(3) == "k3/k3"


def test_the_descriptor_travels_and_the_manifest_is_read(evals: Path, tmp_path: Path) -> None:
    index([str(evals)], str(tmp_path / "index"), options=HERE)
    annotator = make_near_duplicate({"index": str(tmp_path / "index"), "name": "mine"})
    assert pickle.loads(pickle.dumps(annotator)) == annotator  # noqa: S301
    assert [f.name for f in annotator.fields] == ["mine_similarity", "mine_nearest"]
    assert read_manifest(str(tmp_path / "index"))["counts"]["kept"] == annotator.images == 5
    assert Descriptor.of("perceptual").identity() == {k: annotator.header()[k] for k in ("model", "preprocessing", "version")}
