"""Small files that filters read, for as long as the tests run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pools import uids

_FOLDER = tempfile.TemporaryDirectory(prefix="winnow-filters-")


def lines(name: str, said: Iterable[str]) -> str:
    """Path of a file of these lines."""
    path = Path(_FOLDER.name) / name
    path.write_text("".join(line + "\n" for line in said), encoding="utf-8")
    return str(path)


def uid_list(name: str, listed: Iterable[str], *, kind: uids.Kind = "keep") -> str:
    """Path of a uid list with its sidecar."""
    path = str(Path(_FOLDER.name) / name)
    uids.write_list(path, uids.pack(listed), kind=kind)
    return path


def array(name: str, values: Any) -> str:
    """Path of a `.npy`."""
    path = str(Path(_FOLDER.name) / name)
    np.save(path, values)
    return path
