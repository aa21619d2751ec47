"""Detoxify's checkpoints: BERT, RoBERTa or XLM-RoBERTa with a classifier on a text's first token. (Hanu and Unitary 2020)"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools.errors import InputError

EXPECTED = "a checkpoint of Detoxify's as it is released: {config, state_dict}"
MAX_TOKENS = 512
_CHUNK = 32  # texts of about one length at a time
# Labels of the first challenge under the names of the later ones, as Detoxify gives them.
_RENAMED = {"toxic": "toxicity", "identity_hate": "identity_attack", "severe_toxic": "severe_toxicity"}
_KINDS = {"BertForSequenceClassification": "bert", "RobertaForSequenceClassification": "roberta",
          "XLMRobertaForSequenceClassification": "roberta"}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """What a file says of itself."""

    kind: str  # bert or roberta
    base: str  # the model that was trained further, whose tokenizer it takes
    labels: tuple[str, ...]


def read_checkpoint(path: str) -> Checkpoint:
    """What is in a checkpoint, without its weights. Raises InputError."""
    return _parsed(_load(path), path)


def _load(path: str) -> Mapping[str, Any]:
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError) as e:
        said = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InputError(f"cannot be read: {said}", where=path, expected=EXPECTED) from e
    if not isinstance(found, Mapping) or not {"config", "state_dict"} <= found.keys():
        raise InputError("no Detoxify", where=path, expected=EXPECTED)
    return found


def _parsed(found: Mapping[str, Any], path: str) -> Checkpoint:
    try:
        architecture, labels = found["config"]["arch"]["args"], found["config"]["dataset"]["args"]["classes"]
        kind, base = architecture["model_name"], architecture["model_type"]
        names = tuple(_RENAMED.get(label, label) for label in labels)
    except (KeyError, TypeError) as e:
        raise InputError(f"its config has no {e}", where=path, expected=EXPECTED) from e
    if kind not in _KINDS:
        raise InputError(f"a {kind}", where=path, expected=f"one of {', '.join(_KINDS)}")
    return Checkpoint(_KINDS[kind], base, names)


@dataclass(frozen=True)
class Base:
    """What a checkpoint was trained further from, but for its weights."""

    config: Mapping[str, Any]
    tokenizer: Any


def read_base(folder: str) -> Base:
    """config.json and tokenizer.json of a folder, as Hugging Face has them for bert-base-uncased, say. Raises InputError."""
    from tokenizers import Tokenizer

    expected = "a folder with config.json and tokenizer.json of the model that the checkpoint says it was trained from"
    try:
        config = json.loads(Path(folder, "config.json").read_bytes())
        text = Path(folder, "tokenizer.json").read_text("utf-8")
    except (OSError, ValueError) as e:
        raise InputError(f"cannot be read: {e}", where=folder, expected=expected) from e
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as e:  # the library has no class of its own
        raise InputError(f"tokenizer.json cannot be read: {e}", where=folder, expected=expected) from e
    needed = {"num_hidden_layers", "num_attention_heads", "layer_norm_eps", "pad_token_id"}
    if not isinstance(config, dict) or needed - config.keys() or config.get("hidden_act") != "gelu":
        raise InputError(
            f"its config has no {', '.join(sorted(needed))}, or another hidden_act than gelu", where=folder, expected=expected
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return Base(config, tokenizer)


class Detoxify:
    """A checkpoint on its base."""

    def __init__(self, path: str, folder: str, device: str) -> None:
        from pipeline.annotate.text.bert import Encoder

        found = _load(path)
        self._checkpoint, base = _parsed(found, path), read_base(folder)
        self._tokenizer = base.tokenizer
        kind = self._checkpoint.kind
        weights = {k: v.to(device).float() for k, v in found["state_dict"].items()}
        # RoBERTa counts positions from behind that of its padding.
        self._encoder = Encoder(weights, base.config, f"{kind}.", base.config["pad_token_id"] + 1 if kind == "roberta" else 0)
        try:
            width = self._forward([self.tokens("a")]).shape[1]
        except (KeyError, RuntimeError, IndexError) as e:
            said = f"no weights {e}" if isinstance(e, KeyError) else str(e).splitlines()[0]
            raise InputError(
                f"does not fit {folder}: {said}", where=path, expected=f"the files of {self._checkpoint.base}"
            ) from e
        if width < len(self._checkpoint.labels):
            raise InputError(f"{width} outputs for {len(self._checkpoint.labels)} labels", where=path, expected=EXPECTED)

    def tokens(self, text: str) -> list[int]:
        """Of a long text the first 512."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids

    def scores(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """(n, labels). Further outputs, which the checkpoint has no names for, are left out."""
        labels = len(self._checkpoint.labels)
        found = np.zeros((len(texts), labels), np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), _CHUNK):
            some = order[start : start + _CHUNK]
            found[some] = self._forward([texts[i] for i in some])[:, :labels]
        return found

    def _forward(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        import torch

        encoder, kind = self._encoder, self._checkpoint.kind
        first, last = ("bert.pooler.dense", "classifier") if kind == "bert" else ("classifier.dense", "classifier.out_proj")
        with torch.inference_mode():
            x = encoder.linear(last, torch.tanh(encoder.linear(first, encoder(texts)[:, 0])))
            answers: NDArray[np.float32] = torch.sigmoid(x).cpu().numpy()
        return answers
