"""Kinds of task beside DataComp's: whole tasks from published folders, their metrics by hand, and the suites."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch

from baselines.score import metrics
from baselines.score.evals import labels
from baselines.score.evals.data import Folder, choose
from baselines.score.kinds import composed, languages, within
from baselines.score.kinds import opening as kinds
from baselines.score.kinds.opening import OPENERS, open_task
from baselines.score.ranking import search_marked
from baselines.score.results import Result
from baselines.score.suites import load_suites, suite_of
from baselines.score.tasks import FACES, KINDS, Task, load_others, load_tasks, task_of
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import write_task
from tests.baselines.small_evals import (
    BLUE,
    EXAMPLES,
    GREEN,
    NINE,
    RED,
    WORDS,
    eyes,
    labelled,
    npy,
    opened,
    patch,
    write_split,
    write_words,
)

BIAS = ("representation_bias", "association_bias")
EVERY = sorted(OPENERS)


def value(kind: str, result: Result) -> float | None:
    found: float | None = result.line["metrics"][EXAMPLES[kind].metric or "main_metric"]
    return found


# All kinds ----------------------------------------------------------------------------------------------------------------


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) == set(OPENERS) == {*KINDS, "faces"}


@pytest.mark.parametrize("kind", EVERY)
def test_one_wrong_image_or_label_moves_the_score(kind: str, tmp_path: Path) -> None:
    example, scored = EXAMPLES[kind], {}
    for wrong in (False, True):
        data = opened(kind, tmp_path / str(wrong), wrong=wrong)
        scored[wrong] = data.score(eyes(batch_size=4))
        assert scored[wrong].record["data"] == data.digest and scored[wrong].record["kind"] == kind
    assert value(kind, scored[False]) == pytest.approx(example.right)
    assert value(kind, scored[True]) == pytest.approx(example.wrong)
    # As two of three recalls at one in either direction, or what else the example says; all of it fit for JSON.
    json.dumps([scored[True].line, scored[True].record], allow_nan=False)


def cut(folder: Path) -> None:
    """Makes the first picture of the test split unreadable."""
    from pools import shards
    from tests.baselines.conftest import write_shard

    tar = folder / "test" / "0.tar"
    if tar.exists():
        members = dict(shards.read_all(str(tar)))
        first = next(iter(members))
        members[first] = {**members[first], "png": b"no picture"}
        write_shard(tar, members)
    else:
        (folder / "images" / "k0.jpg").write_bytes(b"no picture")


@pytest.mark.parametrize(
    ("kind", "wrong", "left"),
    [
        ("kshot", 8 / 9, 1.0),
        ("linear_probe", 8 / 9, 1.0),
        ("image_to_image", 8 / 9, 1.0),
        # Image and caption of each language are not found; left out, the others still are.
        ("languages", 2 / 3, 1.0),
        ("composed", 0.0, None),  # it is asked with, and to be found
        ("disparity", 1 / 2, 0.0),
        # Nobody knows what it should have been nearer to.
        ("representation_bias", 1.0, 1.0),
        ("association_bias", 1.0, 1.0),
    ],
)
def test_an_unreadable_image_is_an_error_or_counted(  # T119
    kind: str, wrong: float, left: float | None, tmp_path: Path
) -> None:
    images = opened(kind, tmp_path).images
    cut(tmp_path)
    data = open_task(Folder(str(tmp_path), EXAMPLES[kind].task(kind)))
    with pytest.raises(WorkFailed, match=rf"{data.task.key}: .*(s000|k0\.jpg) cannot be read"):
        data.score(eyes())
    found = data.score(eyes(unreadable="wrong"))
    assert value(kind, found) == pytest.approx(wrong) and found.record["unreadable"] == 1
    assert found.record["images"] == images - (kind in BIAS)
    if left is None:
        with pytest.raises(InputError, match="no query has images that can be read"):
            data.score(eyes(unreadable="exclude"))
    else:
        found = data.score(eyes(unreadable="exclude"))
        assert value(kind, found) == pytest.approx(left)
        assert (found.record["images"], found.record["unreadable"]) == (images - 1, 1)


@pytest.mark.parametrize("kind", EVERY)
def test_data_are_read_as_data(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # T122
    """Neither pickles nor the library that runs a data set's own code; a script in the folder stays a file."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    load = np.load

    def guarded(*args: Any, **options: Any) -> Any:
        assert options.get("allow_pickle") is False
        return load(*args, **options)

    monkeypatch.setattr(np, "load", guarded)
    for library in ("datasets", "huggingface_hub", "tensorflow_datasets", "webdataset"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it fails
    EXAMPLES[kind].write(tmp_path, False)
    for script in (f"{tmp_path.name}.py", "dataset.py", "__init__.py", "data.py"):
        (tmp_path / script).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    data = open_task(Folder(str(tmp_path), EXAMPLES[kind].task(kind)))
    assert value(kind, data.score(eyes())) == EXAMPLES[kind].right
    assert not (tmp_path / "ran").exists()


def test_words_are_the_folders_and_their_hashes_are_recorded(tmp_path: Path) -> None:
    """Not a letter of names and templates is another one; what stands in the record is the SHA-256 of the lines."""
    names, templates = "red\n  Blå ‘x’, 3rd\ngreen\u00a0\n", "{c}\na bad photo of {c}, {c} \n"

    def digest(text: str) -> str:
        return hashlib.sha256(text.rstrip("\n").encode()).hexdigest()

    for kind in ("classification", "disparity", "linear_probe", "kshot", "image_to_image"):
        folder = tmp_path / kind
        EXAMPLES[kind].write(folder, False)
        write_words(folder, names, templates)
        encoder = eyes()
        record = open_task(Folder(str(folder), EXAMPLES[kind].task(kind))).score(encoder).record
        assert record["classnames_sha256"] == digest(names)
        if kind in ("classification", "disparity"):
            assert record["templates_sha256"] == digest(templates)
            pairs = itertools.product(names.splitlines(), templates.splitlines())
            assert encoder.read == [t.replace("{c}", n) for n, t in pairs]
    for kind in BIAS:
        record = opened(kind, tmp_path / kind).score(eyes()).record
        said = {"representation_bias": "male\nfemale", "association_bias": "nurse\ndoctor"}[kind]
        assert record["classnames_sha256"] == digest(said) and record["templates_sha256"] == digest("{c}")
    queries = opened("composed", tmp_path / "q").score(eyes()).record["queries_sha256"]
    assert queries == digest((tmp_path / "q" / "queries.jsonl").read_text())


CHANGES: dict[str, list[dict[str, Any]]] = {
    "kshot": [{"shots": 2}, {"label": "region"}],
    "linear_probe": [{"label": "region"}],
    "image_to_image": [{"label": "region"}, {"gallery": "train"}],
    "languages": [{"low": ["en"]}, {"languages": ["en", "xx"]}],
    "representation_bias": [{"texts": ["red", "blue"]}, {"templates": ["a {c}"]}],
    "association_bias": [{"pairs": [["blue", "doctor"]]}, {"templates": ["a {c}"]}],
    "disparity": [{"field": "country"}],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_a_task_asks_for_is_part_of_what_is_scored(kind: str, tmp_path: Path) -> None:
    """Results are kept by the digest of their data: other options are other data, the same ones are not."""
    task = EXAMPLES[kind].task(kind)
    EXAMPLES[kind].write(tmp_path, False)
    if kind in ("kshot", "linear_probe", "image_to_image"):
        write_split(tmp_path, labelled(NINE * 5, first=20), "train")
        keys = [f"s{i:03d}" for i in range(45)]
        (tmp_path / "metadata.csv").write_text("key,region\n" + "".join(f"{k},{'ab'[i % 2]}\n" for i, k in enumerate(keys)))
    asked = [task, *(replace(task, options={**task.options, **change}) for change in CHANGES[kind])]
    digests = [open_task(Folder(str(tmp_path), t)).digest for t in asked]
    assert len(set(digests)) == len(asked)
    assert [open_task(Folder(str(tmp_path), t)).digest for t in asked] == digests


def test_labels_beside_the_tars_are_part_of_what_is_scored(tmp_path: Path) -> None:
    write_split(tmp_path, labelled(NINE))
    keys, digests = [f"s{i:03d}" for i in range(9)], set()
    for last in ("a", "b"):
        rows = [f"{key},{'ab'[i % 2]}" for i, key in enumerate(keys[:-1])] + [f"{keys[-1]},{last}"]
        (tmp_path / "metadata.csv").write_text("key,region\n" + "\n".join(rows) + "\n")
        digests |= {opened_as(kind, tmp_path, label="region", shots=2).digest for kind in ("kshot", "image_to_image")}
    assert len(digests) == 4


@pytest.mark.parametrize("kind", ["kshot", "linear_probe", "image_to_image", "disparity"])
def test_labels_and_names_must_agree(kind: str, tmp_path: Path) -> None:  # T118
    task = EXAMPLES[kind].task(kind)
    EXAMPLES[kind].write(tmp_path, False)
    for names, said in {
        "red\ngreen\n": r"classnames\.txt: 2 lines, the labels go up to 2; expected 3 names",
        "red\n\ngreen\nblue\n": "line 2 of 4 is blank",
    }.items():
        write_words(tmp_path, names)
        with pytest.raises(InputError, match=said):
            open_task(Folder(str(tmp_path), task))


def test_labels_of_the_training_split_need_names_too(tmp_path: Path) -> None:  # T118
    write_words(tmp_path)
    write_split(tmp_path, labelled(NINE))
    write_split(tmp_path, labelled(NINE, {0: 7}, first=30), "train")
    for kind in ("kshot", "linear_probe"):
        with pytest.raises(InputError, match="3 lines, the labels go up to 7"):
            open_task(Folder(str(tmp_path), EXAMPLES[kind].task(kind)))


@pytest.mark.parametrize("kind", ["kshot", "linear_probe"])
def test_classes_without_images_count_for_nothing(kind: str, tmp_path: Path) -> None:  # T117
    """Three names; of the four images, of classes 0 and 1, one of class 0 looks like class 1: recalls 2/3 and 1."""
    write_words(tmp_path)
    write_split(tmp_path, labelled([0, 0, 1, 1], {2: 0}))
    write_split(tmp_path, labelled([0, 1] * 12, first=30), "train")
    found = open_task(Folder(str(tmp_path), EXAMPLES[kind].task(kind))).score(eyes())
    assert found.line["metrics"]["mean_per_class_recall"] == pytest.approx(0.8333, abs=1e-4)
    assert found.line["metrics"]["acc1"] == 0.75
    assert found.record["absent_classes"] == found.record["untrained_classes"] == [2]


# Labels -------------------------------------------------------------------------------------------------------------------


def test_a_frame_of_mixed_types_loads(tmp_path: Path) -> None:  # T123
    """As pandas writes it: one column of texts, whole numbers, fractions, dates and what looks like a missing value."""
    places = ["Peru", 12, 2.5, "NA"] * 3
    frame = pandas.DataFrame({
        "key": [f"s{i:03d}" for i in range(12)],
        "country": pandas.Series(places, dtype=object),
        "year": pandas.Series([2012, "n.d.", None, 3.0] * 3, dtype=object),
    })  # fmt: skip
    write_split(tmp_path, [{"png": patch((40 * (i % 4) + 20, 100, 0), i)} for i in range(12)])
    frame.to_csv(tmp_path / "metadata.csv", index=False)
    found = labels.Labelled.open(str(tmp_path), "own", "country")
    assert found.names == ("12", "2.5", "NA", "Peru")
    assert [found.names[i] for i in found.test.labels] == list(map(str, places))
    scored = opened_as("kshot", tmp_path, label="country", shots=1).score(eyes())
    assert scored.record["label"] == "country"
    with pytest.raises(InputError, match=r"no year of 's002'; expected a row with key s002"):
        labels.Labelled.open(str(tmp_path), "own", "year")
    with pytest.raises(InputError, match=r"images have no 'town'; expected a table with columns key and town"):
        labels.Labelled.open(str(tmp_path), "own", "town")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,country\ns000,Peru\n", "expected a column key"),
        ("key,country\ns000,Peru\ns000,Chile\n", r"metadata\.csv:3: key 's000' twice"),
        ('key,country\ns000,"Peru\n', "not CSV"),
        (b"key,country\ns000,Per\xfa\n", "not CSV in UTF-8"),
        ("", "expected a column key"),
    ],
)
def test_frames_that_are_none(text: str | bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InputError, match=said):
        labels.read_column(str(tmp_path / "metadata.csv"), "country")


