"""The evaluation sets beside a made-up web, read back as the folders they are."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from baselines.miniweb import evals
from baselines.miniweb.languages import HIGH, LANGUAGES, LOW
from baselines.miniweb.scenes import COLOURS, CONCEPTS, CULTURAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("evals")
    assert evals.write_evals(str(root)) == 400 + 160 + 300
    return root


def lines(folder: Path, task: str, name: str) -> list[str]:
    return (folder / f"wds_miniweb-{task}_test" / name).read_text(encoding="utf-8").splitlines()


def members(folder: Path, task: str) -> dict[str, bytes]:
    """Name → bytes of the one tar, in its order."""
    assert lines(folder, task, "test/nshards.txt") == ["1"]
    with tarfile.open(folder / f"wds_miniweb-{task}_test" / "test" / "0.tar") as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]


def test_sets_are_those_promised(folder: Path) -> None:
    assert {p.name for p in folder.iterdir()} == {
        f"wds_miniweb-{kind}-{code}_test"
        for kind, codes in (("objects", (*HIGH, *LOW)), ("cultural", LOW), ("retrieval", (*HIGH, *LOW)))
        for code in codes
    }


@pytest.mark.parametrize(
    ("task", "concepts"),
    [("objects-en", CONCEPTS), ("objects-ru", CONCEPTS), ("cultural-mi", CULTURAL), ("cultural-fil", CULTURAL)],
)
def test_classification_sets(folder: Path, task: str, concepts: tuple[str, ...]) -> None:
    assert lines(folder, task, "dataset_type.txt") == ["classification"]
    language = LANGUAGES[task.partition("-")[2]]
    expected = [language.phrase(concept, colour) for concept in concepts for colour in COLOURS]
    assert lines(folder, task, "classnames.txt") == expected and len(set(expected)) == 8 * len(concepts)
    assert lines(folder, task, "zeroshot_classification_templates.txt") == list(language.templates)
    assert all(template.count("{c}") == 1 for template in language.templates)
    found = members(folder, task)
    labels = [int(data) for name, data in found.items() if name.endswith(".cls")]
    assert Counter(labels) == dict.fromkeys(range(8 * len(concepts)), 5)
    keys = [name.removesuffix(".jpg") for name in found if name.endswith(".jpg")]
    assert [*found] == [f"{key}.{e}" for key in keys for e in ("jpg", "cls")]


def test_labels_are_of_what_is_shown(folder: Path) -> None:
    """The class's colour is the one that some pixel comes nearest to."""
    found, names = members(folder, "objects-en"), lines(folder, "objects-en", "classnames.txt")
    right = 0
    for name, data in found.items():
        if not name.endswith(".jpg"):
            continue
        label = names[int(found[name.replace(".jpg", ".cls")])]
        with Image.open(io.BytesIO(data)) as image:
            assert (image.format, image.size) == ("JPEG", (96, 96))
            shades = np.asarray(image.resize((24, 24), Image.Resampling.BOX), np.float64).reshape(-1, 3)
        distances = np.linalg.norm(shades[:, None] - np.array(list(COLOURS.values())), axis=2)
        nearest = list(COLOURS)[int(distances.min(axis=0).argmin())]
        right += label.startswith(nearest + " ")
    assert right > 360, right


def test_retrieval_sets(folder: Path) -> None:
    for code in LANGUAGES:
        task = f"retrieval-{code}"
        assert lines(folder, task, "dataset_type.txt") == ["retrieval"]
        found = members(folder, task)
        texts = [data.decode() for name, data in found.items() if name.endswith(".txt")]
        assert len(texts) == len(found) / 2 == 300
        assert all(text.endswith("\n") and text.count("\n") == 1 and len(text) > 20 for text in texts)
        assert len(set(texts)) == 300
    in_words = {(h.scene.concept, h.scene.colour, h.scene.count, h.scene.background) for h in evals.retrieval()}
    assert len(in_words) == 300 and {w[0] for w in in_words} == set(CONCEPTS)


def test_retrieval_captions_are_true(folder: Path) -> None:
    found = members(folder, "retrieval-en")
    for held in evals.retrieval():
        caption = found[f"{held.key}.txt"].decode().lower()
        shown = held.scene
        assert all(word in caption for word in (shown.concept, f"{shown.colour} ", shown.background)), caption
        assert {1: True, 2: "two" in caption, 3: "three" in caption}[shown.count], caption


def test_pictures_are_the_same_bytes_in_every_language_and_shown_once(folder: Path) -> None:
    seen = Counter[str]()
    for kind, codes in (("objects", LANGUAGES), ("cultural", LOW), ("retrieval", LANGUAGES)):
        tars = [{n: d for n, d in members(folder, f"{kind}-{code}").items() if n.endswith(".jpg")} for code in codes]
        assert all(tar == tars[0] for tar in tars)
        seen.update(hashlib.sha256(data).hexdigest() for data in tars[0].values())
    assert len(seen) == 860 and set(seen.values()) == {1}
    assert len({h.key for family in ("common", "cultural") for h in evals.held_out(family)}) == 860


def test_the_scorer_opens_them(folder: Path) -> None:
    from baselines.score.evals.data import find

    assert len(find(str(folder))) == 31
