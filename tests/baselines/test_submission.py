"""Submissions: what belongs together is written with a receipt, what does not is refused with the reason."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from baselines.score.tasks import load_tasks
from baselines.submission.check import Request, examine
from baselines.submission.command import submitting
from baselines.submission.members import outside
from baselines.submission.submit import submit
from baselines.train.config import TrainConfig
from baselines.train.loop import train
from pipeline.cli import app
from pipeline.engine import Options
from pipeline.selection import select
from pools import uids
from pools.errors import InputError
from tests.baselines.conftest import uid, write_shards

RECIPE = "name: big\nkeep:\n- image_size: {min_side: 200}\n"
ROWS = 12
KEPT = [i for i in range(ROWS) if i % 3]  # the others are too small


@dataclass(frozen=True)
class World:
    """A pool, a selection from it, and a run that was trained on the selection's list and scored."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def selection(self) -> Path:
        return self.root / "selection"

    @property
    def pool(self) -> Path:
        return self.root / "pool"

    @property
    def request(self) -> Request:
        return Request(str(self.run), selection=str(self.selection), pool=str(self.pool))

    def refusals(self, **changes: Any) -> dict[str, str]:
        """What is wrong, by what was looked at."""
        return {f.what: f.said for f in examine(replace(self.request, **changes)).problems}


def write_results(run: Path, missing: tuple[str, ...] = (), **manifest: Any) -> None:
    """Results of every task, as `winnow score` leaves them for the run's weights."""
    scores = {t.key: 0.5 if t.counted else None for t in load_tasks().values() if t.key not in missing}
    names = {t.key: t.name for t in load_tasks().values()}
    lines = [{"key": key, "dataset": names[key], "metrics": {"main_metric": s}} for key, s in scores.items()]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (run / "eval_results.jsonl").write_bytes(content)
    said = {
        "suite_version": 7,
        "model": json.loads((run / "model_config.json").read_text()),
        "weights_sha256": sha256(run / "checkpoints" / "latest.pt"),
        "results_sha256": hashlib.sha256(content).hexdigest(),
    }
    (run / "eval_manifest.json").write_text(json.dumps({**said, **manifest}))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("submission") / "world")
    sizes = [300 if i in KEPT else 100 for i in range(ROWS)]
    table: dict[str, list[Any]] = {"uid": [uid(i) for i in range(ROWS)], "original_width": sizes, "original_height": sizes}
    (world.pool / "metadata").mkdir(parents=True)
    for i in range(2):
        part = pa.table({name: values[i::2] for name, values in table.items()})
        pq.write_table(part, world.pool / "metadata" / f"{i}.parquet")
    write_shards(world.pool / "shards", list(range(ROWS)))
    (world.root / "big.yaml").write_text(RECIPE)
    select(str(world.root / "big.yaml"), str(world.pool), str(world.selection), options=Options(workers=0, quiet=True))
    train_on(world, world.run, str(world.selection / "uids.npy"))
    return world


def train_on(world: World, run: Path, listed: str | None, data: Path | None = None) -> None:
    train(
        TrainConfig(
            data=str(data or world.pool / "shards"),
            output=str(run),
            scale="tiny",
            uids=listed,
            samples=4,
            batch_size=4,
            quiet=True,
        )
    )
    # Hashes are all that is looked at, and a small file has one as well.
    for path in (run / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:1000])
    write_results(run)


@pytest.fixture
def world(made: World, tmp_path: Path) -> World:
    """A copy that a test may spoil; times of files are as they were."""
    shutil.copytree(made.root, tmp_path / "world")
    return World(tmp_path / "world")


@pytest.fixture(scope="module")
def submitted(made: World) -> Path:
    submit(examine(made.request), str(made.root.parent / "s"), method="Big ones", author="A. Author", quiet=True)
    return made.root.parent / "s"


@pytest.fixture
def submission(submitted: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    shutil.copytree(submitted, tmp_path / "submission")
    return tmp_path / "submission"


def winnow(*arguments: str | Path) -> tuple[int, str]:
    verb, *rest = map(str, arguments)
    # That it is handed over to is all that the command line does with `submit`, which is tested with the studies.
    done = CliRunner().invoke(submitting, rest) if verb == "submit" else CliRunner().invoke(app, [verb, *rest])
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)
    return done.exit_code, done.stdout


