"""The scorer from outside: results, their files, refusals."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from baselines.score.results import Scores
from baselines.score.suite import score
from baselines.train.model import load_model, new_model
from pipeline.cli import app
from pools import shards
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import write_shard, write_task


def quick(run: Path, evals: Path, **options: object) -> Scores:
    return score(str(run), str(evals), quiet=True, **options)  # type: ignore[arg-type]


def lines(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "eval_results.jsonl").read_text().splitlines()]


# Results ------------------------------------------------------------------------------------------------------------------


def test_a_model_of_colours_names_squares(run: Path, evals: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = score(str(run), str(evals)).results[0]
    assert result.main_metric is not None and result.main_metric > 0.8  # chance is 1/3
    assert lines(run) == [
        {
            "key": "squares",
            "dataset": "squares",
            "metrics": {
                "acc1": result.main_metric,
                "acc5": None,  # there are three classes
                "mean_per_class_recall": pytest.approx(result.main_metric),  # each has ten images
                "main_metric": result.main_metric,
            },
        }
    ]
    said = capsys.readouterr().out
    assert f"{result.main_metric:.4f}  0.3333  30" in said
    assert "0 of the 38 tasks that count: no average" in said


def test_scores_are_those_of_a_naive_loop(tmp_path: Path, evals: Path) -> None:
    """A random model, one image and one prompt at a time, through open_clip alone."""
    loaded = new_model("winnow-tiny", seed=3)
    torch.save({"state_dict": loaded.model.state_dict()}, tmp_path / "random.pt")
    scored = score(
        None,
        str(evals),
        model="winnow-tiny",
        pretrained=str(tmp_path / "random.pt"),
        output=str(tmp_path),
        quiet=True,
        batch_size=7,
    )
    model, right, per_class = loaded.model.eval(), 0, {0: 0, 1: 0, 2: 0}
    with torch.no_grad():
        vectors = []
        for name in ("red", "green", "blue"):
            total = torch.zeros(128)
            for template in ("a {} square", "the {} square"):
                vector = model.encode_text(loaded.tokenizer([template.format(name)]))[0]
                total += vector / vector.norm()
            vectors.append(total / total.norm())
        for tar in ("0.tar", "1.tar"):
            for _, members in shards.read_all(str(evals / "wds_squares_test" / "test" / tar)):
                image = loaded.transform(Image.open(io.BytesIO(members["png"])))
                feature = model.encode_image(image[None])[0]
                sims = [float(feature @ v) for v in vectors]
                label = int(members["cls"])
                if sims.index(max(sims)) == label:
                    right += 1
                    per_class[label] += 1
    assert scored.results[0].line["metrics"]["acc1"] == pytest.approx(right / 30)
    assert scored.results[0].line["metrics"]["mean_per_class_recall"] == pytest.approx(
        sum(n / 10 for n in per_class.values()) / 3
    )


def test_one_label_moves_the_score_by_one_image(run: Path, evals: Path, tmp_path: Path) -> None:
    before = quick(run, evals).results[0].main_metric
    assert before == 1.0
    write_task(tmp_path / "other" / "wds_squares_test", [i % 3 for i in range(30)])
    tar = tmp_path / "other" / "wds_squares_test" / "test" / "0.tar"
    members = dict(shards.read_all(str(tar)))
    first = next(iter(members))
    members[first] = {**members[first], "cls": b"2"}  # it was 0
    write_shard(tar, members)
    after = quick(run, tmp_path / "other").results[0]
    assert after.main_metric == pytest.approx(29 / 30)
    # 10 of 10, 10 of 10 and 10 of 11, but the first class has 9 images now.
    assert after.line["metrics"]["mean_per_class_recall"] == pytest.approx((1 + 1 + 10 / 11) / 3)


def test_what_the_score_rests_on_is_recorded(run: Path, tmp_path: Path) -> None:  # T112, T117, T121
    task = write_task(tmp_path / "e" / "wds_vtab-eurosat_test", [0, 0, 1, 1, 1, 0], names="red\ngreen\nblue\n")
    scored = quick(run, tmp_path / "e")
    assert scored.results[0].line["key"] == "vtab/eurosat" and scored.results[0].line["dataset"] == "EuroSAT"
    assert "6 of 5400: not the whole test set" in scored.table()
    assert "1 of the 38 tasks that count: no average" in scored.table()
    record = json.loads((run / "eval_manifest.json").read_text())["tasks"]["vtab/eurosat"]
    assert (record["split"], record["images"], record["classes"], record["absent_classes"]) == ("test", 6, 3, [2])
    # By coreutils: printf 'red\ngreen\nblue' | sha256sum
    assert record["classnames_sha256"] == "cb0107a0f50b4c8ea457b35d01935c251ee6ef1189d8e1cce14761f9b54fbf09"
    (task / "zeroshot_classification_templates.txt").write_text("one {c}\n")
    quick(run, tmp_path / "e")
    again = json.loads((run / "eval_manifest.json").read_text())["tasks"]["vtab/eurosat"]
    assert again["templates_sha256"] != record["templates_sha256"]


def test_done_tasks_are_kept_and_others_added(
    run: Path, evals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(evals, tmp_path / "e")
    quick(run, tmp_path / "e")
    first = (run / "eval_results.jsonl").read_bytes()
    write_task(tmp_path / "e" / "wds_cifar10_test", [0, 1, 2])
    score(str(run), str(tmp_path / "e"))
    assert "1 of 2 tasks scored before" in capsys.readouterr().err
    assert [line["key"] for line in lines(run)] == ["cifar10", "squares"]  # the suite's order, then others
    quick(run, tmp_path / "e", tasks=["squares"])
    assert [line["key"] for line in lines(run)] == ["cifar10", "squares"]
    assert (run / "eval_results.jsonl").read_bytes().endswith(first)
    # Other weights: nothing of the old results stays.
    weights = load_model(str(run)).model.state_dict()
    weights["logit_scale"] += 0.1
    torch.save({"state_dict": weights}, run / "checkpoints" / "latest.pt")
    quick(run, tmp_path / "e", tasks=["squares"])
    assert [line["key"] for line in lines(run)] == ["squares"]


def test_the_command_says_the_same_as_json(run: Path, evals: Path, tmp_path: Path) -> None:
    shutil.copytree(evals, tmp_path / "e")
    said = CliRunner().invoke(app, ["score", str(run), "--evals", str(tmp_path / "e"), "--json"])
    assert said.exit_code == 0
    (line,) = said.stdout.splitlines()
    assert json.loads(line) == {
        "stage": "score",
        "output": str(run),
        "results": {
            "squares": {
                "acc1": 1.0,
                "acc5": None,
                "mean_per_class_recall": 1.0,
                "main_metric": 1.0,
                "chance": pytest.approx(1 / 3),
                "images": 30,
                "unreadable": 0,
            }
        },
        "not_scored": [],
    }
    # A task that cannot be scored is named, and the exit code is not 0; an image that cannot be read is as it was asked for.
    (write_task(tmp_path / "e" / "wds_parts_test", [0, 1]) / "dataset_type.txt").write_text("segmentation\n")
    bad = write_task(tmp_path / "e" / "wds_bad_test", [0, 1], tars=1) / "test" / "0.tar"
    members = dict(shards.read_all(str(bad)))
    members["s0000001"]["png"] = b"no picture"
    write_shard(bad, members)
    arguments = ["score", str(run), "--evals", str(tmp_path / "e"), "--json", "-o", str(tmp_path / "o")]
    said = CliRunner().invoke(app, [*arguments, "--unreadable", "exclude"])
    assert said.exit_code == 1
    found = json.loads(said.stdout)
    assert (found["output"], found["not_scored"]) == (
        str(tmp_path / "o"), ["parts (data of type 'segmentation' cannot be scored)"]
    )  # fmt: skip
    assert list(found["results"]) == ["bad", "squares"] and found["results"]["bad"]["unreadable"] == 1


# Refusals -------------------------------------------------------------------------------------------------------------------


def test_the_number_of_tars_must_be_stated_and_right(run: Path, evals: Path, tmp_path: Path) -> None:  # T113
    shutil.copytree(evals, tmp_path / "e")
    count = tmp_path / "e" / "wds_squares_test" / "test" / "nshards.txt"
    count.write_text("3\n")
    with pytest.raises(InputError, match=r"2 tars, nshards\.txt says 3; missing 2\.tar"):
        quick(run, tmp_path / "e")
    count.write_text("1\n")
    with pytest.raises(InputError, match=r"2 tars, nshards\.txt says 1; not counted 1\.tar"):
        quick(run, tmp_path / "e")
    count.write_text("two\n")
    with pytest.raises(InputError, match="'two' is no number"):
        quick(run, tmp_path / "e")
    for number in ("999999999", "9" * 5000):  # neither a list of so many names, nor a crash
        count.write_text(number)
        with pytest.raises(InputError, match=r"2 tars, nshards\.txt says 999999999; missing 2\.tar|'9{40}' is no number"):
            quick(run, tmp_path / "e")
    count.unlink()
    with pytest.raises(InputError, match=r"nshards\.txt: missing"):
        quick(run, tmp_path / "e")


def test_labels_and_names_must_agree(run: Path, tmp_path: Path) -> None:  # T118
    labels = [i % 6 for i in range(12)]
    for names, message in {
        "a\nb\nc\nd\ne\n": r"classnames\.txt: 5 lines, the labels go up to 5; expected 6 names",
        "a\nb\nc\n\nd\ne\nf\n": "line 4 of 7 is blank",
        "a\nb\nc\nd\ne\nf\n\n": "line 7 of 7 is blank",
        "": "empty",
    }.items():
        write_task(tmp_path / "e" / "wds_x_test", labels, names=names)
        with pytest.raises(InputError, match=message):
            quick(run, tmp_path / "e")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"png": b"x"}, r"sample 's1' has \.png; expected an image .* and its \.cls"),
        ({"cls": b"1"}, r"sample 's1' has \.cls"),
        ({"png": b"x", "cls": b"-1"}, "label '-1'"),
        ({"png": b"x", "cls": b"cat"}, "label 'cat'"),
        ({"png": b"x", "cls": b"9" * 5000}, "label '9{40}'"),
    ],
)
def test_a_sample_must_have_image_and_label(members: dict[str, bytes], message: str, run: Path, tmp_path: Path) -> None:
    task = write_task(tmp_path / "e" / "wds_x_test", [0, 1], tars=1)
    write_shard(task / "test" / "0.tar", {"s1": members})
    with pytest.raises(InputError, match=message):
        quick(run, tmp_path / "e")


def test_an_unreadable_image_is_an_error_or_counted(run: Path, evals: Path, tmp_path: Path) -> None:  # T119
    shutil.copytree(evals, tmp_path / "e")
    tar = tmp_path / "e" / "wds_squares_test" / "test" / "0.tar"
    members = dict(shards.read_all(str(tar)))
    first = next(iter(members))
    members[first] = {**members[first], "png": members[first]["png"][:50]}
    write_shard(tar, members)
    with pytest.raises(WorkFailed, match=f"squares: .*{first} cannot be read"):
        quick(run, tmp_path / "e")
    assert not (run / "eval_results.jsonl").exists()
    wrong = quick(run, tmp_path / "e", unreadable="wrong").results[0]
    assert (wrong.record["images"], wrong.record["unreadable"]) == (30, 1)
    assert wrong.main_metric == pytest.approx(29 / 30)
    left = quick(run, tmp_path / "e", unreadable="exclude")
    assert (left.results[0].record["images"], left.results[0].record["unreadable"]) == (29, 1)
    assert left.results[0].main_metric == 1.0 and "(1 unreadable)" in left.table()


def test_all_tasks_are_checked_before_the_first_is_scored(run: Path, evals: Path, tmp_path: Path) -> None:  # T114
    shutil.copytree(evals, tmp_path / "e")
    broken = write_task(tmp_path / "e" / "wds_zebras_test", [0, 1])
    (broken / "classnames.txt").unlink()
    with pytest.raises(InputError, match=r"wds_zebras_test/classnames\.txt: missing"):
        quick(run, tmp_path / "e")
    assert not (run / "eval_results.jsonl").exists()


def test_tasks_of_another_kind_are_refused_or_listed(run: Path, evals: Path, tmp_path: Path) -> None:
    shutil.copytree(evals, tmp_path / "e")
    (write_task(tmp_path / "e" / "wds_parts_test", [0, 1]) / "dataset_type.txt").write_text("segmentation\n")
    with pytest.raises(InputError, match=r"parts: data of type 'segmentation' cannot be scored"):
        quick(run, tmp_path / "e", tasks=["parts"])
    with pytest.raises(InputError, match="no data for task 'zebras'"):
        quick(run, tmp_path / "e", tasks=["zebras"])
    scored = quick(run, tmp_path / "e")
    assert [r.task.key for r in scored.results] == ["squares"]
    assert "not scored: parts (data of type 'segmentation'" in scored.table()


def test_there_is_one_model_and_some_data(run: Path, evals: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model, or two"):
        score(None, str(evals))
    with pytest.raises(InputError, match="no model, or two"):
        score(str(run), str(evals), model="ViT-B-32")
    with pytest.raises(InputError, match="no place for the results"):
        score(None, str(evals), model="ViT-B-32", pretrained="x.pt")
    with pytest.raises(InputError, match="no such folder"):
        quick(run, tmp_path / "none")
    with pytest.raises(InputError, match="no task here"):
        quick(run, run)


def test_a_training_that_has_not_finished_is_scored_by_checkpoint_only(run: Path, evals: Path) -> None:
    (run / "_manifest.json").unlink()
    with pytest.raises(InputError, match="the training has not finished"):
        quick(run, evals)
    scored = quick(run, evals, pretrained=str(run / "checkpoints" / "step_40.pt")).results[0].main_metric
    assert scored is not None and scored > 0.8


def test_weights_that_are_broken_give_no_score(run: Path, evals: Path) -> None:
    weights = load_model(str(run)).model.state_dict()
    weights["text_projection"] *= torch.nan
    torch.save({"state_dict": weights}, run / "checkpoints" / "latest.pt")
    with pytest.raises(WorkFailed, match="not finite"):
        quick(run, evals)
