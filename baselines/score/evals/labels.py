"""Images of a split and what they are labelled with: for classifiers that learn from images, and for retrieval by class.

Folders are those of zero-shot classification, with `train/` beside `test/` in the same form where there is a training split
(webdataset folders as CLIP benchmark publishes them). A label is the number in `<sample>.cls`; or, for a task that asks for
another one (`label: country`), the column of that name in `metadata.csv`, in which `key` is the sample's key and any value is
taken as text; or the field of that name in `<sample>.npy` where DataComp's set has it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baselines.score import metrics
from baselines.score.evals import data as evaldata
from baselines.score.evals.tars import Pictures, indexed
from baselines.score.kinds import groups
from baselines.score.metrics import Ints
from baselines.train.decode import Raw
from pools import shards, store
from pools.errors import InputError

CLASS = "cls"
FRAME = "metadata.csv"
KEY = "key"
TRAIN, TEST = "train", "test"


@dataclass(frozen=True)
class Split:
    """Tars, and the label of each of their images in order."""

    tars: tuple[str, ...]
    labels: Ints

    def images(self) -> Pictures:
        """All images, undecoded; the target is the row."""
        return evaldata.images(self.tars, range(len(self.labels)))

    def some_images(self, rows: Ints) -> Iterator[Raw]:
        """The images of certain rows alone, in order."""
        wanted = np.zeros(len(self.labels), bool)
        wanted[rows] = True
        row = 0
        for path in self.tars:
            with store.open_input(path) as f:
                for sample in indexed(path):
                    if wanted[row]:
                        extension = sample.image_extension
                        assert extension is not None  # checked when the labels were read
                        yield Raw(f"{path}: {sample.key}", shards.read(f, sample, extension), row)
                    row += 1


@dataclass(frozen=True)
class Labelled:
    """The splits of a folder: labels are numbers from 0 to `classes`, the same in both; `names` says what they stand for."""

    train: Split | None
    test: Split
    names: tuple[str, ...]
    named: bool  # whether the names are those of the folder's classnames.txt

    @property
    def classes(self) -> int:
        return len(self.names)

    @property
    def tars(self) -> tuple[str, ...]:
        return (*(self.train.tars if self.train else ()), *self.test.tars)

    def words(self, label: str) -> list[str]:
        """What a score depends on beside the tars: names, and labels that do not lie in them."""
        outside = [] if label == CLASS else [str(n) for s in (self.train, self.test) if s for n in s.labels.tolist()]
        return [label, *self.names, evaldata.sha256(outside)]

    def record(self, label: str) -> dict[str, Any]:
        """What a result says of the labels: the classes, and those that have no image in a split."""
        told: dict[str, Any] = {
            "label": label,
            "classes": self.classes,
            "absent_classes": metrics.absent(self.test.labels, self.classes),
            "train_images": 0 if self.train is None else len(self.train.labels),
        }
        if self.train is not None:
            told["untrained_classes"] = metrics.absent(self.train.labels, self.classes)
        told["classnames_sha256" if self.named else "labels_sha256"] = evaldata.sha256(self.names)
        return told

    @classmethod
    def open(cls, folder: str, source: str, label: str = CLASS, *, train: bool = True) -> Labelled:
        """Labels of the test split, and of the training split if there is one and it is asked for.

        `source` is the key of the data set. Raises InputError for a sample without a label, a set without images, and
        fewer class names than labels.
        """
        splits = [TRAIN, TEST] if train and store.is_dir(store.join(folder, TRAIN)) else [TEST]
        tars = {s: evaldata.open_tars(store.join(folder, s)) for s in splits}
        if label == CLASS:
            numbers = {s: np.fromiter(read_numbers(t), np.int64) for s, t in tars.items()}
            names, named = _classnames(folder, numbers)
        else:
            values = _values(folder, source, label, tars)
            names, named = tuple(sorted({v for column in values.values() for v in column})), False
            place = {name: i for i, name in enumerate(names)}
            numbers = {s: np.array([place[v] for v in column], np.int64) for s, column in values.items()}
        for s in splits:
            if not len(numbers[s]):
                raise InputError("no image", where=store.join(folder, s), expected="one image or more")
        found = {s: Split(tars[s], numbers[s]) for s in splits}
        return cls(found.get(TRAIN), found[TEST], names, named)


def read_numbers(tars: Sequence[str]) -> Iterator[int]:
    """The class of every image. Raises InputError for a sample without one."""
    for path, key, data in evaldata.companions(tars, CLASS):
        text = data.decode("utf-8", "replace").strip()
        if not evaldata.is_count(text):
            raise InputError(f"sample {key!r}: label {text[:40]!r}", where=path, expected="a class's number")
        yield int(text)


def _classnames(folder: str, numbers: dict[str, NDArray[np.int64]]) -> tuple[tuple[str, ...], bool]:
    """Those of classnames.txt, which must do for all labels; without that file the numbers themselves."""
    highest = max((int(n.max()) for n in numbers.values() if len(n)), default=0)
    path = store.join(folder, "classnames.txt")
    if not store.exists(path):
        return tuple(map(str, range(highest + 1))), False
    names = tuple(evaldata.read_lines(path))
    evaldata.check_names(names, highest, path)
    return names, True


def _values(folder: str, source: str, label: str, tars: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """The label of every image as text, from the frame if it has it, else from the fields beside the images."""
    path = store.join(folder, FRAME)
    if store.exists(path) and (column := read_column(path, label)) is not None:
        return {split: [_look_up(column, key, path, label) for key in _keys(t)] for split, t in tars.items()}
    fields = groups.FIELDS.get(source, ())
    if label not in fields:
        raise InputError(
            f"images have no {label!r}", where=path, expected=f"a table with columns {KEY} and {label}, a row an image"
        )
    return {s: list(map(str, groups.read_fields(t, fields)[label].tolist())) for s, t in tars.items()}


def _keys(tars: Sequence[str]) -> Iterator[str]:
    """Of the samples in order. Raises InputError for one that has no image."""
    for path in tars:
        for sample in indexed(path):
            if sample.image_extension is None:
                raise InputError(f"sample {sample.key!r} has no image", where=path, expected="a .jpg, .png or .webp")
            yield sample.key


def _look_up(column: dict[str, str], key: str, path: str, label: str) -> str:
    found = column.get(key, "").strip()
    if not found:
        raise InputError(f"no {label} of {key!r}", where=path, expected=f"a row with {KEY} {key} and its {label}")
    return found


def read_column(path: str, name: str) -> dict[str, str] | None:
    """{sample's key: value as text} of a CSV file, None if it has no such column.

    Values are never guessed to be numbers or dates, so a column of both loads as it is. Raises InputError for a file that
    is no CSV in UTF-8, has no column `key`, or a key twice.
    """
    try:
        rows = csv.DictReader(io.StringIO(store.read_bytes(path).decode("utf-8-sig"), newline=""), strict=True)
        columns = rows.fieldnames or ()
        if KEY not in columns:
            raise InputError(f"columns {', '.join(columns)}", where=path, expected=f"a column {KEY}")
        if name not in columns:
            return None
        found: dict[str, str] = {}
        for row in rows:
            if (key := row[KEY]) in found:
                raise InputError(f"{KEY} {key!r} twice", where=f"{path}:{rows.line_num}", expected="one row an image")
            found[key] = row[name] or ""
    except (UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"not CSV in UTF-8: {e}", where=path) from e
    return found
