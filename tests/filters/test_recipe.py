"""Recipes: what they say, what they refuse and in which words, and the verdicts they give."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from filters.recipe import Recipe
from pools.errors import InputError
from pools.schema import VERDICTS
from tests.filters.scans import Rows, batch


def parse(keep: str) -> Recipe:
    return Recipe.parse(f"name: r\nkeep:\n{keep}", "r.yaml")


def judged(recipe: Recipe, *batches: pa.RecordBatch) -> list[tuple[int | None, str | None, str | None]]:
    verdicts = pa.Table.from_batches(recipe.fit(Rows(batches)).judge(batches))
    assert verdicts.schema == VERDICTS.schema
    rows = verdicts.to_pylist()
    return [(r["dropped_by"], r["reason"], r["value"]) for r in rows]


def kept(recipe: Recipe, rows: pa.RecordBatch) -> list[int]:
    return [i for i, (dropped_by, _, _) in enumerate(judged(recipe, rows)) if dropped_by is None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keep:\n  - clipscore: {min: 1}\n", r"r\.yaml:2: unknown filter 'clipscore'; known: .*clip_score, .*any, not"),
        ("keep:\n  - image_size: {min: 3}\n", r"r\.yaml:2: image_size: unknown option 'min'; takes min_side, max_aspect"),
        ("keep:\n  - image_size: {min_side: 3.5}\n", r"r\.yaml:2: image_size: min_side is 3\.5, expected a whole number"),
        ("keep:\n  - score: {min: 3}\n", r"r\.yaml:2: score: option 'column' is missing"),
        ("keep:\n  - image_size\n", r"r\.yaml:2: image_size: no bound given"),
        ("name: a\nname: b\nkeep: []\n", r"r\.yaml:2: key 'name' stands twice \(first in line 1\)"),
        ("keep:\n  - caption:\n      min_words: 1\n      min_words: 2\n", r"r\.yaml:4: key 'min_words' stands twice"),
        # T67
        (
            "keep:\n  - language: {is: [en, no]}\n",
            r'r\.yaml:2: no without quotes means the truth value False.*(.|\n)*write "no"',
        ),
        ("keep:\n  - language: {is: on}\n", "on without quotes means the truth value True"),
        ("keep:\n  - language: {is: [EN]}\n", "language 'EN'; expected a code of two or three small letters"),
        ("keep:\n  - score: {column: 2020-01-01, min: 1}\n", "2020-01-01 without quotes means a date"),
        ("keep:\n  - score: {column: x, min: 010}\n", "010 without quotes means another number"),
        ("keep:\n  - score: {column: x, min: 1:30}\n", "1:30 without quotes means another number"),
        ("keep:\n  - clip_score: {model: a, top_fraction: 0.3}\n", "top_fraction of what.*of: pool"),
        ("keep:\n  - clip_score: {model: a, top_fraction: 30, of: pool}\n", r"top_fraction 30 is not in \(0, 1\]"),
        ("keep:\n  - clip_score: {model: a, top_fraction: 0.3, of: all}\n", "of is 'all', expected pool or input"),
        ("keep:\n  - clip_score: {model: a, top_fraction: 0.3, of: pool, min: 1}\n", "top_fraction and a bound"),
        ("keep:\n  - not: [{image_size: {min_side: 1}}, {image_size: {min_side: 2}}]\n", "takes exactly one filter"),
        ("keep:\n  - any: []\n", "a list of filters is missing"),
        ("keep:\n  - {a: 1, b: 2}\n", "expected a name, or one name with its options"),
        ("keep: &a []\nname: *a\n", r"r\.yaml:2: aliases"),
        ("keep: {}\n", "not a list"),
        ("keep: [\n", "not YAML"),
        ("kep: []\n", r"r\.yaml:1: unknown key 'kep'; expected one of name, description, keep, mix"),
        ("name: x\n", "key 'keep' is missing"),
        ("- keep\n", "not a map"),
        ("", "the file is empty"),
        ("keep: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("keep: !!python/object/apply:os.system ['true']\n", r"r\.yaml:1: tag tag:yaml\.org,2002:python/object"),
    ],
)
def test_bad_recipes_are_refused_with_file_line_and_what_is_known(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe.parse(text, "r.yaml")


# T67
def test_a_quoted_no_is_norwegian() -> None:
    recipe = parse('  - language: {is: [en, "no"]}')
    assert recipe.resolved()["keep"] == [{"language": {"is": ["en", "no"], "model": "lid.176.ftz", "fold_case": False}}]


# T98: what YAML takes for a number, octal or not, or others for a power of ten; read, written and read again.
@pytest.mark.parametrize(
    "uid", ["12345678901234567890123456789012", "0" * 29 + "e10", "01234567012345670123456701234567", "1" * 29 + "e99"]
)
def test_a_uid_in_a_recipe_is_text(uid: str) -> None:
    recipe = Recipe.parse(f"keep:\n  - clip_score: {{model: {uid}, min: 0.3}}\nname: {uid}", "r.yaml")
    assert recipe.name == uid
    again = Recipe.parse(recipe.to_yaml(), "r.yaml")
    assert again.name == uid
    assert again.resolved()["keep"][0]["clip_score"]["model"] == uid


def test_two_spellings_of_one_recipe_have_one_digest() -> None:
    one = parse("  - language: {is: en}\n  - image_size: {min_side: 200}")
    other = parse('  - language:\n      is: ["en"]\n      fold_case: false\n  - image_size:\n      min_side: 200')
    assert one.digest == other.digest
    assert Recipe.parse(one.to_yaml()).digest == one.digest
    swapped = parse("  - image_size: {min_side: 200}\n  - language: {is: en}")
    assert len({one.digest, swapped.digest, parse("  - image_size: {min_side: 201}").digest}) == 3


def test_a_file_enters_the_digest_by_what_it_holds(tmp_path: Path) -> None:
    for name, content in (("a.bin", "x"), ("b.bin", "x"), ("c.bin", "y")):
        (tmp_path / name).write_text(content)
    a, b, c = (parse(f"  - language: {{is: en, model: {tmp_path / n}}}").digest for n in ("a.bin", "b.bin", "c.bin"))
    assert a == b != c


def test_no_filter_keeps_everything() -> None:
    assert judged(Recipe.parse("keep: []"), batch(text=["a", None])) == [(None, None, None)] * 2


# T84
def test_a_row_is_dropped_by_the_first_stage_that_fails_it_with_what_was_compared() -> None:
    recipe = parse("  - image_size: {min_side: 100}\n  - caption: {min_words: 2}\n  - score: {column: s, min: 0.5}")
    rows = batch(
        original_width=[50, 100, 100, 300, None],
        original_height=[100, 100, 100, 300, 1],
        text=["a b", "one", "two words", "two words", "a b"],
        s=[0.9, 0.9, 0.25, 0.75, 0.9],
    )
    assert judged(recipe, rows) == [
        (0, "image_size", "50x100"),
        (1, "caption", "1 words, 3 characters"),
        (2, "score", "0.25"),
        (None, None, None),
        (0, "image_size", None),  # not judged: unscored
    ]
    fitted = recipe.fit(Rows((rows,)))
    counts = sum((fitted.tally(v) for v in fitted.judge([rows])), start=fitted.tally(next(fitted.judge([rows.slice(0, 0)]))))
    assert counts == {
        "in": 5,
        "kept": 1,
        "dropped:0-image_size": 2,
        "unscored:0-image_size": 1,
        "dropped:1-caption": 1,
        "dropped:2-score": 1,
    }


def test_cutting_a_batch_changes_no_verdict() -> None:
    recipe = parse("  - any:\n      - caption: {min_words: 2}\n      - not:\n          - image_size: {min_side: 10}")
    rows = batch(text=["a b", "a", None, "a", None], original_width=[5, 5, 5, 20, None], original_height=[20] * 5)
    whole = judged(recipe, rows)
    assert judged(recipe, rows.slice(0, 2), rows.slice(2)) == whole
    assert [v[0] for v in whole] == [None, None, None, 0, 0]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        # text: "a b" passes, "a" fails, null is not judged; width 20 passes, 5 fails, null is not judged
        ("any", {"TT", "TF", "TN", "FT", "NT"}),
        ("all", {"TT"}),
    ],
)
def test_combinators_use_three_valued_logic(keep: str, expected: set[str]) -> None:
    texts, widths = {"T": "a b", "F": "a", "N": None}, {"T": 20, "F": 5, "N": None}
    pairs = [(t, w) for t in "TFN" for w in "TFN"]
    rows = batch(text=[texts[t] for t, _ in pairs], original_width=[widths[w] for _, w in pairs], original_height=[50] * 9)
    children = "      - caption: {min_words: 2}\n      - image_size: {min_side: 10}\n"
    recipe = parse(f"  - {keep}:\n{children}")
    assert {"".join(pairs[i]) for i in kept(recipe, rows)} == expected
    # What cannot be judged stays so under `not`.
    unjudged = {"any": {"FN", "NF", "NN"}, "all": {"TN", "NT", "NN"}}[keep]
    inverse = parse(f"  - not:\n      - {keep}:\n" + children.replace("      -", "          -"))
    everything = {"".join(p) for p in pairs}
    assert {"".join(pairs[i]) for i in kept(inverse, rows)} == everything - expected - unjudged


# T70
def test_a_fraction_says_of_what() -> None:
    rows = batch(s=[i / 10 for i in range(10)])
    first = "  - score: {column: s, max: 0.4}\n  - score: {column: s, top_fraction: 0.4, of: %s}"
    assert kept(parse(first % "pool"), rows) == []
    assert kept(parse(first % "input"), rows) == [2, 3, 4]
    inside = "  - score: {column: s, max: 0.4}\n  - all:\n      - score: {column: s, top_fraction: 0.4, of: input}"
    assert kept(parse(inside), rows) == [2, 3, 4]


def test_a_fitted_recipe_travels_light() -> None:
    fitted = parse("  - image_size: {min_side: 200, max_aspect: 3}\n  - language: {is: en}").fit(Rows(()))
    assert len(pickle.dumps(fitted)) < 1000
