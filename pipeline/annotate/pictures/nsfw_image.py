"""Unsafe pictures: Yahoo's open_nsfw on the picture, or a head on CLIP features that a pool has already."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from filters.models import OPEN_NSFW
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Pixels, Sample, Unscored
from pipeline.annotate.clip.feature_head import FeatureHead, read_head
from pipeline.annotate.onnx_session import open_session
from pipeline.models import Weights, locate
from pools.errors import InputError

VERSION = 1
HEAD = "datacomp-nsfw"
SIZE, CROP = 256, 224  # pixels a side
LEAST = 2 * SIZE  # large JPEGs may be decoded to no less
MEAN_BGR = np.array([104, 117, 123], np.float32)
NO_FEATURES = "no_features"


def make_nsfw_image(given: dict[str, str]) -> OpenNsfw | HeadNsfw:
    """How likely a picture is unsafe, in [0, 1]: column `nsfw_image` (or what `name` says), which the filter `nsfw` reads.

    `model=open-nsfw` (default) looks at the picture. It is Yahoo's and comes with winnow; below 0.2 means very likely safe,
    above 0.8 very likely not. `model=datacomp-nsfw`, or `weights=PATH` of a head of that kind, looks at CLIP ViT-L/14 features
    instead, those of the pool's `l14_img` or of the column that `features` names: no picture is read.
    """
    chosen = options.known("nsfw_image", given, "model", "weights", "name", "features")
    name = chosen.get("name", "nsfw_image")
    model = chosen.get("model", HEAD if {"weights", "features"} & chosen.keys() else OPEN_NSFW)
    if model not in (OPEN_NSFW, HEAD):
        raise InputError(f"nsfw_image has no model {model!r}", where="--model", expected=f"{OPEN_NSFW} or {HEAD}")
    weights = locate(model, chosen.get("weights"))
    if model == HEAD:
        return HeadNsfw(name, weights, chosen.get("features", "l14_img"))
    if "features" in chosen:
        raise InputError(f"{OPEN_NSFW} looks at pictures, not at features", where="features", fix=f"say model={HEAD}")
    return OpenNsfw(name, weights)


@dataclass(frozen=True)
class OpenNsfw:
    """Yahoo's open_nsfw: a ResNet-50 on the middle of a squeezed picture. (Mahadeokar and Pesavento 2016)"""

    name: str
    weights: Weights
    reads: tuple[str, ...] = ()
    wants_image: bool = True

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.float32()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": "open_nsfw",
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "preprocessing": {
                "size": [SIZE, SIZE],
                "interpolation": "bilinear, antialiased",
                "crop": CROP,
                "jpeg": "written and read again at quality 75, 4:2:0",
                "channels": "BGR",
                "mean": MEAN_BGR.tolist(),
                "decoded": f"JPEGs to no less than {LEAST} pixels a side",
            },
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> OpenNsfwModel:
        return OpenNsfwModel(self, device, threads)


def squeezed(pixels: Pixels) -> NDArray[np.float32]:
    """A picture as open_nsfw takes it, (224, 224, 3) BGR: scaled to a square, cut, and once through JPEG.

    The model was trained on pictures that had been written as JPEGs at their small size.
    """
    from PIL import Image

    edge = (SIZE - CROP) // 2
    small = Image.fromarray(pixels).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    file = io.BytesIO()
    small.crop((edge, edge, edge + CROP, edge + CROP)).save(file, "JPEG", quality=75, subsampling="4:2:0")
    with Image.open(file) as again:
        return np.asarray(again, np.float32)[:, :, ::-1] - MEAN_BGR


class OpenNsfwModel:
    """open_nsfw in ONNX, whose answer is (safe, unsafe)."""

    def __init__(self, annotator: OpenNsfw, device: str, threads: int) -> None:
        self._name = annotator.name
        self._session = open_session(annotator.weights.path, device, threads)
        found = [(i.shape[1:], i.name) for i in self._session.get_inputs()]
        if len(found) != 1 or found[0][0] != [CROP, CROP, 3]:
            raise InputError(f"takes {found}", where=annotator.weights.path, expected=f"a model that takes {CROP}×{CROP}×3")
        self._input = found[0][1]

    def prepare(self, sample: Sample) -> NDArray[np.float32]:
        return squeezed(sample.pixels(LEAST))

    def annotate(self, inputs: Sequence[NDArray[np.float32]]) -> Batch:
        (answers,) = self._session.run(None, {self._input: np.stack(inputs)})
        return Batch({self._name: np.clip(answers[:, 1], 0, 1)})


@dataclass(frozen=True)
class HeadNsfw:
    """A head on CLIP ViT-L/14's image features, as DataComp (appendix) and LAION judged their pools by."""

    name: str
    weights: Weights
    features: str
    wants_image: bool = False

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.features,)

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.float32()),)

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": "a head on image features",
            "features": self.features,
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> HeadNsfwModel:
        return HeadNsfwModel(self, read_head(self.weights.path))


class HeadNsfwModel:
    """A loaded head. It is so small that a GPU would gain nothing."""

    def __init__(self, annotator: HeadNsfw, head: FeatureHead) -> None:
        self._annotator, self._head = annotator, head

    def prepare(self, sample: Sample) -> NDArray[np.float32]:
        value = sample.columns[self._annotator.features]
        if value is None or not np.any(features := np.asarray(value, np.float32)):  # zeros stand for none
            raise Unscored(NO_FEATURES)
        if features.shape != (self._head.width,):
            raise InputError(
                f"features of shape {features.shape} in {self._annotator.features}",
                where=self._annotator.weights.path,
                expected=f"{self._head.width} numbers, which this head takes",
            )
        return features

    def annotate(self, inputs: Sequence[NDArray[np.float32]]) -> Batch:
        return Batch({self._annotator.name: self._head(np.stack(inputs))})
