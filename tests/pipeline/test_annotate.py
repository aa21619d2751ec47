"""A pool's shards to scores and features, with a small real CLIP of random weights."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip")

import open_clip
import torch
from PIL import Image

from pipeline.annotate.clip.clip import make_clip
from pipeline.annotate.job import Settings
from pipeline.annotate.job import annotate as job
from pipeline.engine import Options
from pools.errors import InputError, WorkFailed
from pools.layout import Pool
from pools.manifest import winnow_version
from tests.pipeline.annotating import Row, jpeg, rows, write

HERE = Options(quiet=True)
CONFIG = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "head_width": 32, "patch_size": 8, "patch_dropout": 0.5},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
SCORE = "clip_tiny_similarity_score"
NEAR = 2e-4  # to scores of open_clip's own transform, whose pixels may be one level off; noise is the worst


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A config file and weights."""
    folder = tmp_path_factory.mktemp("model")
    config = folder / "tiny-for-annotate.json"
    config.write_text(json.dumps(CONFIG))
    open_clip.add_model_config(config)
    torch.manual_seed(0)
    built = open_clip.create_model("tiny-for-annotate")
    torch.save(built.state_dict(), folder / "weights.pt")
    return str(config), str(folder / "weights.pt")


def annotate(pool: Path, tiny: tuple[str, str], options: Options = HERE, **changes: Any) -> dict[str, int]:
    settings = Settings(changes.pop("device", "auto"), changes.pop("batch_size", 2))
    given: dict[str, Any] = {"name": "tiny", "model": tiny[0], "pretrained": tiny[1], **changes}
    clip = make_clip({key: value for key, value in given.items() if value is not None})
    return job(str(pool), [("clip", clip)], settings=settings, options=options)[given["name"]].outcome.counts


def result(pool: Path, stem: str = "00000000", name: str = "tiny") -> tuple[list[dict[str, Any]], Any, Any]:
    base = pool / "annotations" / name / stem
    with np.load(base.with_suffix(".npz"), allow_pickle=False) as arrays:
        assert sorted(arrays) == [f"{name}_img", f"{name}_txt"]
        return pq.read_table(base.with_suffix(".parquet")).to_pylist(), arrays[f"{name}_img"], arrays[f"{name}_txt"]


def naive(model: tuple[str, str], samples: list[Row]) -> list[tuple[Any, Any]]:
    """Features of each pair, computed alone by open_clip as its documentation does."""
    name = Path(model[0]).stem
    built, _, preprocess = open_clip.create_model_and_transforms(name, pretrained=model[1])
    built.eval()
    found = []
    for _, text, image in samples:
        assert image is not None
        with torch.no_grad():
            i = built.encode_image(preprocess(Image.open(io.BytesIO(image))).unsqueeze(0))
            t = built.encode_text(open_clip.get_tokenizer(name)([text]))
        found.append(((i / i.norm()).numpy()[0], (t / t.norm()).numpy()[0]))
    return found


def test_scores_and_features_equal_a_naive_loop(tmp_path: Path, model: tuple[str, str]) -> None:
    samples = rows(5)
    samples[3] = (samples[3][0], "word " * 500, samples[3][2])  # longer than the context
    write(tmp_path, "00000000", samples, tar_order=[4, 2, 0, 1, 3])
    assert annotate(tmp_path, model) == {"in": 5, "kept": 5}  # T51: 5 samples, batches of 2
    table, images, texts = result(tmp_path)
    assert [r["uid"] for r in table] == [s[0] for s in samples]
    assert (images.dtype, images.shape, texts.shape) == (np.float16, (5, 32), (5, 32))
    for i, (image, text) in enumerate(naive(model, samples)):
        assert table[i][SCORE] == pytest.approx(float(image @ text), abs=NEAR)
        assert table[i]["tiny_reason"] is None
        np.testing.assert_allclose(images[i], image, atol=1e-3)
        np.testing.assert_allclose(texts[i], text, atol=1e-3)
    assert pq.read_schema(tmp_path / "annotations/tiny/00000000.parquet").field(SCORE).type == pa.float32()