def test_places_are_learned_from_the_published_folder(tmp_path: Path) -> None:
    """GeoDE as DataComp has it: no training split, the region among the fields. Ten images a region are not tested."""
    colours = [RED, BLUE] * 15
    write_split(tmp_path, [{"png": patch(c, i), "cls": b"0", "npy": npy(i % 2, 7)} for i, c in enumerate(colours)])
    data = open_task(Folder(str(tmp_path), load_others()["10shot/geode_region"]))
    found = data.score(eyes())
    assert found.main_metric == 1.0 and found.line["metrics"]["acc1_std"] == 0.0
    assert found.record["tested"] == "the test split without the shots of each seed"
    assert (found.record["classes"], found.record["chance"], found.record["shots"]) == (2, 0.5, 10)
    with pytest.raises(InputError, match="one class: 7"):
        open_task(Folder(str(tmp_path), load_others()["10shot/geode_country"]))


# Retrieval within a modality, and by image and text -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_blocks_give_what_sorting_gives(seed: int) -> None:
    """Small whole numbers: products are exact, and ties are many."""
    rng = np.random.default_rng(seed)
    vectors = torch.from_numpy(rng.integers(-2, 3, (30, 3)).astype(np.float32))
    classes = rng.integers(0, 6, 30)
    asked = [i for i in range(30) if (classes == classes[i]).sum() > 1]
    expected = []
    for i in asked:
        scores = (vectors @ vectors[i]).tolist()
        order = sorted((j for j in range(30) if j != i), key=lambda j: (-scores[j], j))
        expected.append(next(n for n, j in enumerate(order) if classes[j] == classes[i]))
    hidden = torch.tensor(asked)
    marks = torch.from_numpy(classes[asked][:, None] == classes[None, :])
    for block in (1, 64, 1 << 20):
        found = search_marked(vectors[hidden], vectors, lambda a, b: marks[a:b], hidden, block=block)
        assert found.tolist() == expected
    assert within.by_label(vectors[hidden], vectors, classes[asked], classes, np.array(asked)).tolist() == expected


