"""Images and texts to CLIP features and their similarity, by any model of open_clip."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample, Unscored
from pipeline.annotate.clip.images import LEAST, Transform
from pipeline.annotate.clip.texts import TextTower, Tokens
from pipeline.clip_models import ModelFiles, Precision
from pipeline.models import locate
from pools.errors import InputError
from pools.schema import score_column

VERSION = 2
# Weights of the registry: the architecture that they are of, which other ones have the same names in, and what to call it.
_PUBLISHED = {"clip-vit-b32": ("ViT-B-32-quickgelu", "b32"), "clip-vit-l14": ("ViT-L-14-quickgelu", "l14")}
# Flags of processors that compute in bfloat16 instead of converting to and fro.
_BF16 = {"amx_bf16", "avx512_bf16", "bf16"}


def make_clip(given: dict[str, str]) -> Clip:
    """Needs `model`, a training run or the name or config file of an open_clip model, and `pretrained` (or `weights`), the
    path of its checkpoint, unless the model is a run; `name` names the columns: `clip_<name>_similarity_score` and, in the
    npz, `<name>_img` and `<name>_txt`.

    `model=clip-vit-b32` and `clip-vit-l14` are OpenAI's, by `winnow models fetch`; their names are then b32 and l14.

    Further options: `precision` fp32 (default), bf16 or fp16 · `text=false`, for features of the pictures alone ·
    `decode=full`, for large JPEGs that are decoded whole; by default at 1/2, 1/4 or 1/8, at least twice the model's size.
    """
    options.known("clip", given, "model", "pretrained", "weights", "name", "precision", "text", "decode")
    if (model := given.get("model")) in _PUBLISHED:
        architecture, name = _PUBLISHED[model]
        weights = locate(model, given.get("pretrained", given.get("weights"))).path
        given = {"name": name, **given, "model": architecture, "pretrained": weights}
    if missing := [key for key in ("model", "name") if key not in given]:
        raise InputError(
            f"clip has no {missing[0]}", where=f"--{missing[0]}", expected="model, weights and a name for the columns"
        )
    return Clip(
        given["name"],
        ModelFiles.find(given["model"], given.get("pretrained", given.get("weights"))),
        cast(Precision, _one_of(given, "precision", get_args(Precision))),
        options.truth("clip", given, "text", True),
        _one_of(given, "decode", ("reduced", "full")) == "reduced",
    )


def _one_of(given: Mapping[str, str], key: str, values: Sequence[str]) -> str:
    """What is given, by default the first value."""
    value = given.get(key, values[0])
    if value not in values:
        raise InputError(f"clip: {key}={value}", expected=", ".join(values))
    return value


@dataclass(frozen=True)
class Clip:
    """Similarity and features of image and text."""

    name: str
    files: ModelFiles
    precision: Precision = "fp32"
    texts: bool = True
    reduced: bool = True

    wants_image = True

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text",) if self.texts else ()

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(score_column(self.name), pa.float32()),) if self.texts else ()

    @property
    def arrays(self) -> dict[str, int]:
        sides = ("img", "txt") if self.texts else ("img",)
        return {f"{self.name}_{side}": self.files.width for side in sides}

    def header(self) -> dict[str, Any]:
        identity = self.files.identity(self.precision)
        identity["preprocessing"]["resize"] = "antialiased, of bytes"
        identity["preprocessing"]["jpeg"] = f"reduced to no less than {LEAST} sizes" if self.reduced else "whole"
        return {**identity, "texts": self.texts, "version": VERSION}

    def load(self, device: str, threads: int) -> ClipModel:
        return ClipModel(self, device, threads)


class ClipModel:
    """A loaded model. The features of a pair do not depend on the batch it is in, up to rounding (1e-6)."""

    def __init__(self, clip: Clip, device: str, threads: int) -> None:
        import open_clip
        import torch

        _check_precision(clip.precision, device)
        # Convolutions would otherwise run in TF32 on newer GPUs, whose 10-bit mantissa shows in the third digit.
        torch.backends.cudnn.allow_tf32 = False
        if device == "cpu" and threads < torch.get_num_threads():
            torch.set_num_threads(threads)  # several processes would each start as many as there are cores
        name, self._model = clip.files.create(device, clip.precision)
        self._clip, self._device = clip, device
        self._tokenize = open_clip.get_tokenizer(name)
        self._transform = Transform(self._model.visual.preprocess_cfg)
        self._kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[clip.precision]
        self._texts = TextTower(self._model)

    def prepare(self, sample: Sample) -> tuple[NDArray[Any], Tokens | None]:
        """The picture's square of pixels and the text's tokens; a long text is cut to the context."""
        if self._clip.texts and not (sample.text or "").strip():
            raise Unscored("no_text")
        pixels = sample.pixels(self._transform.min_side if self._clip.reduced else None)
        square = self._transform.square(pixels, sample.size())
        return square, self._tokenize([sample.text])[0].numpy() if self._clip.texts else None

    def annotate(self, inputs: Sequence[tuple[NDArray[Any], Tokens | None]]) -> Batch:
        import torch
        from torch.nn.functional import normalize

        name = self._clip.name
        with torch.inference_mode():
            pixels = self._transform.batch([square for square, _ in inputs], self._device).to(self._kind)
            images = normalize(self._model.encode_image(pixels).float(), dim=-1)
            if not self._clip.texts:
                return Batch({}, {f"{name}_img": images.cpu().numpy()})
            texts = self._texts.encode(np.stack([tokens for _, tokens in inputs if tokens is not None]), self._device)
        found, said = images.cpu().numpy(), texts.cpu().numpy()
        scores = np.einsum("nd,nd->n", found, said, dtype=np.float32)
        return Batch({score_column(name): scores}, {f"{name}_img": found, f"{name}_txt": said})


def _check_precision(precision: Precision, device: str) -> None:
    if device != "cpu" or precision == "fp32":
        return
    if precision == "fp16":
        raise InputError("fp16 is for GPUs", where="--precision", expected="fp32, or bf16 where the processor has it")
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else _BF16
    if not flags & _BF16:
        print("winnow: this processor has neither AMX nor AVX512_BF16: bf16 takes longer on it than fp32", file=sys.stderr)
