"""Zero-shot retrieval from outside: whole tasks, their results and refusals."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from PIL import Image

from baselines.score.results import Scores
from baselines.score.suite import score
from baselines.train.model import load_model, new_model
from pools import shards
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import NAMES, square, write_shard, write_task

FLICKR = "retrieval/flickr_1k_test_image_text_retrieval"


def quick(run: Path, evals: Path, **options: object) -> Scores:
    return score(str(run), str(evals), quiet=True, **options)  # type: ignore[arg-type]


def write_retrieval(
    folder: Path, pairs: Iterable[tuple[bytes, bytes]], *, tars: int = 1, kind: str | None = "retrieval"
) -> Path:
    """A retrieval set of (png, txt) pairs, cut into so many tars."""
    listed = list(pairs)
    size = -(-len(listed) // tars)
    for t in range(tars):
        part = {f"s{i:07d}": {"png": p, "txt": c} for i, (p, c) in enumerate(listed) if i // size == t}
        write_shard(folder / "test" / f"{t}.tar", part)
    (folder / "test" / "nshards.txt").write_text(f"{tars}\n")
    if kind is not None:
        (folder / "dataset_type.txt").write_text(kind + "\n")
    return folder


def colours() -> list[tuple[bytes, bytes]]:
    return [(square(c, 500 + i), f"a {c} square\nthe {c} square\n".encode()) for i, c in enumerate(NAMES)]


def test_a_model_of_colours_finds_squares(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # T112
    write_retrieval(tmp_path / "e" / "wds_colours_test", colours(), tars=2)
    score(str(run), str(tmp_path / "e"))
    (line,) = (run / "eval_results.jsonl").read_text().splitlines()
    names = [f"{way}_retrieval_recall@{k}" for k in (1, 5, 10) for way in ("image", "text")]
    assert json.loads(line) == {
        "key": "colours",
        "dataset": "colours",
        "metrics": dict.fromkeys([*names, "mean_recall@1", "mean_recall", "main_metric"], 1.0),
    }
    record = json.loads((run / "eval_manifest.json").read_text())["tasks"]["colours"]
    assert {k: record[k] for k in ("kind", "split", "images", "texts", "unreadable", "counted")} == {
        "kind": "retrieval", "split": "test", "images": 3, "texts": 6, "unreadable": 0, "counted": False
    }  # fmt: skip
    assert record["chance"] == pytest.approx(1 / 3)
    row = "colours  mean_recall@1          1.0000  0.3333  3"
    assert row in capsys.readouterr().out
    score(str(run), str(tmp_path / "e"))  # what was scored before is still known as retrieval
    again = capsys.readouterr()
    assert "1 of 1 tasks scored before" in again.err and row in again.out


def test_recalls_are_those_of_a_naive_loop(tmp_path: Path) -> None:
    """A random model, one image and one text at a time, through open_clip alone."""
    loaded = new_model("winnow-tiny", seed=3)
    torch.save({"state_dict": loaded.model.state_dict()}, tmp_path / "random.pt")
    words = ["a", "square", "of", "some", "colour", "on", "grey", "which", "nobody", "has", "ever", "seen", "before", "today"]
    texts = [[" ".join(words[i % 7 : i % 7 + 2 + j]) + f" {i}" for j in range(1 + i % 3)] for i in range(14)]
    pairs = [(square(NAMES[i % 3], i), "\n".join(t).encode()) for i, t in enumerate(texts)]
    write_retrieval(tmp_path / "e" / "wds_own_test", pairs, tars=3)
    scored = score(
        None,
        str(tmp_path / "e"),
        model="winnow-tiny",
        pretrained=str(tmp_path / "random.pt"),
        output=str(tmp_path),
        quiet=True,
        batch_size=5,
    )
    model = loaded.model.eval()
    with torch.no_grad():
        images = [model.encode_image(loaded.transform(Image.open(io.BytesIO(p)))[None])[0] for p, _ in pairs]
        vectors = [(i, model.encode_text(loaded.tokenizer([c]))[0]) for i, t in enumerate(texts) for c in t]

    def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
        return float(a @ b / a.norm() / b.norm())

    places = [sum(cosine(other, v) > cosine(images[i], v) for other in images) for i, v in vectors]
    best = []
    for i, image in enumerate(images):
        nearest = sorted(vectors, key=lambda pair: -cosine(pair[1], image))
        best.append([owner for owner, _ in nearest].index(i))
    found = scored.results[0].line["metrics"]
    for k in (1, 5, 10):
        assert found[f"image_retrieval_recall@{k}"] == pytest.approx(sum(p < k for p in places) / len(vectors))
        assert found[f"text_retrieval_recall@{k}"] == pytest.approx(sum(p < k for p in best) / 14)
    assert 0 < found["mean_recall"] < 1


def test_one_caption_moves_the_recalls_by_one(run: Path, tmp_path: Path) -> None:
    pairs = colours()
    pairs[0] = (pairs[0][0], b"a red square\nblue\n")  # the second is wrong
    write_retrieval(tmp_path / "e" / "wds_colours_test", pairs)
    values = quick(run, tmp_path / "e").results[0].line["metrics"]
    assert values["image_retrieval_recall@1"] == pytest.approx(5 / 6)
    # The wrong caption is the other of the blue image's, which is nearest to both: one of them is found all the same.
    assert values["text_retrieval_recall@1"] == 1.0


def test_the_suites_tasks_need_no_type(run: Path, tmp_path: Path) -> None:
    write_retrieval(tmp_path / "e" / f"wds_{FLICKR.replace('/', '-')}_test", colours(), kind=None)
    scored = quick(run, tmp_path / "e", tasks=[FLICKR])
    assert (scored.results[0].task.key, scored.results[0].line["dataset"]) == (FLICKR, "Flickr")
    assert scored.results[0].main_metric == 1.0
    assert "3 of 1000: not the whole test set" in scored.table()
    assert "1 of the 38 tasks that count" in scored.table()


def test_both_kinds_are_scored_in_one_call(run: Path, evals: Path, tmp_path: Path) -> None:
    shutil.copytree(evals, tmp_path / "e")
    write_retrieval(tmp_path / "e" / "wds_colours_test", colours())
    (write_task(tmp_path / "e" / "wds_named_test", [0, 1, 2]) / "dataset_type.txt").write_text("Classification\n")
    (write_task(tmp_path / "e" / "wds_voc_test", [0, 1]) / "dataset_type.txt").write_text("multilabel\n")
    scored = quick(run, tmp_path / "e")
    assert [(r.task.key, r.record["kind"]) for r in scored.results] == [
        ("colours", "retrieval"), ("named", "classification"), ("squares", "classification")
    ]  # fmt: skip
    assert "not scored: voc (data of type 'multilabel' cannot be scored)" in scored.table()
    with pytest.raises(InputError, match="voc: data of type 'multilabel'"):
        quick(run, tmp_path / "e", tasks=["voc", "colours"])


def test_folder_and_suite_must_agree_on_the_kind(run: Path, tmp_path: Path) -> None:
    write_retrieval(tmp_path / "e" / "wds_cifar10_test", colours())
    with pytest.raises(InputError, match=r"dataset_type\.txt: 'retrieval', but cifar10 is measured by acc1"):
        quick(run, tmp_path / "e")


def test_an_unreadable_image_is_an_error_or_counted(run: Path, tmp_path: Path) -> None:  # T119
    pairs = colours()
    pairs[1] = (pairs[1][0][:50], pairs[1][1])
    write_retrieval(tmp_path / "e" / "wds_colours_test", pairs)
    with pytest.raises(WorkFailed, match=r"colours: .*0\.tar: s0000001 cannot be read"):
        quick(run, tmp_path / "e")
    assert not (run / "eval_results.jsonl").exists()
    wrong = quick(run, tmp_path / "e", unreadable="wrong").results[0]
    assert [wrong.record[k] for k in ("images", "texts", "unreadable")] == [3, 6, 1]
    assert wrong.record["unreadable_images"][0].startswith("0.tar: s0000001: ")
    # 4 of 6 captions have an image to be found, 2 of 3 images can look for theirs.
    assert wrong.main_metric == pytest.approx(2 / 3)
    left = quick(run, tmp_path / "e", unreadable="exclude").results[0]
    assert [left.record[k] for k in ("images", "texts", "unreadable")] == [2, 4, 1]
    assert (left.main_metric, left.record["chance"]) == (1.0, 0.5)
    write_retrieval(tmp_path / "none" / "wds_colours_test", [(b"no picture", b"a red square")])
    for policy in ("wrong", "exclude"):
        with pytest.raises(WorkFailed, match="colours: none of 1 images can be read"):
            quick(run, tmp_path / "none", unreadable=policy)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"png": b"x"}, r"0\.tar: sample 's1' has \.png; expected an image .* and its \.txt"),
        ({"txt": b"a square"}, r"0\.tar: sample 's1' has \.txt; expected an image"),
        ({"png": b"x", "txt": b""}, r"0\.tar: s1\.txt: empty"),
        ({"png": b"x", "txt": b"a square\n \na box\n"}, r"0\.tar: s1\.txt: line 2 of 3 is blank"),
        ({"png": b"x", "txt": "ein Würfel".encode("latin-1")}, r"0\.tar: s1\.txt: not UTF-8"),
    ],
)
def test_a_sample_must_have_image_and_captions(members: dict[str, bytes], message: str, run: Path, tmp_path: Path) -> None:
    folder = write_retrieval(tmp_path / "e" / "wds_x_test", colours())
    write_shard(folder / "test" / "0.tar", {"s0": {"png": b"x", "txt": b"a square"}, "s1": members})
    with pytest.raises(InputError, match=message):
        quick(run, tmp_path / "e")


def test_tars_must_hold_something(run: Path, tmp_path: Path) -> None:
    write_retrieval(tmp_path / "e" / "wds_x_test", [])
    with pytest.raises(InputError, match="no image"):
        quick(run, tmp_path / "e")


def test_captions_are_split_at_newlines_alone(run: Path, tmp_path: Path) -> None:
    """U+2028 and a form feed are characters of a caption; a carriage return before the newline is none."""
    folder = tmp_path / "e" / "wds_x_test"
    write_retrieval(folder, [(square("red", 1), "one\u2028caption\x0c\r\nanother".encode()), (square("blue", 2), b"third")])
    assert quick(run, tmp_path / "e").results[0].record["texts"] == 3


def test_a_model_of_equal_features_does_not_win(run: Path, tmp_path: Path) -> None:
    weights = load_model(str(run)).model.state_dict()
    for name in ("visual.attnpool.c_proj.weight", "visual.attnpool.c_proj.bias", "text_projection"):
        weights[name] *= 0
    torch.save({"state_dict": weights}, run / "checkpoints" / "latest.pt")
    write_retrieval(tmp_path / "e" / "wds_colours_test", colours())
    assert quick(run, tmp_path / "e").results[0].main_metric == pytest.approx(1 / 3)


def test_changed_data_are_scored_again(run: Path, tmp_path: Path) -> None:
    folder = write_retrieval(tmp_path / "e" / "wds_colours_test", colours())
    before = quick(run, tmp_path / "e").results[0]
    members = dict(shards.read_all(str(folder / "test" / "0.tar")))
    members["s0000000"]["txt"] += b"a third caption\n"
    write_shard(folder / "test" / "0.tar", members)
    after = quick(run, tmp_path / "e").results[0]
    assert (before.record["texts"], after.record["texts"]) == (6, 7)
    assert before.record["captions_sha256"] != after.record["captions_sha256"]
