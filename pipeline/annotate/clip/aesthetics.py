"""How well people would like a picture, by a linear head on its CLIP features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored
from pipeline.annotate.clip.feature_head import read_tensors
from pipeline.models import Weights, locate
from pools.errors import InputError

VERSION = 1
_EXPECTED = (
    "LAION's sa_0_4_vit_l_14_linear.pth or sac+logos+ava1-l14-linearMSE.pth, or an .npz with weight (1, d) and bias (1,)"
)


def make_aesthetics(given: dict[str, str]) -> Aesthetics:
    """How well people would like a picture, by a linear head on CLIP features that the pool has: `aesthetics_score`.

    Needs `weights`, the path of a head, such as LAION's sa_0_4_vit_l_14_linear.pth. Options: `features` (l14_img), `name`.
    """
    chosen = options.known("aesthetics", given, "weights", "features", "name")
    if "weights" not in chosen:
        raise InputError("aesthetics has no weights of its own", where="--weights", expected=_EXPECTED)
    weights = locate("aesthetics", chosen["weights"])
    return Aesthetics(chosen.get("name", "aesthetics"), weights, chosen.get("features", "l14_img"))


@dataclass(frozen=True)
class Aesthetics:
    """The head's value for the L2-normalised features of a picture, which LAION's has between 1 and 10.

    Reads features that the pool has; no picture is looked at. (LAION-AI/aesthetic-predictor; improved-aesthetic-predictor)
    """

    name: str
    weights: Weights
    features: str
    wants_image: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.features,)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(f"{self.name}_score", pa.float32()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": "linear head",
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "features": self.features,
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> AestheticsModel:
        return AestheticsModel(self)


class AestheticsModel:
    """A weight a feature, and a bias."""

    def __init__(self, annotator: Aesthetics) -> None:
        self._annotator = annotator
        self._weight, self._bias = read_head(annotator.weights.path)

    def prepare(self, sample: Sample) -> NDArray[np.float32]:
        given = sample.columns[self._annotator.features]
        if given is None:
            raise Unscored("no_features")
        features = np.asarray(given, np.float32)
        if len(features) != len(self._weight):
            raise InputError(
                f"{self._annotator.features!r} has vectors of {len(features)} numbers",
                expected=f"{len(self._weight)}, as the head {self._annotator.weights.path} takes",
            )
        length = np.linalg.norm(features)
        if length == 0:  # what a row has that could not be scored
            raise Unscored("no_features")
        return features / length

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        scores = np.einsum("nd,d->n", np.stack(inputs), self._weight) + self._bias
        return Batch({f"{self._annotator.name}_score": scores})


def read_head(path: str) -> tuple[NDArray[np.float32], np.float32]:
    """Weights (d,) and bias of a head: of one layer, or of several without anything but dropout in between, which are as one.

    Raises InputError.
    """
    tensors = {name: tensor.astype(np.float64) for name, tensor in read_tensors(path).items()}
    names = [name.removesuffix("weight") for name in tensors if name.endswith("weight")]
    names.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    try:
        layers = [(tensors[f"{name}weight"], tensors[f"{name}bias"]) for name in names]
        weight, bias = layers[0]
        for further, offset in layers[1:]:
            weight, bias = further @ weight, further @ bias + offset
        if weight.ndim != 2 or len(weight) != 1 or bias.shape != (1,):
            raise ValueError(f"one of shape {weight.shape}")
    except (ValueError, KeyError, IndexError) as e:
        raise InputError(f"no such head: {e}", where=path, expected=_EXPECTED) from e
    return weight[0].astype(np.float32), np.float32(bias[0])
