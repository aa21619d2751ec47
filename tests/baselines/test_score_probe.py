"""Classifiers that learn from features: against scikit-learn and PyTorch, and what they may look at."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score.evals.data import Folder
from baselines.score.kinds import linear
from baselines.score.kinds.draws import draw
from baselines.score.kinds.linear import Setting
from baselines.score.kinds.opening import open_task
from baselines.score.kinds.probe import hold_out
from baselines.score.tasks import KINDS, Task, load_others
from pools import shards
from pools.errors import InputError, WorkFailed
from tests.baselines.conftest import NAMES, square, write_shard
from tests.baselines.small_evals import COLOURS, NINE, eyes, labelled, patch, write_split, write_words


def problem(number: int = 400, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Features [n, 12] of unlike sizes, of which a line cannot separate all classes."""
    x, y = make_classification(
        number, 12, n_informative=6, n_classes=classes, flip_y=0.1, class_sep=1.0, random_state=5, shift=2.0, scale=3.0
    )
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def task_of_kind(kind: str, **options: Any) -> Task:
    return Task("own", "own", None, KINDS[kind][0], None, None, (), counted=False, how=kind, options=options)


# Least squares ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [400, 9])  # more images than features, and fewer
@pytest.mark.parametrize("l2", [linear.L2, 0.5])
def test_least_squares_are_scikit_learns(number: int, l2: float) -> None:
    x, y = problem()
    x, y = x[:number], y[:number]
    ours = linear.least_squares(x, y, 4, l2).scores(x)
    scaled = StandardScaler().fit_transform(x.double().numpy())
    theirs = RidgeClassifier(alpha=l2, solver="cholesky").fit(scaled, y.numpy()).decision_function(scaled)
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-3)


def test_a_feature_that_never_varies_says_nothing() -> None:
    x, y = problem(60)
    with_constant = torch.cat([x, torch.full((60, 1), 0.25)], dim=1)
    ours = linear.least_squares(with_constant, y, 4)
    assert torch.isfinite(ours.weight).all()
    np.testing.assert_allclose(ours.scores(with_constant).numpy(), linear.least_squares(x, y, 4).scores(x).numpy(), atol=1e-4)


# Softmax regression -------------------------------------------------------------------------------------------------------


def test_softmax_regression_comes_to_scikit_learns() -> None:
    """The same convex loss: within a thousandth of its least value, and the same class for 98 of 100 images."""
    x, y = problem()
    scaled = StandardScaler().fit_transform(x.numpy())
    decay = 1e-2
    theirs = LogisticRegression(C=1 / (len(x) * decay), max_iter=2000, tol=1e-8).fit(scaled, y.numpy())
    ours = linear.softmax(x, y, 4, Setting(3e-3, 250, decay))
    with_theirs = linear.Linear(ours.scaling, *(torch.from_numpy(a).float() for a in (theirs.coef_.T, theirs.intercept_)))

    def loss(found: linear.Linear) -> float:
        return float(F.cross_entropy(found.scores(x), y) + decay / 2 * found.weight.square().sum())

    assert loss(with_theirs) <= loss(ours) + 1e-5 < 1.001 * loss(with_theirs)
    assert (ours.scores(x).argmax(1).numpy() == theirs.predict(scaled)).mean() >= 0.98


def test_the_rule_is_the_published_one() -> None:
    """Kingma and Ba 2015, algorithm 1, step by step in double precision: five steps on all images at once."""
    x, y = problem(60)
    setting = Setting(0.05, 5, 0.3)
    ours = linear.softmax(x, y, 4, setting)
    scaled = StandardScaler().fit_transform(x.double().numpy())
    truth = np.eye(4)[y.numpy()]
    found = {"weight": np.zeros((12, 4)), "bias": np.zeros(4)}
    moments = {name: (np.zeros_like(value), np.zeros_like(value)) for name, value in found.items()}
    for t in range(1, 6):
        exps = np.exp(scaled @ found["weight"] + found["bias"])
        wrong = (exps / exps.sum(axis=1, keepdims=True) - truth) / 60
        gradients = {"weight": scaled.T @ wrong + 0.3 * found["weight"], "bias": wrong.sum(axis=0)}  # the bias does not decay
        for name, g in gradients.items():
            first, second = moments[name]
            moments[name] = (first, second) = (0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g)
            found[name] = found[name] - 0.05 * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(ours.weight.numpy(), found["weight"], atol=1e-4)
    np.testing.assert_allclose(ours.bias.numpy(), found["bias"], atol=1e-4)