@pytest.mark.slow
def test_recalls_are_those_of_torchmetrics() -> None:
    from torchmetrics.functional.retrieval import retrieval_hit_rate

    rng = np.random.default_rng(4)
    vectors = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(60, 8))).float(), dim=-1)
    classes = rng.integers(0, 20, 60)
    asked = np.array([i for i in range(60) if (classes == classes[i]).sum() > 1])
    found = metrics.found_at(within.by_label(vectors[asked], vectors, classes[asked], classes, asked))
    for k in (1, 5, 10):
        hits = []
        for i in asked:
            others = np.arange(60) != i
            target = torch.from_numpy((classes == classes[i])[others])
            hits.append(float(retrieval_hit_rate(vectors[torch.from_numpy(others)] @ vectors[i], target, top_k=k)))
        assert found[f"recall@{k}"] == pytest.approx(np.mean(hits))


def test_an_image_alone_in_its_class_is_no_query(tmp_path: Path) -> None:
    write_split(tmp_path, labelled([0, 0, 1], {2: 5}))
    found = opened_as("image_to_image", tmp_path).score(eyes())
    assert (found.main_metric, found.record["queries"], found.record["queries_without_answer"]) == (1.0, 2, 1)
    assert found.record["chance"] == pytest.approx(1 / 2)  # one of the two others
    write_split(tmp_path, labelled([0, 1, 2]))
    with pytest.raises(InputError, match="no image has another of its class"):
        opened_as("image_to_image", tmp_path)


