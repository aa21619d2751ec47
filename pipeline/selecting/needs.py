"""Whether a pool has the columns that a recipe reads, and who makes those that it lacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import pyarrow as pa

from filters.recipe import Recipe
from pipeline.scan import naming
from pools import store
from pools.errors import InputError
from pools.layout import Pool
from pools.part import BATCH_ROWS, Part

_CLIP = re.compile(r"clip_(\w+)_similarity_score|(\w+)_(?:img|txt)")
_DOWNLOAD = ("original_width", "original_height", "sha256")
# Columns that filters read, and the annotators that write them.
_ANNOTATORS = {
    "language": "language",
    "language_score": "language",
    "nsfw_image": "nsfw_image",
    "toxicity": "toxicity",
    "face_bboxes": "faces",
    "phash": "phash",
    "eval_similarity": "near_duplicate",
}
_EXTRACT = ("url", "text", "alt", "page_title", "page_url", "content_language", "opt_out", "crawl", "source_file")


@dataclass(frozen=True)
class Inputs:
    """Identity of what is read: {stem: {column: digest of the file it is in}}; `uid` stands for the metadata file."""

    columns: dict[str, dict[str, str]]

    @functools.cached_property
    def by_stem(self) -> dict[str, str]:
        return {stem: self.of(stem, list(found)) for stem, found in self.columns.items()}

    def of(self, stem: str, columns: Sequence[str]) -> str:
        """Identity of these columns of one unit, those that it lacks left out."""
        found = self.columns[stem]
        return " ".join(dict.fromkeys(found[c] for c in ("uid", *columns) if c in found))


def check(pool: Pool, columns: Sequence[str], *, fill: bool = False) -> tuple[Pool, Inputs]:
    """The pool and what of it is read. With `fill`, a column that some files lack is null there.

    Raises InputError unless every part, or with `fill` one part, has every column: it names the first file that lacks one and
    the command that makes it.
    """
    inputs, lacking = {}, {}
    have: dict[str, str] = {}
    kinds: dict[str, Part] = {}
    for part in pool.parts:
        have = part.columns()
        if missing := [c for c in columns if c not in have]:
            lacking[part.stem] = missing
            if not fill:
                raise _lacks(part, missing[0], have)
        digests = {
            path: store.digest(path, part.root)
            for path in dict.fromkeys([part.parquet, *(have[c] for c in columns if c in have)])
        }
        inputs[part.stem] = {"uid": digests[part.parquet], **{c: digests[have[c]] for c in columns if c in have}}
        for column in columns:
            if column in have:
                kinds.setdefault(column, part)
    if nowhere := [c for c in columns if c not in kinds]:
        raise _lacks(pool.parts[-1], nowhere[0], have)
    if lacking:
        types = {c: kinds[c].types([c])[c] for c in dict.fromkeys(c for missing in lacking.values() for c in missing)}
        parts = [Filled.of(p, tuple((c, types[c]) for c in lacking[p.stem])) if p.stem in lacking else p for p in pool.parts]
        pool = replace(pool, parts=tuple(parts))
    return pool, Inputs(inputs)


def ready(root: str, recipe: Recipe, *, fill: bool = False) -> tuple[Pool, Inputs]:
    """A pool that a recipe can be applied to, and what of it is read; see `check`.

    Raises InputError also where the types of columns tell that a rule cannot read them.
    """
    pool, inputs = check(Pool.open(root), list(dict.fromkeys(["uid", *recipe.needs])), fill=fill)
    if recipe.checked:
        for part in pool.parts:
            with naming(part):
                recipe.check(part.types(recipe.checked))
    return pool, inputs


def maker(column: str) -> str:
    """What gives a pool this column, in words."""
    if found := _CLIP.fullmatch(column):
        return f"`winnow annotate POOL --with clip --name {found[1] or found[2]} --model …`"
    if name := _ANNOTATORS.get(column):
        return f"`winnow annotate POOL --with {name}`"
    if column.endswith("_caption"):
        return f"`winnow annotate POOL --with {column.removesuffix('_caption')}`, if there is such an annotator"
    if column in _DOWNLOAD:
        return "`winnow download` measures images as they come; or give a pool that has it"
    if column in _EXTRACT:
        return "`winnow extract` writes it; or give a pool that has it"
    return "an annotator that writes it (`winnow annotate`), or is it misspelt?"


def _lacks(part: Part, column: str, have: dict[str, str]) -> InputError:
    fix = maker(column) + "\n  → where only some files lack it, `--missing null` takes it as null there"
    return InputError(f"no column {column!r}", where=part.parquet, expected=f"one of {', '.join(sorted(have))}", fix=fix)


@dataclass(frozen=True)
class Filled(Part):
    """A unit of which some columns are missing and read as nulls."""

    missing: tuple[tuple[str, pa.DataType], ...] = ()

    @classmethod
    def of(cls, part: Part, missing: tuple[tuple[str, pa.DataType], ...]) -> Filled:
        return cls(**{f.name: getattr(part, f.name) for f in fields(Part)}, missing=missing)

    def types(self, columns: Sequence[str]) -> dict[str, pa.DataType]:
        types = dict(self.missing)
        return super().types([c for c in columns if c not in types]) | {c: types[c] for c in columns if c in types}

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        types = dict(self.missing)
        there = [c for c in columns if c not in types]
        for batch in super().batches(there or ["uid"], rows):
            arrays = [pa.nulls(len(batch), types[c]) if c in types else batch[c] for c in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