# What is written ----------------------------------------------------------------------------------------------------------


def test_a_submission_has_all_that_it_is_judged_by(world: World, submission: Path) -> None:
    files = sorted(str(p.relative_to(submission)) for p in submission.rglob("*") if p.is_file() and p.parent.name != ".winnow")
    scale = ["checkpoint.pt", "config.yaml", "eval_manifest.json", "model_config.json", "results.jsonl"]
    scale += ["samples/uids.npy", "samples/uids.npy.json"]
    top = ["DATASHEET.md", "README.md", "_manifest.json", "receipt.json", "recipe.yaml", "submission.json"]
    assert files == top + [f"tiny_scale/{name}" for name in scale]
    assert sha256(submission / "tiny_scale" / "checkpoint.pt") == sha256(world.run / "checkpoints" / "latest.pt")
    assert (submission / "tiny_scale" / "results.jsonl").read_bytes() == (world.run / "eval_results.jsonl").read_bytes()
    listed = np.load(submission / "tiny_scale" / "samples" / "uids.npy")
    assert listed.dtype == np.dtype("u8,u8") and [int(low) for _, low in listed.tolist()] == KEPT
    info = json.loads((submission / "submission.json").read_text())
    fields = (
        "method_name",
        "author",
        "track",
        "scale",
        "model",
        "dataset_size",
        "batch_size",
        "writeup",
    )  # as DataComp has them
    assert {k: info[k] for k in fields} == {
        **{"method_name": "Big ones", "author": "A. Author", "track": "filtering", "scale": "tiny", "model": "winnow-tiny"},
        **{"dataset_size": 8, "batch_size": 4, "writeup": None},
    }  # fmt: skip
    assert (info["suite_version"], info["seed"], info["comparable"], info["pool_rows"]) == (7, 0, False, ROWS)
    assert info["departures"] == ["own samples_seen", "own batch_size", "scale tiny is none of the benchmark's"]
    assert info["aggregate"]["average"] == 0.5
    config = yaml.safe_load((submission / "tiny_scale" / "config.yaml").read_text())
    assert config["scale"]["samples_seen"] == 4
    told = "".join(p.read_text() for p in submission.rglob("*") if p.suffix in (".md", ".json", ".yaml", ".jsonl"))
    assert str(world.root.parent.parent) not in told  # no path of this machine, be it of another test


def test_cards_say_what_was_chosen_and_what_it_scores(submission: Path) -> None:
    card, sheet = (submission / "README.md").read_text(), (submission / "DATASHEET.md").read_text()
    head = yaml.safe_load(card.split("---")[1])
    assert head["tags"] == ["clip", "winnow", "scale-tiny", "track-filtering"]
    assert "# Big ones\n\nwinnow-tiny trained on 8 samples at scale `tiny`, track filtering, by A. Author." in card
    assert "| Average | 0.5000 |" in card and "| FMoW | acc_worst_region | 0.5000 |" in card and "FairFace" not in card
    assert "Not comparable with other runs of the scale: own samples_seen; own batch_size" in card
    assert "8 entries, 8 different ones" in sheet and "| in | 12 | 100.0 % |" in sheet
    assert "| dropped 0-image_size | 4 | 33.3 % |\n| kept | 8 | 66.7 % |" in sheet and "min_side: 200" in sheet


def test_the_receipt_holds_the_hashes_and_is_checked(submission: Path) -> None:  # T124
    status, said = winnow("submit", submission, "--check", "--json")
    told = json.loads(said)
    assert (status, told["ok"], told["problems"]) == (0, True, [])
    for name, file in told["files"].items():
        path = submission / name
        assert (file["sha256"], file["bytes"]) == (sha256(path), path.stat().st_size), name
    everything = json.dumps(told["files"], sort_keys=True).encode()
    assert told["receipt"] == hashlib.sha256(everything).hexdigest()
    status, said = winnow("submit", submission, "--check")
    assert (status, said.splitlines()[-1]) == (0, f"receipt {told['receipt']}")
    assert f"{told['files']['README.md']['sha256']}  README.md" in said  # as sha256sum writes it


