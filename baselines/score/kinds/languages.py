"""Zero-shot retrieval in several languages at once: each caption is searched for among those of its own language.

Two published forms of captions are read, beside the pictures of the folder:

- Crossmodal-3600 (Thapliyal et al. 2022): `captions.jsonl`, a line an image: `{"image/key": …, "<language>": {"caption":
  [text, …]}, …}`.
- Multi30k (Elliott et al. 2016) as its repository has task 1: `image_splits/test_2016_flickr.txt`, the name of an image a line,
  and `raw/test_2016_flickr.<language>.gz` (or unpacked), the caption of the image of that line.

Pictures are files `images/<key or name>` (`.jpg` where a key has no ending), as both sets come, or samples with that key in
`test/0.tar` … with `test/nshards.txt`. An image that has no caption in a language is not among those of that language.

Metrics are those of retrieval for each language (`mean_recall@1_te`) and their means over all languages, over those of few
resources (`_low`: Bengali, Filipino, Hebrew, Hindi, Maori, Swahili, Telugu) and over those of many (`_high`: the others but
Cusco Quechua), as Wang et al. 2025 group the 36.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch

from baselines.score import metrics
from baselines.score.encode import Encoder
from baselines.score.evals import data as evaldata
from baselines.score.evals.tars import indexed
from baselines.score.features import Features, gather
from baselines.score.kinds.retrieval import both_ways
from baselines.score.results import Result
from baselines.score.tasks import Task
from baselines.train.decode import Raw
from pools import shards, store
from pools.errors import InputError

CAPTIONS = "captions.jsonl"
NAMES = "image_splits/test_2016_flickr.txt"
RAW = "raw/test_2016_flickr."
KEY = "image/key"
FOLDER = "images"

Captions = Mapping[str, Sequence[tuple[str, ...]]]  # {language: of every image its captions}


@dataclass(frozen=True)
class Gallery:
    """Files in the order of the captions, or tars of samples."""

    files: tuple[str, ...]
    tars: tuple[str, ...] = ()
    order: tuple[int, ...] = ()  # of each sample of the tars the number of the image, -1 for none

    def __iter__(self) -> Iterator[Raw]:
        for number, path in enumerate(self.files):
            yield Raw(path, store.read_bytes(path), number)
        number = 0
        for path in self.tars:
            with store.open_input(path) as f:
                for sample in indexed(path):
                    extension = sample.image_extension
                    if self.order[number] >= 0 and extension is not None:
                        yield Raw(f"{path}: {sample.key}", shards.read(f, sample, extension), self.order[number])
                    number += 1


@dataclass(frozen=True)
class Languages:
    """One task's data."""

    task: Task
    pictures: Gallery
    captions: Captions

    @classmethod
    def open(cls, task: Task, folder: str) -> Languages:
        """Raises InputError where a language or a picture is missing, or captions are none."""
        if store.exists(store.join(folder, CAPTIONS)):
            keys, captions = _crossmodal(store.join(folder, CAPTIONS))
        elif store.exists(store.join(folder, NAMES)):
            keys, captions = _multi30k(folder)
        else:
            raise InputError("no captions", where=folder, expected=f"{CAPTIONS}, or {NAMES} and {RAW}<language>.gz")
        wanted = task.options.get("languages", sorted(captions))
        if missing := [code for code in wanted if not any(captions.get(code, ()))]:
            raise InputError(f"no captions in {', '.join(missing)}", where=folder, expected=f"captions in {', '.join(wanted)}")
        return cls(task, _pictures(folder, keys), {code: captions[code] for code in wanted})

    @property
    def images(self) -> int:
        return len(next(iter(self.captions.values())))

    @property
    def digest(self) -> str:
        files = (*self.pictures.files, *self.pictures.tars)
        return evaldata.digest(files, ["languages", str(sorted(self.task.options.items())), self._captions_sha256])

    @property
    def _captions_sha256(self) -> str:
        return evaldata.sha256([json.dumps([code, *captions]) for code, captions in self.captions.items()])

    def score(self, encoder: Encoder) -> Result:
        """Raises WorkFailed as `Encoder.images` does.

        An unreadable image that counts as wrong is never found, and neither are its captions; one that is excluded takes
        its captions with it.
        """
        seen = gather(encoder, self.pictures, self.task.key)
        found = {code: self._recalls(encoder, seen, captions) for code, captions in self.captions.items()}
        values: dict[str, float | None] = {}
        for ending, codes in self._groups().items():
            for name in found[codes[0]][0]:
                values[name + ending] = fmean(found[code][0][name] for code in codes)
        for code, (recalls, _, _) in found.items():
            values |= {f"{name}_{code}": value for name, value in recalls.items()}
        assert self.task.main_metric is not None
        return Result.of(
            self.task,
            self.digest,
            values,
            seen.lost,
            images=self.images if encoder.unreadable == "wrong" else len(seen.rows),
            chance=fmean(chances[self.task.main_metric] for _, chances, _ in found.values()),
            languages={code: counts for code, (_, _, counts) in found.items()},
            groups={ending.removeprefix("_"): list(codes) for ending, codes in self._groups().items() if ending},
            captions_sha256=self._captions_sha256,
        )

    def _groups(self) -> dict[str, list[str]]:
        """{ending of the metrics: languages}."""
        low, neither = self.task.options.get("low", ()), self.task.options.get("neither", ())
        groups = {"": list(self.captions)}
        if low:
            groups["_low"] = [code for code in self.captions if code in low]
            groups["_high"] = [code for code in self.captions if code not in low and code not in neither]
        return groups

    def _recalls(
        self, encoder: Encoder, seen: Features, captions: Sequence[tuple[str, ...]]
    ) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
        """Of one language: metrics, what guessing would give, and the numbers of images and captions."""
        row = np.full(self.images, -1)
        row[seen.rows] = np.arange(len(seen.rows))
        spoken = np.array([bool(c) for c in captions])
        kept = np.flatnonzero(spoken & ((row >= 0) | (encoder.unreadable == "wrong")))
        counts = np.array([len(captions[i]) for i in kept], np.int64)
        texts = encoder.texts([c for i in kept for c in captions[i]])
        readable = row[kept] >= 0
        vectors = seen.vectors[torch.from_numpy(row[kept][readable])]
        found = metrics.retrieval(*both_ways(vectors, texts, counts, readable, encoder.device))
        return (
            {name: value for name, value in found.items() if value is not None},
            metrics.guessed_retrieval(counts),
            {"images": len(kept), "texts": len(texts)},
        )


