"""A stand-in for CLIP that needs nothing downloaded: classes of the picture × vectors of their names (ConSE)."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.models import EFFICIENTNET_LITE0, IMAGENET_1K_NAMES, MINILM_L6
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored
from pipeline.annotate.pictures import efficientnet
from pipeline.annotate.pictures.efficientnet import EfficientNetLite0
from pipeline.annotate.text import minilm
from pipeline.annotate.text.minilm import MiniLM
from pipeline.models import Weights, locate
from pools.errors import InputError

VERSION = 1
TEMPERATURE = 2.0
PROMPT = "a photo of a "


def make_conse(given: dict[str, str]) -> Conse:
    """A stand-in for CLIP, which it is not: `conse_similarity_score`, and in the npz `conse_img`, `conse_txt`.

    Option: `name`. The weights are installed with winnow: nothing is to be downloaded.
    """
    chosen = options.known("conse", given, "name")
    return Conse(chosen.get("name", "conse"), locate(EFFICIENTNET_LITE0), locate(MINILM_L6), locate(IMAGENET_1K_NAMES))


@dataclass(frozen=True)
class Conse:
    """Cosine of picture and caption in MiniLM's space of sentences, which is not CLIP's: a score to try recipes out with.

    The picture's vector is the mean of those of "a photo of a CLASS", weighed by EfficientNet-lite0's probabilities of the
    1,000 classes at temperature 2, each vector less the mean of all; the caption's is MiniLM's own. (Norouzi et al. 2014)
    """

    name: str
    classifier: Weights
    sentences: Weights
    classes: Weights
    reads: tuple[str, ...] = ("text",)
    wants_image: bool = True

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(f"{self.name}_similarity_score", pa.float32()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {f"{self.name}_img": minilm.WIDTH, f"{self.name}_txt": minilm.WIDTH}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": "ConSE: EfficientNet-lite0 and all-MiniLM-L6-v2, not CLIP",
            "weights_sha256": {w.name: w.sha256 for w in (self.classifier, self.sentences, self.classes)},
            "precision": "fp32",
            "transform": efficientnet.TRANSFORM,
            "prompt": PROMPT,
            "temperature": TEMPERATURE,
            "tokenizer": {"name": "all-MiniLM-L6-v2", "context_length": minilm.MAX_TOKENS},
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> ConseModel:
        return ConseModel(self, device)


class ConseModel:
    """Both networks, and the vectors of the classes."""

    def __init__(self, annotator: Conse, device: str) -> None:
        self._name = annotator.name
        self._classify = EfficientNetLite0.load(annotator.classifier.path, device)
        self._sentences = MiniLM(annotator.sentences.path, device)
        vectors = self._sentences.encode([PROMPT + name for name in _names(annotator.classes.path)])
        self._vectors = vectors - vectors.mean(0)

    def prepare(self, sample: Sample) -> tuple[NDArray[np.float32], str]:
        if sample.text is None or not sample.text.strip():
            raise Unscored("no_text")
        return efficientnet.crop(sample.pixels(efficientnet.WHOLE)), sample.text

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        import torch

        with torch.inference_mode():
            logits = self._classify.logits(np.stack([crop for crop, _ in inputs]))
            probabilities = (logits / TEMPERATURE).softmax(1).cpu().numpy()
        images = probabilities @ self._vectors
        images /= np.linalg.norm(images, axis=1, keepdims=True)
        texts = self._sentences.encode([text for _, text in inputs])
        scores = np.einsum("nd,nd->n", images, texts)
        return Batch({f"{self._name}_similarity_score": scores}, {f"{self._name}_img": images, f"{self._name}_txt": texts})


@functools.cache
def _names(path: str) -> tuple[str, ...]:
    """ImageNet's classes in the order of the network's."""
    names = json.loads(Path(path).read_text())
    if len(names) != 1000:
        raise InputError(f"{len(names)} names", where=path, expected="those of ImageNet's 1,000 classes")
    return tuple(names)
