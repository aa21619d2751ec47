"""Alt texts that describe nothing."""

from __future__ import annotations

import re

from baselines.miniweb import junk
from baselines.miniweb.scenes import draw_lots


def test_product_codes_are_single_words_that_occur_once() -> None:
    lots = draw_lots("codes")
    codes = [junk.product_code(lots) for _ in range(20_000)]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"SKU-[A-Z2-9]{4}-[A-Z2-9]{4}", code) for code in codes)


def test_boilerplate_is_long_enough_for_filters_on_length() -> None:
    lots = draw_lots("boilerplate")
    drawn = {junk.boilerplate(lots) for _ in range(300)}
    assert drawn == set(junk.BOILERPLATE)
    assert all(len(text.split()) >= 3 and len(text) >= 20 for text in drawn)


def test_file_names_and_one_words() -> None:
    lots = draw_lots("junk")
    assert {junk.one_word(lots) for _ in range(200)} == set(junk.ONE_WORDS)
    names = {junk.file_name(lots) for _ in range(200)}
    assert len(names) > 150
    assert all(re.fullmatch(r"\S+\.(jpg|JPG|png)", name) for name in names)
