"""What a filter run says and is told besides: reasons, plans, plugins, verdicts taken over, columns that are not there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from filters import registry
from filters.text import Caption
from pipeline.cli import app
from pipeline.engine import Options
from pipeline.selecting import plugin
from pipeline.selection import Settings, select
from pools import uids
from pools.errors import InputError
from tests.pipeline.trees import tree

QUIET = Options(workers=0, quiet=True)
KEEP = "keep:\n  - image_size: {min_side: 200}\n  - caption: {min_words: 2}\n  - score: {column: s, min: %s}\n"
U = [f"{i:032x}" for i in range(8)]


def write(folder: Path, number: int, **columns: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{number}.parquet")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Rows 0–3 and 4–7 in two files: 0 is small, 1 has one word, 2 a low score, 3 passes; 4 has no score, 5–7 pass."""
    sides, texts = [100, 300, 300, 300] + [200] * 4, ["a b", "one", "a b", "a b c"] + ["x y"] * 4
    scores = pa.array([0.9, 0.9, 0.25, 0.75, None, 0.5, 0.6, 0.7], pa.float32())
    for f in (0, 1):
        cut = slice(4 * f, 4 * f + 4)
        write(
            tmp_path / "pool",
            f,
            uid=U[cut],
            text=texts[cut],
            original_width=sides[cut],
            original_height=[400] * 4,
            s=scores.slice(4 * f, 4),
        )
    return tmp_path / "pool"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(KEEP % 0.5)
    return tmp_path / "mine.yaml"


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def kept(out: Path) -> list[int]:
    return [int(u, 16) for u in uids.unpack(uids.read_list(str(out / "uids.npy"))).to_pylist()]


# T84
def test_explain_says_stage_by_stage_what_became_of_a_uid(tmp_path: Path, pool: Path, recipe: Path) -> None:
    out = tmp_path / "out"
    select(str(recipe), str(pool), str(out), options=QUIET)
    rows = pa.concat_tables(pq.read_table(p) for p in sorted((out / "verdicts").glob("*.parquet"))).to_pylist()
    dropped = {int(r["uid"], 16): (r["reason"], r["value"]) for r in rows if r["dropped_by"] is not None}
    assert dropped == {
        0: ("image_size", "100x400"),
        1: ("caption", "1 words, 3 characters"),
        2: ("score", "0.25"),
        4: ("score", None),
    }
    said = run("explain", U[1], out).output.splitlines()
    assert [line.rpartition("}: ")[2] for line in said[1:4]] == ["passed", "DROPPED: 1 words, 3 characters", "not reached"]
    assert said[0].endswith("file 0, row 1")
    assert said[4] == "  in the list 0 times"
    assert "could not be judged" in run("explain", U[4].upper(), out).output
    assert "in the list once" in run("explain", U[3], out).output


def test_explain_with_the_pool_has_what_every_stage_compared(tmp_path: Path, pool: Path, recipe: Path) -> None:
    settings = Settings(verdicts=False)
    select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET, settings=settings)
    said = run("explain", U[2], tmp_path / "out", pool).output.splitlines()
    assert [line.rpartition("}: ")[2] for line in said[1:4]] == [
        "passes: 300x400",
        "passes: 2 words, 3 characters",
        "fails, DROPPED here: 0.25",
    ]
    assert "  text a b" in run("explain", U[2], pool).output.splitlines()
    with pytest.raises(InputError, match=f"no row with uid {'f' * 32}"):
        run_raising("explain", "f" * 32, pool)


def run_raising(*arguments: str | Path) -> None:
    """The same with the error as it is."""
    result = run(*arguments)
    if result.exception:
        raise result.exception


def test_without_verdicts_the_list_and_counts_are_the_same(tmp_path: Path, pool: Path, recipe: Path) -> None:
    told = select(str(recipe), str(pool), str(tmp_path / "a"), options=QUIET)
    untold = select(str(recipe), str(pool), str(tmp_path / "b"), options=QUIET, settings=Settings(verdicts=False))
    assert told.counts == untold.counts
    assert told.counts["unscored:2-score"] == 1
    assert kept(tmp_path / "a") == kept(tmp_path / "b") == [3, 5, 6, 7]
    assert not (tmp_path / "b" / "verdicts").exists()
    # Small files are one unit of work then, and the manifest says that this is another kind of run.
    assert len(list((tmp_path / "b" / ".winnow" / "kept").iterdir())) == 1
    with pytest.raises(InputError, match="its verdicts is False, here None"):
        select(str(recipe), str(pool), str(tmp_path / "b"), options=QUIET)


