"""Rules on what must not be used: unsafe images, toxic captions, owners who opt out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from filters.registry import register
from filters.score import Threshold


@dataclass(frozen=True)
class _Safe:
    """Rows whose score of harm is at most `max`; null and NaN are not judged."""

    max: float
    column: str

    def __post_init__(self) -> None:
        if not 0 <= self.max <= 1:
            raise ValueError(f"max {self.max:g} is not in [0, 1]")

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.column,)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return Threshold(self.column, max=self.max).keep(batch)

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return Threshold(self.column).measure(batch)


@register("nsfw")
@dataclass(frozen=True)
class Nsfw(_Safe):
    """Rows whose image is unsafe with a score of at most `max`; null and NaN are not judged.

    Yahoo's open_nsfw, whose guidance the default is: below 0.2 very likely safe, above 0.8 very likely not.
    """

    max: float = 0.2
    column: str = "nsfw_image"


@register("toxicity")
@dataclass(frozen=True)
class Toxicity(_Safe):
    """Rows whose caption is toxic with a score of at most `max`; null and NaN are not judged.

    DataComp (section 3.2, CommonPool): captions with more than 0.1 by Detoxify are dropped.
    """

    max: float = 0.1
    column: str = "toxicity"


@register("opt_out")
@dataclass(frozen=True)
class OptOut:
    """Rows whose page or answer says nothing against their use: no directive in `opt_out`, or none of `directives`.

    A null says that nothing was found. `directives` are words such as noai, noimageai, noindex.
    """

    directives: tuple[str, ...] | None = None
    needs: ClassVar[tuple[str, ...]] = ("opt_out",)

    def keep(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        said = batch["opt_out"].cast(pa.string()).fill_null("")
        if self.directives is None:
            return pc.equal(pc.utf8_trim_whitespace(said), "")
        wanted = frozenset(map(str.lower, self.directives))
        return pa.array(
            [wanted.isdisjoint(d.strip().lower() for d in text.split(",")) for text in said.to_pylist()], pa.bool_()
        )

    def measure(self, batch: pa.RecordBatch) -> pa.Array:
        return batch["opt_out"].cast(pa.string()).fill_null("")
