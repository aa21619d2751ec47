"""Toxic captions: the classifier over words against its README, Detoxify's checkpoints against Hugging Face's models."""

from __future__ import annotations

import io
import json
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import torch

from filters.models import SHA256
from filters.safety import Toxicity as Filter
from pipeline.annotate.text.toxic_words import ToxicWords, Vocabulary
from pipeline.annotate.text.toxicity import Toxicity, ToxicityModel, make_toxicity
from pipeline.models import locate
from pools.errors import InputError
from tests.pipeline import detoxify_checkpoint
from tests.pipeline.samples import FakeSample, alone, answers, reason

TEXTS = ["You are so dumb and stupid!", "a dog on the beach", "two people at a table, one with a red hat", "I hate you"]


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


@pytest.fixture(scope="module")
def words() -> ToxicityModel:
    return make_toxicity({}).load("cpu", 1)


def scores(model: ToxicityModel, *texts: str) -> dict[str, Any]:
    return answers(model, [FakeSample(text) for text in texts])


def test_scores_are_those_of_the_readme(words: ToxicityModel) -> None:
    found = {name: values[0] for name, values in scores(words, "You are so dumb and stupid!").items()}
    assert found == pytest.approx(
        {
            "toxicity": 0.9889402985572815,
            "toxicity_toxic": 0.9889402985572815,
            "toxicity_severe_toxic": 0.07256772369146347,
            "toxicity_obscene": 0.620429277420044,
            "toxicity_threat": 0.01934845559298992,
            "toxicity_insult": 0.8664075136184692,
            "toxicity_identity_attack": 0.04072948172688484,
        },
        abs=1e-6,
    )


# The README's means of the six.
@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("I hate you so much!", 0.1395),
        ("This is wonderful news.", 0.0013),
        ("You're disgusting!", 0.3110),
        ("Absolutely love your energy!", 0.0088),
        ("You're the worst person ever!", 0.0937),
        ("Have a nice day :)", 0.0115),
    ],
)
def test_means_are_those_of_the_readme(words: ToxicityModel, text: str, mean: float) -> None:
    found = scores(words, text)
    labels = [values[0] for name, values in found.items() if name != "toxicity"]
    assert np.mean(labels) == pytest.approx(mean, abs=5e-5)
    assert found["toxicity"][0] == max(labels)


# T56, T53
def test_texts_that_cannot_be_scored_say_why(words: ToxicityModel) -> None:
    assert reason(words, FakeSample(None)) == "no_text"
    assert reason(words, FakeSample("")) == "no_text"
    assert reason(words, FakeSample(" \n")) == "no_text"
    assert reason(words, FakeSample("🙂🙂")) == "no_known_words"
    assert reason(words, FakeSample("海辺の犬")) == "no_known_words"


# T56
def test_a_batch_of_odd_texts_keeps_its_order(words: ToxicityModel) -> None:
    long = "a dog on the beach " * 1000  # 5,000 words
    found = scores(words, TEXTS[1], long, TEXTS[0], "🙂 hello 🙂")["toxicity"]
    assert ((found >= 0) & (found <= 1)).all()
    assert found[2] == pytest.approx(0.98894, abs=1e-4)
    assert found[0] == pytest.approx(scores(words, TEXTS[1])["toxicity"][0], abs=1e-6)
    assert found[0] < 0.2


def test_of_a_long_text_the_worst_hundred_words_count(words: ToxicityModel) -> None:
    harmless = "a dog on the beach " * 40  # 200 words
    calm, start, end = scores(words, harmless, TEXTS[0] + harmless, harmless + TEXTS[0])["toxicity"]
    assert calm < 0.5
    assert start > 0.8
    assert end > 0.8


def test_up_to_a_hundred_words_are_one_window() -> None:
    model = ToxicWords(locate("toxic-comment-classifier").path, "cpu")
    tokens = model.tokens("you are so dumb and stupid ") * 20
    assert len(tokens) == 120
    whole = model.scores([tokens[20:]])
    assert model.scores([tokens])[0] == pytest.approx(np.maximum(whole[0], model.scores([tokens[:20]])[0]), abs=1e-6)
    assert whole[0].max() != pytest.approx(model.scores([tokens[:100]])[0].max(), abs=1e-6)