# T49, T53
def test_what_cannot_be_scored_is_null_with_a_reason(tmp_path: Path, model: tuple[str, str]) -> None:
    samples = rows(9)
    samples[2] = (*samples[2][:2], b"<p>no picture")
    samples[3] = (samples[3][0], None, samples[3][2])
    samples[4] = (*samples[4][:2], None)
    samples[5] = (*samples[5][:2], jpeg(5, (300, 200))[:4000])
    samples[6] = (*samples[6][:2], jpeg(6, (2100, 2)))
    write(tmp_path, "00000000", samples, tar_order=[0, 1, 2, 3, 4, 5, 6, 8])
    counts = annotate(tmp_path, model)
    table, images, texts = result(tmp_path)
    expected = [None, None, "not_an_image", "no_text", "no_image", "truncated_image", "aspect_ratio", "absent_sample", None]
    assert [r["tiny_reason"] for r in table] == expected
    assert counts == {"in": 9, "kept": 3, **{f"failed:{r}": 1 for r in expected if r}}
    good = [i for i, r in enumerate(expected) if r is None]
    for i, (image, text) in zip(good, naive(model, [samples[i] for i in good]), strict=True):
        assert table[i][SCORE] == pytest.approx(float(image @ text), abs=NEAR)
    for i in set(range(9)) - set(good):
        assert table[i][SCORE] is None
        assert not images[i].any()
        assert not texts[i].any()


# T52
@pytest.mark.parametrize("runs", [((1, 0), (8, 0)), pytest.param(((1, 0), (8, 2)), marks=pytest.mark.slow)], ids=str)
def test_batches_and_workers_change_no_score(tmp_path: Path, model: tuple[str, str], runs: tuple[tuple[int, int], ...]) -> None:
    found = []
    for batch, workers in runs:
        pool = tmp_path / f"{batch}-{workers}"
        for i, stem in enumerate(("a", "b")):
            write(pool, stem, rows(9, 9 * i))
        annotate(pool, model, Options(workers=workers, quiet=True), batch_size=batch)
        found.append([r[SCORE] for stem in ("a", "b") for r in result(pool, stem)[0]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    pools = [f"{batch}-{workers}" for batch, workers in runs]
    said = [json.loads(pq.read_schema(tmp_path / p / "annotations/tiny/a.parquet").metadata[b"winnow"]) for p in pools]
    assert said[0] == said[1]
    assert said[0]["precision"] == "fp32"
    assert said[0]["device"] == "cpu"
    assert said[0]["winnow"] == winnow_version()
    assert said[0]["preprocessing"]["size"] == 32
    assert said[0]["preprocessing"]["interpolation"] == "bicubic"
    assert said[0]["tokenizer"]["context_length"] == 16
    assert len(said[0]["weights_sha256"]) == 64
    manifest = json.loads((tmp_path / "1-0/annotations/tiny/_manifest.json").read_text())
    assert {**manifest["options"], "device": "cpu", "winnow": winnow_version()} == {**said[0], "name": "tiny"}


# T55
def test_only_what_is_new_is_computed(tmp_path: Path, model: tuple[str, str], capsys: Any) -> None:
    write(tmp_path, "00000000", rows(3))
    write(tmp_path, "00000001", rows(3, 3))
    loud = replace(HERE, quiet=False)
    assert annotate(tmp_path, model)["in"] == 6
    folder = tmp_path / "annotations/tiny"
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.glob("0*")}
    capsys.readouterr()
    assert annotate(tmp_path, model, loud)["in"] == 6
    assert "nothing to do" in capsys.readouterr().err
    write(tmp_path, "00000002", rows(3, 6))
    assert annotate(tmp_path, model, loud) == {"in": 9, "kept": 9}
    assert "2 of 3 units done before, 1 to do" in capsys.readouterr().err
    assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in before} == before
    assert "nothing to do" not in capsys.readouterr().err
    annotate(tmp_path, model, loud)
    assert "nothing to do" in capsys.readouterr().err
    pool = Pool.open(str(tmp_path))
    uids = [u for part in pool.parts for b in part.batches(["uid", SCORE, "tiny_img"]) for u in b["uid"].to_pylist()]
    assert uids == [r[0] for r in rows(9)]


def test_a_rerun_gives_the_same_bytes(tmp_path: Path, model: tuple[str, str]) -> None:
    write(tmp_path, "00000000", rows(3))
    annotate(tmp_path, model)
    files = [tmp_path / "annotations/tiny" / f"00000000.{e}" for e in ("parquet", "npz")]
    before = [f.read_bytes() for f in files]
    annotate(tmp_path, model, replace(HERE, overwrite=True))
    assert [f.read_bytes() for f in files] == before


def test_repeated_uids_are_joined_in_order(tmp_path: Path, model: tuple[str, str]) -> None:
    a, b = rows(2)
    samples = [a, b, (a[0], "another caption", jpeg(7))]
    write(tmp_path, "00000000", samples)
    annotate(tmp_path, model)
    table, _, _ = result(tmp_path)
    for row, (image, text) in zip(table, naive(model, samples), strict=True):
        assert row[SCORE] == pytest.approx(float(image @ text), abs=NEAR)