def test_a_rerun_writes_nothing_and_gives_the_same_bytes(world: World, submission: Path, tmp_path: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in submission.rglob("*")}
    options: list[str | Path] = ["--selection", world.selection, "--pool", world.pool, "--author", "A. Author"]
    status, said = winnow("submit", world.run, "--method", "Big ones", *options, "-o", submission)
    receipt = json.loads((submission / "receipt.json").read_text())["receipt"]
    assert status == 0 and said.endswith(f"receipt {receipt}\n")
    assert {p: p.stat().st_mtime_ns for p in submission.rglob("*")} == before
    status, said = winnow("submit", world.run, "--method", "Big ones", *options, "-o", tmp_path / "again", "--json")
    assert json.loads(said) == {"stage": "submit", "output": str(tmp_path / "again"), "receipt": receipt}
    assert winnow("submit", world.run, "--method", "Other", *options, "-o", submission)[0] == 2
    assert winnow("submit", world.run, "--method", "Other", *options, "-o", submission, "--overwrite")[0] == 0


# What is missing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tiny_scale/samples/uids.npy", "the list is missing: tiny_scale/samples/uids.npy"),
        ("tiny_scale/results.jsonl", "the results are missing: tiny_scale/results.jsonl"),
        ("tiny_scale/checkpoint.pt", "the checkpoint is missing: tiny_scale/checkpoint.pt"),
        ("README.md", "a file is missing: README.md"),
        ("receipt.json", "the receipt is missing: receipt.json"),
    ],
)
def test_what_a_submission_lacks_is_listed(submission: Path, name: str, message: str) -> None:  # T124
    (submission / name).unlink()
    status, said = winnow("submit", submission, "--check")
    assert (status, said) == (2, f"NOT  {message}\n")


def test_all_that_a_submission_lacks_is_listed_at_once(submission: Path) -> None:  # T124
    for name in ("samples/uids.npy", "results.jsonl", "checkpoint.pt"):
        (submission / "tiny_scale" / name).unlink()
    told = json.loads(winnow("submit", submission, "--check", "--json")[1])
    assert not told["ok"] and [p.split(" is ")[0].split(" are ")[0] for p in told["problems"]] == [
        "the list", "the results", "the checkpoint"
    ]  # fmt: skip


def test_all_that_a_run_lacks_is_listed_at_once(world: World) -> None:  # T124
    (world.selection / "uids.npy").unlink()
    (world.run / "eval_results.jsonl").unlink()
    (world.run / "checkpoints" / "latest.pt").unlink()
    options: list[str | Path] = ["--selection", world.selection, "--pool", world.pool]
    status, said = winnow("submit", world.run, *options, "--check")
    assert status == 2 and said.startswith("ok   training")
    lacking = [line for line in said.splitlines() if line.startswith("NOT")]
    assert [line.split(":")[0] for line in lacking] == ["NOT  checkpoint", "NOT  results", "NOT  list"]
    told = json.loads(winnow("submit", world.run, *options, "--check", "--json")[1])
    assert [f["what"] for f in told["findings"] if not f["ok"]] == ["checkpoint", "results", "list"]
    status, said = winnow("submit", world.run, *options, "--method", "x", "-o", world.root / "no")
    assert status == 2 and "checkpoint: " in said and "results: " in said and "list: " in said
    assert not (world.root / "no").exists()


def test_a_missing_task_is_refused_or_leaves_no_average(world: World) -> None:  # T115
    write_results(world.run, missing=("cifar10",))
    assert "1 of the 38 tasks that count have no score: cifar10" in world.refusals()["results"]
    evidence = examine(replace(world.request, allow_missing=True))
    assert not evidence.problems and evidence.aggregate is not None
    assert (evidence.aggregate.average, evidence.aggregate.partial_mean) == (None, 0.5)


# What does not belong together ---------------------------------------------------------------------------------------------


def test_a_world_in_order_is_not_refused(world: World) -> None:
    found = examine(world.request)
    assert found.problems == []
    assert [f.what for f in found.findings] == ["training", "checkpoint", "results", "list", "recipe", "verdicts", "pool"]


