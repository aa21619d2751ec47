"""Small evaluation data of every kind of task, in patches of one colour, and a model that sees and reads colours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from baselines.score.encode import Encoder
from baselines.score.evals.data import Folder, TaskData
from baselines.score.kinds.opening import open_task
from baselines.score.tasks import KINDS, Task
from tests.baselines.conftest import write_shard

RED, GREEN, BLUE, PURPLE = (220, 0, 0), (0, 220, 0), (0, 0, 220), (220, 0, 220)
MEANING = {"red": RED, "green": GREEN, "blue": BLUE, "male": RED, "female": BLUE, "doctor": RED, "nurse": BLUE}


def patch(colour: Sequence[int], shade: int = 0) -> bytes:
    """16 × 16 pixels; no two shades are the same picture."""
    out = io.BytesIO()
    Image.new("RGB", (16, 16), tuple(max(0, c - shade) if c else shade // 4 for c in colour)).save(out, "PNG")
    return out.getvalue()


def npy(*values: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array(values))
    return out.getvalue()


class Eyes(Encoder):
    """Features of an image are its mean colour, those of a text the colours it names; `read` are the texts it was given."""

    read: list[str]

    def texts(self, texts: Sequence[str]) -> Tensor:
        self.__dict__.setdefault("read", []).extend(texts)
        grey = (1, 1, 1)
        found = [[MEANING[w] for w in text.split() if w in MEANING] or [grey] for text in texts]
        return F.normalize(torch.tensor(np.array([np.sum(c, axis=0) for c in found]), dtype=torch.float32), dim=-1)


def eyes(**options: Any) -> Eyes:
    def transform(image: Any) -> Tensor:
        return torch.from_numpy(np.asarray(image, np.float32)).permute(2, 0, 1)

    model = SimpleNamespace(encode_image=lambda pixels: pixels.mean(dim=(2, 3)), encode_text=None)
    return Eyes(SimpleNamespace(model=model, tokenizer=None, transform=transform), **options)  # type: ignore[arg-type]


def write_split(folder: Path, samples: Sequence[Mapping[str, bytes]], split: str = "test", prefix: str = "s") -> None:
    write_shard(folder / split / "0.tar", {f"{prefix}{i:03d}": dict(members) for i, members in enumerate(samples)})
    (folder / split / "nshards.txt").write_text("1\n")


def write_words(folder: Path, names: str = "red\ngreen\nblue\n", templates: str = "a {c} patch\n") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "classnames.txt").write_text(names)
    (folder / "zeroshot_classification_templates.txt").write_text(templates)


COLOURS = (RED, GREEN, BLUE)
WORDS = ("red", "green", "blue")


def labelled(numbers: Sequence[int], labels: Mapping[int, int] = {}, first: int = 0) -> list[dict[str, bytes]]:
    """Patches of those colours with the labels that belong to them, unless others are given by place."""
    return [{"png": patch(COLOURS[n], first + i), "cls": str(labels.get(i, n)).encode()} for i, n in enumerate(numbers)]


# One writer a kind; `wrong` makes one image or label the wrong one --------------------------------------------------------

NINE = [0, 1, 2] * 3
Writer = Callable[[Path, bool], None]


def _classification(folder: Path, wrong: bool) -> None:
    write_words(folder)
    write_split(folder, labelled(NINE, {0: 1} if wrong else {}))


def _learned(folder: Path, wrong: bool) -> None:
    _classification(folder, wrong)
    write_split(folder, labelled(NINE * 5, first=20), "train")


def _captions(texts: Sequence[Sequence[str]]) -> list[dict[str, bytes]]:
    return [{"png": patch(c), "txt": "\n".join(t).encode()} for c, t in zip(COLOURS, texts, strict=True)]


def _retrieval(folder: Path, wrong: bool) -> None:
    write_split(folder, _captions([["blue"] if wrong else ["red"], ["a green one"], ["a blue one"]]))


def _text_to_text(folder: Path, wrong: bool) -> None:
    write_split(folder, _captions([["red", "blue" if wrong else "the red"], ["green", "a green"], ["blue", "so blue"]]))


def _associations(folder: Path, wrong: bool) -> None:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    texts = pa.list_(pa.string())
    names = [f"{WORDS[i % 3]}{i}" for i in range(10)]
    pictures = [patch(COLOURS[i % 3], i) for i in range(10)]
    if wrong:
        pictures[0] = patch(BLUE)
    row = {
        "cue": "red",
        "candidates": names,
        "associations": [n for n in names if n.startswith("red")],
        "candidate_images": [{"bytes": p, "path": None} for p in pictures],
    }
    types = [("cue", pa.string()), ("candidates", texts), ("associations", texts), ("candidate_images", pa.list_(image))]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([row], pa.schema(types)), folder / "test.parquet")


def _faces(folder: Path, wrong: bool) -> None:
    words = {"race": ["x"] * 7, "gender": ["red", "blue"], "age": ["y"] * 9, "toxic": ["z"] * 22}
    genders = [int(wrong), 1, 0, 1]
    samples = [{"png": patch((RED, BLUE)[i % 2], i), "npy": npy(0, g, 0, 1)} for i, g in enumerate(genders)]
    write_split(folder, samples)
    (folder / "classnames.txt").write_text("".join(f"{o}:{w}\n" for o, texts in words.items() for w in texts))
    (folder / "zeroshot_classification_templates.txt").write_text("".join(f"{o}:{{c}}\n" for o in words))


def _representation_bias(folder: Path, wrong: bool) -> None:
    write_split(folder, [{"png": patch(BLUE if wrong and i == 0 else RED, i)} for i in range(4)])


def _disparity(folder: Path, wrong: bool) -> None:
    write_words(folder)
    samples = labelled([0, 1, 2, 0], {3: 1} if wrong else {})
    write_split(folder, [{**s, "npy": npy(i // 2, 0)} for i, s in enumerate(samples)])


def _languages(folder: Path, wrong: bool) -> None:
    rows = []
    for i, word in enumerate(WORDS):
        told = {"en": [f"a {word} patch", word], "xx": ["blue" if wrong and i == 0 else word], "yy": [word]}
        rows.append({"image/key": f"k{i}", "image/locale": "en", **{code: {"caption": t} for code, t in told.items()}})
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for i, colour in enumerate(COLOURS):
        (folder / "images" / f"k{i}.jpg").write_bytes(patch(colour))


def _composed(folder: Path, wrong: bool) -> None:
    write_split(folder, [{"png": patch(c, i)} for i, c in enumerate([RED, GREEN, BLUE, PURPLE])])
    queries = [
        {"image": "s000", "text": "blue", "targets": ["s001" if wrong else "s003"]},
        {"image": "s003", "text": "blue", "sign": "-", "targets": ["s000"]},
    ]
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))


@dataclass(frozen=True)
class Example:
    """The main metric of the data as they should be, and with one image, label or text wrong."""

    write: Writer
    right: float | None
    wrong: float | None
    metric: str = ""
    key: str = ""
    data: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def task(self, kind: str) -> Task:
        main = KINDS[kind][0] if kind in KINDS else None
        key = self.key or f"own-{kind}"
        return Task(key, key, None, main, None, None, (), counted=False, data=self.data, how=kind, options=self.options)


PAIR = {"field": "gender", "pairs": [["nurse", "doctor"]]}
EXAMPLES = {
    "classification": Example(_classification, 1.0, 8 / 9),
    "retrieval": Example(_retrieval, 1.0, 2 / 3),  # one of three each way
    "associations": Example(_associations, 1.0, 3 / 5),  # three of four are taken, and another one
    "faces": Example(_faces, 1.0, 3 / 4, metric="acc_gender_avg", key="fairness/fairface"),
    "kshot": Example(_learned, 1.0, 8 / 9),
    "linear_probe": Example(_learned, 1.0, 8 / 9),
    "languages": Example(_languages, 1.0, 8 / 9, options={"low": ["xx"], "neither": ["yy"]}),
    "image_to_image": Example(_classification, 1.0, 6 / 9),  # it is the nearest of both others of its colour
    "text_to_text": Example(_text_to_text, 1.0, 3 / 6),
    "composed": Example(_composed, 1.0, 1 / 2),
    "representation_bias": Example(_representation_bias, 1.0, 3 / 4),
    "association_bias": Example(_faces, 1.0, 2 / 3, data="fairness/fairface", options=PAIR),
    "disparity": Example(_disparity, 0.0, 1 / 2, data="fairness/geode", options={"field": "region"}),
}


def opened(kind: str, folder: Path, *, wrong: bool = False) -> TaskData:
    """The data of a kind, written to a folder and opened."""
    example = EXAMPLES[kind]
    example.write(folder, wrong)
    return open_task(Folder(str(folder), example.task(kind)))
