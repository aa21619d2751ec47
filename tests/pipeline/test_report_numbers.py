"""What a report counts, against tables of few rows worked out by hand and against counting in the plainest way."""

from __future__ import annotations

import itertools
import math
import re
import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine import Options
from pipeline.report import compare, distributions, diversity, figures
from pipeline.report.counts import Labels, nice_edges
from pipeline.report.domains import registered, repaired
from pipeline.report.page import Figure, Gallery, Section, Table
from pipeline.report.reading import Numbers, read
from pipeline.report.regions import GENERIC, NONE, region_of
from pipeline.report.tallies import Tally
from pipeline.report.thresholds import Threshold, read_rules
from pipeline.selection import Settings, select
from pools import hashes
from pools.errors import InputError
from pools.layout import Pool
from pools.outputs import Selection
from tests.pipeline import reporting

QUIET = Options(workers=0, quiet=True)
# Caption, address, width, height, score, language, cluster, source.
ROWS: list[tuple[str | None, str | None, int | None, int | None, float | None, str | None, int | None, str]] = [
    ("a red star", "https://img.one.de/1.jpg", 300, 200, 0.10, "en", 1, "a"),
    ("a red star", "https://two.co.uk/1.jpg", 200, 600, 0.20, "en", 1, "a"),
    ("zwei Sterne", "https://www.one.de/2.jpg", 100, 100, 0.30, "de", 2, "a"),
    ("", "https://one.de/3.jpg", 400, 300, 0.40, "und", 2, "b"),
    (None, None, None, None, None, None, None, "b"),
    ("תמונה", "http://pics.co.il/x", 640, 480, 0.25, "iw", 3, "b"),
    ("ek do teen", "http://7.8.9.10/x", 500, 500, math.nan, "hi", 3, "b"),
    ("a red star", "https://img.one.de/1.jpg", 300, 200, 0.35, "en-GB", 1, "b"),
]
RECIPE = "name: mine\nkeep:\n- score: {column: quality, min: 0.2}\n- caption: {min_words: 1}\n"
# Rows 0, 4, 6 have no score of 0.2 or more; of the others row 3 has no word.
KEPT = [1, 2, 5, 7]


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures without a picture, which takes a third of a second each; not where a test is about them."""
    if "drawn" not in request.node.name:
        svg = '<svg xmlns="http://www.w3.org/2000/svg"/>'
        monkeypatch.setattr(figures, "draw", lambda name, title, alt, table, *_, **__: Figure(name, title, alt, svg, table))


def uid(i: int) -> str:
    return f"{i:032x}"


def make_pool(folder: Path, cuts: Sequence[int] = (3,), rows: Sequence[Any] = ROWS) -> Pool:
    """The rows in files that end at the cuts."""
    (folder / "metadata").mkdir(parents=True)
    (folder / "annotations" / "own").mkdir(parents=True)
    for n, (start, stop) in enumerate(itertools.pairwise([0, *cuts, len(rows)])):
        some = rows[start:stop]
        ids = [uid(i) for i in range(start, stop)]
        text, url, width, height, score, language, cluster, source = zip(*some, strict=True)
        metadata = {
            "uid": ids,
            "text": pa.array(text, pa.string()),
            "url": pa.array(url, pa.string()),
            "original_width": pa.array(width, pa.int32()),
            "original_height": pa.array(height, pa.int32()),
            "source": list(source),
        }
        own = {
            "uid": ids,
            "quality": pa.array(score, pa.float32()),
            "language": pa.array(language, pa.string()),
            "cluster": pa.array(cluster, pa.int32()),
        }
        pq.write_table(pa.table(metadata), folder / "metadata" / f"{n}.parquet")
        pq.write_table(pa.table(own), folder / "annotations" / "own" / f"{n}.parquet")
    return Pool.open(str(folder))


def make_selection(pool: Pool, folder: Path, recipe: str = RECIPE, **settings: Any) -> Selection:
    folder.mkdir(parents=True)
    (folder / "in.yaml").write_text(recipe)
    select(str(folder / "in.yaml"), pool.root, str(folder / "out"), options=QUIET, settings=Settings(**settings))
    return Selection(str(folder / "out"))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    return make_pool(tmp_path_factory.mktemp("pool") / "p")


@pytest.fixture(scope="module")
def numbers(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    return read(pool, [make_selection(pool, tmp_path_factory.mktemp("selection") / "s")], options=QUIET)


def labels(numbers: Numbers, name: str, group: int) -> dict[str, int]:
    return {value: int(c[group]) for value, c in numbers.counted.labels[name].counts.items() if c[group]}


def bins(numbers: Numbers, name: str, group: int) -> dict[float, int]:
    """{lower edge: rows}; −inf is below all edges."""
    histogram = numbers.counted.histograms[name]
    lows = [-math.inf, *histogram.edges.tolist()]
    return {low: int(n) for low, n in zip(lows, histogram.counts[:, group], strict=True) if n}


def parts(sections: Sequence[Section], kind: type[Any]) -> Iterator[Any]:
    return (part for section in sections for part in section.parts if isinstance(part, kind))


# Counts -------------------------------------------------------------------------------------------------------------


def test_rows_are_counted_before_and_after(numbers: Numbers) -> None:
    counted = numbers.counted
    # All, kept, dropped by the score, dropped by the caption.
    assert counted.totals.tolist() == [8, 4, 3, 1] and counted.patterns.tolist() == [4, 4]
    assert labels(numbers, "language", 0) == {"en": 3, "de": 1, "und": 1, "he": 1, "hi": 1, "not known": 1}
    assert labels(numbers, "language", 1) == {"en": 2, "de": 1, "he": 1}
    assert labels(numbers, "language", 2) == {"en": 1, "hi": 1, "not known": 1}
    assert labels(numbers, "language", 3) == {"und": 1}
    assert labels(numbers, "cluster", 0) == {"1": 3, "2": 2, "3": 2, "not known": 1}
    assert labels(numbers, "source", 1) == {"a": 2, "b": 2}
    assert labels(numbers, "region", 0) == {"Western Europe": 4, "Northern Europe": 1, "Western Asia": 1, NONE: 2}
    assert labels(numbers, "top-level domain", 1) == {"de": 2, "uk": 1, "il": 1}


def test_histograms_are_exact_in_the_columns_own_precision(numbers: Numbers) -> None:
    # 0.1 … 0.4 stand at edges, which are compared as float32 are.
    assert list(bins(numbers, "quality", 0).values()) == [1, 1, 1, 1, 1, 1]
    assert list(bins(numbers, "quality", 0)) == pytest.approx([0.1, 0.2, 0.25, 0.3, 0.35, 0.4])
    assert list(bins(numbers, "quality", 1)) == pytest.approx([0.2, 0.25, 0.3, 0.35])
    assert numbers.counted.histograms["quality"].nulls.tolist() == [2, 0]
    assert bins(numbers, "shorter side", 0) == {96: 1, 200: 3, 256: 1, 400: 2}
    assert bins(numbers, "aspect ratio", 0) == {1: 2, 1.25: 2, 1.5: 2, 3: 1}
    assert bins(numbers, "words", 0) == {-math.inf: 1, 1: 1, 2: 1, 3: 4}
    assert bins(numbers, "characters", 1) == {1: 1, 10: 3}


def test_equal_values_and_what_is_frequent(numbers: Numbers) -> None:
    captions = numbers.counted.tallies["text"]
    assert captions.exact and captions.rows == 7
    found = captions.repeats()
    # Six different ones, of which "a red star" stands in three rows, two of them kept.
    assert (found.values.tolist(), found.repeated.tolist(), found.rows.tolist()) == ([5, 3], [1, 1], [3, 2])
    assert list(numbers.names["text"].values()) == ["a red star"]
    assert list(numbers.names["url"].values()) == ["https://img.one.de/1.jpg"]
    hashes_, counts = numbers.counted.tallies["domain"].top(9)
    named = {numbers.names["domain"].get(int(h)): c.tolist() for h, c in zip(hashes_, counts, strict=True)}
    assert named["one.de"] == [4, 2]


def test_the_same_numbers_however_the_pool_is_cut(numbers: Numbers, tmp_path: Path) -> None:
    pool = make_pool(tmp_path / "p", cuts=(1, 2, 6))
    other = read(pool, [make_selection(pool, tmp_path / "s")], options=QUIET)
    assert other.counted.totals.tolist() == numbers.counted.totals.tolist() and other.names == numbers.names
    for name, histogram in numbers.counted.histograms.items():
        assert np.array_equal(other.counted.histograms[name].edges, histogram.edges)
        assert np.array_equal(other.counted.histograms[name].counts, histogram.counts)
    for name in numbers.counted.labels:
        assert labels(other, name, 1) == labels(numbers, name, 1)
    ours, theirs = ([s.parts for s in distributions.selection_sections(n, 0)] for n in (numbers, other))
    assert ours == theirs


def test_a_column_that_some_files_lack_is_counted_where_it_is(tmp_path: Path) -> None:
    pool = make_pool(tmp_path / "p")
    (tmp_path / "p" / "annotations" / "own" / "0.parquet").unlink()
    found = read(Pool.open(pool.root), options=QUIET)
    assert found.rows == 8 and found.counted.histograms["quality"].counts.sum() == 3
    table = next(p.table for p in parts(distributions.pool_sections(found), Figure) if p.title == "quality")
    assert ("no value", 5) in table.rows


# Selections ---------------------------------------------------------------------------------------------------------


def test_selections_of_another_pool_are_refused(pool: Pool, numbers: Numbers, tmp_path: Path) -> None:
    turned = Path(shutil.copytree(numbers.selections[0].root, tmp_path / "turned"))
    verdicts = pq.read_table(turned / "verdicts" / "1.parquet")
    pq.write_table(verdicts.take(list(range(len(verdicts)))[::-1]), turned / "verdicts" / "1.parquet")
    with pytest.raises(
        InputError, match=r"(?s)1\.parquet: verdicts on other rows.*give the pool that `winnow filter` was run on"
    ):
        read(pool, [Selection(str(turned))], options=QUIET)
    more = make_pool(tmp_path / "more", rows=ROWS + ROWS[:1])
    with pytest.raises(InputError, match="verdicts on other rows"):
        read(more, numbers.selections, options=QUIET)
    less = make_pool(tmp_path / "less", rows=ROWS[:6])
    with pytest.raises(InputError, match="verdicts on more rows"):
        read(less, numbers.selections, options=QUIET)
    cut = make_pool(tmp_path / "cut", cuts=(1, 3))
    with pytest.raises(InputError, match=r"verdicts on (other|more) rows|no verdicts on this file"):
        read(cut, numbers.selections, options=QUIET)
    with pytest.raises(InputError, match="9 selections"):
        read(pool, [numbers.selections[0]] * 9, options=QUIET)
    with pytest.raises(InputError, match="no selection"):
        read(pool, [Selection(str(tmp_path))], options=QUIET)


def test_entries_of_a_weighted_list_are_what_is_counted_after(pool: Pool, tmp_path: Path) -> None:
    recipe = "name: even\nkeep: []\nmix:\n- languages: {share: 0.5, of: [de], column: language}\n"
    found = read(pool, [make_selection(pool, tmp_path / "s", recipe)], options=QUIET)
    # Eight entries, half of them for the one row in German.
    assert found.counted.totals.tolist() == [8, 8] and labels(found, "language", 1)["de"] == 4
    first = distributions.selection_sections(found, 0)[0]
    assert "8 rows stand in its list 8 times" in first.parts[0].paragraphs[0]  # type: ignore[union-attr]


def test_a_selection_without_verdicts_is_known_by_its_list(pool: Pool, numbers: Numbers, tmp_path: Path) -> None:
    found = read(pool, [make_selection(pool, tmp_path / "s", verdicts=False)], options=QUIET)
    assert found.counted.totals.tolist() == [8, 4] and labels(found, "language", 1) == labels(numbers, "language", 1)
    assert not any(s.id.startswith("stages") for s in distributions.selection_sections(found, 0))


def test_thresholds_are_those_of_the_recipe_and_of_what_was_fitted(pool: Pool, tmp_path: Path) -> None:
    recipe = (
        "name: many\nkeep:\n- image_size: {min_side: 1, max_aspect: 4}\n"
        "- any: [{caption: {max_words: 9}}, {nsfw: {max: 0.3, column: quality}}]\n"
        "- not: [{score: {column: quality, above: 9}}]\n- score: {column: quality, top_fraction: 0.3, of: pool}\n"
    )
    rules = read_rules(make_selection(pool, tmp_path / "s", recipe))
    assert rules.stages == ("image_size", "any", "not", "score") and not rules.mix
    assert [(t.stage, t.column, str(t)) for t in rules.thresholds] == [
        (0, "shorter side", "≥ 1"),
        (0, "aspect ratio", "≤ 4"),
        (1, "words", "≤ 9"),
        (1, "quality", "≤ 0.3"),
        (3, "quality", "≥ 0.3"),  # the third greatest of eight rows
    ]
    (tmp_path / "s" / "out" / "fitted.json").write_text('[{"fitted": "Own(array([1, 2]"}]')
    assert Threshold(3, "quality", "min", 0.3) not in read_rules(Selection(str(tmp_path / "s" / "out"))).thresholds


# Diversity ----------------------------------------------------------------------------------------------------------


def test_diversity_before_and_after(numbers: Numbers) -> None:
    by_name = {c.name: c for c in diversity.changes(numbers, 1)}
    language = by_name["language"]
    assert language.values == (4, 3)
    # Of 6 rows with a language 3, 1, 1, 1; of the 4 kept 2, 1, 1.
    assert language.entropy[0] == pytest.approx(-(1 / 2 * math.log2(1 / 2) + 1 / 2 * math.log2(1 / 6)))
    assert language.entropy[1] == pytest.approx(1.5) and language.effective[1] == pytest.approx(2**1.5)
    assert by_name["region"].values == (3, 3) and by_name["cluster"].values == (3, 3)
    assert by_name["domain"].values == (5, 3)
    section = diversity.section(numbers, 1, "mine")
    assert section is not None
    table = next(p.table for p in section.parts if isinstance(p, Figure) and p.title.startswith("Languages of captions"))
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["en English"] == (3, 2, 37.5, 50.0, 1.3333) and rows["hi Hindi"] == (1, 0, 12.5, 0.0, 0.0)
    assert not table.marks  # one row that is not kept may be chance
    together = next(p for p in section.parts if isinstance(p, Table) and p.caption == "Taken together")
    rows = {row[0]: row[1:] for row in together.rows}
    assert rows["captions in low-resource languages (bn, fil, hi, he, mi, sw, te)"] == (2, 1, 25.0, 25.0, 1.0)
    assert rows["names of all other regions"] == (1, 1, 12.5, 25.0, 2.0)
    assert any("0 have lost half of their share or more, 1 are gone wholly" in p for p in section.parts[0].paragraphs)  # type: ignore[union-attr]


def test_what_is_lost_is_more_than_chance_takes() -> None:
    totals = (1000, 300)
    # Of 10 rows 3 are left on average, give or take √(10 · 0.3 · 0.7) = 1.4; of 100 30, give or take 4.6.
    assert not diversity.lost(10, 0, totals) and diversity.lost(100, 15, totals)
    assert not diversity.lost(100, 16, totals)  # more than half of its share
    assert not diversity.lost(24, 3, totals) and diversity.lost(24, 0, totals)  # 7.2, give or take 2.2
    assert diversity.lost(2, 1, (1000, 4000)) and not diversity.lost(2, 5, (1000, 4000))  # a weighted list
    assert not diversity.lost(0, 0, totals) and not diversity.lost(5, 0, (1000, 0))


def test_a_random_choice_leaves_diversity_as_it_was(tmp_path: Path) -> None:
    pool = make_pool(tmp_path / "p", rows=ROWS * 300)
    found = read(pool, [make_selection(pool, tmp_path / "s", "keep:\n- random: {fraction: 0.5, seed: 1}\n")], options=QUIET)
    totals = int(found.counted.totals[0]), int(found.counted.totals[1])
    for change in diversity.changes(found, 1):
        assert change.effective[1] == pytest.approx(change.effective[0], rel=0.05), change.name
        assert all(abs((diversity.ratio(b, a, totals) or 0) - 1) < 0.2 for _, b, a in change.rows)


# Comparison ---------------------------------------------------------------------------------------------------------


def test_recipes_beside_each_other(pool: Pool, tmp_path: Path) -> None:
    other = "name: other\nkeep:\n- image_size: {min_side: 200}\n"  # keeps 0, 1, 3, 5, 6, 7
    both = [make_selection(pool, tmp_path / name, recipe) for name, recipe in (("a", RECIPE), ("b", other))]
    Path(both[0].root).rename(tmp_path / "first")
    Path(both[1].root).rename(tmp_path / "second")
    found = read(pool, [Selection(str(tmp_path / "first")), Selection(str(tmp_path / "second"))], options=QUIET)
    asked: list[tuple[str, list[str], str]] = []

    def gallery(id_: str, title: str, ids: Sequence[str], side: str) -> Gallery:
        asked.append((id_, sorted(ids), side))
        return Gallery(id_, title, [])

    page = compare.compare_page(found, gallery)
    assert page.name == "compare" and page.title == "Comparison: first, second"
    table = next(parts(page.sections, Table))
    # Both keep 1, 5, 7; the first alone 2; the second alone 0, 3, 6.
    assert table.rows == [("first and second", 3, 1, 3, 7, 0.4286, 75.0, 50.0)]
    assert asked == [
        ("gallery-only-first", [uid(2)], "kept by first alone"),
        ("gallery-only-second", [uid(0), uid(3), uid(6)], "kept by second alone"),
    ]
    languages = next(f for f in parts(page.sections, Figure) if f.name == "only-language")
    rows = {row[0]: row[1:4] for row in languages.table.rows}
    assert rows["de German"] == (1, 1, 0) and rows["en English"] == (3, 0, 1) and rows["hi Hindi"] == (1, 0, 1)
    scores = next(f for f in parts(page.sections, Figure) if f.name == "compare-quality")
    assert "first ≥ 0.2" in scores.alt and "first: 4 rows" in scores.alt and "second: 6 rows" in scores.alt
    with pytest.raises(InputError, match="one selection"):
        compare.compare_page(read(pool, [Selection(str(tmp_path / "first"))], options=QUIET))
    check(page.sections)


def test_overlaps_of_several_against_plain_sets() -> None:
    rng = np.random.default_rng(0)
    kept = rng.random((3, 500)) < 0.4
    patterns = np.bincount(kept[0] + 2 * kept[1] + 4 * kept[2], minlength=8)
    for i, j in itertools.permutations(range(3), 2):
        a, b = set(np.flatnonzero(kept[i])), set(np.flatnonzero(kept[j]))
        assert compare.overlap(patterns, i, j) == (len(a & b), len(a - b), len(b - a))


# Counters in bounded memory -----------------------------------------------------------------------------------------


def tallied(values: Sequence[int], limit: int, parts: int) -> Tally:
    """Counted in so many parts, each by itself; the second group has the even values."""
    total = Tally(2, limit)
    for some in np.array_split(np.array(values, np.uint64), parts):
        tally = Tally(2, limit)
        for batch in np.array_split(some, 3):
            keys, counts = np.unique(batch, return_counts=True)
            tally.add(hashes.mix(keys), np.stack([counts, counts * (keys % 2 == 0)], 1))
        total.merge(tally.settle())
    return total.settle()


def zipf(n: int) -> list[int]:
    values: list[int] = (np.random.default_rng(1).zipf(1.3, n) % 1_000_000).tolist()
    return values


def test_up_to_the_limit_everything_is_exact() -> None:
    values = zipf(20_000)
    tally, truth = tallied(values, 1 << 20, 7), Counter(values)
    keys, counts = tally.top(50)
    by_hash = {int(hashes.mix(np.array([v], np.uint64))[0]): n for v, n in truth.items()}
    assert tally.exact and tally.error == 0 and tally.rows == 20_000
    assert {int(k): int(c) for k, c in zip(keys, counts[:, 0], strict=True)}.items() <= by_hash.items()
    assert counts[:, 0].tolist() == [n for _, n in truth.most_common(50)]
    even = Counter({v: n for v, n in truth.items() if v % 2 == 0})
    found = tally.repeats()
    for group, of in enumerate((truth, even)):
        twice = [n for n in of.values() if n > 1]
        assert (found.values[group], found.repeated[group], found.rows[group]) == (len(of), len(twice), sum(twice))
    again = tallied(values, 1 << 20, 3)
    assert all(np.array_equal(a, b) for a, b in zip(again.sample, tally.sample, strict=True))


def test_beyond_the_limit_errors_are_within_what_is_stated() -> None:
    values, limit = zipf(60_000), 2_000
    tally, truth = tallied(values, limit, 11), Counter(values)
    assert not tally.exact and len(tally.sample[0]) <= limit and len(tally.heavy[0]) <= limit
    assert 0 < tally.error <= 60_000 / limit  # Misra and Gries' bound
    keys, counts = tally.top(20)
    by_hash = {int(hashes.mix(np.array([v], np.uint64))[0]): n for v, n in truth.items()}
    for key, count in zip(keys, counts[:, 0], strict=True):
        assert count <= by_hash[int(key)] <= count + tally.error
    assert {v for v, n in truth.items() if n > 2 * tally.error} <= {
        v for v in truth if int(hashes.mix(np.array([v], np.uint64))[0]) in set(tally.heavy[0].tolist())
    }
    found, twice = tally.repeats(), [n for n in truth.values() if n > 1]
    # Half of √(values seen), four times over: no more than chance.
    assert not found.exact and found.values[0] == pytest.approx(len(truth), rel=0.15)
    assert found.repeated[0] == pytest.approx(len(twice), rel=0.25)
    plain = -sum(n / 60_000 * math.log2(n / 60_000) for n in truth.values())
    assert diversity.entropy_of(tally, 0, 60_000) == pytest.approx(plain, rel=0.03)
    assert diversity.entropy_of(tallied(values, 1 << 20, 2), 0, 60_000) == pytest.approx(plain)


def test_labels_are_given_up_or_gathered_once_they_are_many() -> None:
    counts = np.ones((5, 1), np.int64)
    few, many = Labels(1, 4, gives_up=True), Labels(1, 4)
    for found in (few, many):
        found.add(list("abcde"), counts)
        found.add(["a"], counts[:1])
    assert few.given_up and not few.counts
    assert {k: int(v[0]) for k, v in many.counts.items()} == {"a": 2, "b": 1, "c": 1, "d": 1, "(others)": 1}
    few.merge(many)
    assert few.given_up and not few.counts


@pytest.mark.parametrize(
    ("values", "bounds", "low", "high"),
    [([0.0, 1.0], [], 0, 1), ([5.0] * 9, [], 4.5, 5.5), ([], [0.3], 0.27, 0.33), ([], [], 0, 1), ([-1e9, 1e9], [], -1e9, 1e9)],
)
def test_edges_are_round_and_hold_all(values: list[float], bounds: list[float], low: float, high: float) -> None:
    edges = nice_edges(np.array(values, np.float32), bounds)
    slack = 0.003 * (high - low)  # the outermost thousandths may lie outside
    assert edges[0] <= low + slack and edges[-1] >= high - slack and 20 <= len(edges) <= 60
    assert np.diff(edges) == pytest.approx(edges[1] - edges[0])


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authority", "domain", "top"),
    [
        ("img.example.co.uk", "example.co.uk", "uk"),
        ("User:pw@Example.COM:8080", "example.com", "com"),
        ("a.blogspot.com", "blogspot.com", "com"),
        ("10.0.0.1:80", "10.0.0.1", ""),
        ("[::1]:80", "[::1]", ""),
        ("localhost", "localhost", ""),
        ("bücher.example", "xn--bcher-kva.example", "example"),
        ("картинки.пример.рф", "xn--e1afmkfd.xn--p1ai", "xn--p1ai"),
        ("co.uk", "co.uk", "uk"),
        ("", "", ""),
        ("host.de?x", "host.de", "de"),
    ],
)
def test_registered_domains(authority: str, domain: str, top: str) -> None:
    assert registered(authority) == (domain, top)


def test_what_is_no_utf8_is_replaced() -> None:
    good = pa.array(["é", None])
    assert repaired(good) is good
    assert repaired(pa.array([b"a\xff", None, b"\xed\xa0\x80"]).view(pa.string())).to_pylist() == ["a�", None, "���"]


def test_regions_of_top_level_domains() -> None:
    assert [region_of(t) for t in ("ke", "xn--p1ai", "xn--q7ce6a", "br")] == [
        *("Eastern Africa", "Eastern Europe", "South-eastern Asia", "South America"),
    ]
    assert [region_of(t) for t in ("com", "tv", "ai", "photos", "", "80")] == [GENERIC] * 4 + [NONE] * 2


# Pages --------------------------------------------------------------------------------------------------------------


def check(sections: Sequence[Section]) -> None:
    """Each picture has a table of its numbers and says the main ones in words; names and fragments are unique."""
    shown = list(parts(sections, Figure))
    names = [f.name for f in shown]
    assert len(set(names)) == len(names) and len({s.id for s in sections}) == len(sections)
    assert all(re.fullmatch(r"[a-z0-9-]+", n) for n in [*names, *(s.id for s in sections)])
    for figure in shown:
        assert figure.table.rows and len(figure.alt) > 40 and re.search(r"\d", figure.alt), figure.name
        ET.fromstring(figure.svg)
    for table in [*parts(sections, Table), *(f.table for f in shown)]:
        assert {len(row) for row in table.rows} <= {len(table.header)}, table.caption
        assert all(0 <= i < len(table.rows) for i in table.marks)


def test_pages_of_a_pool_and_of_a_selection(numbers: Numbers) -> None:
    before, after = distributions.pool_sections(numbers), distributions.selection_sections(numbers, 0)
    check([*before, *after])
    quality = next(f for f in parts(after, Figure) if f.title == "quality")
    assert "6 rows have a value" in quality.alt and "Thresholds: ≥ 0.2." in quality.alt and "kept: 4 rows" in quality.alt
    assert sum(int(row[1]) for row in quality.table.rows) == 8
    stages = next(s for s in after if s.id == "stages-out")
    by_language = next(t for t in parts([stages], Table) if t.caption.endswith("by language"))
    assert by_language.header == ("", "all rows", "0 score", "1 caption", "kept")
    assert by_language.rows[0] == ("en English", 3, 1, 0, 2)
    duplicates = next(t for t in parts(before, Table) if t.caption == "Rows that have something in common")
    assert duplicates.rows[:2] == [("captions", 5, 1, 3), ("addresses", 6, 1, 2)]


def test_pages_of_hostile_input(tmp_path: Path) -> None:
    """Captions that are no UTF-8, 100 kB long, or markup: `tests.pipeline.reporting`."""
    root = reporting.make_pool(tmp_path / "pool", tars=False)
    found = read(Pool.open(str(root)), options=QUIET)
    assert found.rows == reporting.ROWS and found.counted.identified == reporting.ROWS
    sections = distributions.pool_sections(found)
    check(sections)
    assert all(len(str(cell)) < 400 for t in parts(sections, Table) for row in t.rows for cell in row)


def test_what_is_drawn_stands_in_a_page_with_others(numbers: Numbers) -> None:
    view = distributions.View(numbers, "v", (("all rows", 0), ("kept", 1)), (("", Threshold(0, "quality", "min", 0.2)),))
    shown = [
        distributions.histogram_figure(view, "quality", numbers.counted.histograms["quality"]),
        distributions.histogram_figure(view, "words", numbers.counted.histograms["words"]),
        distributions.share_figure(view, "language", "Languages", numbers.counted.labels["language"].ranked()),
        figures.ratios("r", "t", "of 3 values", Table("t", ("a",), [("x",)]), ["a", "b", "c"], [2.0, 0.5, 0.0]),
        figures.curves(
            "c", "t", "a", Table("t", ("a",), [("x",)]), [("l", [1.0, 2.0], [3.0, math.nan])], x="x", y="y", log=True
        ),
    ]
    for figure in shown:
        assert figure.png is not None and figure.png.startswith(b"\x89PNG")
        assert "style" not in figure.svg and "currentColor" in figure.svg and figures.INK not in figure.svg
        assert all(i.startswith(f"{figure.name}-") for i in re.findall(r' id="([^"]*)"', figure.svg))
        used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', figure.svg))
        assert used == set(re.findall(r' id="([^"]*)"', figure.svg)) and used
    text = ["".join(ET.fromstring(figure.svg).itertext()) for figure in shown]
    assert "≥ 0.2" in text[0] and "all rows" in text[0] and "en" in text[2] and "none left" in text[3] and "×0.5" in text[3]


def test_what_is_drawn_is_the_same_each_time_and_holds_no_markup_of_others() -> None:
    table = Table("t", ("a", "b"), [("x", 1)])
    hostile = ["<script>x</script>", "a" * 99, "$\\frac$ ]]> & -->", "nul \x00 bell \x07", "\u202egpj"]
    drawn = [figures.bars("n", "t", "a", table, hostile, [("<b>", [1, 2, 3, 4, 5])], label="&") for _ in range(2)]
    assert drawn[0] == drawn[1]
    text = "".join(ET.fromstring(drawn[0].svg).itertext())
    assert "<script>x</script>" in text and "nul � bell �" in text and "a" * 40 not in text