@pytest.mark.slow
def test_the_rule_is_torchs_adam() -> None:
    """Three batches an epoch, the last a small one; two settings side by side are what each is alone."""
    x, y = problem(520)
    settings = [Setting(0.1, 2, 0.0), Setting(0.01, 2, 0.05)]
    *_, found = linear.epochs(x, y, 4, settings, 2, seed=3)
    for setting, ours in zip(settings, found, strict=True):
        weight, bias = torch.zeros(12, 4, requires_grad=True), torch.zeros(4, requires_grad=True)
        adam = torch.optim.Adam([weight, bias], lr=setting.rate)
        order = torch.Generator().manual_seed(3)
        for _ in range(2):
            for batch in torch.split(torch.randperm(520, generator=order), linear.BATCH):
                scores = linear.Scaling.of(x)(x[batch]) @ weight + bias
                loss = F.cross_entropy(scores, y[batch]) + setting.decay / 2 * weight.square().sum()
                adam.zero_grad()
                torch.autograd.backward(loss)
                adam.step()
        torch.testing.assert_close(ours.weight, weight.detach(), atol=1e-4, rtol=1e-3)
        torch.testing.assert_close(ours.bias, bias.detach(), atol=1e-4, rtol=1e-3)


def test_the_setting_is_the_best_on_what_is_held_out() -> None:
    x, y = problem()
    held = torch.from_numpy(hold_out(y.numpy(), 4))
    setting, tried = linear.choose(x, y, 4, held, rates=(1e-4, 1e-2), numbers=(1, 5), decays=(0.0, 0.1))
    assert len({(t.setting.rate, t.setting.epochs, t.setting.decay) for t in tried}) == 8
    best = next(t for t in tried if t.setting == setting)
    assert best.accuracy == max(t.accuracy for t in tried)
    for t in tried:  # each as it comes out alone, trained on the others
        alone = linear.softmax(x[~held], y[~held], 4, t.setting).scores(x[held])
        assert t.accuracy == pytest.approx(float((alone.argmax(1) == y[held]).float().mean()))
        assert t.loss == pytest.approx(float(F.cross_entropy(alone, y[held])), rel=1e-4)
    # What is held out decides, not what is trained on: with its labels turned round the choice is another one.
    turned = torch.where(held, 3 - y, y)
    assert linear.choose(x, turned, 4, held, rates=(1e-4, 1e-2), numbers=(1, 5), decays=(0.0, 0.1))[0] != setting


# Draws --------------------------------------------------------------------------------------------------------------------


def test_draws_are_so_many_of_each_class_and_always_the_same() -> None:
    labels = np.array([0, 1, 2, 0, 1, 0, 0, 1, 0, 0] * 5)
    number = np.array([10, 3, 9, 4])  # class 2 has five images, class 3 has none
    drawn = draw(labels, number, seed=0)
    assert np.bincount(labels[drawn], minlength=4).tolist() == [10, 3, 5, 0]
    assert (np.diff(drawn) > 0).all() and np.array_equal(drawn, draw(labels, number, seed=0))
    assert not np.array_equal(drawn, draw(labels, number, seed=1))
    # By splitmix64 in whole numbers of Python, the four smallest of splitmix(splitmix(splitmix(0)) ^ row).
    assert draw(np.zeros(20, np.int64), np.array([4]), seed=0).tolist() == [0, 9, 11, 15]
    # Over many seeds every image of a class is drawn as often as any other: 4 of 20, 600 times, 5 deviations.
    times = np.zeros(20)
    for seed in range(600):
        times[draw(np.zeros(20, np.int64), np.array([4]), seed)] += 1
    assert (np.abs(times - 120) < 5 * (600 * 0.2 * 0.8) ** 0.5).all()


def test_a_tenth_of_each_class_is_held_out() -> None:
    labels = np.repeat([0, 1, 2, 3], [40, 8, 2, 1])
    held = hold_out(labels, 5)
    assert np.bincount(labels[held], minlength=5).tolist() == [4, 1, 1, 0, 0]


# Whole tasks --------------------------------------------------------------------------------------------------------------


