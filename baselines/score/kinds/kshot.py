"""Classification from a few images of each class, and geo-localisation where the class is a place.

A linear classifier is fitted to the features of `shots` images a class by regularised least squares, as Big Vision's few-shot
evaluation does (the 10-shot metrics of Wang et al. 2025), and this anew for each of the seeds 0, 1 and 2, which decide what
images these are. Metrics are means over the seeds, `<metric>_std` is their standard deviation.

The folder is one of classification (`labels`). Without a training split the images to learn from are taken from the test split
and are not tested; the record says so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.labels import CLASS, Labelled
from baselines.score.features import Features, gather
from baselines.score.kinds.draws import draw
from baselines.score.kinds.linear import L2, least_squares, ranks_of
from baselines.score.metrics import Ints
from baselines.score.results import Result
from baselines.score.tasks import Task
from pools.errors import InputError

SHOTS = 10
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class KShot:
    """One task's data."""

    task: Task
    data: Labelled
    shots: int
    label: str

    @classmethod
    def open(cls, task: Task, folder: str) -> KShot:
        """Raises InputError as `Labelled.open` does, where there is one class alone, and where nothing is left to be tested."""
        label = task.options.get("label", CLASS)
        data = Labelled.open(folder, task.source, label)
        if data.classes < 2:
            raise InputError(f"one class: {data.names[0]}", where=folder, expected="two classes or more")
        shots = task.options.get("shots", SHOTS)
        if data.train is None and (np.bincount(data.test.labels) <= shots).all():
            raise InputError(
                f"no class has more than the {shots} images to learn from",
                where=folder,
                expected="a training split, or more images in test/",
            )
        return cls(task, data, shots, label)

    @property
    def images(self) -> int:
        return len(self.data.test.labels)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.data.tars, ["k-shot", str(self.shots), str(SEEDS), str(L2), *self.data.words(self.label)])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        An unreadable image of the test split counts as wrong or is left out; one to learn from is left out in either case.
        """
        test, train, apart = self.data.test, self.data.train or self.data.test, self.data.train is not None
        drawn = [draw(train.labels, np.full(self.data.classes, self.shots), seed) for seed in SEEDS]
        seen = gather(encoder, test.images(), self.task.key)
        asked = np.unique(np.concatenate(drawn))
        shown = gather(encoder, train.some_images(asked), self.task.key) if apart else seen
        runs = [self._run(encoder, shown, rows, seen) for rows in drawn]
        names = list(runs[0])
        values = {name: _mean([run[name] for run in runs]) for name in names}
        values |= {f"{name}_std": _deviation([run[name] for run in runs]) for name in names}
        wrong = len(seen.lost) if encoder.unreadable == "wrong" else 0
        return Result.of(
            self.task,
            self.digest,
            values,
            [*seen.lost, *(shown.lost if apart else ())],
            images=len(seen.rows) + wrong,
            chance=1 / self.data.classes,
            **self.data.record(self.label),
            shots=self.shots,
            seeds={str(seed): run for seed, run in zip(SEEDS, runs, strict=True)},
            l2=L2,
            tested="all of the test split" if apart else "the test split without the shots of each seed",
        )

    def _run(self, encoder: Encoder, shown: Features, rows: Ints, seen: Features) -> dict[str, float | None]:
        """Metrics of the classifier that saw these rows."""
        classes, truth, apart = self.data.classes, self.data.test.labels, self.data.train is not None
        train = self.data.train or self.data.test
        known = np.isin(shown.rows, rows)
        labels = torch.from_numpy(train.labels[shown.rows[known]])
        linear = least_squares(shown.vectors[torch.from_numpy(known)], labels, classes)
        asked = np.ones(len(seen.rows), bool) if apart else ~np.isin(seen.rows, rows)
        ranks = ranks_of(linear, seen.vectors[torch.from_numpy(asked)], truth[seen.rows[asked]])
        tested = seen.rows[asked]
        if encoder.unreadable == "wrong":
            lost = np.array([i.target for i in seen.lost if apart or i.target not in rows], np.int64)
            tested, ranks = np.concatenate([tested, lost]), np.concatenate([ranks, np.full(len(lost), classes)])
        return metrics.classification(truth[tested], ranks, classes)


def _mean(values: list[float | None]) -> float | None:
    found = [v for v in values if v is not None]
    return float(np.mean(found)) if found else None


def _deviation(values: list[float | None]) -> float | None:
    """Of a sample."""
    found = [v for v in values if v is not None]
    return float(np.std(found, ddof=1)) if found else None
