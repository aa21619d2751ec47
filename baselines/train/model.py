"""Models by name, from a run folder or from a weights file; nothing is ever downloaded.

A run folder holds `model_config.json` in open_clip's own form, so that open_clip (and whoever uses it) reads the folder
without us: `add_model_config("RUN/model_config.json")`, then
`create_model("model_config", pretrained="RUN/checkpoints/latest.pt")`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baselines.train.augment import training_transform
from pipeline.clip_models import ModelFiles, known_architecture, read_config, register
from pools import store
from pools.outputs import TrainingRun
from pools.scales import Augment

MODELS = Path(__file__).with_name("models")


@dataclass(frozen=True)
class Loaded:
    """A model and what belongs to it."""

    name: str
    model: Any  # open_clip's CLIP, in fp32 on its device
    tokenizer: Callable[[list[str]], Any]  # n texts → int64 [n, context length]
    train_transform: Callable[[Any], Any]  # PIL image → float [3, H, W], with the training's random crop
    transform: Callable[[Any], Any]  # PIL image → float [3, H, W]
    config: dict[str, Any]  # open_clip's model config
    weights_sha256: str | None = None  # of the file they came from, None = drawn at random


def new_model(name: str, *, device: str = "cpu", seed: int = 0, augment: Augment = "resized_crop", **changes: float) -> Loaded:
    """A model of that architecture (a name, or a config file) with random weights; `changes` go into its config.

    Raises InputError for a name that is not known.
    """
    import open_clip
    import torch

    _register()
    if name.endswith(".json"):
        _, config = read_config(Path(name))
        name = register(json.dumps(config, sort_keys=True))
    else:
        name, config = known_architecture(name)
    torch.manual_seed(seed)
    with _quiet_logging():
        # pretrained_text would fetch a text tower from the hub.
        model = open_clip.create_model(name, device=device, output_dict=True, pretrained_text=False, **changes)
    return _loaded(name, model, {**config, **changes}, None, augment)


def file_digest(path: str) -> str:
    """SHA-256 of a model's config file. Raises InputError if there is none."""
    read_config(Path(path))
    return store.sha256(path)


def load_model(source: str, pretrained: str | None = None, device: str = "cpu") -> Loaded:
    """A trained model: a run folder (its last checkpoint, or the one named), or an architecture and a weights file.

    `source` is the folder, a name that open_clip or we know, or the path of a model config. Raises InputError if a file is
    missing, damaged, or of another architecture.
    """
    _register()
    files = ModelFiles.find(source, pretrained)
    name, model = files.create(device)
    return _loaded(name, model, json.loads(files.config), files.weights_sha256)


@functools.cache
def _register() -> None:
    import open_clip

    open_clip.add_model_config(MODELS)


def _loaded(
    name: str, model: Any, config: dict[str, Any], weights_sha256: str | None, augment: Augment = "resized_crop"
) -> Loaded:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    cfg = PreprocessCfg(**model.visual.preprocess_cfg)
    train_transform = training_transform(cfg, augment)
    transform = image_transform_v2(cfg, is_train=False)
    tokenizer = _tokenizer(name, json.dumps(config["text_cfg"]))
    return Loaded(name, model, tokenizer, train_transform, transform, config, weights_sha256)


@functools.cache
def _tokenizer(name: str, config: str) -> Callable[[list[str]], Any]:
    """A model's tokenizer: reading the vocabulary takes longer than making a small model. Names may change their config."""
    import open_clip

    found: Callable[[list[str]], Any] = open_clip.get_tokenizer(name)
    return found


@contextlib.contextmanager
def _quiet_logging() -> Iterator[None]:
    """open_clip warns of random weights, which is what a training starts from."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def write_config(output: str, config: dict[str, Any]) -> None:
    """Writes `model_config.json` of a run."""
    store.write_bytes(TrainingRun(output).model_config, (json.dumps(config, indent=2) + "\n").encode())
