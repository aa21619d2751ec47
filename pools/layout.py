"""What a pool is made of: its metadata files, and which other files hold columns of the same rows.

A pool is a folder with `metadata/` (and, as they come, `annotations/` and `shards/`), or a bare folder of parquet files:
candidates, published metadata, or what img2dataset made, tars and parquet side by side. Of img2dataset's parquet, which has
a row for every url it tried, the successes are the pool's rows, and its `caption` is the pool's `text`.

The stem of a file is its path below the metadata folder without `.parquet`. Columns come from three kinds of file with
the same stem and the same rows: the metadata itself, arrays in a `.npz` beside it (as CommonPool has them), and
`annotations/<name>/<stem>.parquet` with an optional `.npz`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pools import store
from pools.errors import InputError
from pools.part import Part, column_names


@dataclass(frozen=True)
class Pool:
    """A pool on disk, opened with `Pool.open`."""

    root: str
    shards: str  # the folder with the images: `<stem>.tar`
    parts: tuple[Part, ...]

    @classmethod
    def open(cls, root: str) -> Pool:
        """Lists a pool. Raises InputError if there is none, or if it has no metadata file."""
        root = root.rstrip("/") or root
        if not store.is_dir(root):
            raise InputError("no such folder", where=root, expected="a pool: a folder with metadata/, or of parquet files")
        metadata = store.join(root, "metadata")
        bare = not store.is_dir(metadata)
        metadata = root if bare else metadata
        files = store.list_files(metadata)
        if bare:
            files = [f for f in files if f.split("/")[0] not in ("annotations", "shards")]
        stems = [f.removesuffix(".parquet") for f in files if f.endswith(".parquet")]
        if not stems:
            raise InputError(
                "the pool is empty: no .parquet file", where=metadata, expected="one metadata file (.parquet) or more"
            )
        tars = bare and any(f.endswith(".tar") for f in files)
        of_img2dataset = tars and "status" in column_names(store.join(root, stems[0] + ".parquet"))
        others = _others(root, metadata, files)
        parts = [Part(root, s, store.join(metadata, s + ".parquet"), tuple(others[s]), of_img2dataset) for s in stems]
        return cls(root, root if of_img2dataset else store.join(root, "shards"), tuple(parts))

    @property
    def stems(self) -> tuple[str, ...]:
        return tuple(part.stem for part in self.parts)

    def without(self, annotation: str) -> Pool:
        """The pool as if it had not this family of annotations."""
        folder = store.join(self.root, "annotations", annotation) + "/"
        return replace(
            self, parts=tuple(replace(p, others=tuple(o for o in p.others if not o.startswith(folder))) for p in self.parts)
        )

    def require(self, columns: Sequence[str]) -> None:
        """Raises InputError unless every part has every column, naming the first file that lacks one."""
        for part in self.parts:
            have = part.columns()
            if missing := [c for c in columns if c not in have]:
                raise InputError(
                    f"no column {missing[0]!r}",
                    where=part.parquet,
                    expected=f"one of {', '.join(sorted(have))}",
                    fix="sizes come with `winnow download`, scores and features with `winnow annotate`; or is it misspelt?",
                )


def _others(root: str, metadata: str, files: list[str]) -> dict[str, list[str]]:
    """{stem: files besides the metadata that hold its columns}."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        if file.endswith(".npz"):
            found[file.removesuffix(".npz")].append(store.join(metadata, file))
    folder = store.join(root, "annotations")
    for file in store.list_files(folder) if store.is_dir(folder) else []:
        stem, dot, extension = file.partition("/")[2].rpartition(".")
        if dot and extension in ("parquet", "npz"):
            found[stem].append(store.join(folder, file))
    return found
