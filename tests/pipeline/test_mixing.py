"""Filter runs with a mix: the weighted list against one worked out in plain Python."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from filters.mixture import Group, Languages
from pipeline import mixing
from pipeline.engine import Options
from pipeline.selection import select
from pools import uids
from pools.errors import InputError
from tests.pipeline.trees import tree

QUIET = Options(workers=0, quiet=True)
RECIPE = """
keep:
  - caption: {min_words: 2}
mix:
  - languages: {share: 0.1, of: [hi, sw, es], seed: 5}
"""
Row = dict[str, Any]


def make_rows() -> list[Row]:
    """400 rows: half English, some Spanish (above a tenth), a few Hindi, one Swahili, others; some uids more than once."""
    rng = np.random.default_rng(1)
    languages = ["en", "en-GB", "es,en", "hi", "HI-IN", None, "", "ja"]
    said = [languages[i] for i in rng.choice(8, 400, p=[0.3, 0.2, 0.2, 0.02, 0.02, 0.1, 0.06, 0.1])]
    said[77] = "sw"
    rows = [
        {"uid": rng.bytes(16).hex(), "text": "one" if i % 10 == 3 else "two words", "content_language": language}
        for i, language in enumerate(said)
    ]
    for i in range(0, 40, 2):  # the same uid again, in part with another language
        rows[399 - i]["uid"] = rows[i]["uid"]
    return rows


ROWS = make_rows()


def write_pool(root: Path, rows: list[Row], files: int) -> Path:
    for i in range(files):
        path = root / "metadata" / f"{i}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([("uid", pa.string()), ("text", pa.string()), ("content_language", pa.string())])
        pq.write_table(pa.Table.from_pylist(rows[i::files], schema), path)
    return root


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "mixed.yaml").write_text(RECIPE)
    return str(tmp_path / "mixed.yaml")


def run(recipe: str, tmp_path: Path, rows: list[Row] = ROWS, files: int = 3, options: Options = QUIET) -> Path:
    pool = write_pool(tmp_path / f"pool-{files}-{options.workers}-{options.engine}", rows, files)
    out = tmp_path / f"out-{files}-{options.workers}-{options.engine}"
    select(recipe, str(pool), str(out), options=options)
    return out


def hexes(out: Path) -> list[str]:
    return list(uids.unpack(uids.read_list(str(out / "uids.npy"))).to_pylist())


def by_hand(
    rows: list[Row], raised: tuple[str, ...], share: Fraction, seed: int
) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """The list, and {group: (rows, entries)}, for shares of which every quota is whole."""
    kept = [r for r in rows if len(r["text"].split()) > 1]
    first = [(r["content_language"] or "").lower().replace(",", "-").split("-")[0] for r in kept]
    groups = {
        g: [r["uid"] for r, f in zip(kept, first, strict=True) if (f if f in raised else "rest") == g]
        for g in (*raised, "rest")
    }
    entries = {g: int(len(kept) * share) for g in raised}
    entries["rest"] = len(kept) - sum(entries.values())
    result: Counter[str] = Counter()
    for group, members in groups.items():
        times, more = divmod(entries[group], len(members))
        ranked = sorted(members, key=lambda u: (int(uids.hash64(uids.pack([u]), seed)[0]), u))
        for i, uid in enumerate(ranked):
            result[uid] += times + (i < more)
    return sorted(result.elements()), {g: (len(members), entries[g]) for g, members in groups.items()}


def test_the_list_is_the_one_worked_out_by_hand(tmp_path: Path, recipe: str) -> None:
    out = run(recipe, tmp_path)
    expected, groups = by_hand(ROWS, ("hi", "sw"), Fraction(1, 10), 5)
    assert hexes(out) == expected
    kept = len(expected)
    assert kept == 360
    assert groups["sw"] == (1, 36)
    assert 1 < groups["hi"][0] < 36
    assert json.loads((out / "mix.json").read_text()) == {
        "mix": "languages",
        "groups": [
            {"labels": ["hi"], "rows": groups["hi"][0], "entries": 36},
            {"labels": ["sw"], "rows": 1, "entries": 36},
            {"labels": ["es", "rest"], "rows": groups["rest"][0], "entries": 288},
        ],
    }
    manifest = json.loads((out / "_manifest.json").read_text())
    assert {k: manifest["counts"][k] for k in ("in", "kept", "dropped:0-caption", "listed")} == {
        "in": 400,
        "kept": 360,
        "dropped:0-caption": 40,
        "listed": 360,
    }
    assert uids.read_info(str(out / "uids.npy")).count == 360
    verdicts = pq.read_table(out / "verdicts").to_pylist()
    assert sum(v["dropped_by"] is None for v in verdicts) == 360


def test_the_list_is_the_same_however_the_pool_is_cut_and_by_whom_it_is_read(tmp_path: Path, recipe: str) -> None:
    one, many = run(recipe, tmp_path, files=1), run(recipe, tmp_path, files=7)
    processes = run(recipe, tmp_path, files=7, options=Options(workers=2, quiet=True))
    backwards = run(recipe, tmp_path, rows=ROWS[::-1], files=5)
    for name in ("uids.npy", "uids.npy.json", "mix.json", "recipe.yaml", "fitted.json"):
        assert len({(out / name).read_bytes() for out in (one, many, processes, backwards)}) == 1, name


def test_the_number_of_workers_changes_no_byte_and_a_rerun_gives_the_same(tmp_path: Path, recipe: str) -> None:
    pool = str(write_pool(tmp_path / "pool", ROWS, 4))
    whole = tmp_path / "whole"
    select(recipe, pool, str(whole), options=QUIET)
    before = tree(whole)
    for gone in ("_manifest.json", "uids.npy", "mix.json", "verdicts/2.parquet", ".winnow/done/2.json", ".winnow/labels/2.i4"):
        (whole / gone).unlink()
    select(recipe, pool, str(whole), options=QUIET)
    assert tree(whole) == before
    for i in (1, 0):
        select(recipe, pool, str(tmp_path / "parts"), options=Options(workers=0, quiet=True, part=(i, 2)))
    assert tree(tmp_path / "parts") == before


@pytest.mark.spark
def test_spark_changes_no_byte(tmp_path: Path, recipe: str, spark: Any) -> None:
    pool = str(write_pool(tmp_path / "pool", ROWS, 3))
    select(recipe, pool, str(tmp_path / "local"), options=QUIET)
    select(recipe, pool, str(tmp_path / "spark"), options=Options(engine="spark", quiet=True))
    assert tree(tmp_path / "local") == tree(tmp_path / "spark")


def test_a_store_without_folders_holds_the_same_list(tmp_path: Path, recipe: str) -> None:
    import fsspec

    out = run(recipe, tmp_path)
    memory = fsspec.filesystem("memory")
    for path in sorted((tmp_path / "pool-3-0-local").rglob("*.parquet")):
        memory.pipe_file(f"/mixed/pool/metadata/{path.name}", path.read_bytes())
    select(recipe, "memory://mixed/pool", "memory://mixed/out", options=QUIET)
    assert memory.cat_file("/mixed/out/uids.npy") == (out / "uids.npy").read_bytes()


def test_a_language_without_a_kept_row_is_an_error_that_names_it(tmp_path: Path, recipe: str) -> None:
    Path(recipe).write_text(RECIPE.replace("hi, sw", "hi, mi, sw"))
    with pytest.raises(
        InputError, match="pool-3-0-local: languages: no row of language 'mi' among the 360 kept; drop it from `of`"
    ):
        run(recipe, tmp_path)
    assert not (tmp_path / "out-3-0-local" / "_manifest.json").exists()
    # Swahili has rows in the pool, none of which is kept.
    Path(recipe).write_text(RECIPE.replace("min_words: 2", "max_words: 1"))
    with pytest.raises(InputError, match="no row of language 'sw'"):
        run(recipe, tmp_path, files=2)


# T83
def test_a_recipe_that_keeps_nothing_has_an_empty_list(tmp_path: Path, recipe: str) -> None:
    Path(recipe).write_text(RECIPE.replace("min_words: 2", "min_words: 9"))
    out = run(recipe, tmp_path)
    assert hexes(out) == []
    assert json.loads((out / "_manifest.json").read_text())["counts"]["listed"] == 0


def test_a_pool_without_the_column_is_refused_before_any_work(tmp_path: Path, recipe: str) -> None:
    Path(recipe).write_text(RECIPE.replace("share", "column: spoken, share"))
    with pytest.raises(InputError, match="no column 'spoken'"):
        run(recipe, tmp_path)
    assert not (tmp_path / "out-3-0-local").exists()


def test_a_column_that_holds_no_text_is_named_with_its_file(tmp_path: Path, recipe: str) -> None:
    pool = write_pool(tmp_path / "pool", ROWS, 2)
    path = pool / "metadata" / "1.parquet"
    table = pq.read_table(path).drop_columns("content_language")
    pq.write_table(table.append_column("content_language", pa.array(range(len(table)))), path)
    with pytest.raises(InputError, match=r"1\.parquet: column 'content_language' holds int64"):
        select(recipe, str(pool), str(tmp_path / "out"), options=QUIET)


def one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: list[str], entries: int, in_memory: int) -> list[str]:
    """The list of a mix with one group of these uids, spread over two parts."""
    mix = Languages(share=0.5, of=("hi",))
    monkeypatch.setattr(Languages, "plan", lambda self, rows: (Group(self.labels, entries),))
    parts = []
    for i in (0, 1):
        paths = (str(tmp_path / f"{i}.npy"), str(tmp_path / f"{i}.i4"))
        found = uids.pack(members[i::2])
        mixing.write_part(*paths, [found], [np.zeros(len(found), np.int32)])
        parts.append(paths)
    mixing.mix_parts(mix, parts, str(tmp_path / "list.npy"), recipe="r", rows_in_memory=in_memory)
    return list(uids.unpack(uids.read_list(str(tmp_path / "list.npy"))).to_pylist())


@pytest.mark.parametrize("in_memory", [1000, 3])
@pytest.mark.parametrize("entries", [0, 1, 4, 5, 8, 17])
def test_rows_with_equal_hashes_go_by_their_uids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, in_memory: int
) -> None:
    members = [f"{i << 60 | 1:016x}" + "0" * 16 for i in (3, 1, 12, 7, 0)]
    monkeypatch.setattr(uids, "hash64", lambda found, seed: np.full(len(found), 9, np.uint64))
    times, more = divmod(entries, 5)
    expected = sorted(m for i, m in enumerate(sorted(members)) for _ in range(times + (i < more)))
    assert one_group(tmp_path, monkeypatch, members, entries, in_memory) == expected


@pytest.mark.parametrize("entries", [3, 5, 7])
def test_each_row_of_a_uid_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    a, b = (f"{i:032x}" for i in (1, 2))
    monkeypatch.setattr(uids, "hash64", lambda found, seed: found["f1"].astype(np.uint64))
    # Four rows of a, then one of b, in the order of the hashes.
    times, more = divmod(entries, 5)
    expected = [a] * (4 * times + min(more, 4)) + [b] * (times + math.floor(more / 5))
    assert one_group(tmp_path, monkeypatch, [a, a, b, a, a], entries, 100) == expected


def write_vectors(root: Path, rows: list[Row], files: int) -> Path:
    """The pool of `write_pool` with three kinds of features and a weight for each row, both made of its uid."""
    pool = write_pool(root, rows, files)
    for i in range(files):
        own = rows[i::files]
        np.savez(pool / "metadata" / f"{i}.npz", img=np.array([vector_of(r) for r in own], np.float16))
        path = pool / "metadata" / f"{i}.parquet"
        pq.write_table(pq.read_table(path).append_column("weight", pa.array([weight_of(r) for r in own])), path)
    return pool


def cluster_of(row: Row) -> int:
    """0 to 2, the last of which is rare; -1 for a row without a cluster."""
    digit = int(row["uid"][-2:], 16)
    return -1 if digit < 20 else 2 if digit < 40 else digit % 2


def vector_of(row: Row) -> list[float]:
    return [float("nan")] * 3 if cluster_of(row) < 0 else [float(j == cluster_of(row)) for j in range(3)]


def weight_of(row: Row) -> float:
    return int(row["uid"][:2], 16) / 64  # 0 to 3.98


def listed(tmp_path: Path, mix: str, files: int, options: Options = QUIET) -> tuple[list[str], dict[str, Any]]:
    name = f"{files}-{options.engine}-{options.workers}"
    np.save(tmp_path / "centroids.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "m.yaml").write_text(f"keep:\n  - caption: {{min_words: 2}}\nmix:\n  - {mix}\n")
    pool = write_vectors(tmp_path / f"pool-{name}", ROWS, files)
    select(str(tmp_path / "m.yaml"), str(pool), str(tmp_path / f"out-{name}"), options=options)
    return hexes(tmp_path / f"out-{name}"), json.loads((tmp_path / f"out-{name}" / "mix.json").read_text())


def balanced_by_hand(entries: list[int], seed: int) -> list[str]:
    result: Counter[str] = Counter()
    for group, total in enumerate(entries):
        members = [r["uid"] for r in ROWS if len(r["text"].split()) > 1 and cluster_of(r) == group]
        times, more = divmod(total, len(members))
        ranked = sorted(members, key=lambda u: (int(uids.hash64(uids.pack([u]), seed)[0]), u))
        for i, uid in enumerate(ranked):
            result[uid] += times + (i < more)
    return sorted(result.elements())


@pytest.mark.parametrize("files", [1, 5])
def test_clusters_get_the_same_part_of_the_list(tmp_path: Path, files: int) -> None:
    mix = f"balanced_clusters: {{features: img, centroids: {tmp_path}/centroids.npy, entries: 200, seed: 2}}"
    found, report = listed(tmp_path, mix, files)
    assert found == balanced_by_hand([67, 67, 66], 2)
    rows = [sum(len(r["text"].split()) > 1 and cluster_of(r) == group for r in ROWS) for group in (-1, 0, 1, 2)]
    assert sum(rows) == 360
    assert rows[3] < 66 < rows[1]
    assert report["groups"] == [
        {"labels": ["0"], "rows": rows[1], "entries": 67},
        {"labels": ["1"], "rows": rows[2], "entries": 67},
        {"labels": ["2"], "rows": rows[3], "entries": 66},
        {"labels": ["none"], "rows": rows[0], "entries": 0},
    ]


def test_with_a_bound_on_copies_a_small_cluster_leaves_room(tmp_path: Path) -> None:
    mix = f"balanced_clusters: {{features: img, centroids: {tmp_path}/centroids.npy, entries: 200, max_copies: 1}}"
    rare = sum(len(r["text"].split()) > 1 and cluster_of(r) == 2 for r in ROWS)
    found, _ = listed(tmp_path, mix, 3)
    assert found == balanced_by_hand([-(-(200 - rare) // 2), (200 - rare) // 2, rare], 0)


@pytest.mark.parametrize("files", [1, 5])
def test_rows_stand_in_the_list_as_often_as_they_weigh(tmp_path: Path, files: int) -> None:
    found, report = listed(tmp_path, "weights: {column: weight, scale: 2, seed: 9}", files)
    kept = [r for r in ROWS if len(r["text"].split()) > 1]
    expected = []
    for row in kept:
        whole, part = divmod(Fraction(2 * weight_of(row)), 1)
        more = int(uids.hash64(uids.pack([row["uid"]]), 9)[0]) < part * 2**64
        expected += [row["uid"]] * (int(whole) + more)
    assert found == sorted(expected)
    assert report == {"mix": "weights", "groups": [{"labels": [], "rows": 360, "entries": len(expected)}]}


@pytest.mark.slow
@pytest.mark.spark
def test_spark_balances_alike(tmp_path: Path, spark: Any) -> None:
    mix = f"balanced_clusters: {{features: img, centroids: {tmp_path}/centroids.npy}}"
    assert listed(tmp_path, mix, 3) == listed(tmp_path, mix, 2, Options(engine="spark", quiet=True))