# T83
def test_a_recipe_that_keeps_nothing_says_loudly_which_stage_it_was(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - image_size: {min_side: 200}\n  - caption: {min_words: 9}\n  - score: {column: s, min: 0}\n")
    result = run("filter", recipe, pool, "--output", tmp_path / "out", "--workers", "0", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == "filter: WARNING: nothing is kept: stage 1-caption dropped the last 7 of 8 rows\n"
    as_json = run("filter", recipe, pool, "--output", tmp_path / "out", "--json")
    assert json.loads(as_json.stdout)["emptied_by"] == "stage 1-caption dropped the last 7 of 8 rows"
    assert kept(tmp_path / "out") == []


# T85
def test_a_file_that_lacks_a_column_is_named_or_has_nulls_there(tmp_path: Path, pool: Path, recipe: Path) -> None:
    path = pool / "1.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["s"]), path)
    with pytest.raises(InputError, match=r"1\.parquet: no column 's'(.|\n)*--missing null"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    assert not (tmp_path / "out").exists()
    outcome = select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET, settings=Settings(fill=True))
    assert kept(tmp_path / "out") == [3]
    assert outcome.counts["unscored:2-score"] == 4
    recipe.write_text("keep:\n  - score: {column: nowhere, min: 0.5}\n")
    with pytest.raises(InputError, match="no column 'nowhere'"):
        select(str(recipe), str(pool), str(tmp_path / "x"), options=QUIET, settings=Settings(fill=True))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many captions are judged, each time that some are."""
    rows: list[int] = []
    keep = Caption.keep

    def counting(self: Caption, batch: pa.RecordBatch) -> pa.BooleanArray:
        rows.append(len(batch))
        return keep(self, batch)

    monkeypatch.setattr(Caption, "keep", counting)
    return rows


# T86
def test_stages_that_are_the_same_are_not_judged_again(
    tmp_path: Path, pool: Path, recipe: Path, asked: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    select(str(recipe), str(pool), str(tmp_path / "runs" / "first"), options=QUIET)
    assert sum(asked) == 7
    select(str(recipe), str(pool), str(tmp_path / "runs" / "second"), options=Options(workers=0))
    assert sum(asked) == 7
    assert "taken over: image_size, caption, score (2 of 2 units)" in capsys.readouterr().err
    assert tree(tmp_path / "runs" / "first") == tree(tmp_path / "runs" / "second")
    recipe.write_text(KEEP % 0.7)  # the last stage is another
    for reuse, out in ((True, tmp_path / "runs" / "third"), (False, tmp_path / "runs" / "fourth")):
        select(str(recipe), str(pool), str(out), options=Options(workers=0), settings=Settings(reuse=reuse))
        assert sum(asked) == (7 if reuse else 14)
    assert "taken over: image_size, caption (2 of 2 units)" in capsys.readouterr().err
    assert kept(tmp_path / "runs" / "third") == [3, 7]
    assert tree(tmp_path / "runs" / "third") == tree(tmp_path / "runs" / "fourth")


def test_a_file_that_changed_is_judged_again_and_the_others_are_not(
    tmp_path: Path, pool: Path, recipe: Path, asked: list[int]
) -> None:
    select(str(recipe), str(pool), str(tmp_path / "runs" / "first"), options=QUIET)
    path = pool / "1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "text", pa.array(["long enough", "x", "x", "long enough"])), path)
    asked.clear()
    select(str(recipe), str(pool), str(tmp_path / "runs" / "second"), options=QUIET)
    assert asked == [4]
    assert kept(tmp_path / "runs" / "second") == [3, 7]


def test_verdicts_on_another_pool_with_the_same_names_and_times_are_not_taken_over(
    tmp_path: Path, pool: Path, recipe: Path, asked: list[int]
) -> None:
    select(str(recipe), str(pool), str(tmp_path / "runs" / "first"), options=QUIET)
    shutil.copytree(pool, tmp_path / "other")  # which keeps the times of change
    select(str(recipe), str(tmp_path / "other"), str(tmp_path / "runs" / "second"), options=QUIET)
    assert sum(asked) == 14


def test_of_several_selections_the_one_that_goes_furthest_is_taken(
    tmp_path: Path, pool: Path, recipe: Path, asked: list[int]
) -> None:
    """`a` has all stages, `b`, which is looked at later, the first alone."""
    select(str(recipe), str(pool), str(tmp_path / "runs" / "a"), options=QUIET)
    recipe.write_text("keep:\n  - image_size: {min_side: 200}\n  - caption: {min_words: 3}\n")
    select(str(recipe), str(pool), str(tmp_path / "runs" / "b"), options=QUIET)
    asked.clear()
    recipe.write_text(KEEP % 0.5)
    select(str(recipe), str(pool), str(tmp_path / "runs" / "c"), options=QUIET)
    assert asked == []


def test_what_is_fitted_within_a_combinator_rests_on_all_files(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - all:\n      - score: {column: s, top_fraction: 0.25, of: pool}\n")
    select(str(recipe), str(pool), str(tmp_path / "runs" / "d"), options=QUIET)
    path = pool / "1.parquet"
    pq.write_table(pq.read_table(path).set_column(4, "s", pa.array([0.95] * 4, pa.float32())), path)
    select(str(recipe), str(pool), str(tmp_path / "runs" / "e"), options=QUIET)
    assert kept(tmp_path / "runs" / "d") == [0, 1, 3]
    assert kept(tmp_path / "runs" / "e") == [4, 5, 6, 7]


def test_an_annotation_that_changed_is_judged_again(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - score: {column: e, min: 0.5}\n")
    for name, high in (("first", 0), ("second", 1)):
        for f in (0, 1):
            write(pool / "annotations" / "extra", f, uid=U[4 * f : 4 * f + 4], e=[0.9 * (f == high)] * 4)
        select(str(recipe), str(pool), str(tmp_path / "runs" / name), options=QUIET)
        assert kept(tmp_path / "runs" / name) == list(range(4 * high, 4 * high + 4))


def test_a_top_fraction_is_of_the_whole_pool_so_every_file_counts(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - score: {column: s, top_fraction: 0.25, of: pool}\n")
    select(str(recipe), str(pool), str(tmp_path / "runs" / "first"), options=QUIET)
    assert kept(tmp_path / "runs" / "first") == [0, 1, 3]
    path = pool / "1.parquet"
    pq.write_table(pq.read_table(path).set_column(4, "s", pa.array([0.95] * 4, pa.float32())), path)
    select(str(recipe), str(pool), str(tmp_path / "runs" / "second"), options=QUIET)
    assert kept(tmp_path / "runs" / "second") == [4, 5, 6, 7]


def test_a_run_on_local_files_loads_neither_pandas_nor_what_remote_stores_need(
    tmp_path: Path, pool: Path, recipe: Path
) -> None:
    """pyarrow imports pandas with the first value of Python's that it is given, which takes as long as the rest."""
    recipe.write_text(KEEP % 0.5 + "  - score: {column: s, top_fraction: 0.5, of: input}\n  - language: {is: [en, de, fr]}\n")
    command = ["filter", str(recipe), str(pool), "--output", str(tmp_path / "out"), "--workers", "0", "--quiet"]
    code = (
        "import sys\nfrom pipeline.cli import app\nsys.argv[0] = 'winnow'\n"
        "try:\n    app()\nexcept SystemExit:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    assert kept(tmp_path / "out") is not None
    assert "fasttext" in done.stdout.split()
    assert not set(done.stdout.split()) & {"pandas", "fsspec", "torch", "asyncio"}


def test_a_dry_run_tells_the_plan_and_writes_nothing(tmp_path: Path, pool: Path, recipe: Path) -> None:
    said = run("filter", recipe, pool, "--dry-run", "--workers", "0").stdout
    assert "columns read: uid, original_width, original_height, text, s" in said
    assert "1 caption              reads text; keeps 85.7 % of what reaches it" in said
    assert said.splitlines()[-1] == "keeps 50.0 % exactly: 4 of 8 rows of 2 files, which are all"
    assert {p.name for p in tmp_path.iterdir()} == {"pool", "mine.yaml"}
    result = run("filter", recipe, pool)
    assert isinstance(result.exception, InputError)


def test_a_sample_says_how_far_off_it_may_be(tmp_path: Path, recipe: Path) -> None:
    """40 files of 100 rows, of which 30 pass in each second file and 50 in the others: 40 % of all."""
    for f in range(40):
        scores = [0.9] * (30 if f % 2 else 50) + [0.1] * (70 if f % 2 else 50)
        write(tmp_path / "pool", f, uid=[f"{f * 1000 + i:032x}" for i in range(100)], s=scores)
    recipe.write_text("keep:\n  - score: {column: s, min: 0.5}\n")
    last = run("filter", recipe, tmp_path / "pool", "--dry-run").stdout.splitlines()[-1]
    rate, error = float(last.split()[2]), float(last.split()[5])
    assert "of 1,600 rows of 16 files sampled" in last
    assert 2 < error < 8  # files differ by 10 %: 1.96 · 10 / √16 = 4.9
    assert abs(rate - 40) < 10


def test_recipes_say_what_they_need_and_what_a_pool_lacks(pool: Path) -> None:
    said = run("recipes", pool).stdout
    lines = said.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("clip_score_l14_30"))
    assert lines[at + 1].split() == ["needs", "clip_l14_similarity_score"]
    assert "the pool lacks clip_l14_similarity_score: `winnow annotate POOL --with clip --name l14 " in lines[at + 2]
    at = next(i for i, line in enumerate(lines) if line.startswith("basic"))
    assert lines[at + 2].strip() == "the pool has it"


# T82
@pytest.mark.parametrize("rule", ["keep:\n  - all:\n      - nearest_cluster: {%s, targets: %s}\n", "mix"])
def test_features_of_another_length_are_named_with_both_files_before_any_work(
    tmp_path: Path, pool: Path, recipe: Path, rule: str
) -> None:
    np.save(tmp_path / "centroids.npy", np.eye(3, dtype=np.float32))
    (tmp_path / "targets.txt").write_text("0\n")
    given = f"features: img, centroids: {tmp_path / 'centroids.npy'}"
    if rule == "mix":
        recipe.write_text(f"keep: []\nmix:\n  - balanced_clusters: {{{given}}}\n")
    else:
        recipe.write_text(rule % (given, tmp_path / "targets.txt"))
    np.savez(pool / "0.npz", img=np.ones((4, 3), np.float16))
    np.savez(pool / "1.npz", img=np.ones((4, 2), np.float16))
    message = r"1\.parquet: 'img' has vectors of 2 numbers, the centroids in .*centroids\.npy are of 3"
    for dry in (["--dry-run"], ["--output", tmp_path / "out"]):
        with pytest.raises(InputError, match=message):
            run_raising("filter", recipe, pool, *dry, "--workers", "0")
    assert not (tmp_path / "out").exists()
    np.savez(pool / "1.npz", img=np.ones((4, 3), np.float16))
    assert select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET).counts["kept"] == 8


def test_a_column_of_words_is_no_score_which_is_said_before_any_work(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - not:\n      - score: {column: text, min: 0.5}\n")
    with pytest.raises(InputError, match=r"0\.parquet: column 'text' holds string; expected numbers"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET)
    assert not (tmp_path / "out").exists()


def test_so_many_are_kept_however_the_pool_is_cut(tmp_path: Path, pool: Path, recipe: Path) -> None:
    """Rows 0 and 1 have 0.9 and tie for the last place but one."""
    recipe.write_text("keep:\n  - score: {column: s, top_count: 1, of: pool}\n")
    select(str(recipe), str(pool), str(tmp_path / "a" / "out"), options=QUIET)
    whole = pa.concat_tables([pq.read_table(pool / "1.parquet"), pq.read_table(pool / "0.parquet")])
    write(tmp_path / "one", 0, **{name: whole[name] for name in whole.column_names})
    select(str(recipe), str(tmp_path / "one"), str(tmp_path / "b" / "out"), options=Options(workers=2, quiet=True))
    first = int(np.argmin(uids.hash64(uids.pack(U[:2]), 0)))
    assert kept(tmp_path / "a" / "out") == kept(tmp_path / "b" / "out") == [first]


# T71
def test_lists_of_selections_are_combined_in_either_order(tmp_path: Path, pool: Path, recipe: Path) -> None:
    """A list with repeats, as a mix makes it, counts as the set of its uids."""
    lists = {}
    for name, said in {
        "a": "keep:\n  - image_size: {min_side: 300}\nmix:\n  - weights: {column: original_width, scale: 0.01}\n",
        "b": "keep:\n  - score: {column: s, min: 0.5}\n",
    }.items():
        recipe.write_text(said)
        select(str(recipe), str(pool), str(tmp_path / name), options=QUIET)
        lists[name] = tmp_path / name / "uids.npy"
    assert kept(tmp_path / "a") == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert kept(tmp_path / "b") == [0, 1, 3, 5, 6, 7]
    expected = {"intersect": [1, 3], "union": [0, 1, 2, 3, 5, 6, 7], "minus": [2]}
    for operation, members in expected.items():
        for order in ("ab", "ba"):
            out = tmp_path / f"{operation}-{order}" / "uids.npy"
            result = run("uids", operation, lists[order[0]], lists[order[1]], "--output", out)
            assert result.exit_code == 0, result.output
            assert kept(out.parent) == ([0, 5, 6, 7] if (operation, order) == ("minus", "ba") else members)


PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar
import pyarrow as pa
import pyarrow.compute as pc
from filters.registry import register

@register("ends_with")
@dataclass(frozen=True)
class EndsWith:
    """Captions that end in `letter`; a rule of one's own, to be tried."""

    letter: str
    needs: ClassVar[tuple[str, ...]] = ("text",)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.ends_with(batch["text"], self.letter)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch["text"]
'''


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry.FILTERS, "classes", dict(registry.FILTERS.all()))
    monkeypatch.setattr(plugin, "_LOADED", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("winnow_plugin_"):
            del sys.modules[name]


def test_a_plugin_reaches_the_worker_processes(tmp_path: Path, pool: Path, recipe: Path) -> None:
    (tmp_path / "my.py").write_text(PLUGIN)
    recipe.write_text("keep:\n  - ends_with: {letter: b}\n")
    command = [sys.executable, "-m", "pipeline.cli", "filter", str(recipe), str(pool), "--plugin", str(tmp_path / "my.py")]
    for workers in ("0", "2"):
        out = tmp_path / workers
        done = subprocess.run(
            [*command, "-o", str(out), "--workers", workers, "-q"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert kept(out) == [0, 2]
    assert tree(tmp_path / "0") == tree(tmp_path / "2")
    done = subprocess.run([*command[:-2], "-o", str(tmp_path / "x")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "unknown filter 'ends_with'" in done.stderr


@pytest.mark.usefixtures("clean")
def test_what_a_plugin_holds_enters_the_digest_of_recipes_that_use_it(tmp_path: Path, pool: Path, recipe: Path) -> None:
    recipe.write_text("keep:\n  - ends_with: {letter: b}\n")
    (tmp_path / "my.py").write_text(PLUGIN)
    settings = Settings(plugin=str(tmp_path / "my.py"))
    select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET, settings=settings)
    first = uids.read_info(str(tmp_path / "out" / "uids.npy")).recipe
    registry.FILTERS.classes.pop("ends_with")
    (tmp_path / "my.py").write_text(PLUGIN + "# another\n")
    with pytest.raises(InputError, match="belongs to another run"):
        select(str(recipe), str(pool), str(tmp_path / "out"), options=QUIET, settings=settings)
    select(str(recipe), str(pool), str(tmp_path / "other"), options=QUIET, settings=settings)
    assert uids.read_info(str(tmp_path / "other" / "uids.npy")).recipe != first


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1\n", r"my\.py: registers no filter; expected a dataclass with @register"),
        (
            "\nimport absent_module\n",
            r"my\.py:2: the plugin cannot be imported: ModuleNotFoundError: No module named 'absent_module'",
        ),
        ("def f(:\n", r"my\.py:1: the plugin cannot be imported: SyntaxError: "),
        (PLUGIN.replace('ends_with")', 'caption")'), r"my\.py:\d+: .*ValueError: filter 'caption' is Caption already"),
    ],
)
def test_a_plugin_that_is_none_is_refused_in_one_message(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "my.py").write_text(content)
    with pytest.raises(InputError, match=message):
        plugin.load(str(tmp_path / "my.py"))
    with pytest.raises(InputError, match="no such plugin"):
        plugin.load(str(tmp_path / "absent.py"))


@pytest.mark.spark
@pytest.mark.usefixtures("clean")
def test_a_plugin_reaches_spark(tmp_path: Path, pool: Path, recipe: Path, spark: Any) -> None:
    (tmp_path / "my.py").write_text(PLUGIN.replace("ends_with", "ends_in").replace("pc.ends_in", "pc.ends_with"))
    recipe.write_text("keep:\n  - ends_in: {letter: b}\n")
    settings = Settings(plugin=str(tmp_path / "my.py"))
    select(str(recipe), str(pool), str(tmp_path / "spark"), options=Options(engine="spark", quiet=True), settings=settings)
    assert kept(tmp_path / "spark") == [0, 2]
