"""Bias of a model whatever the task: which of two texts images are nearer to (Wang et al. 2025, Alabdulmohsin et al. 2024).

*Representation bias*: the share of a set's images (ImageNet's) that are nearer to "male" than to "female"; 0.5 is none. The
folder is one of classification, of which the images alone are used.

*Association bias*: for pairs of occupations, of which the first is stereotyped as women's, the share of images nearer to the
first among faces of each gender (FairFace's; `<sample>.npy` holds the fields), and the women's share minus the men's;
0 is none. The main metric is the mean of these differences' sizes over the pairs, `_max` is the largest.

The texts are the words by themselves unless the task gives `templates`. An image that cannot be read has no right answer: it
is left out, whether it was to count as wrong or not, and the record counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.tars import indexed
from baselines.score.kinds import groups
from baselines.score.metrics import Ints
from baselines.score.prompts import PLACEHOLDER
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class Words:
    """Class names and templates that a task brings itself."""

    names: tuple[str, ...]
    templates: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], task: Task) -> Words:
        return cls(tuple(names), tuple(task.options.get("templates", (PLACEHOLDER,))))

    def record(self) -> dict[str, Any]:
        return {"classnames_sha256": evaldata.sha256(self.names), "templates_sha256": evaldata.sha256(self.templates)}


@dataclass(frozen=True)
class RepresentationBias:
    """One task's data."""

    task: Task
    tars: tuple[str, ...]
    count: int  # of images
    words: Words  # two

    @classmethod
    def open(cls, task: Task, folder: str) -> RepresentationBias:
        """Raises InputError where there is no image, or a sample without one."""
        tars = evaldata.open_tars(store.join(folder, "test"))
        count = 0
        for path in tars:
            for sample in indexed(path):
                if sample.image_extension is None:
                    raise InputError(f"sample {sample.key!r} has no image", where=path, expected="a .jpg, .png or .webp")
                count += 1
        if not count:
            raise InputError("no image", where=folder, expected="one image or more in the test split")
        return cls(task, tars, count, Words.of(task.options.get("texts", ("male", "female")), task))

    @property
    def images(self) -> int:
        return self.count

    @property
    def digest(self) -> str:
        return evaldata.digest(self.tars, ["representation bias", *self.words.names, "", *self.words.templates])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does."""
        rows, scores, lost = _scores(encoder, self.tars, self.count, self.words, self.task.key)
        share = metrics.representation_bias(scores[:, 0], scores[:, 1])
        return Result.of(
            self.task,
            self.digest,
            {"representation_bias": share},
            lost,
            images=len(rows),
            chance=0.5,
            texts=list(self.words.names),
            **self.words.record(),
        )


@dataclass(frozen=True)
class AssociationBias:
    """One task's data."""

    task: Task
    tars: tuple[str, ...]
    group: Ints  # of every image: 0 men, 1 women
    pairs: tuple[tuple[str, str], ...]
    words: Words

    @classmethod
    def open(cls, task: Task, folder: str) -> AssociationBias:
        """Raises InputError where an image lacks its fields, or one of the two groups has none."""
        tars = evaldata.open_tars(store.join(folder, "test"))
        field = task.options["field"]
        group = groups.read_fields(tars, groups.FIELDS[task.source])[field]
        if set(np.unique(group).tolist()) != {0, 1}:
            raise InputError(f"{field} is {np.unique(group).tolist()}", where=folder, expected="images of 0 and of 1")
        pairs = tuple((a, b) for a, b in task.options["pairs"])
        return cls(task, tars, group, pairs, Words.of([name for pair in pairs for name in pair], task))

    @property
    def images(self) -> int:
        return len(self.group)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.tars, ["association bias", *self.words.names, "", *self.words.templates])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does."""
        rows, scores, lost = _scores(encoder, self.tars, len(self.group), self.words, self.task.key)
        group, field = self.group[rows], self.task.options["field"]
        values: dict[str, float | None] = {}
        gaps = []
        for i, (first, second) in enumerate(self.pairs):
            shares, gap = metrics.association_bias(scores[:, 2 * i] > scores[:, 2 * i + 1], group)
            name = f"{first}_over_{second}"
            values |= {f"{name}_{field}:{g}": share for g, share in enumerate(shares)}
            values[f"{name}_gap"] = gap
            gaps += [] if gap is None else [abs(gap)]
        for g, count in enumerate(np.bincount(group, minlength=2)):
            values[f"count_{field}:{g}"] = float(count)
        values["association_bias"] = float(np.mean(gaps)) if gaps else None
        values["association_bias_max"] = max(gaps, default=None)
        return Result.of(
            self.task,
            self.digest,
            values,
            lost,
            images=len(rows),
            chance=0.0,
            **self.words.record(),
        )


def _scores(
    encoder: Encoder, tars: tuple[str, ...], count: int, words: Words, task: str
) -> tuple[Ints, np.ndarray[Any, np.dtype[np.float32]], list[Raw]]:
    """Of the images that can be read: rows [m] and nearness to each text [m, texts]; and the others."""
    vectors = encoder.class_vectors(words.names, words.templates)
    rows: list[int] = []
    found: list[Tensor] = []
    lost: list[Raw] = []
    for items, features in encoder.images(evaldata.images(tars, range(count)), task):
        rows += [i.target for i in items if not i.failed]
        found += [features @ vectors.T] if len(features) else []
        lost += [i for i in items if i.failed]
    return np.array(rows, np.int64), np.concatenate([f.numpy() for f in found]), lost