def test_a_training_run_is_a_model(tmp_path: Path, model: tuple[str, str]) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "model_config.json").write_text(json.dumps(CONFIG))
    weights = torch.load(model[1], weights_only=True)
    torch.save({"step": 5, "state_dict": weights}, run / "checkpoints/latest.pt")
    pool = tmp_path / "pool"
    write(pool, "00000000", rows(3))
    annotate(pool, model)
    annotate(pool, (str(run), ""), name="ours", pretrained=None)
    ours = [r["clip_ours_similarity_score"] for r in result(pool, name="ours")[0]]
    assert ours == [r[SCORE] for r in result(pool)[0]]


def test_an_empty_metadata_file_gives_empty_tables(tmp_path: Path, model: tuple[str, str]) -> None:
    write(tmp_path, "00000000", [])  # T51
    assert annotate(tmp_path, model) == {"in": 0, "kept": 0}
    table, images, _ = result(tmp_path)
    assert (table, images.shape) == ([], (0, 32))


def test_a_damaged_shard_is_named_and_the_others_are_done(tmp_path: Path, model: tuple[str, str]) -> None:
    for i in range(3):
        write(tmp_path, f"0000000{i}", rows(3, 3 * i))
    tar = tmp_path / "shards/00000001.tar"
    whole = tar.read_bytes()
    tar.write_bytes(whole[:2000])
    with pytest.raises(WorkFailed, match=r"00000001\.tar"):
        annotate(tmp_path, model)
    folder = tmp_path / "annotations/tiny"
    assert sorted(p.name for p in folder.glob("*.parquet")) == ["00000000.parquet", "00000002.parquet"]
    assert not (folder / "_manifest.json").exists()
    tar.write_bytes(whole)
    assert annotate(tmp_path, model) == {"in": 9, "kept": 9}


def test_wrong_input_is_refused_before_any_work(tmp_path: Path, model: tuple[str, str]) -> None:
    pool = tmp_path / "pool"
    write(pool, "00000000", rows(2), clip_l14_similarity_score=[0.1, 0.2])

    def refused(**changes: Any) -> str:
        with pytest.raises(InputError) as e:
            annotate(changes.pop("pool", pool), model, **changes)
        assert not (pool / "annotations").exists()
        return str(e.value)

    assert "clip_l14_similarity_score" in refused(name="l14")
    assert "--name" in refused(name="../up")
    if not torch.cuda.is_available():
        assert "CUDA" in refused(device="cuda")  # T60
    assert "unknown device" in refused(device="gpu")
    assert "absent.pt" in refused(pretrained=str(tmp_path / "absent.pt"))
    assert "openai" in refused(model="ViT-B-32", pretrained="openai")  # no name is looked up in the network
    assert "--pretrained" in refused(model="ViT-B-32", pretrained=None)
    assert "ViT-B-32" in refused(model="ViT-B-23")
    assert "network" in refused(model="ViT-B-16-SigLIP")
    assert "absent.json" in refused(model=str(tmp_path / "absent.json"))
    assert "model_config.json" in refused(model=str(tmp_path), pretrained=None)
    junk = tmp_path / "junk.pt"
    junk.write_bytes(b"no weights")
    assert "junk.pt" in refused(pretrained=str(junk))
    torch.save({"visual.proj": torch.zeros(3)}, junk)
    assert "junk.pt" in refused(pretrained=str(junk), name="other")
    (pool / "shards/00000000.tar").unlink()
    assert "00000000.tar" in refused(name="third")
    bare = tmp_path / "bare"
    bare.mkdir()
    pq.write_table(pa.table({"uid": ["a"]}), bare / "x.parquet")
    assert "'text'" in refused(pool=bare)  # T50
    assert "x.parquet" in refused(pool=bare / "x.parquet")  # T54


def test_hostile_weights_run_no_code(tmp_path: Path, model: tuple[str, str]) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "owned",))

    write(tmp_path / "pool", "00000000", rows(1))
    weights = tmp_path / "attack.pt"
    torch.save({"state_dict": Attack()}, weights)
    with pytest.raises(InputError, match=r"attack\.pt"):
        annotate(tmp_path / "pool", model, pretrained=str(weights))
    assert not (tmp_path / "owned").exists()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_gives_the_scores_of_the_cpu(tmp_path: Path, model: tuple[str, str]) -> None:
    found = []
    for device in ("cpu", "cuda"):
        pool = tmp_path / device
        write(pool, "00000000", rows(5))
        annotate(pool, model, device=device)
        found.append([r[SCORE] for r in result(pool)[0]])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
