"""Coloured squares: shards to train on, an evaluation set, and one run trained on them for all tests."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pools import shards
from tests.baselines.webs import few

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30), "blue": (30, 30, 200)}
NAMES = list(COLOURS)


def square(colour: str, seed: int, kind: str = "PNG") -> bytes:
    """48 × 48 pixels: a square of the colour, jittered, on grey."""
    rng = random.Random(seed)
    grey = rng.randrange(90, 160)
    image = Image.new("RGB", (48, 48), (grey, grey, grey))
    side = rng.randrange(20, 36)
    shade = tuple(min(255, max(0, c + rng.randrange(-25, 26))) for c in COLOURS[colour])
    image.paste(shade, (x := rng.randrange(48 - side), y := rng.randrange(48 - side), x + side, y + side))
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def uid(i: int) -> str:
    return f"{i:032x}"


def sample(i: int) -> dict[str, bytes]:
    """Members of the i-th training sample."""
    colour = NAMES[i % 3]
    return {
        "png": square(colour, i),
        "txt": f"a {colour} square".encode(),
        "json": json.dumps({"uid": uid(i)}).encode(),
    }


def write_shard(path: Path, samples: dict[str, dict[str, bytes]]) -> str:
    with shards.write(str(path)) as tar:
        for key, members in samples.items():
            tar.add(key, members)
    return str(path)


def write_shards(folder: Path, numbers: list[int], size: int = 20) -> str:
    """Shards of `size` samples with those numbers."""
    for at in range(0, len(numbers), size):
        write_shard(folder / f"{at // size:08d}.tar", {uid(i): sample(i) for i in numbers[at : at + size]})
    return str(folder)


def write_task(folder: Path, labels: list[int], *, names: str = "red\ngreen\nblue\n", tars: int = 2) -> Path:
    """An evaluation folder of squares with those labels, dealt out to so many tars."""
    for t in range(tars):
        part = {f"s{i:07d}": (i, labels[i]) for i in range(t, len(labels), tars)}
        write_shard(
            folder / "test" / f"{t}.tar",
            {k: {"png": square(NAMES[c % 3], 1000 + i), "cls": f"{c}\n".encode()} for k, (i, c) in part.items()},
        )
    (folder / "test" / "nshards.txt").write_text(f"{tars}\n")
    (folder / "classnames.txt").write_text(names)
    (folder / "zeroshot_classification_templates.txt").write_text("a {c} square\nthe {c} square\n")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def squares(tmp_path_factory: pytest.TempPathFactory) -> str:
    """60 samples in 3 shards."""
    return write_shards(tmp_path_factory.mktemp("squares") / "shards", list(range(60)))


@pytest.fixture(scope="session")
def evals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one task of 30 images, 10 a class."""
    root = tmp_path_factory.mktemp("evals")
    write_task(root / "wds_squares_test", [i % 3 for i in range(30)])
    return root


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, squares: str) -> Path:
    """A run that has seen each of the squares about 27 times."""
    from baselines.train.config import TrainConfig
    from baselines.train.loop import train

    output = tmp_path_factory.mktemp("run") / "run"
    options: dict[str, Any] = {"scale": "tiny", "steps": 40, "batch_size": 40, "warmup_steps": 5, "seed": 1, "quiet": True}
    train(TrainConfig(data=squares, output=str(output), **options))
    return output


@pytest.fixture
def small_run(tmp_path: Path, squares: str) -> Iterator[Callable[..., Any]]:
    """Trains for a few samples into a new folder; keyword arguments go to the configuration."""
    from baselines.train.config import TrainConfig
    from baselines.train.loop import train

    count = 0

    def run(**options: Any) -> Any:
        nonlocal count
        count += 1
        settings = {"data": squares, "output": str(tmp_path / f"run{count}"), "scale": "tiny", "quiet": True, "batch_size": 4}
        return train(TrainConfig(**{**settings, "samples": 8, **options}))

    yield run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained run that a test may write to."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="session")
def small_web(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A made-up web of 500 pictures."""
    return _build(tmp_path_factory, 500)


@pytest.fixture(scope="session")
def tiny_web(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """60 pictures, few held-out ones."""
    with few():
        return _build(tmp_path_factory, 60)


def _build(tmp_path_factory: pytest.TempPathFactory, pictures: int) -> Any:
    from baselines.miniweb.web import MiniWeb, build
    from pipeline.engine import Options

    web = MiniWeb(str(tmp_path_factory.mktemp("web") / "w"))
    build(web.folder, pictures=pictures, options=Options(workers=0, quiet=True))
    return web


@pytest.fixture
def few_held_out() -> Iterator[None]:
    with few():
        yield