def test_results_of_another_checkpoint(world: World) -> None:  # T125
    write_results(world.run, weights_sha256="ab" * 32)
    (said,) = world.refusals().values()
    assert said.startswith("computed with another checkpoint, abababababab…; the run's is ")
    write_results(world.run)
    weights = world.run / "checkpoints" / "latest.pt"
    weights.write_bytes(weights.read_bytes() + b" ")  # trained on, say
    assert "another checkpoint" in world.refusals()["results"]


def test_results_that_were_edited_or_are_of_another_architecture(world: World) -> None:
    results = world.run / "eval_results.jsonl"
    results.write_text(results.read_text().replace("0.5", "0.9", 1))
    assert "not those that eval_manifest.json was written for" in world.refusals()["results"]
    write_results(world.run, model={"embed_dim": 1})
    assert "another architecture" in world.refusals()["results"]
    (world.run / "eval_manifest.json").unlink()
    assert "nothing says with which weights" in world.refusals()["results"]


def test_a_list_that_was_not_trained_on(world: World) -> None:  # T125
    listed = world.selection / "uids.npy"
    uids.write_list(str(listed), uids.pack([uid(i) for i in KEPT[:-1]]))
    trained = uids.digest(uids.pack([uid(i) for i in KEPT]))
    said = world.refusals()
    assert list(said) == ["list"] and said["list"].startswith(f"{listed}: 7 uids with hash ")
    assert f"but the run was trained on a list with hash {trained[:12]}…" in said["list"]


def test_a_list_with_another_count_than_its_sidecars(world: World) -> None:
    change_json(world.selection / "uids.npy.json", lambda side: side.update(count=9))
    assert world.refusals()["list"].endswith("8 uids, its sidecar says 9")


def other_list(world: World, numbers: list[int]) -> None:
    """The run, the list and the counts agree on another list than that of the recipe."""
    listed = uids.pack([uid(i) for i in sorted(numbers)])
    digest = json.loads((world.selection / "uids.npy.json").read_text())["recipe"]
    uids.write_list(str(world.selection / "uids.npy"), listed, recipe=digest)
    change_json(world.run / "_manifest.json", lambda m: m["options"].update(uids=uids.digest(listed)))


def test_a_uid_outside_the_pool(world: World) -> None:  # T125
    other_list(world, [*KEPT[:-1], 99])
    shutil.rmtree(world.selection / "verdicts")
    (said,) = world.refusals().values()
    assert said == f"1 of the list's uids are not in {world.pool}, {uid(99)} the first"


def test_a_list_that_is_not_what_the_recipe_kept(world: World) -> None:
    other_list(world, [*KEPT[:-1], 0])  # row 0 is too small
    assert (
        f"1 of the list's uids are not kept by the verdicts in {world.selection}/verdicts, {uid(0)} the"
        in (world.refusals()["verdicts"])
    )
    other_list(world, KEPT[:-1])
    assert "the selection listed 8 uids, the list has 7" in world.refusals()["verdicts"]


def test_another_pool(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.pool, tmp_path / "other")
    part = tmp_path / "other" / "metadata" / "0.parquet"
    pq.write_table(pq.read_table(part).slice(0, 3), part)
    said = world.refusals(pool=str(tmp_path / "other"))
    assert said == {"pool": f"{tmp_path}/other: not the one of the selection, or changed since"}
    assert "a pool: a folder with metadata/" in world.refusals(pool=str(tmp_path / "none"))["pool"]


def test_another_recipe(world: World) -> None:
    recipe = world.selection / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("200", "250"))
    assert "it, or a file that it names, has changed" in world.refusals()["recipe"]
    recipe.write_text(RECIPE)
    change_json(world.selection / "uids.npy.json", lambda side: side.update(recipe="ab" * 32))
    assert "the list is of a recipe with digest abababababab…, the selection of " in world.refusals()["recipe"]
    (world.selection / "_manifest.json").unlink()
    assert "no finished selection" in world.refusals()["recipe"]


def test_a_run_that_has_not_finished_or_is_none(world: World) -> None:
    (world.run / "_manifest.json").unlink()
    assert "it has not finished, or is no run of winnow" in world.refusals()["training"]
    assert "the folder is of stage 'filter'" in world.refusals(run=str(world.selection))["training"]
    with pytest.raises(InputError, match="no such run"):
        examine(Request(str(world.root / "none")))
    assert winnow("submit", world.run)[1].startswith("--method: no name")


