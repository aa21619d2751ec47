"""What pictures are compared by, those of a pool and those of the index alike: PDQ, or the vector of a copy-detection model."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels, Sample
from pipeline.annotate.duplicates.perceptual import PDQ_SIDE, mirrored, pdq, phash
from pipeline.annotate.onnx_session import open_session
from pipeline.models import Weights, locate
from pools.errors import InputError

VERSION = 1
PERCEPTUAL = "perceptual"
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Side of the square a picture is brought to, mean and deviation of its colours.
SHAPES = {
    # https://github.com/facebookresearch/sscd-copy-detection, "Preprocessing": a square, skewed.
    "sscd-disc-mixup": (320, *_IMAGENET),
    # https://github.com/lyakaap/ISC21-Descriptor-Track-1st, isc_feature_extractor: as its backbone was trained.
    "isc-ft-v107": (512, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
MODELS = (PERCEPTUAL, *SHAPES)
Rows = NDArray[Any]  # (n, 32) uint8 of PDQ, (n, d) float32 of a model, of length 1
Metric = Literal["hamming", "cosine"]


class Describing(Protocol):
    """A loaded descriptor."""

    def prepare(self, sample: Sample) -> Any: ...

    def describe(self, inputs: Sequence[Any]) -> Rows:
        """(n, width); a picture that has no description is zeros of a model's."""

    def for_index(self, pixels: Pixels) -> tuple[list[Any], int | None]:
        """Inputs for all that an evaluation image may be met as, and its pHash where that is of use."""


@dataclass(frozen=True)
class Descriptor:
    """A model by name and weights; `side` 0 is the usual one."""

    model: str
    weights: Weights | None = None
    side: int = 0

    @classmethod
    def of(cls, model: str, weights: str | None = None, side: int = 0) -> Descriptor:
        """Raises InputError for an unknown model or weights that are missing."""
        if model not in MODELS:
            raise InputError(f"no descriptor is called {model!r}", where="--model", expected=", ".join(MODELS))
        if model == PERCEPTUAL:
            if weights is not None or side:
                raise InputError("perceptual hashes have no weights and no size", where="--weights, size", expected="a model")
            return cls(model)
        if side and not 32 <= side <= 2048:
            raise InputError(f"a side of {side} pixels", where="size", expected="32 to 2048")
        try:
            found = locate(model, weights)
        except InputError as e:
            fix = f"{e.fix}; or take --model {PERCEPTUAL}, which needs no weights" if weights is None else e.fix
            raise InputError(e.what, where=e.where, expected=e.expected, fix=fix) from e
        return cls(model, found, side or SHAPES[model][0])

    @property
    def metric(self) -> Metric:
        return "hamming" if self.model == PERCEPTUAL else "cosine"

    @property
    def rows(self) -> int:
        """Of the index for each image: a hash tells a picture from its mirror image, a model does not."""
        return 2 if self.model == PERCEPTUAL else 1

    @property
    def least_side(self) -> int:
        """Pixels of a side to which large JPEGs may be decoded smaller."""
        return PDQ_SIDE if self.weights is None else 2 * self.side

    def identity(self) -> Mapping[str, Any]:
        """All that a description depends on."""
        if self.weights is None:
            looked = f"the longer side at most {PDQ_SIDE}, area means"
            return {"model": "PDQ of the picture and of its mirror image", "preprocessing": looked, "version": VERSION}
        _, mean, deviation = SHAPES[self.model]
        looked_at = {"size": [self.side, self.side], "interpolation": "bilinear, antialiased", "mean": mean, "std": deviation}
        return {
            "model": self.model,
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "preprocessing": {name: list(v) if isinstance(v, tuple) else v for name, v in looked_at.items()},
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> Describing:
        return Hashing() if self.weights is None else Network(self, device, threads)


class Hashing:
    """PDQ."""

    def prepare(self, sample: Sample) -> Rows:
        return pdq(sample.pixels(PDQ_SIDE))[0]

    def describe(self, inputs: Sequence[Rows]) -> Rows:
        return np.stack(inputs)

    def for_index(self, pixels: Pixels) -> tuple[list[Rows], int | None]:
        return [pdq(pixels)[0], pdq(mirrored(pixels))[0]], phash(pixels)


class Network:
    """A copy-detection model, in ONNX or TorchScript.

    Of an ONNX model that takes whole numbers, (n, h, w, 3), colours are its own business; others take (n, 3, h, w).
    """

    def __init__(self, descriptor: Descriptor, device: str, threads: int) -> None:
        assert descriptor.weights is not None
        self._side = descriptor.side
        self._mean, self._deviation = (np.array(v, np.float32) for v in SHAPES[descriptor.model][1:])
        path = descriptor.weights.path
        self._whole = False
        if zipfile.is_zipfile(path):
            self._run = _torchscript(path, device)
        else:
            session = open_session(path, device, threads)
            wanted = session.get_inputs()[0]
            self._whole = wanted.type == "tensor(uint8)"
            self._run = lambda batch: session.run(None, {wanted.name: batch})[0]

    def prepare(self, sample: Sample) -> NDArray[Any]:
        return self._input(sample.pixels(2 * self._side))

    def _input(self, pixels: Pixels) -> NDArray[Any]:
        from PIL import Image

        square = np.asarray(Image.fromarray(pixels).resize((self._side, self._side), Image.Resampling.BILINEAR))
        if self._whole:
            return square
        levels = (square.astype(np.float32) / 255 - self._mean) / self._deviation
        return np.ascontiguousarray(levels.transpose(2, 0, 1))

    def describe(self, inputs: Sequence[NDArray[Any]]) -> Rows:
        found = np.asarray(self._run(np.stack(inputs)), np.float32).reshape(len(inputs), -1)
        length = np.linalg.norm(found, axis=1, keepdims=True)
        good = np.isfinite(length) & (length > 0)
        return np.where(good, found / np.where(good, length, 1), 0).astype(np.float32)

    def for_index(self, pixels: Pixels) -> tuple[list[NDArray[Any]], int | None]:
        return [self._input(pixels)], None


def _torchscript(path: str, device: str) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of a form of file that is published
            model = torch.jit.load(path, map_location=device).eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as e:
        what = str(e).strip().splitlines()[0]
        raise InputError(f"cannot be read: {what}", where=path, expected="TorchScript or ONNX, not a checkpoint") from e

    def run(batch: NDArray[Any]) -> NDArray[Any]:
        with torch.inference_mode():
            answer: NDArray[Any] = model(torch.from_numpy(batch).to(device)).float().cpu().numpy()
        return answer

    return run
