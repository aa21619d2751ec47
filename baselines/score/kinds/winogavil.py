"""WinoGAViL (Bitton et al. 2022): which of the candidate images does a cue word belong to?

A row is a game: its `cue`, its `candidates` by name and their `candidate_images`, and the `associations` among them. A model
takes as many candidates as there are associations, those nearest to "A <cue>" or "An <cue>", and the score is the Jaccard
index of what it took. DataComp counts the mean over the games with 10 and 12 candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals import tables
from baselines.score.kinds.groups import Values
from baselines.score.metrics import Ints
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools.errors import InputError

COLUMNS = ("cue", "candidates", "associations", "candidate_images")
SIZES = {"jaccard_score_5": (5, 5), "jaccard_score_6": (6, 6), "jaccard_score_10": (10, 10), "jaccard_score_12": (12, 12)}
RANGES = {"jaccard_score_5-6": (0, 6), "jaccard_score_10-12": (10, 10**9)}


@dataclass(frozen=True)
class Game:
    cue: str
    belongs: tuple[bool, ...]  # of each candidate
    first: int  # its images are numbered from here on, over all games


@dataclass(frozen=True)
class Associations:
    """One task's data."""

    task: Task
    files: tuple[str, ...]
    games: tuple[Game, ...]

    @classmethod
    def open(cls, task: Task, folder: str) -> Associations:
        """Raises InputError where a column is missing, or a game has no cue, no candidate or nothing to find."""
        files = tables.list_tables(folder)
        games: list[Game] = []
        images = 0
        for path, number, row in tables.rows(files, COLUMNS, lengths=("candidate_images",)):
            where = f"{path}: row {number}"
            candidates, found = row["candidates"] or [], set(row["associations"] or [])
            belongs = tuple(c in found for c in candidates)
            if not (row["cue"] or "").strip() or not any(belongs) or row["candidate_images"] != len(candidates):
                expected = "a cue, an image for each candidate, and one association or more among them"
                raise InputError(f"cue {row['cue']!r}, {len(candidates)} candidates", where=where, expected=expected)
            games.append(Game(row["cue"], belongs, images))
            images += len(candidates)
        if not games:
            raise InputError("no game", where=folder, expected="one row or more")
        return cls(task, files, tuple(games))

    @property
    def images(self) -> int:
        return self.games[-1].first + len(self.games[-1].belongs)

    @property
    def digest(self) -> str:
        return evaldata.digest(self.files, ["associations"])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        An unreadable candidate that counts as wrong is nearest to nothing; if such are excluded, its whole game is.
        """
        features: list[torch.Tensor] = []
        lost: list[Raw] = []
        for items, vectors in encoder.images(tables.images(self.files, "candidate_images", range(self.images)), self.task.key):
            features += [vectors] if len(vectors) else []
            lost += [i for i in items if i.failed]
        readable = np.ones(self.images, bool)
        readable[[i.target for i in lost]] = False
        row = np.cumsum(readable) - 1
        every = torch.cat(features)
        cues = encoder.texts([prompt(game.cue) for game in self.games])
        sizes: list[int] = []
        scores: list[float] = []
        for game, cue in zip(self.games, cues, strict=True):
            places = np.arange(game.first, game.first + len(game.belongs))
            if encoder.unreadable == "exclude" and not readable[places].all():
                continue
            nearness = np.full(len(places), -np.inf)
            seen = readable[places]
            nearness[seen] = (every[torch.from_numpy(row[places[seen]])] @ cue).numpy()
            sizes.append(len(places))
            scores.append(jaccard(np.array(game.belongs), nearness))
        if max(sizes, default=0) < RANGES["jaccard_score_10-12"][0]:
            raise InputError("no game of ten candidates", where=self.files[0], expected="the whole test split")
        return Result.of(
            self.task,
            self.digest,
            metrics(np.array(sizes), np.array(scores)),
            lost,
            images=int(readable.sum()),
            chance=0.0 if self.task.chance is None else self.task.chance,
            games=len(sizes),
        )


def jaccard(belongs: NDArray[np.bool_], nearness: NDArray[np.float64]) -> float:
    """Of the k nearest, where k belong: how many are in both sets, over how many in either. Of equals the first is taken."""
    taken = np.zeros(len(belongs), bool)
    taken[np.argsort(-nearness, kind="stable")[: belongs.sum()]] = True
    return float((taken & belongs).sum() / (taken | belongs).sum())


def metrics(sizes: Ints, scores: NDArray[np.float64]) -> Values:
    """The mean over all games, and over those with so many candidates, None where there are none."""
    found: Values = {"avg_jaccard_score": float(scores.mean()) if len(scores) else None}
    for name, (low, high) in {**SIZES, **RANGES}.items():
        these = scores[(sizes >= low) & (sizes <= high)]
        found[name] = float(these.mean()) if len(these) else None
    return found


def prompt(cue: str) -> str:
    cue = cue.lower()
    return f"An {cue}" if cue[:1] in tuple("aeiou") else f"A {cue}"