def opened_as(kind: str, folder: Path, **options: Any) -> Any:
    task = Task("own", "own", None, KINDS[kind][0], None, None, (), counted=False, how=kind, options=options)
    return open_task(Folder(str(folder), task))


def test_neighbours_may_be_training_images(tmp_path: Path) -> None:
    """The only image of its label in the test split is found in the training split; without one that is refused."""
    write_split(tmp_path, labelled([0, 1, 2]))
    with pytest.raises(InputError, match="no training images to search"):
        opened_as("image_to_image", tmp_path, gallery="train")
    write_split(tmp_path, labelled([0, 0, 1, 1], {0: 2}, first=40), "train")
    found = opened_as("image_to_image", tmp_path, gallery="train").score(eyes())
    assert (found.record["queries"], found.record["gallery"]) == (3, 4)
    # Red's nearest is the red image of label 2 or of label 0, the first of two alike in the product; blue's is not blue.
    assert found.line["metrics"]["recall@5"] == 1.0


def test_queries_of_image_and_text_by_hand(tmp_path: Path) -> None:
    """Red (1, 0, 0) and blue at once are (1, 0, 1), nearest to purple; the text twice (1, 0, 2) is nearer to blue."""
    data = opened("composed", tmp_path)
    assert isinstance(data, composed.Composed)
    (tmp_path / "queries.jsonl").write_text(
        '{"image": "s000", "text": "blue", "targets": ["s002"]}\n'
        '{"image": "s003", "text": "red", "sign": "-", "targets": ["s002"]}\n'
    )
    found = open_task(Folder(str(tmp_path), data.task)).score(eyes())
    # By (1, 0, 1) blue has .707 and purple 1, by (1, 0, 2) .894 and .949: purple comes first in both.
    assert found.line["metrics"] == {
        "recall@1": 0.5, "recall@5": 1.0, "recall@10": 1.0,
        "recall@1_text_x2": 0.5, "recall@5_text_x2": 1.0, "recall@10_text_x2": 1.0,
        "main_metric": 0.5,
    }  # fmt: skip
    assert found.record["chance"] == pytest.approx(1 / 3)
    # The image that is asked with is not what is looked for, though nothing is nearer.
    (tmp_path / "queries.jsonl").write_text('{"image": "s000", "text": "red", "targets": ["s003"]}\n')
    assert open_task(Folder(str(tmp_path), data.task)).score(eyes()).main_metric == 1.0


