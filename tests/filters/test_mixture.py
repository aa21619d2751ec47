"""Language rebalancing: which rows form a group, and how many entries of the list it gets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import mixture
from filters.mixture import MIXES, Group, Languages, apportion, language_of
from filters.recipe import Recipe
from pools.errors import InputError
from tests.filters.scans import Rows, batch


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("hi", "hi"),
        ("HI-IN", "hi"),
        ("en,es", "en"),
        ("en_US", "en"),
        ("  Fil; q=1", "fil"),
        ("zh-Hant", "zh"),
        ("Japanese", "japanese"),
        ("UTF-8", "utf"),
        ("", ""),
        ("*", ""),
        ("-en", ""),
        ("h1", ""),
        ("hé", ""),
        ("हिन्दी", ""),
        ("iw-IL", "he"),
        ("tl", "fil"),
        ("a" * 100_000 + "é", ""),
    ],
)
def test_the_language_is_the_first_subtag(said: str, language: str) -> None:
    assert language_of(said) == language


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_rows_are_labelled_with_a_named_language_or_the_rest(kind: pa.DataType) -> None:
    mix = Languages(share=0.01, of=("hi", "sw"))
    said = pa.array(["HI-IN", "en", None, "sw", "swa", "hi", ""], kind)
    assert mix.labels == ("hi", "sw", "rest")
    assert mix.label(batch(content_language=said)).tolist() == [0, 2, 2, 1, 2, 0, 2]
    assert mix.label(batch(content_language=said).slice(3)).tolist() == [1, 2, 0, 2]
    assert mix.label(batch(content_language=pa.nulls(2))).tolist() == [2, 2]
    assert mix.label(batch(content_language=said).slice(0, 0)).tolist() == []


def test_a_column_of_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="column 'label' holds int64; expected codes of languages"):
        Languages(share=0.01, of=("hi",), column="label").label(batch(label=[1, 2]))


def plan(mix: Languages, rows: Mapping[str, int]) -> dict[str, int]:
    return {"+".join(g.labels): g.entries for g in mix.plan(rows)}


def test_each_language_named_gets_its_share_and_the_rest_what_remains() -> None:
    mix = Languages(share=0.01, of=("sw", "hi"))
    assert plan(mix, {"hi": 3, "sw": 1, "rest": 996}) == {"hi": 10, "sw": 10, "rest": 980}
    # 0.01 · 250 = 2.5, 2.5 and 245: one entry is left, the ties go by name, so hi has 3 of them.
    assert plan(mix, {"hi": 1, "sw": 2, "rest": 247}) == {"hi": 3, "sw": 2, "rest": 245}
    # 0.01 · 160 = 1.6 each, the rest 156.8: of the two entries that are left one goes to .8 of the rest, one to hi.
    assert plan(mix, {"hi": 1, "sw": 1, "rest": 158}) == {"hi": 2, "sw": 1, "rest": 157}
    # 0.005 · 300 = 1.5 and 298.5: the tie goes to the language, as the rest comes last.
    assert plan(Languages(share=0.005, of=("hi",)), {"hi": 1, "rest": 299}) == {"hi": 2, "rest": 298}
    assert plan(Languages(share={"sw": 0.3, "hi": 0.2}), {"hi": 1, "sw": 1, "rest": 8}) == {"hi": 2, "sw": 3, "rest": 5}


def test_shares_are_the_numbers_that_the_recipe_writes() -> None:
    # 0.1 · 15 is 1.5 on paper, a little more than that with doubles; the tie between hi and the rest (13.5) goes to hi.
    assert plan(Languages(share=0.1, of=("hi",)), {"hi": 1, "rest": 14}) == {"hi": 2, "rest": 13}
    # 0.7 · 15 = 10.5 is a little less with doubles.
    assert plan(Languages(share=0.7, of=("hi",)), {"hi": 1, "rest": 14}) == {"hi": 11, "rest": 4}
    assert Languages(share=0.1, of=tuple(f"a{c}" for c in "abcdefghij"))  # ten tenths are no more than 1


def test_a_language_above_its_share_stays_in_the_rest() -> None:
    mix = Languages(share=0.1, of=("hi", "sw"))
    assert mix.plan({"hi": 11, "sw": 2, "rest": 87}) == (Group(("sw",), 10), Group(("hi", "rest"), 90))
    assert mix.plan({"hi": 10, "sw": 2, "rest": 88}) == (Group(("hi",), 10), Group(("sw",), 10), Group(("rest",), 80))
    assert mix.plan({"hi": 50, "sw": 50, "rest": 0}) == (Group(("hi", "sw", "rest"), 100),)


def test_a_language_without_a_row_is_named() -> None:
    with pytest.raises(ValueError, match="no row of language 'mi', 'te' among the 1,001 kept; drop it from `of`"):
        Languages(share=0.01, of=("mi", "hi", "te")).plan({"mi": 0, "hi": 1, "te": 0, "rest": 1000})
    with pytest.raises(ValueError, match="drop it from `share`"):
        Languages(share={"mi": 0.01}).plan({"mi": 0, "rest": 1})


def test_of_no_rows_a_mix_is_empty() -> None:
    assert plan(Languages(share=0.01, of=("hi",)), {"hi": 0, "rest": 0}) == {"hi": 0, "rest": 0}


@given(st.lists(st.fractions(0, 20, max_denominator=7), max_size=6))
def test_apportioned_numbers_keep_the_sum_and_are_off_by_less_than_one(some: list[Fraction]) -> None:
    quotas = {str(i): q for i, q in enumerate(some)}
    quotas["last"] = math.ceil(sum(some)) - sum(some, Fraction(0))
    result = apportion(quotas)
    assert list(result) == list(quotas)
    assert sum(result.values()) == sum(quotas.values())
    assert all(abs(result[name] - quota) < 1 for name, quota in quotas.items())
    up = [quotas[n] - int(quotas[n]) for n in result if result[n] > quotas[n]]
    down = [quotas[n] - int(quotas[n]) for n in result if result[n] <= quotas[n]]
    assert not up or not down or min(up) >= max(down)


MIX = "keep: []\nmix:\n  - languages: {column: content_language, share: 0.01, of: [bn, fil, hi, iw, he, mi, sw, te]}\n"


def test_a_recipe_with_a_mix_needs_its_column_and_has_another_digest() -> None:
    recipe = Recipe.parse(MIX)
    assert recipe.needs == ("content_language",)
    assert recipe.mix is not None
    assert recipe.mix.labels == ("bn", "fil", "hi", "he", "mi", "sw", "te", "rest")  # iw is he
    same = Recipe.parse(MIX.replace("column: content_language, ", "seed: 0, "))
    others = [MIX.replace("0.01", "0.02"), MIX.replace("sw, ", ""), "keep: []", MIX.replace("column", "seed: 1, column")]
    assert same.digest == recipe.digest == Recipe.parse(recipe.to_yaml()).digest
    assert len({recipe.digest, *(Recipe.parse(o).digest for o in others)}) == 5
    assert Recipe.parse("keep: []\nmix: []").digest == Recipe.parse("keep: []").digest
    assert Recipe.parse("keep: []\nmix: []").resolved() == {"name": "recipe", "description": "", "keep": []}


def test_a_map_of_shares_survives_being_written_out() -> None:
    recipe = Recipe.parse("keep: []\nmix:\n  - languages: {share: {bn: 0.02, hi: 0.001}}")
    assert recipe.mix == Languages(share={"bn": 0.02, "hi": 0.001})
    assert Recipe.parse(recipe.to_yaml()).mix == recipe.mix
    assert Recipe.parse(recipe.to_yaml()).digest == recipe.digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("languages: {of: [hi]}", "languages: option 'share' is missing"),
        ("languages: {share: 0.1}", "languages: takes `share`, a number, with `of`"),
        ("languages: {share: {hi: 0.1}, of: [hi]}", "languages: takes `share`, a number, with `of`"),
        ("languages: {share: 0.2, of: [bn, hi, mi, sw, te, fil]}", "languages: the shares sum to 1.2, which is more than 1"),
        ("languages: {share: {hi: 0.6, sw: 0.5}}", "the shares sum to 1.1, which is more than 1"),
        ("languages: {share: 0, of: hi}", r"share 0 of hi is not in \(0, 1\]"),
        ("languages: {share: .nan, of: hi}", "share nan of hi is not in"),
        ("languages: {share: {hi: x}}", "share of hi is 'x', expected a number"),
        ("languages: {share: x, of: hi}", "share is 'x', expected a number or a map to a number each"),
        ("languages: {share: 0.1, of: []}", "no language given"),
        ("languages: {share: {}}", "no language given"),
        ("languages: {share: 0.1, of: [HI]}", "language 'HI'; expected a code of two or three small letters"),
        ("languages: {share: 0.1, of: [hi, hi]}", "language 'hi' stands twice"),
        ("languages: {share: {he: 0.1, iw: 0.2}}", "language 'iw' stands twice"),
        ("languages: {share: 0.1, of: [hi], spread: 1}", "languages: unknown option 'spread'; takes share, of, column, seed"),
        ("languages: {share: 0.1, of: [hi, no]}", "no without quotes"),
        ("languages: [hi]", "languages: not a map of options"),
        ("clusters: {}", "unknown mix 'clusters'; known: balanced_clusters, balanced_synsets, languages, weights"),
        ("{a: 1, b: 2}", "not a mix: .*expected a name, or one name with its options"),
    ],
)
def test_bad_mixes_are_refused_with_file_and_line(options: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"r\.yaml:3: .*{message}"):
        Recipe.parse(f"keep: []\nmix:\n  - {options}\n", "r.yaml")


@pytest.mark.parametrize("mix", ["languages", "{languages: {}}", "[{a: 1}, {b: 1}]"])
def test_a_recipe_has_one_mix(mix: str) -> None:
    with pytest.raises(InputError, match=r"r\.yaml:2: mix is .*expected a list of one mix"):
        Recipe.parse(f"keep: []\nmix: {mix}", "r.yaml")


def test_the_registry_of_mixes_refuses_what_it_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture.MIXES, "classes", dict(mixture.MIXES.all()))
    with pytest.raises(ValueError, match="mix 'languages' is Languages already"):
        mixture.register_mix("languages")(Languages)
    with pytest.raises(TypeError, match="is not a dataclass"):
        mixture.register_mix("other")(dict[str, Any])
    assert MIXES.build("languages", {"share": 0.1, "of": ["hi"]}) == Languages(share=0.1, of=("hi",))


def test_a_mix_changes_no_verdict() -> None:
    rows = batch(content_language=["hi", "en", None])
    fitted = Recipe.parse("keep: []\nmix:\n  - languages: {share: 0.5, of: hi}").fit(Rows((rows,)))
    assert [v.to_pylist() for v in fitted.judge([rows])] == [
        v.to_pylist() for v in Recipe.parse("keep: []").fit(Rows((rows,))).judge([rows])
    ]
