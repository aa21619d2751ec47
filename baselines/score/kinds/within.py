"""Retrieval within one modality: images by an image of their class, captions by another caption of the same image.

Images are those of a folder of classification (`labels`); what is to be found for one is any other image of its label, a
class or an instance. With `gallery: train` the queries are the test split and what is searched is the training split: the
nearest neighbour classifier of Jia et al. 2021 (ImageNet KNN). Captions are those of a folder of retrieval with more than one
an image, as in the intra-modal retrieval of Parekh et al. 2021 without its further judgements. A query that has nothing to be
found is not asked, and is searched all the same; the record counts such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.labels import CLASS, Labelled
from baselines.score.features import gather
from baselines.score.kinds.retrieval import Retrieval
from baselines.score.metrics import Ints
from baselines.score.ranking import search_marked
from baselines.score.results import Result
from baselines.score.tasks import Task
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class ImageToImage:
    """One task's data."""

    task: Task
    data: Labelled
    label: str

    @classmethod
    def open(cls, task: Task, folder: str) -> ImageToImage:
        """Raises InputError as `Labelled.open` does, and where no image has another one to be found."""
        gallery = task.options.get("gallery", "test")
        label = task.options.get("label", CLASS)
        data = Labelled.open(folder, task.source, label, train=gallery == "train")
        if gallery == "train" and data.train is None:
            raise InputError(
                "no training images to search", where=store.join(folder, "train"), expected="0.tar … and nshards.txt"
            )
        found = cls(task, data, label)
        if not found.relevant().any():
            raise InputError("no image has another of its class", where=folder, expected="two images of a class")
        return found

    def relevant(self) -> Ints:
        """How many images there are to be found for each of the test split."""
        gallery = self.data.train or self.data.test
        counts = np.bincount(gallery.labels, minlength=self.data.classes)
        return counts[self.data.test.labels] - (self.data.train is None)

    @property
    def images(self) -> int:
        return len(self.data.test.labels)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.data.tars, ["image to image", *self.data.words(self.label)])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does. A query that cannot be read finds nothing, or is not asked."""
        seen = gather(encoder, self.data.test.images(), self.task.key)
        other = seen if self.data.train is None else gather(encoder, self.data.train.images(), self.task.key)
        truth = self.data.test.labels
        labels = (self.data.train or self.data.test).labels[other.rows]
        counts = np.bincount(labels, minlength=self.data.classes)
        relevant = counts[truth[seen.rows]] - (self.data.train is None)
        asked = np.flatnonzero(relevant > 0)
        ranks = by_label(
            seen.vectors[torch.from_numpy(asked)],
            other.vectors,
            truth[seen.rows[asked]],
            labels,
            asked if self.data.train is None else None,
            encoder.device,
        )
        # Also wrong is a query whose only answers cannot be read.
        queries = int((self.relevant() > 0).sum()) if encoder.unreadable == "wrong" else len(asked)
        ranks = np.concatenate([ranks, np.full(queries - len(asked), np.iinfo(np.int64).max)])
        size = len(labels) - (self.data.train is None)
        return Result.of(
            self.task,
            self.digest,
            metrics.found_at(ranks),
            [*seen.lost, *(other.lost if self.data.train is not None else ())],
            images=len(seen.rows) + (len(seen.lost) if encoder.unreadable == "wrong" else 0),
            chance=metrics.guess_any(relevant[asked], np.full(len(asked), size), 1),
            **self.data.record(self.label),
            queries=queries,
            queries_without_answer=int((self.relevant() == 0).sum()),
            gallery=len(labels),
        )


@dataclass(frozen=True)
class TextToText:
    """One task's data."""

    task: Task
    data: Retrieval

    @classmethod
    def open(cls, task: Task, folder: str) -> TextToText:
        """Raises InputError as `Retrieval.open` does, and where no image has two captions."""
        data = Retrieval.open(task, folder)
        if max(map(len, data.captions)) < 2:
            raise InputError("no image has two captions", where=folder, expected="two captions of an image or more")
        return cls(task, data)

    @property
    def images(self) -> int:
        return self.data.images

    @property
    def digest(self) -> str:
        return evaldata.digest(self.data.files, ["text to text"])

    def score(self, encoder: Encoder) -> Result:
        """No image is looked at."""
        owner = np.repeat(np.arange(self.images), [len(c) for c in self.data.captions])
        texts = encoder.texts([c for captions in self.data.captions for c in captions])
        others = np.bincount(owner)[owner] - 1
        asked = np.flatnonzero(others > 0)
        ranks = by_label(texts[torch.from_numpy(asked)], texts, owner[asked], owner, asked, encoder.device)
        return Result.of(
            self.task,
            self.digest,
            metrics.found_at(ranks),
            [],
            images=self.images,
            chance=metrics.guess_any(others[asked], np.full(len(asked), len(texts) - 1), 1),
            texts=len(texts),
            queries=len(ranks),
            queries_without_answer=len(texts) - len(asked),
            captions_sha256=self.data.captions_sha256,
        )


def by_label(
    queries: torch.Tensor,
    gallery: torch.Tensor,
    query_labels: Ints,
    labels: Ints,
    hidden: Ints | None,
    device: str = "cpu",
) -> Ints:
    """Ranks from 0 of the first item with the query's label; `hidden` [n] is each query's own place in the gallery."""
    wanted, have = torch.from_numpy(query_labels), torch.from_numpy(labels)
    places = torch.full((len(queries),), -1) if hidden is None else torch.from_numpy(hidden)
    found: Ints = search_marked(queries, gallery, lambda a, b: wanted[a:b, None] == have[None, :], places, device).numpy()
    return found