@pytest.mark.parametrize("name", ["results.jsonl", "checkpoint.pt", "samples/uids.npy", "../README.md"])
def test_a_submission_that_was_changed(submission: Path, name: str) -> None:
    path = submission / "tiny_scale" / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    status, said = winnow("submit", submission, "--check")
    assert status == 2 and f"another file than the receipt's: {path.resolve().relative_to(submission.resolve())}" in said


def test_parts_of_two_submissions(submission: Path) -> None:
    """Each part is whole, and the receipt was made anew over them."""
    from baselines.submission import receipt

    files = list(json.loads((submission / "receipt.json").read_text())["files"])
    change_json(submission / "tiny_scale" / "eval_manifest.json", lambda m: m.update(weights_sha256="ab" * 32))
    receipt.write(str(submission), files)
    assert receipt.problems(str(submission)) == ["the results are of another checkpoint"]
    change_json(
        submission / "tiny_scale" / "eval_manifest.json",
        lambda m: m.update(weights_sha256=sha256(submission / "tiny_scale" / "checkpoint.pt")),
    )
    uids.write_list(str(submission / "tiny_scale" / "samples" / "uids.npy"), uids.pack([uid(5)]))
    receipt.write(str(submission), files)
    assert receipt.problems(str(submission)) == ["the list is not the one that was trained on"]
    change_json(submission / "receipt.json", lambda r: r["files"].pop("tiny_scale/samples/uids.npy"))
    assert "receipt.json has been changed" in receipt.problems(str(submission))


# Other ways to train ---------------------------------------------------------------------------------------------------------


def test_the_selection_and_the_pool_are_found_by_themselves(made: World) -> None:
    found = examine(Request(str(made.run)))
    assert not found.problems and found.selection == str(made.selection) and found.pool_rows == ROWS


def test_training_on_resharded_data(world: World, tmp_path: Path) -> None:
    shards, run = tmp_path / "shards", tmp_path / "run"
    assert (
        winnow("reshard", world.pool / "shards", world.selection / "uids.npy", "--output", shards, "--workers", "0", "-q")[0]
        == 0
    )
    train_on(world, run, None, shards)
    request = replace(world.request, run=str(run))
    assert not examine(request).problems
    alone = examine(replace(request, selection=None))
    assert [f.said for f in alone.problems] == ["no selection belongs to the list"]
    assert alone.list_path == str(shards / "sample_ids.npy")
    # The list is the trained one, and the shards have changed since.
    tar = shards / "00000000.tar"
    tar.write_bytes(tar.read_bytes() + bytes(10240))
    assert "the shards are not those of the training, or have changed since" in world.refusals(run=str(run))["list"]


def test_data_of_ones_own_need_no_list_and_no_pool(world: World, tmp_path: Path) -> None:
    run = world.run
    change_json(run / "_manifest.json", lambda m: m["options"].update(uids=None))
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "uids": None}))
    with_list = "the run was trained on whole shards, and nothing says which samples they held"
    assert world.refusals(run=str(run), selection=None) == {"list": with_list}
    assert world.refusals(run=str(run), track="byod") == {"list": with_list}  # a list was named that nobody trained on
    request = Request(str(run), track="byod")
    evidence = examine(request)
    assert not evidence.problems and evidence.listed is None
    submit(evidence, str(tmp_path / "s"), method="own", quiet=True)
    info = json.loads((tmp_path / "s" / "submission.json").read_text())
    assert (info["list"], info["dataset_size"], info["recipe"], info["track"]) == (None, None, None, "byod")
    assert winnow("submit", tmp_path / "s", "--check")[0] == 0
    assert "Sources: any (track BYOD)" in (tmp_path / "s" / "DATASHEET.md").read_text()


def test_members_of_long_lists() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 50, (400, 2)).astype(np.uint64)
    listed = uids.sort(np.ascontiguousarray(words[:200]).view(uids.UID).reshape(-1))
    others = np.ascontiguousarray(words[100:]).view(uids.UID).reshape(-1)
    expected = sorted(set(listed.tolist()) - set(others.tolist()))
    assert expected and outside(listed, [others[:150], others[150:], others[:0]]).tolist() == expected
    assert outside(listed[:0], [others]).tolist() == []