# T52
@pytest.mark.parametrize("kind", ["words", "bert", "roberta"])
def test_a_score_does_not_depend_on_the_batch(words: ToxicityModel, tmp_path: Path, kind: str) -> None:
    model = words if kind == "words" else detoxify(tmp_path, kind).load("cpu", 1)
    samples = [FakeSample(text) for text in [*TEXTS, "you are a stupid person " * 50] * 10]
    together, each = answers(model, samples), alone(model, samples)
    for name, values in together.items():
        assert np.abs(values - each[name]).max() < 1e-5
        assert np.ptp(values) > 1e-4


def test_the_filter_reads_what_is_written(tmp_path: Path) -> None:
    for annotator in (make_toxicity({}), detoxify(tmp_path, "bert")):
        assert annotator.fields[0] == pa.field(Filter().column, pa.float32())
        assert annotator.reads == ("text",)
        assert not annotator.wants_image
    assert [f.name for f in make_toxicity({"name": "bad"}).fields][:2] == ["bad", "bad_toxic"]


def test_the_header_says_what_the_score_depends_on(tmp_path: Path) -> None:
    header = make_toxicity({}).header()
    assert header["weights_sha256"] == SHA256["toxic-comment-classifier"]
    assert header["tokenizer"] == {"name": "words", "window": 100}
    annotator = detoxify(tmp_path, "roberta")
    header = annotator.header()
    assert header["tokenizer"]["context_length"] == 512
    assert len(header["tokenizer"]["sha256"]) == len(header["weights_sha256"]) == 64
    assert {"model", "precision", "version"} <= header.keys()
    assert pickle.loads(pickle.dumps(annotator)) == annotator  # noqa: S301
    assert hash(annotator)


# Detoxify's checkpoints.


def detoxify(tmp_path: Path, kind: str, **changes: str) -> Toxicity:
    folder = tmp_path / kind
    folder.mkdir()
    checkpoint, base = detoxify_checkpoint.write(folder, kind)
    model = "detoxify-original" if kind == "bert" else "detoxify-multilingual"
    return make_toxicity({"model": model, "weights": checkpoint, "text_model": base, **changes})


# Of these weights by Hugging Face's BertForSequenceClassification and XLMRobertaForSequenceClassification (transformers 5.24),
# padded and masked; rows are texts, columns labels. The last text is cut to 512 tokens.
EXPECTED = {
    "bert": [[0.41741, 0.56902, 0.64575], [0.41684, 0.56808, 0.64581], [0.42058, 0.57133, 0.65003]],
    "roberta": [[0.21427, 0.58636, 0.45015], [0.21098, 0.57557, 0.45017], [0.20947, 0.54898, 0.46386]],
}
LABELS = {"bert": ("toxic", "severe_toxic", "obscene"), "roberta": ("toxic", "severe_toxic", "sexual_explicit")}


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_checkpoint_scores_as_hugging_faces_model_does(tmp_path: Path, kind: str) -> None:
    annotator = detoxify(tmp_path, kind)
    assert annotator.labels == LABELS[kind]
    found = scores(annotator.load("cpu", 1), "you are a stupid person", "a kind dog", "beach " * 700)
    for label, expected in zip(LABELS[kind], np.transpose(EXPECTED[kind]), strict=True):
        assert found[f"toxicity_{label}"] == pytest.approx(expected, abs=1e-5)
    assert found["toxicity"] == pytest.approx(np.max(EXPECTED[kind], axis=1), abs=1e-5)


# T56
def test_odd_texts_and_detoxify(tmp_path: Path) -> None:
    model = detoxify(tmp_path, "roberta").load("cpu", 1)
    assert reason(model, FakeSample("")) == reason(model, FakeSample(None)) == "no_text"
    found = scores(model, "🙂🙂", "dog " * 5000, "you", "a kind dog")["toxicity"]
    assert ((found >= 0) & (found <= 1)).all()
    assert found[3] == pytest.approx(0.57557, abs=1e-5)