def write_learned(folder: Path, *, train: int = 36) -> None:
    write_words(folder)
    write_split(folder, labelled(NINE))
    write_split(folder, labelled([i % 3 for i in range(train)], first=20), "train")


def test_a_probe_says_how_it_was_trained(tmp_path: Path) -> None:  # T112
    write_learned(tmp_path)
    data = open_task(Folder(str(tmp_path), task_of_kind("linear_probe")))
    found = data.score(eyes())
    record = found.record
    assert (record["split"], record["images"], record["train_images"], record["held_out"]) == ("test", 9, 36, 3)
    assert record["settings_tried"] == len(linear.RATES) * len(linear.DECAYS) * len(linear.EPOCHS)
    assert record["setting"].keys() == {"rate", "epochs", "decay"} and record["held_out_accuracy"] == 1.0
    assert found.main_metric == 1.0 and record["chance"] == pytest.approx(1 / 3)
    assert data.score(eyes()).line == found.line
    # Another training image is another result, one of another test set as well.
    before = data.digest
    write_split(tmp_path, labelled([i % 3 for i in range(36)], {5: 0}, first=20), "train")
    assert open_task(Folder(str(tmp_path), task_of_kind("linear_probe"))).digest != before


def test_images_that_are_tested_teach_nothing(tmp_path: Path) -> None:
    """In training red is class 1 and green 0: the test split is judged by that, whatever its labels are."""
    write_words(tmp_path)
    write_split(tmp_path, labelled(NINE))
    swapped = {i: 1 - i % 3 for i in range(36) if i % 3 < 2}
    write_split(tmp_path, labelled([i % 3 for i in range(36)], swapped, first=20), "train")
    for kind in ("linear_probe", "kshot"):
        found = open_task(Folder(str(tmp_path), task_of_kind(kind))).score(eyes())
        assert found.main_metric == pytest.approx(1 / 3)  # the blue ones


def test_a_probe_needs_training_images(tmp_path: Path) -> None:
    write_words(tmp_path)
    write_split(tmp_path, labelled(NINE))
    for train in (None, [0, 0, 0], [0, 1, 2]):  # none; one class; none to hold out
        if train is not None:
            write_split(tmp_path, labelled(train, first=20), "train")
        with pytest.raises(InputError, match=r"train: no training images of two classes; .*\n.*fetch the training split"):
            open_task(Folder(str(tmp_path), task_of_kind("linear_probe")))
    (tmp_path / "train" / "nshards.txt").unlink()
    with pytest.raises(InputError, match=r"train/nshards\.txt: missing"):  # T113
        open_task(Folder(str(tmp_path), task_of_kind("linear_probe")))


@pytest.mark.parametrize("kind", ["kshot", "linear_probe"])
def test_an_unreadable_training_image_is_an_error_or_left_out(kind: str, tmp_path: Path) -> None:  # T119
    write_learned(tmp_path, train=30)  # ten a class: all of them are shots
    tar = tmp_path / "train" / "0.tar"
    members = dict(shards.read_all(str(tar)))
    members["s004"] = {**members["s004"], "png": b"no picture"}
    write_shard(tar, members)
    data = open_task(Folder(str(tmp_path), task_of_kind(kind)))
    with pytest.raises(WorkFailed, match=r"own: .*train/0\.tar: s004 cannot be read"):
        data.score(eyes())
    for policy in ("wrong", "exclude"):
        found = data.score(eyes(unreadable=policy))
        assert (found.main_metric, found.record["images"], found.record["unreadable"]) == (1.0, 9, 1)


