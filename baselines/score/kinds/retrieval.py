"""Zero-shot retrieval: find a caption's image among all images, and one of an image's captions among all captions.

`<sample>.txt` beside an image holds its captions, one a line and at least one; or the published parquet has columns `image`
and `caption` (a list). As in ALIGN (Jia et al. 2021) and in
DataComp, recall@k of text retrieval is the share of images that have *any* of their captions among the k nearest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals import tables
from baselines.score.metrics import Ints
from baselines.score.ranking import search
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class Retrieval:
    """One task's data."""

    task: Task
    files: tuple[str, ...]  # tars, or tables
    captions: tuple[tuple[str, ...], ...]  # of every image, in the order of the files

    @classmethod
    def open(cls, task: Task, folder: str) -> Retrieval:
        """Reads the captions. Raises InputError where an image has none, or some that are blank or no UTF-8."""
        if tables.has_tables(folder):
            files = tables.list_tables(folder)
            captions = tuple(_captions(row["caption"], f"{path}: row {n}") for path, n, row in tables.rows(files, ["caption"]))
        else:
            files = evaldata.open_tars(store.join(folder, "test"))
            texts = evaldata.companions(files, "txt")
            captions = tuple(tuple(evaldata.text_lines(data, f"{path}: {key}.txt")) for path, key, data in texts)
        if not captions:
            raise InputError("no image", where=folder, expected="one image or more in the test split")
        return cls(task, files, captions)

    @property
    def images(self) -> int:
        return len(self.captions)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.files, ["retrieval"])

    @property
    def captions_sha256(self) -> str:
        return evaldata.sha256(["\n".join(c) + "\n" for c in self.captions])

    def _images(self) -> Iterable[Raw]:
        if self.files[0].endswith(".parquet"):
            return tables.images(self.files, "image", range(len(self.captions)))
        return evaldata.images(self.files, range(len(self.captions)))

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        An unreadable image that counts as wrong is never found, and neither are its captions; they stay among those that
        other images are compared with. One that is excluded takes its captions with it.
        """
        features: list[Tensor] = []
        lost: list[Raw] = []
        for items, vectors in encoder.images(self._images(), self.task.key):
            features += [vectors] if len(vectors) else []
            lost += [i for i in items if i.failed]
        readable = np.ones(len(self.captions), bool)
        readable[[i.target for i in lost]] = False
        kept = np.flatnonzero(readable | (encoder.unreadable == "wrong"))
        counts = np.array([len(self.captions[i]) for i in kept], np.int64)
        texts = encoder.texts([c for i in kept for c in self.captions[i]])
        of_texts, of_images = both_ways(torch.cat(features), texts, counts, readable[kept], encoder.device)
        return Result.of(
            self.task,
            self.digest,
            metrics.retrieval(of_texts, of_images),
            lost,
            images=len(kept),
            # A caption's image is one of n; one of an image's k captions is the nearest of m with k/m, and the mean of k
            # is m/n: 1/n either way, however the captions are spread.
            chance=1 / len(kept),
            texts=len(texts),
            captions_sha256=self.captions_sha256,
        )


def _captions(cell: Any, where: str) -> tuple[str, ...]:
    """The captions of a table's cell. Raises InputError if it holds none, or blank ones."""
    found = [cell] if isinstance(cell, str) else cell
    if not isinstance(found, list) or not found or not all(isinstance(c, str) and c.strip() for c in found):
        raise InputError(f"captions {str(cell)[:60]!r}", where=where, expected="one text or more, none blank")
    return tuple(found)


def both_ways(
    images: Tensor, texts: Tensor, counts: Ints, readable: NDArray[np.bool_], device: str = "cpu"
) -> tuple[Ints, Ints]:
    """Ranks from 0 of each text's own image among the images, and of each image's best text among the texts: [m], [n].

    `texts` [m, d] stand in the order of their images, `counts` [n] of them for each; `images` [r, d] are the r readable
    ones of the n. The rank of an image that is not, and that of its texts, is the greatest integer.
    """
    last = np.cumsum(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    row = np.cumsum(readable) - 1  # of an image's features
    of_texts = np.full(len(texts), np.iinfo(np.int64).max)
    of_images = np.full(len(counts), np.iinfo(np.int64).max)
    asking = readable[owner]
    own = torch.from_numpy(row[owner[asking]])
    of_texts[asking] = search(texts[torch.from_numpy(asking)], images, own, own + 1, device).numpy()
    first_text, last_text = torch.from_numpy((last - counts)[readable]), torch.from_numpy(last[readable])
    of_images[readable] = search(images, texts, first_text, last_text, device).numpy()
    return of_texts, of_images
