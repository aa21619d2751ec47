"""Filters of the user's own: a Python file that registers them, known by what it holds and imported wherever work is done."""

from __future__ import annotations

import atexit
import hashlib
import importlib
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from filters.mixture import MIXES
from filters.registry import FILTERS
from pipeline.engine import Options
from pools import store
from pools.errors import InputError


@dataclass(frozen=True)
class Plugin:
    """A loaded plugin: the copy of its file, whose name is that of the module."""

    copy: Path
    sha256: str
    names: tuple[str, ...]

    def ship(self, options: Options) -> None:
        """Gives it to Spark's executors. Worker processes have it from the path for modules, which they inherit."""
        if options.engine == "spark":
            from pipeline.spark import session

            session(options.workers).sparkContext.addPyFile(str(self.copy))


_LOADED: dict[str, Plugin] = {}


def load(path: str) -> Plugin:
    """Imports a plugin, once a process. Raises InputError if it cannot be imported, registers nothing, or a name twice."""
    if not store.exists(path):
        raise InputError("no such plugin", where=path, expected="a Python file that registers filters")
    content = store.read_bytes(path)
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 in _LOADED:
        return _LOADED[sha256]
    module = f"winnow_plugin_{sha256[:16]}"
    folder = Path(tempfile.mkdtemp(prefix="winnow-plugin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / f"{module}.py"
    copy.write_bytes(content)
    before = {**FILTERS.all(), **MIXES.all()}
    # Worker processes are given this process's path for modules, and so find what recipes of theirs were made of.
    sys.path.append(str(folder))
    _import(module, copy, path)
    added = {name: cls for name, cls in {**FILTERS.all(), **MIXES.all()}.items() if name not in before}
    if not added:
        raise InputError(
            "registers no filter",
            where=path,
            expected='a dataclass with @register("name"), from filters.registry, or @register_mix',
        )
    for cls in added.values():
        cls.plugin_sha256 = sha256  # enters the digest of recipes that name it
    _LOADED[sha256] = Plugin(copy, sha256, tuple(sorted(added)))
    return _LOADED[sha256]


def _import(module: str, copy: Path, path: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as e:
        lines = [frame.lineno for frame in traceback.extract_tb(e.__traceback__) if frame.filename == str(copy)]
        line = e.lineno if isinstance(e, SyntaxError) and e.filename == str(copy) else lines[-1] if lines else None
        raise InputError(
            f"the plugin cannot be imported: {type(e).__name__}: {e.msg if isinstance(e, SyntaxError) else e}",
            where=f"{path}:{line}" if line else path,
            fix="it may import whatever this environment has; the name of a filter must be new",
        ) from e
