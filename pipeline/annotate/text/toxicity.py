"""Toxic captions: Detoxify by its published checkpoints, or a small classifier over words that comes with winnow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.models import TOXIC_COMMENT
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored
from pipeline.annotate.text.detoxify import MAX_TOKENS, read_base, read_checkpoint
from pipeline.annotate.text.toxic_words import LABELS, WINDOW
from pipeline.models import Weights, locate
from pipeline.models.registry import find
from pools import store
from pools.errors import InputError

VERSION = 1
DETOXIFY = ("detoxify-original", "detoxify-unbiased", "detoxify-multilingual")
NO_TEXT, NO_WORDS = "no_text", "no_known_words"


def make_toxicity(given: dict[str, str]) -> Toxicity:
    """How toxic captions are: column `toxicity` (or what `name` says), the highest of all labels, which the filter `toxicity`
    reads, and a column for each label: `toxicity_insult`, `toxicity_threat` …

    `model=toxic-comment-classifier` (default) knows English words and comes with winnow. It is weaker than Detoxify and scores
    higher: half of COCO's harmless captions get more than 0.1, none more than 0.9, so filter by `toxicity: {max: 0.9}`, say. A
    text with none of its words has no score.

    `model=detoxify-multilingual` (DataComp's), `detoxify-unbiased` or `detoxify-original` are published checkpoints: by
    `winnow models fetch`, by `weights=PATH`, or from PyTorch's cache. They need `text_model=FOLDER` with config.json and
    tokenizer.json of the model that they were trained from: xlm-roberta-base, roberta-base, bert-base-uncased. Of a long text
    they see the first 512 tokens.
    """
    chosen = options.known("toxicity", given, "model", "weights", "name", "text_model")
    name = chosen.get("name", "toxicity")
    model = chosen.get("model", DETOXIFY[-1] if {"weights", "text_model"} & chosen.keys() else TOXIC_COMMENT)
    if model not in (TOXIC_COMMENT, *DETOXIFY):
        raise InputError(
            f"toxicity has no model {model!r}", where="--model", expected=f"one of {', '.join((TOXIC_COMMENT, *DETOXIFY))}"
        )
    if model == TOXIC_COMMENT:
        if "text_model" in chosen:
            raise InputError(f"{TOXIC_COMMENT} has no text model", where="text_model", fix=f"say model={DETOXIFY[-1]}")
        return Toxicity(name, TOXIC_COMMENT, locate(model, chosen.get("weights")), LABELS)
    weights = locate(model, chosen.get("weights") or _cached(model))
    checkpoint = read_checkpoint(weights.path)
    if "text_model" not in chosen:
        raise InputError(
            f"Detoxify's checkpoint needs the tokenizer of {checkpoint.base}",
            where="text_model",
            expected=f"a folder with config.json and tokenizer.json of {checkpoint.base}",
        )
    folder = os.path.abspath(chosen["text_model"])
    read_base(folder)
    labels = tuple("toxic" if label == "toxicity" else label.replace("_toxicity", "_toxic") for label in checkpoint.labels)
    return Toxicity(name, model, weights, labels, folder, _tokenizer_digest(folder))


def _cached(model: str) -> str | None:
    """The checkpoint in PyTorch's cache, where Detoxify puts what it fetches, unless it is among winnow's weights."""
    entry = find(model)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("TORCH_HOME") or Path(cache) / "torch") / "hub" / "checkpoints" / entry.file
    return str(path) if path.is_file() and not entry.present else None


def _tokenizer_digest(folder: str) -> str:
    return store.sha256(store.join(folder, "tokenizer.json"))


@dataclass(frozen=True)
class Toxicity:
    """The highest of a caption's scores, and those of each label."""

    name: str
    model: str
    weights: Weights
    labels: tuple[str, ...]
    folder: str = ""  # of the tokenizer and the config
    tokenizer_sha256: str = ""
    reads: tuple[str, ...] = ("text",)
    wants_image: bool = False

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return tuple(pa.field(n, pa.float32()) for n in (self.name, *(f"{self.name}_{label}" for label in self.labels)))

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        own = self.model == TOXIC_COMMENT
        tokenizer = (
            {"name": "words", "window": WINDOW}
            if own
            else {"name": "tokenizer.json", "sha256": self.tokenizer_sha256, "context_length": MAX_TOKENS}
        )
        return {
            "model": self.model,
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "tokenizer": tokenizer,
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> ToxicityModel:
        import torch

        if device == "cpu" and threads < torch.get_num_threads():
            torch.set_num_threads(threads)  # several processes would each start as many as there are cores
        return ToxicityModel(self, self._scorer(device))

    def _scorer(self, device: str) -> _Scorer:
        from pipeline.annotate.text.detoxify import Detoxify
        from pipeline.annotate.text.toxic_words import ToxicWords

        if self.model == TOXIC_COMMENT:
            return ToxicWords(self.weights.path, device)
        return Detoxify(self.weights.path, self.folder, device)


class _Scorer(Protocol):
    def tokens(self, text: str) -> list[int]: ...

    def scores(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]: ...


class ToxicityModel:
    """A loaded model. A text's scores do not depend on the batch it is in, up to rounding (1e-6)."""

    def __init__(self, annotator: Toxicity, scorer: _Scorer) -> None:
        self._annotator, self._scorer = annotator, scorer

    def prepare(self, sample: Sample) -> list[int]:
        text = sample.text
        if text is None or not text.strip():
            raise Unscored(NO_TEXT)
        if not (tokens := self._scorer.tokens(text)):
            raise Unscored(NO_WORDS)
        return tokens

    def annotate(self, inputs: Sequence[list[int]]) -> Batch:
        scores, name = self._scorer.scores(inputs), self._annotator.name
        columns: dict[str, Any] = {name: scores.max(axis=1)}
        columns |= {f"{name}_{label}": scores[:, i] for i, label in enumerate(self._annotator.labels)}
        return Batch(columns)
