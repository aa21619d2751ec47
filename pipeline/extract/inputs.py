"""The files that a user names: paths, folders, patterns → sources with distinct stems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pools import store
from pools.errors import InputError

_POOL_FOLDERS = ("metadata", "annotations", "shards")


@dataclass(frozen=True)
class Source:
    """One input file; `stem` names what is made of it, `digest` is its identity."""

    path: str
    stem: str
    digest: str


def find(inputs: Sequence[str], suffixes: tuple[str, ...]) -> list[Source]:
    """The files of `list_inputs` as sources, in order of their stems.

    A stem is the path below the folder that was named, or a file's base name, without `.gz`, `.wat` and `.warc`. Raises
    InputError if two files would have one stem.
    """
    found: dict[str, Source] = {}
    for path, root in list_inputs(inputs, suffixes):
        relative = store.name(path) if root is None else path[len(root) :].strip("/")
        source = Source(path, _stem(relative, path), store.digest(path, root))
        other = found.setdefault(source.stem, source)
        if other is not source:
            raise InputError(
                f"would write the same file as {other.path}",
                where=path,
                expected="inputs with distinct names",
                fix="name the folder above both: then their sub-folders become part of the names",
            )
    return [found[stem] for stem in sorted(found)]


def list_inputs(inputs: Sequence[str], suffixes: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """(path, the named folder that it lies below) of each file that is named, once.

    `suffixes` says which files of a folder count; a file that is named itself always does. Raises InputError if an input
    names nothing.
    """
    found: dict[str, str | None] = {}
    for given in inputs:
        for path, root in _files(given, suffixes):
            found.setdefault(path, root)
    if not found:
        raise InputError("no input was given", expected=f"files, folders or patterns of {', '.join(suffixes)}")
    return list(found.items())


def _files(given: str, suffixes: tuple[str, ...]) -> list[tuple[str, str | None]]:
    if store.is_dir(given):
        root = given.rstrip("/") or given
        files = [f for f in store.list_files(root) if f.endswith(suffixes)]
        if not files:
            raise InputError("nothing to read in this folder", where=given, expected=f"files named *{', *'.join(suffixes)}")
        return [(store.join(root, f), root) for f in files]
    paths = [path for path in store.find_glob(given) if not store.is_dir(path)]
    if not paths:
        raise InputError("no such file", where=given, expected=f"a file, a folder, or a pattern such as *{suffixes[0]}")
    return [(path, None) for path in paths]


def _stem(relative: str, path: str) -> str:
    folder, slash, base = relative.rpartition("/")
    while (shorter := base.removesuffix(".gz").removesuffix(".wat").removesuffix(".warc")) != base:
        base = shorter
    # Names with these ends are not data to whoever lists a pool.
    base = base.lstrip("._")
    first = (folder or base).split("/")[0]
    if not base or (folder and first in _POOL_FOLDERS):
        raise InputError(
            "this name cannot be that of a file of candidates",
            where=path,
            expected=f"a name before the suffix, and no folder {', '.join(_POOL_FOLDERS)} above it",
            fix="rename it, or name the file itself instead of a folder",
        )
    return folder + slash + base