def test_the_checkpoint_of_pytorchs_cache_is_found(tmp_path: Path) -> None:
    (tmp_path / "bert").mkdir()
    checkpoint, base = detoxify_checkpoint.write(tmp_path / "bert", "bert")
    with pytest.raises(InputError, match=r"winnow models fetch detoxify-original(.|\n)*toxic-comment-classifier"):
        make_toxicity({"model": "detoxify-original", "text_model": base})
    cache = tmp_path / "torch" / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    cached = Path(checkpoint).rename(cache / "toxic_original-c1212f89.ckpt")
    assert make_toxicity({"model": "detoxify-original", "text_model": base}).weights.path == str(cached)


def test_the_folder_of_the_text_model_is_asked_for_in_one_error(tmp_path: Path) -> None:
    checkpoint, base = detoxify_checkpoint.write(tmp_path, "roberta")
    with pytest.raises(InputError, match=r"needs the tokenizer of roberta-base; expected a folder with config\.json"):
        make_toxicity({"weights": checkpoint})
    with pytest.raises(InputError, match=r"cannot be read: .*config\.json"):
        make_toxicity({"weights": checkpoint, "text_model": str(tmp_path / "none")})
    (Path(base) / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json cannot be read"):
        make_toxicity({"weights": checkpoint, "text_model": base})
    (Path(base) / "config.json").write_text(json.dumps({"hidden_act": "relu"}))
    detoxify_checkpoint.write(_empty(tmp_path / "again"), "roberta")
    with pytest.raises(InputError, match="another hidden_act than gelu"):
        (Path(base) / "tokenizer.json").write_bytes((tmp_path / "again" / "base" / "tokenizer.json").read_bytes())
        make_toxicity({"weights": checkpoint, "text_model": base})


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_text_model_that_does_not_fit(tmp_path: Path) -> None:
    annotator = detoxify(tmp_path, "bert")
    config = Path(annotator.folder) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 3}))
    with pytest.raises(InputError, match=r"no weights 'bert\.encoder\.layer\.2\."):
        annotator.load("cpu", 1)


class Evil:
    def __reduce__(self) -> Any:
        return print, ("was run",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (Evil(), "cannot be read"),
        ({"state_dict": {}}, "no Detoxify"),
        ({"config": {"arch": {}}, "state_dict": {}}, "its config has no 'args'"),
        (
            {
                "config": {
                    "arch": {"args": {"model_name": "AlbertForSequenceClassification", "model_type": "albert"}},
                    "dataset": {"args": {"classes": ["toxic"]}},
                },
                "state_dict": {},
            },
            "a AlbertForSequenceClassification; expected one of BertFor",
        ),
    ],
)
def test_a_file_that_is_no_checkpoint(tmp_path: Path, content: Any, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(content, tmp_path / "bad.ckpt")
    with pytest.raises(InputError, match=said):
        make_toxicity({"weights": str(tmp_path / "bad.ckpt"), "text_model": str(tmp_path)})
    assert "was run" not in capsys.readouterr().out


# The pickled tokenizer.


def test_only_words_that_the_network_has_a_vector_for_are_known() -> None:
    with Path(locate("toxic-comment-classifier").path, "tokenizer.pickle").open("rb") as f:
        numbers = Vocabulary.read(f).numbers.values()
    assert (min(numbers), max(numbers), len(numbers)) == (1, 19_999, 19_999)


def test_a_pickle_that_names_anything_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for content in (Evil(), OrderedDict(num_words=Evil())):
        with pytest.raises(pickle.UnpicklingError, match=r"it names builtins\.print"):
            Vocabulary.read(io.BytesIO(pickle.dumps(content)))
    assert "was run" not in capsys.readouterr().out


def test_files_that_are_not_the_classifiers(tmp_path: Path) -> None:
    for content in (pickle.dumps(3), b"no pickle", b""):
        (tmp_path / "tokenizer.pickle").write_bytes(content)
        with pytest.raises(InputError, match="expected the files of toxic-comment-classifier"):
            ToxicWords(str(tmp_path), "cpu")


def test_what_is_asked_for() -> None:
    with pytest.raises(InputError, match="no model 'perspective'; expected one of toxic-comment-classifier, detoxify-original"):
        make_toxicity({"model": "perspective"})
    with pytest.raises(InputError, match="has no text model"):
        make_toxicity({"model": "toxic-comment-classifier", "text_model": "x"})
    with pytest.raises(InputError, match="knows no option 'colour'"):
        make_toxicity({"colour": "red"})
