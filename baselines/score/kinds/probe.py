"""Linear probe: softmax regression on the features of all training images, tested on the test split.

Learning rate, number of epochs and weight decay are chosen on a tenth of the training images of each class, which is held out;
then the classifier is trained anew on all of them (Cherti et al. 2023, §4.3, who do not say on which images they chose). The
features are made once and of images as they are. The folder is one of classification with a `train/` split (`labels`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.labels import CLASS, Labelled
from baselines.score.features import gather
from baselines.score.kinds import linear
from baselines.score.kinds.draws import draw
from baselines.score.metrics import Bools, Ints
from baselines.score.results import Result
from baselines.score.tasks import Task
from pools import store
from pools.errors import InputError

HELD_OUT = 0.1
_GRID = (linear.RATES, linear.EPOCHS, linear.DECAYS, linear.BATCH, HELD_OUT)


@dataclass(frozen=True)
class LinearProbe:
    """One task's data."""

    task: Task
    data: Labelled
    label: str

    @classmethod
    def open(cls, task: Task, folder: str) -> LinearProbe:
        """Raises InputError as `Labelled.open` does, and without a training split of two classes, some of it to be held out."""
        label = task.options.get("label", CLASS)
        data = Labelled.open(folder, task.source, label)
        counts = np.bincount(data.train.labels) if data.train is not None else np.zeros(1)
        if (counts > 0).sum() < 2 or counts.max() < 2:
            raise InputError(
                "no training images of two classes",
                where=store.join(folder, "train"),
                expected="0.tar … and nshards.txt, as in test/",
                fix="fetch the training split too",
            )
        return cls(task, data, label)

    @property
    def images(self) -> int:
        return len(self.data.test.labels)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.data.tars, ["linear probe", str(_GRID), *self.data.words(self.label)])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        An unreadable image of the test split counts as wrong or is left out; a training image is left out in either case.
        """
        train, test, classes = self.data.train, self.data.test, self.data.classes
        assert train is not None  # checked when the data were opened
        shown = gather(encoder, train.images(), self.task.key)
        seen = gather(encoder, test.images(), self.task.key)
        known = train.labels[shown.rows]
        labels = torch.from_numpy(known)
        held = hold_out(known, classes)
        setting, tried = linear.choose(shown.vectors, labels, classes, torch.from_numpy(held), device=encoder.device)
        found = linear.softmax(shown.vectors, labels, classes, setting, device=encoder.device)
        tested, ranks = test.labels[seen.rows], linear.ranks_of(found, seen.vectors, test.labels[seen.rows])
        if encoder.unreadable == "wrong":
            lost = test.labels[[i.target for i in seen.lost]]
            tested, ranks = np.concatenate([tested, lost]), np.concatenate([ranks, np.full(len(lost), classes)])
        best = next(t for t in tried if t.setting == setting)
        return Result.of(
            self.task,
            self.digest,
            metrics.classification(tested, ranks, classes),
            [*seen.lost, *shown.lost],
            images=len(tested),
            chance=1 / classes,
            **self.data.record(self.label),
            setting=asdict(setting),
            held_out=int(held.sum()),
            held_out_accuracy=best.accuracy,
            settings_tried=len(tried),
        )


def hold_out(labels: Ints, classes: int) -> Bools:
    """[n] whether an image is held out: a tenth of each class, one at least of those with two images or more."""
    counts = np.bincount(labels, minlength=classes)
    number = np.where(counts > 1, np.maximum(1, np.round(HELD_OUT * counts)), 0).astype(np.int64)
    held = np.zeros(len(labels), bool)
    held[draw(labels, number, seed=0)] = True
    return held
