"""A small network on features: a file of weights to numbers in [0, 1]."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pools.errors import InputError

Array = NDArray[np.float32]
EXPECTED = (
    "tensors (torch, safetensors or npz) called norm.running_mean, norm.running_var, perhaps norm.weight and norm.bias; then "
    "dense.weight, dense.bias, dense1.weight … as DataComp's head has them, or norm.mean, norm.variance, linear_1.weight …"
)
_LAYER = re.compile(r"(?:dense(?P<of_datacomp>\d*)|linear_(?P<of_laion>\d+))\.weight")
_NORM = {
    *("norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"),
    *("norm.mean", "norm.variance", "norm.count"),
}


@dataclass(frozen=True)
class FeatureHead:
    """Features, shifted and scaled, through layers with ReLU between them and a logistic function at the end."""

    shift: Array  # (width,)
    scale: Array  # (width,)
    layers: tuple[tuple[Array, Array], ...]  # weights (out, in) and bias (out,)

    @property
    def width(self) -> int:
        return int(self.layers[0][0].shape[1])

    def __call__(self, features: Array) -> Array:
        """(n, width) → (n,)."""
        x = features * self.scale + self.shift
        for i, (weight, bias) in enumerate(self.layers):
            x = (np.maximum(x, 0) if i else x) @ weight.T + bias
        # exp of a large number is infinite, and its inverse 0, as it should be.
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-x[:, 0])), np.float32)


def read_head(path: str) -> FeatureHead:
    """The head in a file. Raises InputError for anything else than tensors under known names, of shapes that fit."""
    tensors = read_tensors(path)
    layers = sorted((int(m["of_datacomp"] or m["of_laion"] or 0), k) for k in tensors if (m := _LAYER.fullmatch(k)))
    used = {k for _, k in layers} | {k.removesuffix("weight") + "bias" for _, k in layers}
    try:
        if unknown := tensors.keys() - used - _NORM:
            raise ValueError(f"unknown tensor {min(unknown)}")
        pairs = tuple((tensors[k], tensors[k.removesuffix("weight") + "bias"]) for _, k in layers)
        _check(pairs)
        return FeatureHead(*_norm(tensors, pairs[0][0].shape[1]), pairs)
    except (KeyError, ValueError) as e:
        said = f"no tensor {e}" if isinstance(e, KeyError) else str(e)
        raise InputError(f"no head on features: {said}", where=path, expected=EXPECTED) from e


def _check(pairs: tuple[tuple[Array, Array], ...]) -> None:
    if not pairs:
        raise ValueError("no layers")
    for i, (weight, bias) in enumerate(pairs):
        out = pairs[i + 1][0].shape[-1] if i + 1 < len(pairs) else 1
        if weight.ndim != 2 or bias.shape != weight.shape[:1] or weight.shape[0] != out:
            raise ValueError(f"layer {i + 1} has shapes {weight.shape} and {bias.shape}, where {out} numbers should come out")


def _norm(tensors: Mapping[str, Array], width: int) -> tuple[Array, Array]:
    """Shift and scale that make (x - mean) / √variance · weight + bias, without the small number that is added else."""
    mean = tensors["norm.mean" if "norm.mean" in tensors else "norm.running_mean"].reshape(-1)
    variance = tensors["norm.variance" if "norm.variance" in tensors else "norm.running_var"].reshape(-1)
    weight = tensors.get("norm.weight", np.ones_like(variance))
    bias = tensors.get("norm.bias", np.zeros_like(mean))
    if {a.shape for a in (mean, variance, weight, bias)} != {(width,)} or (variance <= 0).any():
        raise ValueError(f"a normalisation that does not fit features of {width} numbers")
    scale = weight / np.sqrt(variance)
    return bias - mean * scale, scale


def read_tensors(path: str) -> dict[str, Array]:
    """The floats of a file of tensors by name: `.npz`, `.safetensors`, or what torch.save writes; nothing in it is run.

    Raises InputError.
    """
    try:
        found = _read(path)
        return {k: np.asarray(v, np.float32) for k, v in found.items()}
    except (OSError, ValueError, TypeError, KeyError, RuntimeError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as e:
        said = str(e).splitlines()[0] if str(e) else type(e).__name__
        raise InputError(
            f"cannot be read: {said}", where=path, expected="tensors by name: .npz, .safetensors or torch's"
        ) from e


def _read(path: str) -> Mapping[str, Any]:
    if path.endswith(".npz"):
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    if path.endswith(".safetensors"):
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors: Mapping[str, Any] = load(Path(path).read_bytes())
        except SafetensorError as e:
            raise ValueError(str(e)) from e
        return tensors
    import torch

    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, Mapping):
        raise TypeError(f"a {type(state).__name__} instead of tensors by name")
    return {k: v.detach().float().numpy() for k, v in state.items()}
