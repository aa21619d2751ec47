"""Text in pictures by PP-OCRv4: where it stands (differentiable binarization, Liao et al. 2020), and what it says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import cv2
import numpy as np
from numpy.typing import NDArray

from pipeline.annotate.annotator import Pixels
from pipeline.annotate.onnx_session import open_session
from pools.errors import InputError

LONG_SIDE = 960  # of the picture that is looked at
MIN_SCORE = 0.5  # of a line of text: its characters' mean probability
_STEP = 32  # the first network's sides are multiples of that
_INK, _MIN_BOX = 0.3, 0.5  # probability of a pixel to be text, and the mean of those in a box
_GROW = 1.6  # the network finds the core of a line, which has to grow by this × area / circumference
_MAX_BOXES = 1000
_HEIGHT, _WIDTH = 48, 320  # of a line as the second network sees it, the width at least
_DETECTOR, _READER = "ch_PP-OCRv4_det_infer.onnx", "ch_PP-OCRv4_rec_infer.onnx"

Map = NDArray[np.float32]
Box = NDArray[np.float32]  # (4, 2): corners from the upper left on, clockwise, in pixels


@dataclass(frozen=True)
class Line:
    """A line of text that was read, with its score and its corners in the picture that was looked at."""

    text: str
    score: float
    box: Box


class Reader:
    """Both networks. Safe to call from several threads."""

    def __init__(self, folder: str, device: str, threads: int) -> None:
        self._detector = open_session(str(Path(folder, _DETECTOR)), device, threads)
        self._reader = open_session(str(Path(folder, _READER)), device, threads)
        letters = self._reader.get_modelmeta().custom_metadata_map.get("character", "").splitlines()
        if not letters:
            raise InputError("no list of characters within", where=Path(folder, _READER), expected="PP-OCRv4's network")
        self._letters = ["", *letters, " "]

    def read(self, pixels: Pixels) -> tuple[list[Line], float]:
        """The lines in the order of reading, and the share of the picture that they cover, in [0, 1]."""
        picture = np.ascontiguousarray(_fitted(pixels)[:, :, ::-1])  # as OpenCV reads pictures, blue first
        boxes = list(_boxes(self._ink(picture)))
        texts = self._texts([_cut(picture, box) for box in boxes])
        found = [Line(text, score, box) for box, (text, score) in zip(boxes, texts, strict=True) if text.strip()]
        lines = _in_order([line for line in found if line.score >= MIN_SCORE])
        covered = np.zeros(picture.shape[:2], np.uint8)
        for line in lines:
            cv2.fillPoly(covered, [line.box.round().astype(np.int32)], 1)
        return lines, float(covered.mean())

    def _ink(self, picture: Pixels) -> Map:
        """(h, w) probability of each pixel to be text."""
        (found,) = self._detector.run(None, {self._detector.get_inputs()[0].name: _scaled(picture)[None]})
        ink: Map = found[0, 0]
        return ink

    def _texts(self, lines: Sequence[Pixels]) -> list[tuple[str, float]]:
        """What each line says; lines of one width at a time, so that what a line is read as depends on it alone."""
        said: list[tuple[str, float]] = [("", 0.0)] * len(lines)
        widths = defaultdict(list)
        for i, line in enumerate(lines):
            width = max(1, round(_HEIGHT * line.shape[1] / line.shape[0]))
            widths[max(_WIDTH, -(-width // _STEP) * _STEP)].append((i, cast(Pixels, cv2.resize(line, (width, _HEIGHT)))))
        for width, some in widths.items():
            inputs = np.zeros((len(some), 3, _HEIGHT, width), np.float32)
            for place, (_, line) in zip(inputs, some, strict=True):
                place[:, :, : line.shape[1]] = _scaled(line)
            (found,) = self._reader.run(None, {self._reader.get_inputs()[0].name: inputs})
            for (i, _), steps in zip(some, found, strict=True):
                said[i] = spelled(steps, self._letters)
        return said


def spelled(steps: Map, letters: Sequence[str]) -> tuple[str, float]:
    """The text of (t, letters) probabilities, and its letters' mean: the best of each step, once for as long as it lasts.

    The first of the letters says that there is none.
    """
    best = steps.argmax(1)
    new = (best != 0) & (np.diff(best, prepend=-1) != 0)
    score = float(steps.max(1)[new].mean()) if new.any() else 0.0
    return "".join(letters[i] for i in best[new]), score


def _fitted(pixels: Pixels) -> Pixels:
    """The picture with its long side at 960 pixels, both sides multiples of 32."""
    ratio = LONG_SIDE / max(pixels.shape[:2])
    height, width = (max(_STEP, round(side * ratio / _STEP) * _STEP) for side in pixels.shape[:2])
    how = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
    return cast(Pixels, cv2.resize(pixels, (width, height), interpolation=how))


def _scaled(picture: Pixels) -> Map:
    """(h, w, 3) → (3, h, w) in [-1, 1]."""
    return picture.transpose(2, 0, 1).astype(np.float32) / 127.5 - 1


def _boxes(ink: Map) -> Iterator[Box]:
    """Rectangles around what is text."""
    mask = cv2.dilate((ink > _INK).astype(np.uint8), np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    for contour in contours[:_MAX_BOXES]:
        centre, (width, height), angle = cv2.minAreaRect(contour)
        core = cast(Box, cv2.boxPoints((centre, (width, height), angle)))
        if min(width, height) < 3 or _mean_within(ink, core) < _MIN_BOX:
            continue
        more = _GROW * width * height / (width + height)  # on both sides together
        whole = cast(Box, cv2.boxPoints((centre, (width + more, height + more), angle)))
        yield _clockwise(whole, ink.shape)


def _mean_within(ink: Map, corners: Box) -> float:
    left, top = np.clip(np.floor(corners.min(0)).astype(int), 0, None)
    right, bottom = np.ceil(corners.max(0)).astype(int) + 1
    some = ink[top:bottom, left:right]
    mask = np.zeros(some.shape, np.uint8)
    cv2.fillPoly(mask, [(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(some, mask)[0])


def _clockwise(corners: Box, shape: tuple[int, ...]) -> Box:
    """Corners from the upper left on, within the picture: the two on the left first, of each two the upper."""
    order = np.argsort(corners[:, 0])
    (upper_left, lower_left), (upper_right, lower_right) = (
        corners[pair[np.argsort(corners[pair, 1])]] for pair in (order[:2], order[2:])
    )
    box = np.stack([upper_left, upper_right, lower_right, lower_left])
    return np.clip(box, 0, (shape[1] - 1, shape[0] - 1)).astype(np.float32)


def _cut(picture: Pixels, box: Box) -> Pixels:
    """The line laid straight; one that is much higher than wide is turned to the left."""
    width = max(1, int(max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3]))))
    height = max(1, int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2]))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(box, target)
    cut = cv2.warpPerspective(picture, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    line = cast(Pixels, cut)
    return np.rot90(line) if height >= 1.5 * width else line


def _in_order(lines: Sequence[Line]) -> list[Line]:
    """From top to bottom, and from left to right those whose middles lie within the first's height."""
    ordered: list[Line] = []
    rest = sorted(lines, key=lambda line: float(line.box[:, 1].mean()))
    while rest:
        bottom = float(rest[0].box[:, 1].max())
        row = [line for line in rest if line.box[:, 1].mean() < bottom]
        ordered += sorted(row, key=lambda line: float(line.box[:, 0].min()))
        rest = rest[len(row) :]
    return ordered
