"""Common Crawl's crawls: the files of one, by its id, from wherever it lies."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.extract import path_lists
from pipeline.extract.inputs import Kind, Source, listed, sample
from pools import store
from pools.errors import InputError

ROOT = "https://data.commoncrawl.org/"
# Names of files begin like this too, followed by a time.
_ID = re.compile(r"CC-MAIN-(?:\d{4}-\d{4}(?!\d)|\d{4}-\d{2}(?!\d)|\d{4}(?!\d|-\d))")
_IDS = "a crawl's id, such as CC-MAIN-2025-33 (year and week), or CC-MAIN-2008-2009, CC-MAIN-2009-2010, CC-MAIN-2012"


def crawl(ids: Sequence[str], kind: Kind = "wat", count: int | None = None, seed: int = 0, root: str = ROOT) -> list[Source]:
    """All files of the crawls, or a sample of `count` of them (see `inputs.sample`), in order of their stems.

    Reads `<root>/crawl-data/<id>/wat.paths.gz` (or `warc.paths.gz`) and looks at no other file.
    Raises InputError for what is no id, a crawl that is not there, and a `count` that is more than there are.
    """
    if not ids:
        raise InputError("no crawl was named", where="--crawl", expected=_IDS)
    paths: list[str] = []
    for name in dict.fromkeys(ids):
        if not _ID.fullmatch(name):
            raise InputError(repr(name), where="--crawl", expected=_IDS)
        paths += _paths(store.join(root, "crawl-data", name, f"{kind}.paths.gz"))
    sources = listed(paths)
    return sources if count is None else sample(sources, count, seed)


def crawl_of(path: str) -> str | None:
    """The crawl that a path names, as the folders of Common Crawl do; its file names alone do not."""
    return found[0] if (found := _ID.search(path)) else None


def _paths(path: str) -> list[str]:
    try:
        return path_lists.read(path)
    except (FileNotFoundError, PermissionError) as e:
        why = "" if isinstance(e, FileNotFoundError) else f" ({e.strerror or e})"
        raise InputError(
            f"no such crawl here{why}", where=path, expected=_IDS, fix="or say with --root where the crawl lies"
        ) from e
