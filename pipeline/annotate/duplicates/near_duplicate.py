"""Near-duplicates of evaluation images: how similar the nearest one is, and which it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline.annotate import options
from pipeline.annotate.annotator import Batch, Sample
from pipeline.annotate.duplicates import eval_index
from pipeline.annotate.duplicates.descriptors import PERCEPTUAL, Describing, Descriptor
from pools.errors import InputError

VERSION = 1
NAME = "near_duplicate"
NO_DESCRIPTION = "no_description"


def make_near_duplicate(given: dict[str, str]) -> NearDuplicate:
    """How similar the nearest evaluation image is, and its name: columns `eval_similarity` and `eval_nearest` (dataset/key).

    `index=FOLDER` is what `winnow decontaminate index` made. `model=perceptual` (default) compares PDQ hashes: the share of
    bits that agree, of the picture or its mirror image; 0.75 or more is a copy, crops and rotations are missed.
    `model=sscd-disc-mixup` or `isc-ft-v107`, `weights=PATH` (ONNX or TorchScript), compares a model's vectors by their
    cosine; `size=N` is the side of the square that a picture is brought to. The filter `eval_similarity` reads the column.
    Under another `name` the columns are NAME_similarity and NAME_nearest.
    """
    chosen = options.known(NAME, given, "index", "model", "weights", "name", "size")
    if "index" not in chosen:
        raise InputError(
            "no index of evaluation images",
            where="near_duplicate",
            expected="--set index=FOLDER",
            fix="winnow decontaminate index EVALS --output FOLDER",
        )
    if not (size := chosen.get("size", "0")).isdecimal():
        raise InputError(f"size of near_duplicate is {size!r}", expected="pixels")
    descriptor = Descriptor.of(chosen.get("model", PERCEPTUAL), chosen.get("weights"), int(size))
    manifest = eval_index.read_manifest(chosen["index"])
    eval_index.check(manifest, descriptor, chosen["index"])
    digest = eval_index.digest_of_index(manifest)
    return NearDuplicate(chosen.get("name", NAME), descriptor, chosen["index"], digest, manifest["counts"]["kept"])


@dataclass(frozen=True)
class NearDuplicate:
    """A descriptor and an index."""

    name: str
    descriptor: Descriptor
    index: str
    index_digest: str
    images: int
    reads: tuple[str, ...] = ()
    wants_image: bool = True

    @property
    def columns(self) -> tuple[str, str]:
        """Similarity, nearest."""
        stem = "eval" if self.name == NAME else self.name
        return f"{stem}_similarity", f"{stem}_nearest"

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        similarity, nearest = self.columns
        return pa.field(similarity, pa.float32()), pa.field(nearest, pa.string())

    @property
    def arrays(self) -> Mapping[str, int]:
        return {}

    def header(self) -> Mapping[str, Any]:
        return {
            **self.descriptor.identity(),
            "metric": self.descriptor.metric,
            "index": {"digest": self.index_digest, "images": self.images},
            "annotator_version": VERSION,
        }

    def load(self, device: str, threads: int) -> NearDuplicateModel:
        model = self.descriptor.load(device, threads)
        return NearDuplicateModel(self, model, eval_index.Index.open(self.index, self.descriptor), threads)


class NearDuplicateModel:
    """A loaded descriptor and an opened index."""

    def __init__(self, annotator: NearDuplicate, model: Describing, index: eval_index.Index, threads: int) -> None:
        if annotator.descriptor.metric == "hamming":
            import faiss

            faiss.omp_set_num_threads(threads)
        self._annotator, self._model, self._index = annotator, model, index

    def prepare(self, sample: Sample) -> Any:
        return self._model.prepare(sample)

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        wanted = self._model.describe(inputs)
        # A hash may be all zeros; a vector may not.
        hashed = self._annotator.descriptor.metric == "hamming"
        nothing = [not hashed and not row.any() for row in wanted]
        similar, images = self._index.nearest(wanted)
        found = [None if no else self._index.name(int(i)) for i, no in zip(images, nothing, strict=True)]
        similarity, nearest = self._annotator.columns
        values = [None if no else float(s) for s, no in zip(similar, nothing, strict=True)]
        return Batch({similarity: values, nearest: found}, reasons=[NO_DESCRIPTION if no else None for no in nothing])
