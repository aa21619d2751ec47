"""The files that a user names: paths, folders, patterns, lists → sources with distinct stems; samples of them."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.extract import path_lists
from pools import remote, store, uids
from pools.errors import InputError

Kind = Literal["wat", "warc"]
SUFFIXES: dict[Kind, tuple[str, ...]] = {"wat": (".wat", ".wat.gz"), "warc": (".warc", ".warc.gz", ".arc", ".arc.gz")}
_SUFFIX = re.compile(r"(?:\.(?:gz|wat|warc|arc))+\Z")


@dataclass(frozen=True)
class Source:
    """One input file; `stem` names what is made of it, `digest` is its identity."""

    path: str
    stem: str
    digest: str


@dataclass(frozen=True)
class _Named:
    """A file, and how it was named: below the folder `root`, in a list, or itself."""

    path: str
    root: str | None = None
    listed: bool = False


def find(inputs: Sequence[str], kind: Kind = "wat") -> list[Source]:
    """The files that are named as sources, each once, in order of their stems.

    An input is a file, a folder (of which the files of the kind count), a pattern, or a list (see `path_lists`). A stem is
    the path below the folder, or the file's base name, without `.gz`, `.wat`, `.warc` and `.arc`.
    Raises InputError if an input names nothing, or if two files would have one stem.
    """
    files = _named(inputs, SUFFIXES[kind], kind)
    sources = [Source(f.path, _stem(_below(f), f.path), _digest(f.path, f.root)) for f in files if not f.listed]
    return _distinct([*sources, *listed([f.path for f in files if f.listed])])


def listed(paths: Iterable[str]) -> list[Source]:
    """Files out of lists as sources, each once, in order of their stems; none of them is looked at.

    A stem is the base name if all of these are distinct, else the path below the folder that is common to all. The digest
    is the path. Raises InputError if two files would have one stem.
    """
    places = {path: path_lists.location(path).lstrip("/") for path in paths}
    stems = {path: _stem(place.rpartition("/")[2], path) for path, place in places.items()}
    if len(set(stems.values())) < len(stems):
        folders = zip(*(place.split("/")[:-1] for place in places.values()), strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda names: len(set(names)) == 1, folders))
        stems = {path: _stem("/".join(place.split("/")[common:]), path) for path, place in places.items()}
    return _distinct([Source(path, stem, path) for path, stem in stems.items()])


def sample(sources: Sequence[Source], count: int, seed: int) -> list[Source]:
    """`count` of the sources, in order of their stems: those with the smallest `uids.hash64` of their stem's MD5.

    So smaller samples are part of larger ones, and neither the order of the sources nor the place where they lie counts.
    Raises InputError if there are not as many.
    """
    if not 0 < count <= len(sources):
        raise InputError(f"a sample of {count:,} files", expected=f"a number from 1 to {len(sources):,}, as many as there are")
    ordered = sorted(sources, key=lambda s: s.stem)
    keys = (hashlib.md5(s.stem.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest() for s in ordered)
    chosen = uids.smallest(uids.hash64(uids.pack(keys), seed), count)
    return [source for source, wanted in zip(ordered, chosen, strict=True) if wanted]


def list_inputs(inputs: Sequence[str], suffixes: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """(path, the named folder that it lies below) of each file that is named, once.

    `suffixes` says which files of a folder count; a file that is named itself or in a list always does. Raises InputError
    if an input names nothing.
    """
    return [(file.path, file.root) for file in _named(inputs, suffixes)]


def _named(inputs: Sequence[str], suffixes: tuple[str, ...], kind: Kind | None = None) -> list[_Named]:
    found: dict[str, _Named] = {}
    for given in inputs:
        try:
            for file in _files(given, suffixes, kind):
                found.setdefault(file.path, file)
        except (FileNotFoundError, PermissionError) as e:
            raise InputError(
                "no such file" if isinstance(e, FileNotFoundError) else str(e.strerror or e),
                where=given,
                expected=f"a file, a folder, a list, or a pattern such as *{suffixes[0]}",
            ) from e
    if not found:
        raise InputError("no input was given", expected=f"files, folders, lists, or patterns of {', '.join(suffixes)}")
    return list(found.values())


def _files(given: str, suffixes: tuple[str, ...], kind: Kind | None) -> list[_Named]:
    if remote.is_http(given):
        # A web server has no folders and no patterns.
        paths = [given]
        if not path_lists.is_list(given):
            store.digest(given)
    elif store.is_dir(given):
        return _folder(given.rstrip("/") or given, suffixes, kind)
    else:
        paths = [path for path in store.find_glob(given) if not store.is_dir(path)]
    if not paths:
        raise FileNotFoundError(given)
    files: list[_Named] = []
    for path in paths:
        lines = [_Named(line, listed=True) for line in path_lists.read(path)] if path_lists.is_list(path) else None
        files += [_Named(path)] if lines is None else lines
    return files


def _folder(root: str, suffixes: tuple[str, ...], kind: Kind | None) -> list[_Named]:
    names = store.list_files(root)
    if files := [_Named(store.join(root, name), root) for name in names if name.endswith(suffixes)]:
        return files
    others = (k for k in SUFFIXES if kind not in (None, k) and any(name.endswith(SUFFIXES[k]) for name in names))
    other = next(others, None)
    raise InputError(
        "nothing to read in this folder" if other is None else f"a folder of {other.upper()} files",
        where=root,
        expected=f"files named *{', *'.join(suffixes)}",
        fix=None if other is None else f"--from {other}",
    )


def _digest(path: str, root: str | None) -> str:
    try:
        return store.digest(path, root)
    except FileNotFoundError as e:
        raise InputError("no such file", where=path) from e


def _below(file: _Named) -> str:
    if file.root is not None:
        return file.path[len(file.root) :].strip("/")
    return path_lists.location(file.path).rpartition("/")[2]


def _stem(name: str, path: str) -> str:
    *folders, base = name.split("/")
    # Names that start with these are not data to whoever lists a folder.
    parts = [part.lstrip("._") for part in (*folders, _SUFFIX.sub("", base))]
    if not parts[-1]:
        raise InputError("a file without a name of its own", where=path, expected="a name before the suffix")
    return "/".join(part for part in parts if part)


def _distinct(sources: Iterable[Source]) -> list[Source]:
    found: dict[str, Source] = {}
    for source in sources:
        other = found.setdefault(source.stem, source)
        if other.path != source.path:
            raise InputError(
                f"has the same name as {other.path}",
                where=source.path,
                expected="inputs with distinct names",
                fix="name the folder above both: then their sub-folders become part of the names",
            )
    return [found[stem] for stem in sorted(found)]
