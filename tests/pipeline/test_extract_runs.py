"""The same bytes of candidates however the work is cut, in memory that does not grow with the input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.extract.job import Settings
from tests.pipeline import wats
from tests.pipeline.extracting import (
    Page,
    World,
    candidates,
    expected,
    left_behind,
    listing,
    made_up,
    order,
    parquet,
    results,
    rows,
    run,
    write,
)

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def world() -> World:
    return made_up(files=7)


@pytest.fixture(scope="module")
def whole(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The world's files, and what becomes of them in one part."""
    folder = tmp_path_factory.mktemp("whole")
    run(write(world, folder / "in"), folder / "out")
    return folder / "in", folder / "out"


def test_the_rows_are_those_of_the_model(world: World, whole: tuple[Path, Path]) -> None:
    assert len(expected(world)) == 7 * 3 * 2 + 3  # two of four images are a page's own, three are everybody's
    assert rows(whole[1]) == expected(world)
    assert rows(whole[1]) == sorted(rows(whole[1]), key=lambda row: order(row["uid"]))


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
def test_parts_give_the_same_bytes(whole: tuple[Path, Path], tmp_path: Path, parts: int) -> None:
    run(whole[0], tmp_path / "out", Settings(parts=parts, scratch=str(tmp_path / "scratch")))
    assert results(tmp_path / "out") == results(whole[1])
    assert left_behind(tmp_path) == []


def test_many_files_are_worked_on_in_parts_of_themselves(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipeline.extract.job._FILES", 3)
    run(whole[0], tmp_path / "out", quiet=False)
    said = [line.partition(" in ")[0] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in said if line.startswith("extract")] == [
        f"extract {part}/3: {files} of {files} units" for part, files in [(1, 2), (2, 2), (3, 3)]
    ]
    assert results(tmp_path / "out") == results(whole[1])


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_the_same_bytes(whole: tuple[Path, Path], tmp_path: Path, workers: int) -> None:
    run(whole[0], tmp_path / "out", workers=workers)
    assert results(tmp_path / "out") == results(whole[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows.MANY", 1),
        ("rows.MANY", 5),
        ("rows.LONG", 40),
        ("scan._FEW", 1),
        ("runs._GROUP_ROWS", 2),
        ("runs._GROUP_BYTES", 100),
    ],
)
def test_batches_and_groups_of_another_size_give_the_same_bytes(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    monkeypatch.setattr(f"pipeline.extract.{name}", value)
    run(whole[0], tmp_path / "out", Settings(parts=2))
    assert parquet(tmp_path / "out") == parquet(whole[1])


@pytest.mark.parametrize(("name", "value"), [("_ROWS", 8), ("_BYTES", 1000)])
@pytest.mark.parametrize("parts", [1, 3])
def test_files_of_another_size_hold_the_same_rows_in_the_same_order(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int, parts: int
) -> None:
    monkeypatch.setattr(f"pipeline.extract.job.{name}", value)
    run(whole[0], tmp_path / "out", Settings(parts=parts))
    assert len(parquet(tmp_path / "out")) > 3
    assert candidates(tmp_path / "out") == candidates(whole[1])


@pytest.mark.parametrize("limit", ["_ROWS", "_BYTES"])
def test_many_rows_are_files_of_equal_ranges_of_the_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    links = [(f"{i}.jpg", f"picture {i:04}") for i in range(3000)]
    wat = wats.write(tmp_path / "a.wat", [wats.page("http://e.example/", links)])
    # Each row has 75 bytes of text and more: url, alt and caption, address of the page, name of the file.
    monkeypatch.setattr(f"pipeline.extract.job.{limit}", {"_ROWS": 600, "_BYTES": 3000 * 15}[limit])
    run(wat, tmp_path / "out")
    hashes = [[order(row["uid"]) for row in pq.read_table(f).to_pylist()] for f in sorted((tmp_path / "out").glob("*.parquet"))]
    number = len(hashes)
    assert number == 5 if limit == "_ROWS" else 5 <= number <= 7
    assert sum(map(len, hashes)) == 3000
    for k, found in enumerate(hashes):
        assert all(k * 2**64 // number <= h < (k + 1) * 2**64 // number for h in found)
        assert abs(len(found) - 3000 / number) < 5 * np.sqrt(3000 / number)


def test_the_order_in_which_inputs_are_named_does_not_count(world: World, whole: tuple[Path, Path], tmp_path: Path) -> None:
    names = sorted(whole[0].iterdir())
    for n, inputs in enumerate(
        [names[::-1], [names[3], whole[0] / "*.gz", *names], [listing(tmp_path, map(str, names[::-1]))]]
    ):
        run(inputs, tmp_path / f"{n}")
        assert parquet(tmp_path / f"{n}") == parquet(whole[1])


# Any world ------------------------------------------------------------------------------------------------------------

URLS = st.sampled_from([f"{blank}http://i.example/{c}.jpg" for c in "abc" for blank in ("", " ")])
PAIRS = st.tuples(URLS, st.sampled_from(["", "a dog", "a cat", "ñ 狗"]))
TITLES, LANGUAGES = st.sampled_from([None, "T", "Title"]), st.sampled_from([None, "es", "en"])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    pages = st.builds(
        Page,
        st.sampled_from(["http://e.example/1", "http://e.example/2"]),
        st.lists(PAIRS, max_size=4).map(tuple),
        TITLES,
        LANGUAGES,
    )
    # A detection without a page of this address that names images would be that of the page before.
    pages = pages.filter(lambda page: bool(page.links) or page.language is None)
    return draw(st.lists(st.lists(pages, min_size=1, max_size=4), min_size=1, max_size=4))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), parts=st.integers(1, 4), many=st.integers(1, 6), group=st.integers(1, 4), size=st.integers(1, 9))
def test_any_world_is_what_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, world: World, parts: int, many: int, group: int, size: int
) -> None:
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in [("rows.MANY", many), ("runs._GROUP_ROWS", group), ("job._ROWS", size)]:
            patch.setattr(f"pipeline.extract.{name}", value)
        outcome = run(write(world, folder / "in"), folder / "out", Settings(parts=parts))
    assert rows(folder / "out") == expected(world)
    links = [alt for pages in world for page in pages for _, alt in page.links]
    assert {name: outcome.counts[name] for name in ("in", "kept", "dropped:no_text", "dropped:duplicate")} == {
        "in": len(links),
        "kept": len(expected(world)),
        "dropped:no_text": links.count(""),
        "dropped:duplicate": len(links) - links.count("") - len(expected(world)),
    }


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.pipeline.extract_memory", str(tmp_path), "1,20", "1,100", "1,1500", "10,100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    small, long, many = map(int, done.stdout.split())
    # MB; the alt texts of the larger ones are 24 and 16, and stand in the rows twice.
    assert long - small < 15
    assert many - small < 15