def test_a_caption_alone_is_no_query(tmp_path: Path) -> None:
    captions = [b"red\nthe red", b"green", b"blue\nso blue"]
    write_split(tmp_path, [{"png": patch(c), "txt": t} for c, t in zip((RED, GREEN, BLUE), captions, strict=True)])
    found = opened_as("text_to_text", tmp_path).score(eyes())
    assert [found.record[k] for k in ("images", "texts", "queries", "queries_without_answer")] == [3, 5, 4, 1]
    assert found.main_metric == 1.0 and found.record["chance"] == pytest.approx(1 / 4)
    write_split(tmp_path, [{"png": patch(RED), "txt": b"red"}])
    with pytest.raises(InputError, match="no image has two captions"):
        opened_as("text_to_text", tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("no json", "not a query"),
        ('["s000"]', "not a query"),
        ('{"image": "s000", "text": "red"}', "not a query: KeyError"),
        ('{"image": "s000", "text": " ", "targets": ["s001"]}', "is no query"),
        ('{"image": "s000", "text": "red", "sign": "x", "targets": ["s001"]}', "is no query"),
        ('{"image": "s000", "text": "red", "targets": []}', "is no query"),
        ('{"image": "s000", "text": "red", "targets": ["s000"]}', "is no query"),
        ('{"image": "s000", "text": "red", "targets": ["s009"]}', r"queries\.jsonl:1: no image 's009'"),
    ],
)
def test_queries_that_are_none(line: str, said: str, tmp_path: Path) -> None:
    data = opened("composed", tmp_path)
    (tmp_path / "queries.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=said):
        open_task(Folder(str(tmp_path), data.task))


# Languages ----------------------------------------------------------------------------------------------------------------


def write_crossmodal(folder: Path, *, leave_out: str = "") -> list[str]:
    """Three images with a caption in each of the 36 languages; all low-resource ones but Telugu have two captions mixed up."""
    task = load_others()["crossmodal3600"]
    rows = []
    for i, word in enumerate(WORDS):
        row: dict[str, Any] = {"image/key": f"k{i}", "image/locale": "fil"}
        for code in task.options["languages"]:
            mixed = code in task.options["low"] and code != "te" and i < 2
            row[code] = {"caption": [WORDS[1 - i] if mixed else f"a {word} patch"], "caption/tokenized": ["unused"]}
        row.pop(leave_out, None)
        rows.append(row)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "captions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    write_split(folder, [{"png": patch(c)} for c in (RED, GREEN, BLUE)], prefix="k")
    return list(task.options["languages"])


def rename_keys(folder: Path) -> None:
    text = (folder / "captions.jsonl").read_text()
    for i in range(3):
        text = text.replace(f'"k{i}"', f'"k{i:03d}"')
    (folder / "captions.jsonl").write_text(text)


def test_crossmodal_has_means_of_low_and_high_resources(tmp_path: Path) -> None:
    codes = write_crossmodal(tmp_path)
    rename_keys(tmp_path)
    task = load_others()["crossmodal3600"]
    found = open_task(Folder(str(tmp_path), task)).score(eyes())
    values = found.line["metrics"]
    # With two captions mixed up one of three is found, in either direction.
    assert {code for code in codes if values[f"mean_recall@1_{code}"] < 1} == {"bn", "fil", "he", "hi", "mi", "sw"}
    assert values["mean_recall@1_bn"] == pytest.approx(1 / 3)
    assert values["mean_recall@1_low"] == pytest.approx((1 + 6 / 3) / 7)
    assert values["text_retrieval_recall@1_low"] == pytest.approx((1 + 6 / 3) / 7)
    assert values["mean_recall@1_high"] == 1.0
    assert values["main_metric"] == values["mean_recall@1"] == pytest.approx((30 + 6 / 3) / 36)
    assert {name: len(group) for name, group in found.record["groups"].items()} == {"low": 7, "high": 28}
    assert not any("quz" in group for group in found.record["groups"].values())
    assert found.record["languages"]["te"] == {"images": 3, "texts": 3} and found.record["chance"] == pytest.approx(1 / 3)
    # The same from pictures as files.
    (tmp_path / "images").mkdir()
    for i, colour in enumerate((RED, GREEN, BLUE)):
        (tmp_path / "images" / f"k{i:03d}.jpg").write_bytes(patch(colour))
    again = open_task(Folder(str(tmp_path), task)).score(eyes())
    assert again.line == found.line
    (tmp_path / "images" / "k001.jpg").unlink()
    with pytest.raises(InputError, match=r"no picture of k001\.jpg"):
        open_task(Folder(str(tmp_path), task))


def test_a_language_that_is_missing_is_no_mean(tmp_path: Path) -> None:
    write_crossmodal(tmp_path, leave_out="te")
    rename_keys(tmp_path)
    with pytest.raises(InputError, match="no captions in te; expected captions in ar, bn"):
        open_task(Folder(str(tmp_path), load_others()["crossmodal3600"]))


def test_images_without_a_caption_in_a_language_are_not_searched_in_it(tmp_path: Path) -> None:
    opened("languages", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "captions.jsonl").read_text().splitlines()]
    rows[0]["xx"]["caption"] = [" "]
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = open_task(Folder(str(tmp_path), EXAMPLES["languages"].task("languages"))).score(eyes())
    assert found.main_metric == 1.0
    assert found.record["languages"] == {
        "en": {"images": 3, "texts": 6}, "xx": {"images": 2, "texts": 2}, "yy": {"images": 3, "texts": 3}
    }  # fmt: skip


