"""Captions to languages: sentences of 39 languages, Wikipedia's captions of 11, and what cannot be judged."""

from __future__ import annotations

import ast
import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filters.language import Language as LanguageFilter
from filters.models import LID_176_FTZ, SHA256, packaged
from pipeline.annotate.annotator import Model
from pipeline.annotate.job import Settings, annotate
from pipeline.annotate.text.language import Language, make_language
from pipeline.engine import Options
from pipeline.selection import select
from pools.errors import InputError
from tests.benchmarks.languages import captions, same
from tests.filters.scans import batch
from tests.pipeline.samples import FakeSample, answers, reason
from tests.pipeline.texts import pool_of_texts

# Languages of which spaCy has example sentences that both people and fastText take for nothing else.
LANGUAGES = [
    *("am", "ar", "bg", "bn", "bo", "da", "de", "el", "en", "eu", "fa", "fi", "fr", "gu", "he", "hi", "hu", "hy", "it", "ja"),
    *("kn", "ko", "lb", "ml", "nl", "pl", "pt", "ro", "ru", "si", "sq", "sv", "ta", "te", "tr", "uk", "ur", "vi", "zh"),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return make_language({}).load("cpu", 1)


def sentences(language: str) -> list[str]:
    """spaCy's examples, without importing it: that takes seconds."""
    (package,) = importlib.util.find_spec("spacy").submodule_search_locations  # type: ignore[union-attr,misc]
    module = ast.parse(Path(package, "lang", language, "examples.py").read_text(encoding="utf-8"))
    (listed,) = (node.value for node in module.body if isinstance(node, ast.Assign))
    found: list[str] = ast.literal_eval(listed)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_in_their_language(model: Model, language: str) -> None:
    found = answers(model, [FakeSample(s) for s in sentences(language)])
    assert set(found["language"]) == {language}
    scores = np.asarray(found["language_score"])
    assert (scores > 0.2).all()
    assert (scores <= 1).all()


def test_it_says_what_the_filter_compares(model: Model) -> None:
    texts = ["a cat sits\non the mat", "ein Hund läuft\r\nüber die Straße", "le\tchat", "1234", "🙂🙂", "word " * 5000]
    found = answers(model, [FakeSample(t) for t in texts])
    said = [f"{label} {score:.3f}" for label, score in zip(found["language"], found["language_score"], strict=True)]
    assert said == LanguageFilter(("en",)).measure(batch(text=texts)).to_pylist()
    by_cld3 = LanguageFilter(("en",), model="cld3").measure(batch(text=texts)).to_pylist()
    assert list(found["language_cld3"]) == [said.split()[0] for said in by_cld3]
    assert said[3].startswith("en 0.12")  # of what has no letters: hardly a language


# T56 for languages
def test_texts_alone_and_in_any_batch(model: Model) -> None:
    texts = ["a dog", "ein Hund", "🙂🙂", "5,000", "un perro en la playa"]
    whole = answers(model, [FakeSample(t) for t in texts])
    for i in (4, 2, 0):
        alone = answers(model, [FakeSample(texts[i])])
        assert {k: list(v) for k, v in alone.items()} == {k: [v[i]] for k, v in whole.items()}


@pytest.mark.parametrize("text", [None, "", " \n\t", "\u2028"])
def test_no_text_has_no_language(model: Model, text: str | None) -> None:
    assert reason(model, FakeSample(text)) == "no_text"


def test_options() -> None:
    loud, quiet = FakeSample("MY FRIEND IS A BIRD"), FakeSample("my friend is a bird")
    plain, folded = (make_language(o).load("cpu", 1) for o in ({}, {"fold_case": "true", "cld3": "false", "name": "lid"}))
    assert list(answers(folded, [loud])) == ["lid", "lid_score"]
    by_case = [answers(m, [s])[c][0] for m, s, c in ((plain, quiet, "language_score"), (folded, loud, "lid_score"))]
    assert by_case[0] == by_case[1] != answers(plain, [loud])["language_score"][0]
    assert [f.name for f in make_language({"name": "lid"}).fields] == ["lid", "lid_score", "lid_cld3"]
    with pytest.raises(InputError, match="knows no option 'modle'; expected model, weights, name, cld3, fold_case"):
        make_language({"modle": LID_176_FTZ})
    with pytest.raises(InputError, match="cld3 of language is 'no'; expected true or false"):
        make_language({"cld3": "no"})


def test_a_model_by_its_path(tmp_path: Path) -> None:
    copy = tmp_path / "lid.bin"
    copy.write_bytes(Path(packaged(LID_176_FTZ)).read_bytes())
    annotator = make_language({"weights": str(copy)})
    assert annotator.header() == {
        **make_language({}).header(),
        "model": "fastText lid.bin, CLD3",
    }
    assert annotator.header()["weights_sha256"] == SHA256[LID_176_FTZ]
    sent: Language = pickle.loads(pickle.dumps(annotator))  # noqa: S301  (our own object, as the engine sends it)
    assert list(answers(sent.load("cpu", 1), [FakeSample("ein Hund im Garten")])["language"]) == ["de"]
    (tmp_path / "bad.bin").write_bytes(b"no model")
    with pytest.raises(InputError, match="expected a fastText model"):
        make_language({"weights": str(tmp_path / "bad.bin")}).load("cpu", 1)
    with pytest.raises(InputError, match="no such file of weights"):
        make_language({"weights": str(tmp_path / "nowhere.bin")})


def test_a_pool_of_metadata_is_annotated_and_filtered(tmp_path: Path) -> None:
    texts = ["a dog runs on the beach", None, "der Hund läuft durch den Garten", " ", "the cat sits on the mat"]
    pool = pool_of_texts(tmp_path / "pool", texts)
    done = annotate(pool, [("language", make_language({}))], settings=Settings(), options=Options(workers=0, quiet=True))
    assert done["language"].outcome.counts == {"in": 5, "kept": 3, "failed:no_text": 2}
    table = pq.read_table(tmp_path / "pool/annotations/language/a.parquet")
    assert table.schema.field("language_score").type == pa.float32()
    assert table["language"].to_pylist() == ["en", None, "de", None, "en"]
    assert table["language_score"].to_pylist()[1::2] == [None, None]  # T53
    assert table["language_reason"].to_pylist() == [None, "no_text", None, "no_text", None]
    header = json.loads(table.schema.metadata[b"winnow"])
    assert (header["model"], header["weights_sha256"]) == ("fastText lid.176.ftz, CLD3", SHA256[LID_176_FTZ])
    recipe = tmp_path / "sure.yaml"
    recipe.write_text(
        "keep:\n  - score: {column: language_score, min: 0.5}\nmix:\n  - languages: {column: language, of: de, share: 0.5}\n"
    )
    select(str(recipe), pool, str(tmp_path / "out"), options=Options(workers=0, quiet=True))
    listed = np.load(tmp_path / "out/uids.npy")["f1"].tolist()
    assert len(listed) == 3
    assert {2} < set(listed) <= {0, 2, 4}


@pytest.mark.shared
def test_captions_of_wikipedia_are_right_more_often_the_longer_they_are(shared_data: Path, model: Model) -> None:
    rows = [row for row in captions(shared_data / "captions") if row[1].strip()]
    found = answers(model, [FakeSample(text) for _, text in rows])["language"]
    right = np.array([same(said, language) for said, (language, _) in zip(found, rows, strict=True)])
    lengths = np.array([len(text) for _, text in rows])
    assert len({language for language, _ in rows}) == 11
    assert right[lengths >= 80].mean() > 0.92 > 0.85 > right[(lengths >= 40) & (lengths < 80)].mean() > 0.8
    assert right.mean() > 0.78
    assert len(rows) == 9_582
