"""Detectors of faces in ONNX: a frame with sides of a multiple of 32 to boxes in its pixels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.annotate.annotator import Pixels
from pipeline.annotate.faces.finding import STRIDE, Floats
from pipeline.annotate.onnx_session import open_session
from pipeline.annotate.onnx_shape import freed
from pools.errors import InputError

_FAINT = 0.01  # scores below are not even looked at


def open_any_size(path: str, device: str, threads: int) -> Any:
    """A session whose model takes frames of any size, whatever it was saved for. Raises InputError."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as f:
        f.write(freed(Path(path).read_bytes(), where=path))
        f.flush()
        try:
            return open_session(f.name, device, threads)
        except InputError as e:
            raise InputError(e.what, where=path if e.where == f.name else e.where, expected=e.expected, fix=e.fix) from e


class CenterFace:
    """Heat map, size and offset of faces at every fourth pixel. (Xu et al. 2019)"""

    def __init__(self, path: str, device: str, threads: int) -> None:
        self._session = open_any_size(path, device, threads)
        self._input = self._session.get_inputs()[0].name
        outputs = len(self._session.get_outputs())
        if outputs != 4:
            raise InputError(f"a model of {outputs} outputs", where=path, expected="CenterFace, of 4", fix="--model scrfd-10g?")

    def __call__(self, frame: Pixels) -> tuple[Floats, Floats]:
        heat, size, offset, _ = self._session.run(None, {self._input: _tensor(frame)})
        y, x = np.nonzero(heat[0, 0] >= _FAINT)
        height, width = np.exp(size[0, :, y, x]).T * 4
        top = (y + offset[0, 0, y, x] + 0.5) * 4 - height / 2
        left = (x + offset[0, 1, y, x] + 0.5) * 4 - width / 2
        return np.stack([left, top, left + width, top + height], axis=1), heat[0, 0, y, x]


class Scrfd:
    """Scores and distances to a box's sides for anchors at three strides. (Guo et al. 2021)"""

    def __init__(self, path: str, device: str, threads: int) -> None:
        self._session = open_any_size(path, device, threads)
        self._input = self._session.get_inputs()[0].name
        self._strides = (8, 16, STRIDE)
        outputs = len(self._session.get_outputs())
        if outputs not in (6, 9):
            raise InputError(f"a model of {outputs} outputs", where=path, expected="SCRFD, of 9 or, without key points, 6")

    def __call__(self, frame: Pixels) -> tuple[Floats, Floats]:
        found = self._session.run(None, {self._input: (_tensor(frame) - 127.5) / 128})
        boxes, scores = [], []
        for i, stride in enumerate(self._strides):
            height, width = frame.shape[0] // stride, frame.shape[1] // stride
            score, reach = found[i].reshape(-1), found[i + 3].reshape(-1, 4) * stride
            y, x, _ = np.unravel_index(np.arange(len(score)), (height, width, len(score) // (height * width)))
            centre = np.stack([x, y], axis=1) * stride
            boxes.append(np.concatenate([centre - reach[:, :2], centre + reach[:, 2:]], axis=1)[score >= _FAINT])
            scores.append(score[score >= _FAINT])
        return np.concatenate(boxes), np.concatenate(scores)


def _tensor(frame: Pixels) -> Floats:
    """(1, 3, h, w) RGB, 0 to 255."""
    return np.ascontiguousarray(frame.transpose(2, 0, 1)[None], np.float32)