def test_multi30k_as_its_repository_has_it(tmp_path: Path) -> None:
    (tmp_path / "image_splits").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "images").mkdir()
    names = [f"10{i}.jpg" for i in range(12)]
    colours = [RED, GREEN, BLUE] * 4
    (tmp_path / "image_splits" / "test_2016_flickr.txt").write_text("".join(n + "\n" for n in names))
    for i, name in enumerate(names):
        (tmp_path / "images" / name).write_bytes(patch(colours[i], i))
    for code in ("en", "de", "fr", "cs"):
        text = "".join(f"{WORDS[i % 3]} {code}\n" for i in range(12))
        if code == "cs":
            (tmp_path / "raw" / "test_2016_flickr.cs").write_text(text)
        else:
            (tmp_path / "raw" / f"test_2016_flickr.{code}.gz").write_bytes(gzip.compress(text.encode()))
    task = load_others()["multi30k"]
    found = open_task(Folder(str(tmp_path), task)).score(eyes())
    assert found.line["metrics"]["main_metric"] == found.line["metrics"]["mean_recall"]
    # Four images of a colour are one's equals: the first of them is found at once, all of them among five.
    assert found.line["metrics"]["image_retrieval_recall@5_de"] == found.line["metrics"]["text_retrieval_recall@5_cs"] == 1.0
    assert 0 < found.line["metrics"]["mean_recall@1"] < 1
    (tmp_path / "raw" / "test_2016_flickr.fr.gz").write_bytes(gzip.compress(b"rouge\n"))
    with pytest.raises(InputError, match="1 captions for 12 images"):
        open_task(Folder(str(tmp_path), task))
    (tmp_path / "raw" / "test_2016_flickr.fr.gz").write_bytes(b"rouge\n")
    with pytest.raises(InputError, match=r"fr\.gz: not gzip"):
        open_task(Folder(str(tmp_path), task))


@pytest.mark.parametrize("line", ["no json", '{"en": {"caption": ["x"]}}', '{"image/key": "k0", "en": {"text": []}}', "[]"])
def test_captions_that_are_none(line: str, tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"captions\.jsonl:1: not an image's captions"):
        languages.Languages.open(load_others()["crossmodal3600"], str(tmp_path))
    (tmp_path / "captions.jsonl").unlink()
    with pytest.raises(InputError, match=r"no captions; expected captions\.jsonl, or image_splits"):
        languages.Languages.open(load_others()["crossmodal3600"], str(tmp_path))


# Metrics by hand ----------------------------------------------------------------------------------------------------------


