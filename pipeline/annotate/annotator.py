"""What an annotator is: a description that travels to every worker, and the model that it loads there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # (height, width, 3): RGB, upright, transparency laid on white


class Sample(Protocol):
    """One row of the pool with its picture; made by the runtime, which decodes a picture once for all annotators."""

    uid: str
    text: str | None
    columns: Mapping[str, Any]  # the metadata columns that the annotator asked for

    def pixels(self, min_side: int | None = None) -> Pixels:
        """The whole picture; with `min_side` it may come smaller, both its sides that long at least, never enlarged.
        Not to be written into: other annotators get the same array.

        Raises Unscored with the reason where there is no picture, or none that can be decoded.
        """

    def size(self) -> tuple[int, int]:
        """Width and height of the whole picture, of which a smaller one's last row and column may stand for a part.

        Raises Unscored as `pixels` does.
        """


class Unscored(Exception):
    """This row gets nulls and a reason: `no_text`, `no_image`, `absent_sample`, or one of `pools.schema.Reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Batch:
    """Answers for n inputs: a column each of n values (None = null), arrays of shape (n, width), and reasons for nulls."""

    columns: Mapping[str, Sequence[Any] | NDArray[Any]]
    arrays: Mapping[str, NDArray[Any]] | None = None
    reasons: Sequence[str | None] | None = None


class Model(Protocol):
    """A loaded model. The answer for a sample is the same alone, in any batch, and on any worker (1e-5 in fp32)."""

    def prepare(self, sample: Sample) -> Any:
        """The model's input for one sample; called from several threads. Raises Unscored for one it cannot judge."""

    def annotate(self, inputs: Sequence[Any]) -> Batch:
        """Answers for the inputs of a batch, in their order."""


class Annotator(Protocol):
    """Small, picklable, the same on every machine; fields are its options."""

    @property
    def name(self) -> str:
        """Of the column family: `annotations/<name>/`, and the column `<name>_reason`, which the runtime writes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Metadata columns it wants besides uid."""

    @property
    def wants_image(self) -> bool:
        """Whether it looks at pictures; if no annotator of a run does, no shard is read."""

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """Columns it writes."""

    @property
    def arrays(self) -> Mapping[str, int]:
        """{name: width} of the float16 arrays that go into the `.npz`; a row without features is zeros."""

    def header(self) -> Mapping[str, Any]:
        """All that the answers depend on: model, weights' SHA-256, precision, transform, tokenizer, version."""

    def load(self, device: str, threads: int) -> Model:
        """The model; called once a process."""
