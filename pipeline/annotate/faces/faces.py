"""Faces: where they are in the picture, and how sure the detector is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from filters.models import CENTERFACE
from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample
from pipeline.annotate.faces.detectors import CenterFace, Scrfd
from pipeline.annotate.faces.finding import LARGE, OVERLAP, REDUCED, ROOM, STRIDE, Detector, Frame, find_faces, frames
from pipeline.models import Weights, locate
from pools.errors import InputError

VERSION = 1
SCRFD = ("scrfd-10g", "scrfd-2.5g")
NAME = "faces"


def make_faces(given: dict[str, str]) -> Faces:
    """Faces as [x0, y0, x1, y1] in 0..1 of the upright picture, the surest first: columns `face_bboxes` and `face_scores`.

    `winnow download` blurs what `face_bboxes` says. A picture without faces has empty lists. `model=centerface` (default)
    comes with winnow; `model=scrfd-10g`, by which DataComp blurred, or `scrfd-2.5g` with `weights=PATH` or the models folder.
    `min_score=0.3`: less sure ones are left out. `sure=0.5` (SCRFD: 0): those less sure must be seen in the mirror image too,
    which spares most of CenterFace's false alarms, and costs a face in a crowd here and there. `side=640`: pixels to which
    the longer side of a larger picture is brought. Under another `name` the columns are NAME_bboxes and NAME_scores.
    """
    chosen = options.known("faces", given, "model", "weights", "name", "min_score", "sure", "side")
    model = chosen.get("model", CENTERFACE)
    if model not in (CENTERFACE, *SCRFD):
        raise InputError(f"faces has no model {model!r}", where="--model", expected=", ".join((CENTERFACE, *SCRFD)))
    min_score = _number(chosen, "min_score", 0.3)
    sure = _number(chosen, "sure", 0.5 if model == CENTERFACE else 0)
    side = _number(chosen, "side", 640)
    if not 0 < min_score <= 1:
        raise InputError(f"min_score of faces is {min_score:g}", expected="a number above 0, at most 1")
    if not 0 <= sure <= 1:
        raise InputError(f"sure of faces is {sure:g}", expected="a number in 0..1")
    if side != int(side) or not STRIDE <= side <= 4096:
        raise InputError(f"side of faces is {side:g}", expected=f"{STRIDE} to 4096 pixels")
    return Faces(chosen.get("name", NAME), model, locate(model, chosen.get("weights")), min_score, sure, int(side))


def _number(chosen: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(chosen.get(name, default))
    except ValueError as e:
        raise InputError(f"{name} of faces is {chosen[name]!r}", expected="a number") from e


@dataclass(frozen=True)
class Faces:
    """A detector, looked through twice: see `face_finding`."""

    name: str
    model: str
    weights: Weights
    min_score: float
    sure: float
    side: int
    reads: tuple[str, ...] = ()
    wants_image: bool = True

    @property
    def columns(self) -> tuple[str, str]:
        """Boxes, scores."""
        stem = "face" if self.name == NAME else self.name
        return f"{stem}_bboxes", f"{stem}_scores"

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        boxes, scores = self.columns
        return pa.field(boxes, pa.list_(pa.list_(pa.float32()))), pa.field(scores, pa.list_(pa.float32()))

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            "model": self.model,
            "weights_sha256": self.weights.sha256,
            "precision": "fp32",
            "preprocessing": {
                "longer_side": f"at most {self.side}",
                "interpolation": "area means",
                "padding": f"black, to multiples of {STRIDE}",
                "decoded": f"JPEGs to no less than {self.side} pixels a side",
            },
            "large_faces": {"least": LARGE, "longer_side": f"at most {self.side // REDUCED}", "room": ROOM},
            "min_score": self.min_score,
            "mirrored_below": self.sure,
            "overlap": OVERLAP,
            "boxes": "[x0, y0, x1, y1] in 0..1 of the upright picture",
            "version": VERSION,
        }

    def load(self, device: str, threads: int) -> FacesModel:
        kind = CenterFace if self.model == CENTERFACE else Scrfd
        return FacesModel(self, kind(self.weights.path, device, threads))


class FacesModel:
    """A loaded detector; it is shown one picture after the other, so that a batch changes nothing."""

    def __init__(self, annotator: Faces, detector: Detector) -> None:
        self._annotator, self._detector = annotator, detector

    def prepare(self, sample: Sample) -> tuple[Frame, Frame]:
        return frames(sample.pixels(self._annotator.side), self._annotator.side)

    def annotate(self, inputs: Sequence[tuple[Frame, Frame]]) -> Batch:
        rules = self._annotator
        found = [find_faces(shown, self._detector, rules.min_score, rules.sure) for shown in inputs]
        boxes, scores = self._annotator.columns
        return Batch({boxes: [b.tolist() for b, _ in found], scores: [s.tolist() for _, s in found]})