def test_association_bias_by_hand() -> None:
    """Of four men one is nearer to the first text, of two women both are: .25, 1, and .75 between them."""
    first = np.array([True, False, False, False, True, True])
    shares, gap = metrics.association_bias(first, np.array([0, 0, 0, 0, 1, 1]))
    assert (shares, gap) == ([0.25, 1.0], 0.75)
    assert metrics.association_bias(first[:4], np.zeros(4, np.int64)) == ([0.25, None], None)


def test_groups_of_bias_and_gaps_come_with_their_sizes(tmp_path: Path) -> None:  # T116
    found = opened("association_bias", tmp_path / "a", wrong=True).score(eyes()).line["metrics"]
    assert found == {
        "nurse_over_doctor_gender:0": 0.0,
        "nurse_over_doctor_gender:1": pytest.approx(2 / 3),
        "nurse_over_doctor_gap": pytest.approx(2 / 3),
        "count_gender:0": 1.0,
        "count_gender:1": 3.0,
        "association_bias": pytest.approx(2 / 3),
        "association_bias_max": pytest.approx(2 / 3),
        "main_metric": pytest.approx(2 / 3),
    }
    found = opened("disparity", tmp_path / "d", wrong=True).score(eyes()).line["metrics"]
    assert [found[f"acc1_region:{g}"] for g in (0, 1)] == [1.0, 0.5]
    assert [found[f"count_region:{g}"] for g in (0, 1)] == [2.0, 2.0]
    assert (found["acc1_avg"], found["acc1_wg"], found["acc1_disparity"], found["acc5_disparity"]) == (0.75, 0.5, 0.5, 0.0)


def test_faces_of_one_gender_have_no_association(tmp_path: Path) -> None:
    opened("association_bias", tmp_path)
    write_split(tmp_path, [{"png": patch(RED), "npy": npy(0, 1, 0, 1)}])
    with pytest.raises(InputError, match=r"gender is \[1\]; expected images of 0 and of 1"):
        open_task(Folder(str(tmp_path), EXAMPLES["association_bias"].task("association_bias")))


def test_what_guessing_finds() -> None:
    """All choices of k out of seven items of which some are one's own."""
    for own, k in itertools.product((1, 2, 3), (1, 5, 10)):
        choices = list(itertools.combinations(range(7), min(k, 7)))
        expected = np.mean([any(i < own for i in choice) for choice in choices])
        assert metrics.guess_any(np.array([own]), np.array([7]), k) == pytest.approx(expected)
    found = metrics.guessed_retrieval(np.array([1, 2, 3]))
    assert found["mean_recall@1"] == pytest.approx(1 / 3) and found["image_retrieval_recall@5"] == 1.0


# Suites -------------------------------------------------------------------------------------------------------------------


def test_suites_are_those_of_the_papers() -> None:
    suites = load_suites()
    assert list(suites) == [
        "datacomp", "western", "cultural", "multilingual", "fairness", "linear_probe", "few_shot", "within", "composed"
    ]  # fmt: skip
    assert [m.task.key for m in suites["datacomp"].members if m.counted] == [t.key for t in load_tasks().values() if t.counted]
    # Wang et al. 2025: three sets zero-shot, eight from ten images a class, retrieval of two sets both ways.
    western = suites["western"].members
    assert len(western) == 15 and [m.task.kind for m in western].count("kshot") == 8
    assert [m.key for m in suites["cultural"].members if m.counted] == [
        "fairness/dollar_street acc1", "10shot/dollar_street_country", "10shot/geode_country", "10shot/geode_region", "gldv2"
    ]  # fmt: skip
    options = load_others()["crossmodal3600"].options
    assert len(set(options["languages"])) == 36 and len(options["low"]) == 7
    assert set(options["low"]) == {"bn", "fil", "hi", "he", "mi", "sw", "te"} and options["neither"] == ["quz"]
    for task in load_others().values():
        assert task.kind in KINDS and task.main_metric in KINDS[task.kind] and not task.counted
        assert task_of(task.key) is task_of(task.key.replace("/", "-")) is task
    assert not any(load_tasks().keys() & load_others().keys()) and set(FACES) <= set(load_tasks())
    with pytest.raises(InputError, match="no suite 'eastern'; expected one of datacomp, western"):
        suite_of("eastern")