def test_shots_are_drawn_anew_for_each_seed(tmp_path: Path) -> None:
    """Of a class's training images half are of another colour: what is learned depends on which are drawn."""
    write_words(tmp_path, "a\nb\n")
    write_split(tmp_path, labelled([0, 1] * 6))
    tangled = [{"png": patch(COLOURS[(i // 2) % 2], i), "cls": str(i % 2).encode()} for i in range(80)]
    write_split(tmp_path, tangled, "train")
    task = task_of_kind("kshot", shots=3)
    found = open_task(Folder(str(tmp_path), task)).score(eyes())
    runs = found.record["seeds"]
    assert list(runs) == ["0", "1", "2"] and found.record["shots"] == 3 and len({json.dumps(r) for r in runs.values()}) > 1
    for name in ("acc1", "mean_per_class_recall"):
        values = [run[name] for run in runs.values()]
        assert found.line["metrics"][name] == pytest.approx(np.mean(values))
        assert found.line["metrics"][f"{name}_std"] == pytest.approx(np.std(values, ddof=1))
    assert found.line["metrics"]["acc5"] is None and found.line["metrics"]["acc5_std"] is None
    assert found.record["tested"] == "all of the test split"
    # Only what is drawn is looked at.
    seen = eyes()
    open_task(Folder(str(tmp_path), task)).score(seen)
    assert len(seen.cache._features) <= 12 + 3 * 2 * 3


def test_an_image_that_is_shown_is_not_tested(tmp_path: Path) -> None:
    """Without a training split: of 2 × 10 images seven each are shown, six are tested for each of three seeds."""
    write_words(tmp_path, "a\nb\n")
    # Labels that no line can learn, but by heart.
    samples = [{"png": patch((10 * i + 5, 100, 0)), "cls": str(i // 2 % 2).encode()} for i in range(20)]
    write_split(tmp_path, samples)
    found = open_task(Folder(str(tmp_path), task_of_kind("kshot", shots=7))).score(eyes())
    assert found.record["train_images"] == 0 and "without the shots" in found.record["tested"]
    shares = [run["acc1"] * 6 for run in found.record["seeds"].values()]
    assert all(share == pytest.approx(round(share)) for share in shares)
    with pytest.raises(InputError, match="no class has more than the 10 images to learn from"):
        open_task(Folder(str(tmp_path), task_of_kind("kshot")))


def test_the_suites_probes_read_the_published_folders(tmp_path: Path) -> None:
    write_learned(tmp_path)
    task = load_others()["linear_probe/pets"]
    found = open_task(Folder(str(tmp_path), task)).score(eyes())
    assert found.line["key"] == "linear_probe/pets" and found.line["metrics"]["main_metric"] == 1.0
    assert found.note == " of 3669: not the whole test set"


@pytest.mark.slow
def test_a_real_model_is_scored_as_scikit_learn_scores_it(tmp_path: Path) -> None:
    """A random model; all ten training images of each class are shots, so that nothing is left to be drawn."""
    from PIL import Image

    from baselines.score.suite import score
    from baselines.train.model import new_model

    folder = tmp_path / "e" / "wds_own_test"
    pictures = {s: [square(NAMES[i % 3], first + i) for i in range(n)] for s, n, first in (("train", 30, 0), ("test", 24, 99))}
    for split, images in pictures.items():
        write_split(folder, [{"png": p, "cls": str(i % 3).encode()} for i, p in enumerate(images)], split)
    loaded = new_model("winnow-tiny", seed=3)
    torch.save({"state_dict": loaded.model.state_dict()}, tmp_path / "random.pt")
    place: Any = {"model": "winnow-tiny", "pretrained": str(tmp_path / "random.pt"), "output": str(tmp_path / "o")}
    options = {**place, "tasks": ["own"], "quiet": True}
    (few,) = score(None, str(tmp_path / "e"), suites=["few_shot"], **options).results
    (probe,) = score(None, str(tmp_path / "e"), suites=["linear_probe"], **options).results
    model, x = loaded.model.eval(), {}
    with torch.no_grad():
        for split, images in pictures.items():
            pixels = torch.stack([loaded.transform(Image.open(io.BytesIO(p))) for p in images])
            x[split] = F.normalize(model.encode_image(pixels), dim=-1).numpy()
    scaler = StandardScaler().fit(x["train"])
    theirs = RidgeClassifier(alpha=linear.L2).fit(scaler.transform(x["train"]), np.arange(30) % 3)
    expected = theirs.score(scaler.transform(x["test"]), np.arange(24) % 3)
    assert few.main_metric == pytest.approx(expected) and few.line["metrics"]["acc1_std"] == 0.0
    assert 1 / 3 < expected < 1
    assert (probe.line["key"], few.line["key"]) == ("linear_probe/own", "kshot/own")
    assert probe.main_metric is not None and probe.main_metric > 1 / 3
    # Both stand in one file, and are known as what they are when it is read again.
    lines = [json.loads(line)["key"] for line in (tmp_path / "o" / "eval_results.jsonl").read_text().splitlines()]
    assert lines == ["kshot/own", "linear_probe/own"]
    (again,) = score(None, str(tmp_path / "e"), suites=["few_shot"], **options).results
    assert again.record == few.record and again.task.kind == "kshot"
