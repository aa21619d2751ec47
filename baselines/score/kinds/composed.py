"""Retrieval of images by an image together with a text, or without what a text says.

ALIGN (Jia et al. 2021, §7) shows such queries and has no data to measure them on; this is a form for them. In the folder lie
the images as in every other (`test/0.tar` … and `test/nshards.txt`, a sample needs no more than its image) and
`queries.jsonl`, a query a line:

    {"image": "<sample's key>", "text": "red", "sign": "+", "targets": ["<sample's key>", …]}

`sign` is `+` or `-`, by default `+`. The query's vector is image + text or image - text, both normalised; it is found if any of
`targets` is among the k nearest of all images but the query's own. Metrics with `_text_x2` are of the text counted twice,
which ALIGN found best.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.tars import indexed
from baselines.score.features import Features, gather
from baselines.score.metrics import Ints
from baselines.score.ranking import search_marked
from baselines.score.results import Result
from baselines.score.tasks import Task
from pools import store
from pools.errors import InputError

FILE = "queries.jsonl"
WEIGHTS = {"": 1.0, "_text_x2": 2.0}  # of the text, and how the metrics end


@dataclass(frozen=True)
class Query:
    """By image and text; images are numbers in the order of the tars."""

    image: int
    text: str
    sign: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Composed:
    """One task's data."""

    task: Task
    tars: tuple[str, ...]
    count: int  # of images
    queries: tuple[Query, ...]
    sha256: str  # of the queries

    @classmethod
    def open(cls, task: Task, folder: str) -> Composed:
        """Raises InputError where a query is none, or names an image that is not there."""
        tars = evaldata.open_tars(store.join(folder, "test"))
        keys: dict[str, int] = {}
        for path in tars:
            for sample in indexed(path):
                if sample.image_extension is None or sample.key in keys:
                    what = "has no image" if sample.image_extension is None else "stands twice"
                    raise InputError(f"sample {sample.key!r} {what}", where=path, expected="an image a key")
                keys[sample.key] = len(keys)
        place = store.join(folder, FILE)
        lines = evaldata.read_lines(place)
        queries = tuple(_query(line, f"{place}:{n}", keys) for n, line in enumerate(lines, 1))
        return cls(task, tars, len(keys), queries, evaldata.sha256(lines))

    @property
    def images(self) -> int:
        return self.count

    @property
    def digest(self) -> str:
        return evaldata.digest(self.tars, ["composed", self.sha256])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        Where a query's image cannot be read, or none of its targets, it finds nothing or is not asked.
        """
        seen = gather(encoder, evaldata.images(self.tars, range(self.count)), self.task.key)
        row = np.full(self.count, -1)
        row[seen.rows] = np.arange(len(seen.rows))
        asked = [q for q in self.queries if row[q.image] >= 0 and any(row[t] >= 0 for t in q.targets)]
        unasked = len(self.queries) - len(asked) if encoder.unreadable == "wrong" else 0
        if not asked and not unasked:
            raise InputError("no query has images that can be read", where=self.tars[0], expected="readable images")
        texts = encoder.texts([q.text for q in asked]) if asked else torch.empty(0)
        values: dict[str, float | None] = {}
        for ending, weight in WEIGHTS.items():
            ranks = np.full(len(asked) + unasked, np.iinfo(np.int64).max)
            if asked:
                ranks[: len(asked)] = _search(seen, texts, asked, row, weight, encoder.device)
            values |= {name + ending: value for name, value in metrics.found_at(ranks).items()}
        targets = np.array([len(q.targets) for q in self.queries])
        return Result.of(
            self.task,
            self.digest,
            values,
            seen.lost,
            images=len(seen.rows) + (len(seen.lost) if encoder.unreadable == "wrong" else 0),
            chance=metrics.guess_any(targets, np.full(len(targets), self.count - 1), 1),
            queries=len(asked) + unasked,
            queries_sha256=self.sha256,
        )


def _search(seen: Features, texts: Tensor, asked: list[Query], row: Ints, weight: float, device: str) -> Ints:
    """Ranks from 0 of each query's first target."""
    own = torch.tensor([row[q.image] for q in asked])
    signs = torch.tensor([q.sign for q in asked])[:, None]
    vectors = F.normalize(seen.vectors[own] + signs * weight * texts, dim=-1)

    def marks(a: int, b: int) -> Tensor:
        marked = torch.zeros(b - a, len(seen.vectors), dtype=torch.bool)
        for i, query in enumerate(asked[a:b]):
            marked[i, [int(row[t]) for t in query.targets if row[t] >= 0]] = True
        return marked

    found: Ints = search_marked(vectors, seen.vectors, marks, own, device).numpy()
    return found


def _query(line: str, where: str, keys: dict[str, int]) -> Query:
    expected = '{"image": key, "text": …, "sign": "+" or "-", "targets": [key, …]}, no target the image itself'
    try:
        told = json.loads(line)
        image, text, sign, targets = told["image"], told["text"], told.get("sign", "+"), told["targets"]
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise InputError(f"not a query: {e!r}", where=where, expected=expected) from e
    right = isinstance(text, str) and text.strip() and sign in ("+", "-") and isinstance(targets, list) and targets
    if not right or not all(isinstance(k, str) for k in [image, *targets]) or image in targets:
        raise InputError(f"{line[:80]!r} is no query", where=where, expected=expected)
    if missing := [k for k in [image, *targets] if k not in keys]:
        raise InputError(f"no image {missing[0]!r}", where=where, expected="the key of a sample in test/")
    return Query(keys[image], text, 1 if sign == "+" else -1, tuple(keys[t] for t in targets))