def _crossmodal(path: str) -> tuple[list[str], dict[str, list[tuple[str, ...]]]]:
    """Keys of the images, and captions by language; blank ones are none."""
    keys: list[str] = []
    rows: list[dict[str, tuple[str, ...]]] = []
    for number, line in enumerate(evaldata.read_lines(path), 1):
        try:
            told = json.loads(line)
            keys.append(told[KEY].strip())
            found = {code: told[code]["caption"] for code in told if isinstance(told[code], dict)}
            rows.append({code: tuple(t for t in texts if t.strip()) for code, texts in found.items()})
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            expected = f'{{"{KEY}": …, "<language>": {{"caption": [text, …]}}, …}}'
            raise InputError(f"not an image's captions: {e!r}", where=f"{path}:{number}", expected=expected) from e
    return keys, {code: [row.get(code, ()) for row in rows] for row in rows for code in row}


def _multi30k(folder: str) -> tuple[list[str], dict[str, list[tuple[str, ...]]]]:
    """Names of the images, and captions by language."""
    names = evaldata.read_lines(store.join(folder, NAMES))
    captions: dict[str, list[tuple[str, ...]]] = {}
    for file in store.list_files(folder):
        if file.startswith(RAW):
            path = store.join(folder, file)
            data = store.read_bytes(path)
            try:
                lines = evaldata.text_lines(gzip.decompress(data) if path.endswith(".gz") else data, path)
            except (OSError, EOFError, zlib.error) as e:
                raise InputError(f"not gzip: {e}", where=path) from e
            if len(lines) != len(names):
                raise InputError(f"{len(lines)} captions for {len(names)} images", where=path, expected="a line an image")
            captions[file.removeprefix(RAW).removesuffix(".gz")] = [(line,) for line in lines]
    return names, captions


def _pictures(folder: str, keys: Sequence[str]) -> Gallery:
    """Raises InputError for a picture that is not there, or stands twice."""
    if len(set(keys)) < len(keys):
        raise InputError("an image twice", where=folder, expected="all captions of an image in one line")
    if not store.is_dir(store.join(folder, FOLDER)):
        tars = evaldata.open_tars(store.join(folder, "test"))
        place = {_stem(key): i for i, key in enumerate(keys)}
        have = [s.key for tar in tars for s in indexed(tar) if s.image_extension is not None]
        _complete(place, have, folder)
        order = [place.get(s.key, -1) if s.image_extension else -1 for tar in tars for s in indexed(tar)]
        return Gallery((), tars, tuple(order))
    names = [key if "." in key else f"{key}.jpg" for key in keys]
    _complete(names, store.list_files(store.join(folder, FOLDER)), folder)
    return Gallery(tuple(store.join(folder, FOLDER, name) for name in names))


def _complete(wanted: Iterable[str], have: Sequence[str], folder: str) -> None:
    if len(set(have)) < len(have):
        raise InputError("a picture twice", where=folder, expected="one picture a key")
    if missing := sorted(set(wanted) - set(have)):
        few = ", ".join(missing[:5])
        raise InputError(f"no picture of {few}" + (f" and {len(missing) - 5} more" if len(missing) > 5 else ""), where=folder)


def _stem(name: str) -> str:
    return name.partition(".")[0]
