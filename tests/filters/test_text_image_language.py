"""The rules of `basic`, against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from filters import lid
from filters.fitted import Fitted
from filters.image import ImageFormat, ImageSize
from filters.language import Language, StatedLanguage
from filters.text import Caption
from pools.errors import InputError
from tests.filters.scans import batch


def test_caption_counts_words_and_characters() -> None:
    rows = batch(text=["a bb  ccc", "abcdef", "á b\u00a0c d", "", None, "日本 語の 文章", "a\tb\nc"])
    assert Caption(min_words=3).keep(rows).to_pylist() == [True, False, True, False, None, True, True]
    assert Caption(min_chars=6).keep(rows).to_pylist() == [True, True, True, False, None, True, False]
    assert Caption(max_chars=6, max_words=1).keep(rows).to_pylist() == [False, True, False, True, None, False, False]
    assert Caption(min_chars=3).keep(batch(text=["日本", "日本語"])).to_pylist() == [False, True]  # characters, not bytes
    assert Caption(min_chars=1).measure(rows).to_pylist()[0] == "3 words, 9 characters"


def test_caption_counts_fasttext_tokens() -> None:
    # fastText cuts at white space of ASCII only, and a line break is a token of its own.
    rows = batch(text=["a b", "a\u00a0b", "a\nb"])
    assert Caption(min_words=2, tokenizer="fasttext").keep(rows).to_pylist() == [True, False, True]
    assert Caption(min_words=3, tokenizer="fasttext").keep(rows).to_pylist() == [False, False, True]


def test_image_size_bounds_are_inclusive() -> None:
    rows = batch(original_width=[200, 199, 600, 601, 0, 300, None], original_height=[200, 900, 200, 200, 0, 0, 5])
    rule = ImageSize(min_side=200, max_aspect=3.0)
    assert rule.keep(rows).to_pylist() == [True, False, True, False, False, False, None]
    assert ImageSize(min_side=0).keep(rows).to_pylist() == [True, True, True, True, False, False, None]
    assert ImageSize(max_aspect=3.0).keep(rows).to_pylist() == [True, False, True, False, False, False, None]


# T63, T64, T66
def test_languages_keep_their_order_and_line_breaks_are_spaces() -> None:
    texts = ["a cat sits\non the mat", "", "ein Hund läuft über die Straße", " ", None, "the dog\tis in the garden\r"]
    rows = batch(text=texts)
    assert Language(("en",)).keep(rows).to_pylist() == [True, False, False, False, None, True]
    said = Language(("en",)).measure(rows).to_pylist()
    assert said[1] == said[3] == "und 0.000"
    assert said[2].startswith("de ")
    assert said[0] == Language(("en",)).measure(batch(text=["a cat sits on the mat"])).to_pylist()[0]
    assert Language(("de", "und")).keep(rows).to_pylist() == [False, True, True, True, None, False]


@pytest.mark.parametrize(
    "options", [{"is_": ("en",)}, {"is_": ("en",), "min_score": 0.9}, {"is_": ("de", "und"), "model": "cld3"}]
)
def test_mask_and_values_at_once_are_those_of_either(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Language(**options)
    rows = batch(
        text=["a cat sits\non the mat", "", "ein Hund läuft über die Straße", None, "ok", "le chat est dans le jardin"]
    )
    keep, said = rule.keep(rows), rule.measure(rows)
    asked: list[int] = []
    found = lid.identify

    def counted(texts: pa.Array, path: str) -> Any:
        asked.append(len(texts))
        return found(texts, path)

    monkeypatch.setattr(lid, "identify", counted)
    mask, values = rule.judge(rows)
    assert asked == [6]  # and nothing a second time
    assert mask == keep
    assert values.to_pylist() == [said[i].as_py() if k is False else None for i, k in enumerate(keep.to_pylist())]
    (verdicts,) = Fitted(("language",), (rule,)).judge([rows])
    assert verdicts["value"].to_pylist() == values.to_pylist()
    assert asked == [6, 6]


def test_an_aspect_is_a_quotient_and_no_product() -> None:
    # 226 / 200 is the double that 1.13 is; 1.13 · 200 is less than 226.
    rows = batch(original_width=[226, 800, 227], original_height=[200, 904, 200])
    assert ImageSize(max_aspect=1.13).keep(rows).to_pylist() == [True, True, False]


# T65
def test_folding_case_judges_the_lower_case_form() -> None:
    loud, quiet = batch(text=["MY FRIEND IS A BIRD"]), batch(text=["my friend is a bird"])
    assert Language(("en",), fold_case=True).measure(loud) == Language(("en",)).measure(quiet)


def test_a_minimum_score_of_the_language() -> None:
    rows = batch(text=["the quick brown fox jumps over the lazy dog", "ok"])
    assert Language(("en",), min_score=0.7).keep(rows).to_pylist() == [True, False]


def test_the_minimum_score_itself_is_enough() -> None:
    rows = batch(text=["the quick brown fox jumps over the lazy dog"])
    _, (score,) = lid.identify(rows["text"], "lid.176.ftz")
    assert Language(("en",), min_score=float(score)).keep(rows).to_pylist() == [True]
    assert Language(("en",), min_score=float(np.nextafter(score, np.float32(2)))).keep(rows).to_pylist() == [False]


def test_a_missing_language_model_is_named() -> None:
    with pytest.raises(InputError, match=r"nowhere/lid\.bin: no such language model"):
        Language(("en",), model="nowhere/lid.bin").keep(batch(text=["x"]))


def test_a_packaged_model_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from filters import models

    monkeypatch.setenv("WINNOW_MODELS", "/nonexistent")
    with pytest.raises(InputError, match=r"not installed(.|\n)*pip install .* -r models\.lock"):
        models.packaged(models.LID_176_FTZ)


def test_languages_by_cld3() -> None:
    texts = [
        "a cat sits on the mat in the garden",
        "der Hund läuft durch den großen Garten",
        "",
        None,
        "שלום לכולם וברוכים הבאים",
    ]
    rows = batch(text=texts)
    assert Language(("en",), model="cld3").keep(rows).to_pylist() == [True, False, False, None, False]
    assert Language(("iw", "und"), model="cld3").keep(rows).to_pylist() == [False, False, True, None, True]
    assert Language(("en", "zh-Latn"), model="cld3").is_ == ("en", "zh-Latn")
    with pytest.raises(ValueError, match="language 'zh-Latn'"):
        Language(("zh-Latn",))


def test_languages_that_pages_state() -> None:
    rows = batch(content_language=["en", "en-GB", "EN,es", "es,en", "iw", "", "*", None, "utf-8"])
    assert StatedLanguage(("en",)).keep(rows).to_pylist() == [True, True, True, False, False, None, None, None, False]
    assert StatedLanguage(("he",)).keep(rows).to_pylist()[4] is True
    assert StatedLanguage(("iw",), column="said").keep(batch(said=["he"])).to_pylist() == [True]
    with pytest.raises(ValueError, match="takes codes of two or three small letters"):
        StatedLanguage(("English",))


def test_formats_of_images() -> None:
    urls = [
        "http://a.org/x.JPG",
        "http://a.org/x.jpeg?w=1.png",
        "http://a.org/x.png?a=b.jpg",
        "http://a.org/jpg",
        None,
        "a.jpgx",
    ]
    assert ImageFormat("jpeg").keep(batch(url=urls)).to_pylist() == [True, True, False, False, None, False]
    assert ImageFormat("png").keep(batch(url=urls)).to_pylist() == [False, False, True, False, None, False]
    said = batch(mime=["image/jpeg", "JPEG", "jpg", "image/jpeg; q=1", "image/png", "text/jpeg", None])
    assert ImageFormat("jpeg", column="mime").keep(said).to_pylist() == [True, True, True, True, False, False, None]
