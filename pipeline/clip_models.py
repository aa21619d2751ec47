"""CLIP models from files on this machine: an architecture and weights, and what identifies them.

Weights are a path, never a name to be looked up: open_clip would fetch a name from the network.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from pipeline import pickled
from pools import store
from pools.errors import InputError
from pools.outputs import TrainingRun

Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class ModelFiles:
    """A model on disk: its architecture as open_clip's JSON and its weights, with what the result depends on."""

    architecture: str  # a name open_clip knows, or the name of the config file
    config: str  # canonical JSON
    weights: str  # absolute path
    weights_sha256: str

    @classmethod
    def find(cls, model: str, pretrained: str | None) -> ModelFiles:
        """From a training run's folder, or an architecture (a name or a config file) and a file of weights.

        Raises InputError naming the file that is missing, or an architecture that needs files from the network.
        """
        if not store.is_local(model):
            raise InputError("models are read from local files only", where=model, fix="copy the files to this machine")
        if Path(model).is_dir():
            config_file: Path | None = Path(TrainingRun(model).model_config)
            weights = Path(pretrained or TrainingRun(model).checkpoint)
        else:
            config_file = Path(model) if model.endswith(".json") else None
            if pretrained is None:
                raise InputError(f"no weights for {model}", where="--pretrained", expected="the path of a checkpoint")
            weights = Path(pretrained)
        architecture, config = known_architecture(model) if config_file is None else read_config(config_file)
        if not weights.is_file():
            raise InputError(
                "no such file of weights",
                where=weights,
                expected="a checkpoint on this machine",
                fix="download the weights first; names of published weights are not looked up",
            )
        digest = store.sha256(str(weights))
        return cls(architecture, json.dumps(config, sort_keys=True), os.path.abspath(weights), digest)

    @property
    def width(self) -> int:
        """Length of a feature vector."""
        return int(json.loads(self.config)["embed_dim"])

    def identity(self, precision: Precision = "fp32") -> dict[str, Any]:
        """What scores depend on, for manifests and table headers."""
        from open_clip.transform import PreprocessCfg

        config = json.loads(self.config)
        return {
            "architecture": self.architecture,
            "config_sha256": hashlib.sha256(self.config.encode()).hexdigest(),
            "weights_sha256": self.weights_sha256,
            "precision": precision,
            "preprocessing": {**asdict(PreprocessCfg()), "size": config["vision_cfg"].get("image_size", 224)},
            "tokenizer": {
                "name": config["text_cfg"].get("hf_tokenizer_name", "open_clip SimpleTokenizer"),
                "context_length": config["text_cfg"].get("context_length", 77),
            },
        }

    def create(self, device: str, precision: Precision = "fp32") -> tuple[str, Any]:
        """The name open_clip knows the model by, and the model with its weights, for evaluation.

        Raises InputError if the weights are not those of the architecture, or hold anything but tensors and plain values.
        """
        import open_clip

        name = register(self.config)
        try:
            if pickled.is_module(self.weights):
                model = _of_module(open_clip, name, self.weights, precision=precision, device=device)
            else:
                model = open_clip.create_model(
                    name, pretrained=self.weights, precision=precision, device=device, output_dict=True, weights_only=True
                )
        except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, ValueError) as e:
            raise InputError(
                f"cannot be read as weights of {self.architecture}: {str(e).splitlines()[0] if str(e) else type(e).__name__}",
                where=self.weights,
                expected="a checkpoint of that architecture that holds tensors and plain values only",
            ) from e
        return name, model.eval()


def known_architecture(name: str) -> tuple[str, dict[str, Any]]:
    """A name that open_clip knows, as it spells it, and its config. Raises InputError for others, or if parts are elsewhere."""
    import open_clip

    plain = name.replace("/", "-")  # open_clip's own rule: ViT-B/32 is ViT-B-32
    if plain not in open_clip.list_models():
        close = difflib.get_close_matches(plain, open_clip.list_models(), 3)
        raise InputError(
            f"unknown model {name!r}",
            where="--model",
            expected="a training run's folder, a config file (.json), or an architecture of open_clip",
            fix=f"did you mean {', '.join(close)}?" if close else None,
        )
    config = open_clip.get_model_config(plain)
    _refuse_downloads(plain, config)
    return plain, config


def read_config(path: Path) -> tuple[str, dict[str, Any]]:
    """The name of a config file, and the config in it. Raises InputError if it is none, or if parts are elsewhere."""
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError("no such file", where=path, expected="the model's architecture (open_clip's JSON)") from None
    except ValueError as e:
        raise InputError(f"not JSON: {e}", where=path) from e
    if not isinstance(config, dict) or not {"embed_dim", "vision_cfg", "text_cfg"} <= config.keys():
        raise InputError("no model config", where=path, expected="embed_dim, vision_cfg and text_cfg, as open_clip has them")
    _refuse_downloads(path.name, config)
    return path.name, config


def _refuse_downloads(architecture: str, config: dict[str, Any]) -> None:
    for key in ("hf_model_name", "hf_tokenizer_name"):
        source = config["text_cfg"].get(key)
        if source and not Path(source).is_dir():
            raise InputError(
                f"{architecture} takes its text tower or tokenizer from the network ({source})",
                where="--model",
                expected=f"an architecture that is whole on this machine, or {key} as a folder in a config file",
            )


def _of_module(open_clip: Any, name: str, path: str, **how: Any) -> Any:
    """The model with the weights of a TorchScript archive, which is read without running it."""
    import torch

    logging.disable(logging.WARNING)  # that it has no weights yet
    try:
        model = open_clip.create_model(name, output_dict=True, **how)
    finally:
        logging.disable(logging.NOTSET)
    there = {key: torch.from_numpy(array.astype(np.float32)) for key, array in pickled.read_module(path).items()}
    # Masks are made anew, not loaded.
    model.load_state_dict({key: tensor for key, tensor in there.items() if not key.endswith("attn_mask")}, strict=True)
    return model


def register(config: str) -> str:
    """The name of a config (JSON) among open_clip's, which says nothing: one with "siglip" would have its tokenizer fetched."""
    import open_clip

    name = "winnow-" + hashlib.sha256(config.encode()).hexdigest()[:16]
    if name not in open_clip.list_models():
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.json"
            path.write_text(config)
            open_clip.add_model_config(path)
    return name
