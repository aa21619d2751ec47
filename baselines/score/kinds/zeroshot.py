"""Zero-shot classification: an image belongs to the class whose prompts are nearest to it.

Beside the tars lie `classnames.txt` and `zeroshot_classification_templates.txt` (`{c}` is the class); `<sample>.cls` is
the class's number in text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.labels import read_numbers
from baselines.score.kinds import groups
from baselines.score.metrics import Ints
from baselines.score.prompts import PLACEHOLDER as PLACEHOLDER
from baselines.score.prompts import class_vectors as class_vectors
from baselines.score.ranking import ranks
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class Classification:
    """One task's data."""

    task: Task
    tars: tuple[str, ...]
    classnames: tuple[str, ...]
    templates: tuple[str, ...]
    labels: Ints  # of every image, in the order of the tars
    fields: groups.Fields  # of every image, for the tasks that are judged by group

    @classmethod
    def open(cls, task: Task, folder: str) -> Classification:
        """Reads names, templates and labels. Raises InputError where a file is missing or contradicts another."""
        names = store.join(folder, "classnames.txt")
        classnames = evaldata.read_lines(names)
        place = store.join(folder, "zeroshot_classification_templates.txt")
        templates = evaldata.read_lines(place)
        for number, template in enumerate(templates, 1):
            if PLACEHOLDER not in template:
                raise InputError(
                    f"line {number}: no {PLACEHOLDER} in {template!r}", where=place, expected=f"a photo of a {PLACEHOLDER}"
                )
        test = store.join(folder, "test")
        tars = evaldata.open_tars(test)
        labels = np.fromiter(read_numbers(tars), np.int64)
        if len(labels) == 0:
            raise InputError("no image", where=test, expected="one image or more")
        evaldata.check_names(classnames, int(labels.max()), names)
        named = groups.FIELDS.get(task.source)
        fields = {} if named is None else groups.read_fields(tars, named)
        return cls(task, tars, tuple(classnames), tuple(templates), labels, fields)

    @property
    def images(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.tars, [*self.classnames, "", *self.templates])

    def judge(self, encoder: Encoder) -> tuple[groups.Judged, list[Raw]]:
        """What the model makes of the images, and those that cannot be read. Raises WorkFailed as `Encoder.images` does."""
        classes = len(self.classnames)
        vectors = encoder.class_vectors(self.classnames, self.templates)
        indices: list[int] = []
        found: list[int] = []
        nearest: list[int] = []
        lost: list[Raw] = []
        for items, features in encoder.images(evaldata.images(self.tars, range(len(self.labels))), self.task.key):
            here = [i.target for i in items if not i.failed]
            lost += [i for i in items if i.failed]
            if here:
                scores = features @ vectors.T
                own = torch.from_numpy(self.labels[here])
                indices += here
                found += ranks(scores, own, own + 1).tolist()
                nearest += torch.argmax(scores, dim=1).tolist()
        if encoder.unreadable == "wrong":
            indices += [i.target for i in lost]
            found += [classes] * len(lost)
            nearest += [classes] * len(lost)
        rows = np.array(indices, np.int64)
        fields = {name: column[rows] for name, column in self.fields.items()}
        return groups.Judged(self.labels[rows], np.array(found, np.int64), np.array(nearest, np.int64), fields), lost

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does."""
        classes = len(self.classnames)
        judged, lost = self.judge(encoder)
        return Result.of(
            self.task,
            self.digest,
            {**metrics.classification(judged.labels, judged.ranks, classes), **groups.metrics(self.task.key, judged)},
            lost,
            images=len(judged.labels),
            chance=1 / classes if self.task.chance is None else self.task.chance,
            **self.words(judged),
        )

    def words(self, judged: groups.Judged) -> dict[str, Any]:
        """For the record: classes, those without images, and the hashes of names and templates."""
        return {
            "classes": len(self.classnames),
            "absent_classes": metrics.absent(judged.labels, len(self.classnames)),
            "classnames_sha256": evaldata.sha256(self.classnames),
            "templates_sha256": evaldata.sha256(self.templates),
        }
