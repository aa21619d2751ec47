"""Where evaluation data are published: the sets of DataComp's suite as its own download script names them, and others.

What one has by hand is told with its address: it is not in a form that can be fetched and scored as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import yaml

from baselines.score.suites import Suite, suite_of
from baselines.score.tasks import FACES, Task, load_tasks
from pools import store

HUB = "https://huggingface.co"
FILE = "sources.yaml"
# Names of repositories as DataComp's script has them; sets with training images as clip-benchmark publishes them.
WEBDATASETS, TABLES, TRAINING = "djghosh", "nlphuji", "clip-benchmark"
CONVERTED = "refs/convert/parquet"  # the branch on which the hub keeps a data set as parquet
WORDS = ("classnames.txt", "zeroshot_classification_templates.txt")
COUNT = "nshards.txt"
_LEARNING = ("kshot", "linear_probe")  # kinds that need training images
_HEAD = """\
# Sources of evaluation data, by `winnow evals fetch`. `{n}` counts from 0 to one below what test/nshards.txt says.
# The list that this is from states no licences: those of the data sets hold.
"""
ELSEWHERE = {
    "gldv2": "https://github.com/cvdfoundation/google-landmark",
    "crossmodal3600": "https://google.github.io/crossmodal-3600/",
    "multi30k": "https://github.com/multi30k/dataset",
    "birds": "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    "col_hist": "https://zenodo.org/records/53169",
}


@dataclass(frozen=True)
class Source:
    """A repository with the data of some tasks, and the folder that they go to."""

    folder: str
    repository: str
    tasks: tuple[str, ...]  # keys
    images: int | None  # of the test split, if that is known
    tables: bool = False  # parquet, else tars
    splits: tuple[str, ...] = ("test",)

    @property
    def revision(self) -> str:
        return CONVERTED if self.tables else "main"

    def listing(self, endpoint: str) -> str:
        """The url that names all files of the repository."""
        return f"{endpoint}/api/datasets/{self.repository}/tree/{quote(self.revision, safe='')}?recursive=true"

    def url(self, endpoint: str, path: str) -> str:
        return f"{endpoint}/datasets/{self.repository}/resolve/{quote(self.revision, safe='')}/{quote(path)}"

    @property
    def patterns(self) -> tuple[str, ...]:
        """The files, by their paths in the repository."""
        if self.tables:
            return ("*/test/*.parquet",)
        words = WORDS if "test" in self.splits else ()
        return (*words, *(f"{split}/{name}" for split in self.splits for name in (COUNT, "{n}.tar")))

    def content(self, endpoint: str) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "tasks": list(self.tasks),
            "repository": self.repository,
            "images": self.images,
            "urls": [self.url(endpoint, "").rstrip("/") + "/" + pattern for pattern in self.patterns],
        }


@dataclass(frozen=True)
class Sources:
    """What suites need: what can be fetched, and where the rest is, by the key of the data."""

    suites: tuple[str, ...]
    fetched: tuple[Source, ...]
    by_hand: dict[str, str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Sources:
        """Raises InputError for a suite that is not known."""
        suites = [suite_of(name) for name in dict.fromkeys(names)]
        found: dict[tuple[str, str], Source] = {}
        by_hand: dict[str, str] = {}
        for task in _tasks(suites):
            if task.source not in load_tasks():
                by_hand[task.source] = ELSEWHERE.get(task.source, "your own data: docs/SCORE.md says in which form")
                continue
            for source in _sources(task):
                known = found.get((source.folder, source.repository), replace(source, tasks=()))
                found[source.folder, source.repository] = replace(known, tasks=(*known.tasks, task.key))
        return cls(tuple(s.name for s in suites), tuple(found.values()), by_hand)

    def write(self, folder: str, endpoint: str) -> str:
        """Writes the list, and returns its path."""
        content: dict[str, Any] = {
            "endpoint": endpoint,
            "suites": list(self.suites),
            "fetched": [source.content(endpoint) for source in self.fetched],
        }
        content |= {"by_hand": self.by_hand} if self.by_hand else {}
        path = store.join(folder, FILE)
        text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
        store.write_bytes(path, (_HEAD + text).encode())
        return path


def _tasks(suites: Iterable[Suite]) -> Iterable[Task]:
    return {task.key: task for suite in suites for task in suite.tasks}.values()


def _sources(task: Task) -> Iterable[Source]:
    data = load_tasks()[task.source]
    if data.kind in ("retrieval", "associations"):
        name = data.key.partition("/")[2]
        yield Source(f"wds_{data.folders[-1]}_test", f"{TABLES}/{name}", (), data.size, tables=True)
        return
    folder = f"wds_{data.folders[0]}_test"
    yield Source(folder, f"{WEBDATASETS}/{folder}", (), data.size)
    learns = task.how in _LEARNING or task.options.get("gallery") == "train"
    if learns and not data.key.startswith("fairness/") and data.key not in FACES:
        yield Source(folder, f"{TRAINING}/wds_{data.folders[0]}", (), None, splits=("train",))