def test_means_of_suites_are_never_of_part_of_them() -> None:
    suite = suite_of("cultural")
    scored: dict[str, dict[str, float | None]] = {
        "fairness/dollar_street": {"acc1": 0.1, "main_metric": 0.9},
        "10shot/dollar_street_country": {"acc1": 0.2},
        "10shot/geode_country": {"acc1": 0.3},
        "10shot/geode_region": {"acc1": 0.4},
    }
    part = suite.means(scored)
    assert part.mean is None and part.partial_mean == pytest.approx(0.25) and (part.scored, part.of) == (4, 5)
    assert part.missing == ("gldv2",)
    whole = suite.means({**scored, "gldv2": {"acc1": 0.5}, "10shot/dollar_street_region": {"acc1": 0.99}})
    assert whole.mean == pytest.approx(0.3) and whole.partial_mean is None and whole.missing == ()
    assert whole.values["10shot/dollar_street_region"] == 0.99  # told, and in no mean
    # Biases and gaps have no mean, nor have recalls of unlike kinds.
    bias: dict[str, dict[str, float | None]] = {t.key: {t.main_metric or "": 0.5} for t in suite_of("fairness").tasks}
    assert suite_of("fairness").means(bias).mean is None and len(suite_of("fairness").means(bias).values) == 5
    assert json.dumps(part.content())


def test_a_suite_takes_the_folders_of_its_tasks(tmp_path: Path) -> None:
    write_task(tmp_path / "wds_imagenet1k_test", [0, 1, 2])
    write_task(tmp_path / "wds_vtab-cifar100_test", [0, 1, 2])
    write_task(tmp_path / "wds_own_test", [0, 1, 2])
    found = {f.task.key: f for f in choose(str(tmp_path), None, "western")}
    assert len(found) == 13 and list(found)[:4] == ["imagenet1k", "vtab/cifar100", "vtab/pets", "10shot/imagenet1k"]
    assert [key for key, f in found.items() if not f.obstacle] == [
        "imagenet1k", "vtab/cifar100", "10shot/imagenet1k", "10shot/cifar100"
    ]  # fmt: skip
    assert found["10shot/imagenet1k"].path == found["imagenet1k"].path
    assert found["vtab/pets"].obstacle == "no data: wds_vtab-pets_test"
    with pytest.raises(InputError, match="vtab/pets: no data: wds_vtab-pets_test"):
        choose(str(tmp_path), ["vtab/pets"], "western")
    with pytest.raises(InputError, match="no task 'own' in suite western"):
        choose(str(tmp_path), ["own"], "western")
    # What the published folder of a zero-shot task lacks is an obstacle too, not a failure half-way.
    with pytest.raises(InputError, match=r"linear_probe/own: no train/nshards\.txt in wds_own_test"):
        choose(str(tmp_path), ["own"], "linear_probe")
    write_task(tmp_path / "wds_dollar_street_test", [0, 1, 2])
    found = {f.task.key: f for f in choose(str(tmp_path), None, "cultural")}
    assert found["10shot/dollar_street_country"].obstacle == "no metadata.csv in wds_dollar_street_test"
    assert found["10shot/dollar_street_region"].obstacle == ""
    shutil.rmtree(tmp_path / "wds_dollar_street_test")
    for name in ("own", "vtab-cifar100"):
        shutil.copytree(tmp_path / f"wds_{name}_test" / "test", tmp_path / f"wds_{name}_test" / "train")
    (own,) = choose(str(tmp_path), ["own"], "linear_probe")
    assert (own.task.key, own.task.kind, own.obstacle) == ("linear_probe/own", "linear_probe", "")
    (known,) = choose(str(tmp_path), ["vtab-cifar100"], "linear_probe")
    assert known.task.key == "linear_probe/cifar100"
    with pytest.raises(InputError, match="gldv2: no data: wds_gldv2_test"):
        choose(str(tmp_path), None, "cultural")
    # Without a suite all is as it was.
    assert [f.task.key for f in choose(str(tmp_path), None)] == ["vtab/cifar100", "imagenet1k", "own"]


def test_a_folder_may_say_its_kind(tmp_path: Path) -> None:
    write_task(tmp_path / "wds_own_test", [0, 1, 2] * 3)
    (tmp_path / "wds_own_test" / "dataset_type.txt").write_text("image_to_image\n")
    (folder,) = choose(str(tmp_path), None)
    assert (folder.task.kind, folder.task.main_metric) == ("image_to_image", "recall@1")
    assert isinstance(kinds.open_task(folder), within.ImageToImage)
    (tmp_path / "wds_own_test").rename(tmp_path / "wds_gldv2_test")
    with pytest.raises(InputError, match="'image_to_image', but gldv2 is measured by acc1"):
        choose(str(tmp_path), None)
