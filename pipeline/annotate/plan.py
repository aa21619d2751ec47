"""What an annotation run has to do: checks before any work, and the digest of what each column family is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline import engine
from pipeline.annotate.annotator import Annotator
from pipeline.annotate.families import Family
from pools import store
from pools.errors import InputError
from pools.layout import Pool
from pools.manifest import digest_of
from pools.part import Part

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")


@dataclass(frozen=True)
class Plan:
    """What there is to do, and from what: for each family the digest of each stem's input."""

    pool: Pool
    families: tuple[Family, ...]
    digests: Mapping[str, Mapping[str, str]]
    tars: Mapping[str, str]  # by stem, where a shard is needed and there is one

    @classmethod
    def of(cls, pool: str, annotators: Sequence[tuple[str, Annotator]]) -> Plan:
        """Raises InputError for a column that is missing or would be there twice, or a shard that is missing."""
        opened = open_pool(pool)
        families = tuple(Family(kind, annotator, opened.root) for kind, annotator in annotators)
        _check_names(families)
        digests: dict[str, dict[str, str]] = {f.name: {} for f in families}
        views = [opened.without(f.name).parts for f in families]  # a family of its own may be made anew
        tars: dict[str, str] = {}
        for parts in zip(*views, strict=True):
            files = [_columns(family, part) for family, part in zip(families, parts, strict=True)]
            stem = parts[0].stem
            tar = _shard(opened, parts[0]) if any(f.annotator.wants_image for f in families) else None
            if tar is not None:
                tars[stem] = tar
            for family, paths in zip(families, files, strict=True):
                shard = [tar] if family.annotator.wants_image and tar is not None else []
                digests[family.name][stem] = " ".join(store.digest(f, opened.root) for f in [*paths, *shard])
        return cls(opened, families, digests, tars)

    def digest(self, family: Family) -> str:
        """Of all that a family is made of."""
        return digest_of([[stem, digest] for stem, digest in self.digests[family.name].items()])

    def units(self, families: Sequence[Family]) -> list[engine.Unit]:
        """One a metadata file; its digest is that of each family."""
        # Families that are made anew are not looked at, unless another one is made of them.
        wanted = {column for family in families for column in family.annotator.reads}
        pool = self.pool
        for family in families:
            pool = pool if wanted & set(family.columns) else pool.without(family.name)
        return [
            engine.Unit(
                part.stem,
                json.dumps({f.name: self.digests[f.name][part.stem] for f in families}),
                (part, self.tars.get(part.stem)),
            )
            for part in pool.parts
        ]


def open_pool(root: str) -> Pool:
    """As `Pool.open`, with a word for who names one file of it."""
    if store.exists(root) and not store.is_dir(root):
        raise InputError(
            "a file, where a pool is expected",
            where=root,
            expected="a folder with metadata/ (.parquet) and shards/ (.tar)",
            fix="name the pool's folder; scores of your own are joined with --from FILE",
        )
    return Pool.open(root)


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name!r}", where="--name", expected="lower-case letters, digits and _ (it names columns)")


def _check_names(families: Sequence[Family]) -> None:
    owner: dict[str, str] = {}
    names = set()
    for family in families:
        check_name(family.name)
        if family.name in names:
            raise InputError(f"two families {family.name!r}", where="--with", expected="each by a name of its own")
        names.add(family.name)
        for column in family.columns:
            if column in owner:
                raise InputError(
                    f"column {column!r} of both {owner[column]} and {family.name}", where="--with", expected="it once"
                )
            owner[column] = family.name


def _columns(family: Family, part: Part) -> list[str]:
    """The files that a family's columns for one stem are made of. Checks that they can be made and are not there yet."""
    there = part.columns()
    for column in family.columns:
        if column in there:
            raise InputError(
                f"column {column!r} exists already",
                where=there[column],
                expected="new columns",
                fix="annotate under another --name",
            )
    for column in family.annotator.reads:
        if column not in there:
            raise InputError(
                f"no column {column!r}, which {family.kind} reads",
                where=part.parquet,
                expected=f"it among {', '.join(sorted(there))}",
                fix="sizes and captions come with `winnow download`, features with `winnow annotate --with clip`",
            )
    return list(dict.fromkeys([part.parquet, *(there[c] for c in family.annotator.reads)]))


def _shard(pool: Pool, part: Part) -> str | None:
    """The tar with the pictures of a metadata file. One without rows needs none."""
    tar = store.join(pool.shards, part.stem + ".tar")
    if store.exists(tar):
        return tar
    if part.rows == 0:
        return None
    parquet = store.join(pool.shards, part.stem + ".parquet")
    there = f"; {parquet} is there, and is no shard" if store.exists(parquet) else ""
    raise InputError(
        f"no shard for {part.stem}.parquet{there}",
        where=tar,
        expected="one tar for each metadata file, under the same name",
        fix="make shards with `winnow download`, which writes both",
    )
