"""Performance disparity: the largest gap in zero-shot accuracy between two groups of a set's images (Wang et al. 2025).

The folder is one of classification whose images have fields (`groups`): Dollar Street's by income (up
to 200, 685, 1998 USD a month, and more: quartiles of the set), GeoDE's by region.
"""

from __future__ import annotations

from dataclasses import dataclass

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.kinds import groups
from baselines.score.kinds.zeroshot import Classification
from baselines.score.results import Result
from baselines.score.tasks import Task


@dataclass(frozen=True)
class Disparity:
    """One task's data."""

    task: Task
    data: Classification

    @classmethod
    def open(cls, task: Task, folder: str) -> Disparity:
        """Raises InputError as `Classification.open` does."""
        return cls(task, Classification.open(task, folder))

    @property
    def images(self) -> int:
        return self.data.images

    @property
    def digest(self) -> str:
        return evaldata.sha256(["disparity", self.task.options["field"], self.data.digest])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does."""
        judged, lost = self.data.judge(encoder)
        field = self.task.options["field"]
        values: groups.Values = {}
        for k in (1, 5):
            found = groups.by_group(f"acc{k}", judged.ranks < k, judged.fields, [field])
            shares = [share for name, share in found.items() if name.startswith(f"acc{k}_{field}:")]
            values |= {**found, f"acc{k}_disparity": metrics.disparity(shares)}
        return Result.of(
            self.task,
            self.digest,
            values,
            lost,
            images=len(judged.labels),
            chance=0.0,
            **self.data.words(judged),
        )
