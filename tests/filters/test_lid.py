"""Languages by compiled code: to the bit what fastText answers, whatever the text, and fastText where it cannot be."""

from __future__ import annotations

import random
from pathlib import Path

import fasttext
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filters import lid, lid_model, models
from filters.language import Language
from filters.lid_walk import Tables
from tests.filters.scans import batch

ODD = [
    *(
        "a dog",
        "",
        " ",
        "\n",
        "\t\x0b\x0c\r",
        "\x00",
        "\x00a\x00b",
        "\u00a0",
        "\u2028 \u3000",
        "\x1c\x1d",
        "\u3000犬",
        "日本 語の",
    ),
    *("__label__en", "__label__hello world", "__label_", "__label__", "a __label__xx dog", "</s>", "ein </s> chien", "<a>"),
    *(
        "a" * 5_000,
        "ab " * 5_000,
        "the dog\nruns\r\nhome",
        "x\u0301y",
        "🙂🙂",
        "日本 語の",
        "𝔘𝔫𝔦",
        "1234 5,678",
        "_",
        "é",
        "éa",
        "\x7f",
    ),
]


@pytest.fixture(scope="module")
def tables() -> Tables:
    found = lid.compiled(models.LID_176_FTZ)
    assert found is not None
    return found


def assert_same(texts: list[str | None], tables: Tables, path: str = models.LID_176_FTZ) -> None:
    codes, scores = lid.identify_compiled(pa.array(texts, pa.string()), tables)
    theirs, expected = models.identify_languages([t or "" for t in texts], path)
    assert codes.tolist() == theirs.tolist()
    assert scores.tobytes() == expected.tobytes()


def test_odd_texts(tables: Tables) -> None:
    assert_same([*ODD, None], tables)
    assert_same([], tables)


def test_any_characters(tables: Tables) -> None:
    rng = random.Random(0)
    blanks = "  \n\t\x00\u00a0\u2028\u3000"

    def character() -> str:
        kind = rng.random()
        if kind < 0.4:
            return chr(rng.randrange(128))
        return rng.choice(blanks) if kind < 0.6 else chr(rng.choice([rng.randrange(0xD800), rng.randrange(0x10000, 0x110000)]))

    assert_same(["".join(character() for _ in range(rng.randrange(60))) for _ in range(3_000)], tables)


@pytest.mark.shared
def test_captions_of_the_web(tables: Tables, shared_data: Path) -> None:
    assert_same(pq.read_table(shared_data / "captions" / "urls_texts_10000.parquet")["TEXT"].to_pylist()[:3_000], tables)


def test_any_array_of_texts(tables: Tables) -> None:
    texts = ["ein Hund läuft über die Straße", None, "", "a cat sits on the mat", "le chat est dans le jardin"]
    whole = pa.array(texts, pa.string())
    codes, scores = lid.identify_compiled(whole, tables)
    assert codes.tolist() == ["de", "und", "und", "en", "fr"]
    for array in (whole.cast(pa.large_string()), pa.array(["x", *texts, "y"]).slice(1, 5)):
        found = lid.identify_compiled(array, tables)
        assert (found[0].tolist(), found[1].tolist()) == (codes.tolist(), scores.tolist())
    assert lid.identify_compiled(whole.slice(3, 1), tables)[0].tolist() == ["en"]
    assert lid.identify_compiled(pa.array([None, None], pa.string()), tables)[0].tolist() == ["und", "und"]


def test_the_filter_says_the_same_when_it_turns_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = batch(text=["a cat sits\non the mat", "", "ein Hund läuft über die Straße", None, "MY FRIEND IS A BIRD"] * 3)
    rules = [Language(("en",)), Language(("de", "und"), min_score=0.5), Language(("en",), fold_case=True)]
    before = [(rule.keep(rows), rule.measure(rows)) for rule in rules]
    monkeypatch.setattr(lid, "FEW", 0)

    def never(texts: list[str], path: str) -> None:
        raise AssertionError("fastText was asked")

    assert lid.compiled(models.LID_176_FTZ) is not None
    monkeypatch.setattr(models, "identify_languages", never)
    assert [(rule.keep(rows), rule.measure(rows)) for rule in rules] == before


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of two languages: `tree.ftz` is compressed and has a tree, the others lack one of the two."""
    folder = tmp_path_factory.mktemp("models")
    english, german = ["dog", "cat", "house", "bird", "the", "and"], ["hund", "katze", "haus", "vogel", "der", "und"]
    rng = random.Random(0)
    lines = [
        f"__label__{code} {' '.join(rng.choices(words, k=6))}"
        for _ in range(300)
        for code, words in (("en", english), ("de", german), ("xx", [*english, *german]))
    ]
    (folder / "train.txt").write_text("\n".join(lines))
    for loss, name in (("hs", "tree"), ("softmax", "flat")):
        # An odd number of dimensions makes the last part of a vector narrower.
        given = {"input": str(folder / "train.txt"), "loss": loss, "dim": 9, "minn": 2, "maxn": 5, "bucket": 1000}
        model = fasttext.train_supervised(**given, epoch=5, thread=1, verbose=0)
        model.save_model(str(folder / f"{name}.bin"))
        model.quantize(input=str(folder / "train.txt"), cutoff=400, qnorm=name == "tree", dsub=2)
        model.save_model(str(folder / f"{name}.ftz"))
    return folder


def test_a_model_of_ones_own(trained: Path) -> None:
    path = str(trained / "tree.ftz")
    found = lid.compiled(path)
    assert found is not None
    assert_same([*ODD, "the dog and the cat", "der hund und die katze", "haus"], found, path)


@pytest.mark.parametrize("name", ["tree.bin", "flat.bin", "flat.ftz"])
def test_models_of_another_form_are_left_to_fasttext(trained: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lid, "FEW", 0)
    assert lid.compiled(str(trained / name)) is None
    assert Language(("de",), model=str(trained / name)).keep(batch(text=["der hund und der vogel"])).to_pylist() == [True]


def test_a_file_that_ends_early_is_no_model(trained: Path) -> None:
    content = (trained / "tree.ftz").read_bytes()
    for end in (0, 3, 20, 100, len(content) // 2, len(content) - 1):
        with pytest.raises(lid_model.Unknown):
            lid_model.read(content[:end])


def test_where_numbers_are_rounded_otherwise_fasttext_answers(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = models.identify_languages

    def one_bit_off(texts: list[str], path: str) -> lid.Found:
        codes, scores = theirs(texts, path)
        scores[-1] = np.nextafter(scores[-1], np.float32(0))
        return codes, scores

    monkeypatch.setattr(models, "identify_languages", one_bit_off)
    (trained / "again.ftz").write_bytes((trained / "tree.ftz").read_bytes())
    assert lid.compiled(str(trained / "again.ftz")) is None
