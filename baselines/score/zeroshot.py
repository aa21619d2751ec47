"""Zero-shot classification: an image belongs to the class whose prompts are nearest to it.

Beside the tars lie `classnames.txt` and `zeroshot_classification_templates.txt` (`{c}` is the class); `<sample>.cls` is
the class's number in text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score import evaldata, groups, metrics
from baselines.score.encode import Encoder
from baselines.score.metrics import Ints
from baselines.score.ranking import ranks
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools import store
from pools.errors import InputError

PLACEHOLDER = "{c}"


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
        labels = np.fromiter(_labels(tars), np.int64)
        if len(labels) == 0:
            raise InputError("no image", where=test, expected="one image or more")
        if labels.max() >= len(classnames):
            raise InputError(
                f"{len(classnames)} lines, the labels go up to {labels.max()}",
                where=names,
                expected=f"{labels.max() + 1} names or more, the first line for label 0",
            )
        named = groups.FIELDS.get(task.key)
        fields = {} if named is None else groups.read_fields(tars, named)
        return cls(task, tars, tuple(classnames), tuple(templates), labels, fields)

    @property
    def images(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.tars, [*self.classnames, "", *self.templates])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does."""
        classes = len(self.classnames)
        vectors = class_vectors(encoder.texts, self.classnames, self.templates, encoder.batch_size)
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
        truths = self.labels[rows]
        fields = {name: column[rows] for name, column in self.fields.items()}
        judged = groups.Judged(truths, np.array(found, np.int64), np.array(nearest, np.int64), fields)
        return Result.of(
            self.task,
            self.digest,
            {**metrics.classification(truths, judged.ranks, classes), **groups.metrics(self.task.key, judged)},
            lost,
            images=len(rows),
            chance=1 / classes if self.task.chance is None else self.task.chance,
            classes=classes,
            absent_classes=metrics.absent(truths, classes),
            classnames_sha256=evaldata.sha256(self.classnames),
            templates_sha256=evaldata.sha256(self.templates),
        )


def _labels(tars: Sequence[str]) -> Iterator[int]:
    for path, key, data in evaldata.companions(tars, "cls"):
        text = data.decode("utf-8", "replace").strip()
        if not evaldata.is_count(text):
            raise InputError(f"sample {key!r}: label {text[:40]!r}", where=path, expected="a class's number")
        yield int(text)


def class_vectors(
    encode: Callable[[Sequence[str]], Tensor], classnames: Sequence[str], templates: Sequence[str], batch_size: int
) -> Tensor:
    """[classes, d], each the normalised mean of its prompts' normalised vectors (Radford et al. 2021, §3.1.4).

    `encode` turns n texts into [n, d], normalised; it gets the prompts of as many whole classes at once as fit a batch, of
    one class if none do.
    """
    together = max(1, batch_size // len(templates))
    vectors = []
    for at in range(0, len(classnames), together):
        names = classnames[at : at + together]
        prompts = encode([t.replace(PLACEHOLDER, name) for name in names for t in templates])
        vectors.append(F.normalize(prompts.view(len(names), len(templates), -1).mean(dim=1), dim=-1))
    return torch.cat(vectors)
