"""The weights that winnow knows by name: `registry.yaml`, and the packaged files of `filters.models`."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from filters import models as packaged
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class Weights:
    """A file of weights on this machine, or a folder of files: `sha256` is then over their names and SHA-256s."""

    path: str
    sha256: str
    name: str  # what it was asked for as


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one model. `sha256` and `size` are empty where no source states them."""

    name: str
    kind: str
    what: str
    licence: str
    cited: tuple[str, ...]  # where address, hash, size and licence are stated
    url: str = ""
    sha256: str = ""
    size: int | None = None  # bytes
    file: str = ""  # its name in the folder of fetched weights
    member: str = ""  # its name in the zip archive that `url` leads to
    package: str = ""  # name==version that it comes with
    instead: str = ""  # the packaged model that does the same, less well
    used_by: str = ""

    @property
    def embedded(self) -> bool:
        """Whether it comes with a package and is installed with winnow."""
        return bool(self.package)

    @property
    def module(self) -> bool:
        """Whether it is a module to import, not a file."""
        return self.embedded and not packaged.PACKAGED[self.name]

    @property
    def path(self) -> Path:
        """Where it lies, or would."""
        return packaged.folder() / packaged.PACKAGED[self.name] if self.embedded else folder() / self.file

    @property
    def files(self) -> list[Path]:
        """What is read of it; empty for a module."""
        if self.module:
            return []
        return [self.path / name for name in packaged.FILES[self.name]] if self.name in packaged.FILES else [self.path]

    @property
    def present(self) -> bool:
        if self.module:
            return importlib.util.find_spec(MODULES.get(self.name, self.name)) is not None
        return all(file.is_file() for file in self.files)


MODULES = {packaged.CLD3: "gcld3"}  # modules that are called otherwise


def folder() -> Path:
    """Where fetched weights lie: `WINNOW_WEIGHTS`, or `winnow/models` among the user's data."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("WINNOW_WEIGHTS") or Path(data) / "winnow" / "models")


@functools.cache
def registry() -> dict[str, Entry]:
    """All entries in the order of the file. Raises ValueError for one that is wrong."""
    table = yaml.safe_load(Path(__file__).with_name("registry.yaml").read_text())
    return {name: _entry(name, fields) for name, fields in table.items()}


def _entry(name: str, fields: dict[str, Any]) -> Entry:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
    if "package" in fields:
        fields["sha256"] = packaged.SHA256.get(name, "")
    entry = Entry(name=name, **fields)
    if entry.embedded == bool(entry.file) or entry.embedded != (name in packaged.PACKAGED):
        raise ValueError(f"{name}: either a file to fetch, or one of the packaged")
    if entry.sha256 and not re.fullmatch(r"[0-9a-f]{64}", entry.sha256):
        raise ValueError(f"{name}: {entry.sha256} is no SHA-256")
    return entry


def find(name: str) -> Entry:
    """The entry of a name. Raises InputError."""
    known = registry()
    if name not in known:
        close = difflib.get_close_matches(name, known, 3, 0.5)
        raise InputError(
            f"no model is called {name!r}",
            expected="one of those that `winnow models list` names",
            fix=f"did you mean {', '.join(close)}?" if close else None,
        )
    return known[name]


def locate(name: str, path: str | None = None) -> Weights:
    """The weights at `path`, if one is given, else those that a name stands for, checked; nothing is fetched.

    Raises InputError that says which file is missing, where it goes, and what can be had without it.
    """
    if path is not None:
        if not store.is_local(path):
            raise InputError("weights are read from local files only", where=path, fix="copy the file to this machine")
        return Weights(os.path.abspath(path), _digest(path), name)
    entry = find(name)
    if entry.module:
        raise InputError(f"{name} is a module, not a file of weights")
    if not entry.present:
        raise _missing(entry)
    found = Weights(str(entry.path), digest(entry), name)
    if (expected := recorded(entry)) and found.sha256 != expected:
        raise InputError("not the file that was expected", where=found.path, expected=f"SHA-256 {expected}")
    return found


def digest(entry: Entry) -> str:
    """What a model's files hold: the SHA-256 of a file, and of a folder that of its named files, one after the other."""
    return packaged.digest(entry.name) if entry.embedded else store.sha256(str(entry.path))


def _digest(path: str) -> str:
    if not store.exists(path):
        raise InputError("no such file of weights", where=path, expected="a file on this machine")
    return packaged.file_digest(path)


def sidecar(path: Path) -> Path:
    """Where it is written down what was fetched."""
    return path.with_name(path.name + ".json")


def recorded(entry: Entry) -> str:
    """The SHA-256 that the registry states, else the one that was found at the first fetch, else nothing."""
    if entry.sha256 or entry.embedded:
        return entry.sha256
    note = sidecar(entry.path)
    return str(store.read_json(str(note))["sha256"]) if note.exists() else ""


def _missing(entry: Entry) -> InputError:
    instead = f"; or take {entry.instead}, which is installed with winnow" if entry.instead else ""
    if entry.embedded:
        fix = packaged.install_command()
    elif entry.url:
        fix = f"winnow models fetch {entry.name}, or give the path of the file{instead}"
    else:
        fix = f"get it ({', '.join(entry.cited)}), then winnow models add {entry.name} FILE{instead}"
    return InputError(f"the weights of {entry.name} are not here", where=entry.path, expected=entry.what, fix=fix)
